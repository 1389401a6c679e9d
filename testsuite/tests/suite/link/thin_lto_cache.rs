//! ThinLTO's cache. Links with and without the pass, and with other options, share a cache in turns. Each gives the
//! result of a link without a cache, and takes only objects that the same link has stored.

use std::fs;
use std::path::Path;
use std::process::Command;

use pcce_testsuite::{artifact, checked, llvm, work_folder};

const MODULES: [(&str, &str); 2] = [
    ("main", "int twice(int); int main(void) { return twice(21) == 42 ? 0 : 1; }"),
    (
        "twice",
        "int printf(const char *, ...); int unknown(int);
         __attribute__((noinline)) int once(int n) { return printf(\"%d\\n\", unknown(n)) ? n : 0; }
         int twice(int n) { return once(n) + once(n); }",
    ),
];

struct Link<'a> {
    folder: &'a Path,
    pass: bool,
    flags: &'a [&'a str],
}

impl Link<'_> {
    fn to(&self, name: &str, cache: bool) -> Vec<u8> {
        let mut command =
            if self.pass { Command::new(artifact("pcce-clang")) } else { Command::new(llvm("clang")) };
        command.current_dir(self.folder).args(["-O2", "-flto=thin", "-fuse-ld=lld", "-Wl,--build-id=none"]);
        command.args(["main.o", "twice.o", "unknown.o", "-o", name]).args(self.flags);
        if cache {
            command.arg("-Wl,--thinlto-cache-dir=cache");
        }
        checked("the link", command.output()).unwrap_or_else(|e| panic!("{:?}: {e:#}", self.flags));
        let program = self.folder.join(name);
        checked("the program", Command::new(&program).output()).unwrap_or_else(|e| panic!("{e:#}"));
        fs::read(program).expect("linked")
    }

    fn cached(&self) -> usize {
        fs::read_dir(self.folder.join("cache")).map_or(0, |files| {
            let names = files.map(|file| file.expect("can be read").file_name());
            names.filter(|name| name.to_string_lossy().starts_with("llvmcache-")).count()
        })
    }

    /// Returns whether the modules were compiled instead of taken from the cache.
    fn is_new(&self) -> bool {
        let before = self.cached();
        assert!(
            self.to("cached", true) == self.to("fresh", false),
            "{:?}: the cache changes the program",
            self.flags
        );
        self.cached() > before
    }
}

#[test]
fn a_link_takes_over_only_what_the_same_link_has_made() {
    let folder = &work_folder("thinlto_cache");
    let compile = |name: &str, text: &str, flag: &str| {
        let source = folder.join(name).with_extension("c");
        fs::write(&source, text).expect("can be written");
        let compiled =
            Command::new(llvm("clang")).current_dir(folder).args(["-O2", flag, "-c"]).arg(source).output();
        checked("clang", compiled).unwrap_or_else(|e| panic!("{e:#}"));
    };
    for (name, text) in MODULES {
        compile(name, text, "-flto=thin");
    }
    compile("unknown", "int unknown(int n) { return n; }", "-fno-lto");
    let list = folder.join("list");
    fs::write(&list, "nothing\n").expect("can be written");

    let link = |pass, flags| Link { folder, pass, flags };
    let kinds = [
        link(false, &[]),
        link(true, &[]),
        link(true, &["--pcce-verify"]),
        link(true, &["--pcce-no-callback=list"]),
    ];
    for turn in ["first", "second"] {
        for kind in &kinds {
            assert_eq!(kind.is_new(), turn == "first", "{turn}: {:?}", kind.flags);
        }
    }
    // The same options, with another content of the file that they name.
    let before = kinds[3].to("before", true);
    fs::write(list, "unknown\n").expect("can be written");
    assert!(kinds[3].is_new());
    assert!(kinds[3].to("after", true) != before, "the list has no effect");
}
