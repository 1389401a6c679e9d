//! The cache of code that links generate, and the number of compilers that a link runs.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use pcce_testsuite::{Output, artifact, command, folded, llvm, run, source, work_folder};
use sha2::{Digest, Sha256};

const MODULES: [(&str, &str); 4] = [
    ("main.c", "int one(int), two(int);\nint main(void) { return one(3) + two(4) == 46 ? 0 : 1; }\n"),
    ("one.c", "int leaf(int);\nint one(int n) { return n > 0 ? one(n - 1) + leaf(n) : 1; }\n"),
    ("two.c", "int leaf(int);\nint two(int n) { return leaf(n) + leaf(n + 1); }\n"),
    ("leaf.c", "unsigned long pcce_context(void);\nint leaf(int n) { pcce_context(); return n * 3; }\n"),
];
/// Bytes of an entry in front of its object: a magic number, the key, and the object's hash.
const HEADER: usize = 72;

fn compile(folder: &Path) {
    for (name, text) in MODULES {
        fs::write(folder.join(name), text).unwrap();
        compile_one(folder, name, &[]);
    }
}

fn compile_one(folder: &Path, name: &str, flags: &[&str]) {
    let mut compile =
        command(artifact("pcce-clang"), &["--pcce-mode=link", "-O2", "-fno-inline", "-g", "-c"]);
    run(compile.args(flags).arg(name).current_dir(folder)).expect_success();
}

/// The command that links the modules.
fn link(folder: &Path, output: &str) -> Command {
    let mut link = command(artifact("pcce-clang"), &["--pcce-mode=link", "-o", output]);
    link.args(MODULES.map(|(name, _)| name.replace(".c", ".o"))).current_dir(folder);
    link.env("PCCE_CACHE", folder.join("cache")).env_remove("MAKEFLAGS").env_remove("PCCE_CACHE_SIZE");
    link
}

/// The bytes of the program, which must run without an error.
fn linked(link: &mut Command, program: PathBuf) -> Vec<u8> {
    run(link).expect_success();
    assert_eq!(run(&mut Command::new(&program)).status, 0);
    let bytes = fs::read(&program).unwrap();
    fs::remove_file(&program).unwrap();
    bytes
}

fn entries(cache: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let folders = fs::read_dir(cache).unwrap().map(|folder| folder.unwrap().path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    files.map(|file| (file.clone(), fs::read(&file).unwrap())).collect()
}

/// A program that one command compiles and links does not depend on the program's name.
#[test]
fn programs_of_one_command_are_the_same() {
    let folder = work_folder("link/one-command");
    compile(&folder);
    let programs = ["one", "other"].map(|name| {
        let mut clang = command(artifact("pcce-clang"), &["-O2", "-g", "-o", name]);
        clang.args(MODULES.map(|(name, _)| name)).current_dir(&folder);
        linked(&mut clang, folder.join(name))
    });
    assert!(programs[0] == programs[1]);
}

/// A link takes code from the cache if it is of the same bitcode and plan, and generates the rest. The programs are
/// those of a link without a cache.
#[test]
fn links_generate_what_is_new() {
    let folder = work_folder("link_cache/new");
    let cache = folder.join("cache");
    compile(&folder);
    let program = || folder.join("program");
    let without = linked(link(&folder, "program").env("PCCE_CACHE", ""), program());
    assert!(!cache.exists());
    assert_eq!(linked(&mut link(&folder, "program"), program()), without);
    let first = entries(&cache);
    assert_eq!(first.len(), MODULES.len());
    assert_eq!(linked(&mut link(&folder, "program"), program()), without);
    assert_eq!(entries(&cache), first);

    // Modules whose calls have not changed keep their code.
    fs::write(folder.join("leaf.c"), MODULES[3].1.replace("n * 3", "n > 1000 ? 7 : n * 3")).unwrap();
    compile_one(&folder, "leaf.c", &[]);
    let changed = linked(&mut link(&folder, "program"), program());
    assert_ne!(changed, without);
    assert_eq!(entries(&cache).len(), first.len() + 1);
    assert_eq!(linked(link(&folder, "program").env("PCCE_CACHE", ""), program()), changed);
    // The same holds after a compilation with other options: only that module is generated again.
    compile_one(&folder, "leaf.c", &["-fno-omit-frame-pointer"]);
    let _ = linked(&mut link(&folder, "program"), program());
    assert_eq!(entries(&cache).len(), first.len() + 2);

    let no_size = run(link(&folder, "program").env("PCCE_CACHE_SIZE", "much"));
    assert!(no_size.status != 0 && no_size.stderr.contains("`much` is no size"), "{}", no_size.describe());
    // Without a place for a cache, nothing is kept.
    fs::write(folder.join("file"), "").unwrap();
    let nowhere = linked(link(&folder, "program").env("PCCE_CACHE", folder.join("file/cache")), program());
    assert_eq!(nowhere, linked(&mut link(&folder, "program"), program()));
}

/// Programs that share an archive share its code, although the values that their calls add differ. Only the values are
/// written into it.
#[test]
fn programs_share_the_code_of_an_archive() {
    let folder = work_folder("link_cache/programs");
    let cache = folder.join("cache");
    // The first call of `leaf` is the frequent one, and adds nothing. The other one adds the number of contexts of
    // `one`.
    let modules = [
        ("one.c", "int leaf(int);\nint one(int n) { for (int i = 0; i <= n; i++) leaf(i); return n; }\n"),
        ("two.c", "int leaf(int);\nint two(int n) { return leaf(n) + 1; }\n"),
        (
            "leaf.c",
            "#include <pcce.h>\n#include <stdio.h>\nint leaf(int n) { return puts(PCCE_TOKEN) + n; }\n",
        ),
    ];
    let flags = ["--pcce-verify", "-fno-inline"];
    for (name, text) in modules {
        fs::write(folder.join(name), text).unwrap();
        compile_one(&folder, name, &flags);
    }
    let members = ["one.o", "two.o", "leaf.o"];
    run(command("ar", &["rcs", "libm.a"]).args(members).current_dir(&folder)).expect_success();
    // Each program has further calls of the archive's functions, in front of those that all programs have.
    let functions: Vec<String> = (0..4).map(|n| format!("f{n}")).collect();
    for (count, program) in functions.iter().enumerate() {
        let mut text = "int one(int), two(int);\n".to_owned();
        for f in &functions[..count] {
            text += &format!("int {f}(int n) {{ return one(n) + one(n + 1); }}\n");
        }
        let calls: Vec<String> = functions[..count].iter().map(|f| format!(" + {f}(1)")).collect();
        text += &format!("int main(void) {{ return (one(2) + two(1){}) == -1; }}\n", calls.concat());
        let source = format!("{program}.c");
        fs::write(folder.join(&source), text).unwrap();
        compile_one(&folder, &source, &flags);
        let link = || {
            let object = format!("{program}.o");
            let mut link =
                command(artifact("pcce-clang"), &["-o", program, &object, "libm.a", "--pcce-verify"]);
            link.current_dir(&folder).env("PCCE_CACHE", &cache);
            link
        };
        run(&mut link()).expect_success();
        assert_eq!(entries(&cache).len(), members.len() + 1 + count, "{program}");
        let output = run(&mut Command::new(folder.join(program))).expect_success();
        let chains = folded(&folder, &[program], &output.stdout);
        for f in &functions[..count] {
            assert_eq!(chains.matches(&format!("main;{f};one;leaf\n")).count(), 5, "{chains}");
        }
        assert_eq!(chains.matches("main;one;leaf\n").count(), 3, "{chains}");
        assert_eq!(chains.matches("main;two;leaf\n").count(), 1, "{chains}");
        assert_eq!(chains.lines().count(), 4 + 5 * count);
        let shared = fs::read(folder.join(program)).unwrap();
        run(link().env("PCCE_CACHE", "")).expect_success();
        assert!(fs::read(folder.join(program)).unwrap() == shared, "{program}");
    }
}

/// An entry whose content does not belong to its name is made again, even if its own hash is right.
#[test]
fn spoilt_entries_are_made_again() {
    let folder = work_folder("link_cache/spoilt");
    let cache = folder.join("cache");
    compile(&folder);
    let program = || folder.join("program");
    let good = linked(&mut link(&folder, "program"), program());
    let kept = entries(&cache);
    // Stale entries: of the same modules, by the plan of another program.
    let more = "int one(int), two(int), leaf(int);\n\
                int main(void) { return leaf(one(leaf(2)) + two(leaf(1))) > 0 ? one(1) + leaf(2) - 10 : two(1); }\n";
    fs::write(folder.join("other.c"), more).unwrap();
    compile_one(&folder, "other.c", &[]);
    let mut other = command(artifact("pcce-clang"), &["--pcce-mode=link", "-o", "other", "other.o"]);
    other.args(["one.o", "two.o", "leaf.o"]).current_dir(&folder).env("PCCE_CACHE", &cache);
    run(&mut other).expect_success();
    let stale: Vec<Vec<u8>> = entries(&cache)
        .into_iter()
        .filter(|(path, _)| !kept.contains_key(path))
        .map(|(_, entry)| entry)
        .collect();
    assert!(stale.len() > 1, "plans do not differ");

    let objects: Vec<&[u8]> = kept.values().chain(&stale).map(|entry| &entry[HEADER..]).collect();
    type Spoil<'a> = &'a dyn Fn(usize, &[u8]) -> Vec<u8>;
    let ways: [(&str, Spoil); 5] = [
        ("cut", &|_, entry| entry[..entry.len() - 9].to_vec()),
        ("empty", &|_, _| Vec::new()),
        ("a bit", &|n, entry| {
            let mut entry = entry.to_vec();
            let at = entry.len() * (n + 1) / 7;
            entry[at] ^= 4;
            entry
        }),
        ("another one", &|n, _| kept.values().nth((n + 1) % kept.len()).unwrap().clone()),
        ("another's object", &|n, entry| {
            let object = objects[(n + 1) % objects.len()];
            [&entry[..40], &Sha256::digest(object), object].concat()
        }),
    ];
    for (way, spoil) in ways {
        for (n, (path, entry)) in kept.iter().enumerate() {
            fs::write(path, spoil(n, entry)).unwrap();
        }
        assert_eq!(linked(&mut link(&folder, "program"), program()), good, "{way}");
        for (path, entry) in &kept {
            assert!(fs::read(path).unwrap() == *entry, "{way}: {}", path.display());
        }
    }
    for stale in &stale {
        for (path, entry) in &kept {
            let object = &stale[HEADER..];
            fs::write(path, [&entry[..40], &Sha256::digest(object), object].concat()).unwrap();
        }
        assert_eq!(linked(&mut link(&folder, "program"), program()), good);
    }
}

/// Several links use one cache at the same time.
#[test]
fn links_share_a_cache() {
    let folder = work_folder("link_cache/shared");
    compile(&folder);
    let program = |n: usize| format!("program-{n}");
    let expected = linked(link(&folder, "program").env("PCCE_CACHE", ""), folder.join("program"));
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (folder, expected) = (&folder, &expected);
            scope.spawn(move || {
                for _ in 0..3 {
                    let bytes = linked(&mut link(folder, &program(n)), folder.join(program(n)));
                    assert!(bytes == *expected);
                    let cache = folder.join("cache");
                    entries(&cache).keys().step_by(n + 1).for_each(|path| _ = fs::remove_file(path));
                }
            });
        }
    });
}

/// One compiler process generates the code of several modules. The result does not depend on the set: not on shared
/// types and debug information, and not on what an earlier module leaves in the compiler.
#[test]
fn code_does_not_depend_on_what_is_generated_with_it() {
    together("-O1");
}

#[test]
fn debug_information_does_not_depend_on_what_is_generated_with_it() {
    together("-g");
}

fn together(flag: &str) {
    let folder = work_folder(&format!("link_cache/together{flag}"));
    const COUNT: usize = 24;
    let mut objects = Vec::new();
    for n in 0..COUNT {
        let next = (n + 1) % COUNT;
        let text = format!(
            "#include <string>\n#include <vector>\nunsigned long pcce_context() asm(\"pcce_context\");\n\
             struct Node {{ std::vector<std::string> names; long word[{n} % 3 + 1]; Node *next; }};\n\
             struct Base {{ virtual ~Base(); virtual int f(Node &); }};\n\
             struct Part{n} : Base {{ int f(Node &node) override {{ return (int)node.names.size() + {n}; }} }};\n\
             long step{next}(Node &node, int depth);\n\
             long step{n}(Node &node, int depth) {{\n\
             node.names.push_back(\"step {n}\"); pcce_context(); Part{n} part; Base *base = &part;\n\
             return depth ? step{next}(node, depth - 1) + base->f(node) : node.word[0];\n}}\n{}",
            if n == 0 {
                "Base::~Base() {}\nint Base::f(Node &) { return 0; }\n\
                 int main() { Node node{}; return step0(node, 50) == 0; }\n"
            } else {
                ""
            }
        );
        fs::write(folder.join(format!("part{n}.cpp")), text).unwrap();
        objects.push(format!("part{n}.o"));
    }
    let words = ["--pcce-mode=link", "-O1", flag, "-c"];
    let mut compile = command(artifact("pcce-clang++"), &words);
    let sources = objects.iter().map(|object| object.replace(".o", ".cpp"));
    run(compile.args(sources).current_dir(&folder)).expect_success();
    let link = |first: &[&str], cache: &str| {
        let mut link = command(first[0], &first[1..]);
        link.args([artifact("pcce-clang++").to_str().unwrap(), "--pcce-mode=link", "-o", "program"]);
        link.args(&objects).current_dir(&folder).env("PCCE_CACHE", cache).env_remove("MAKEFLAGS");
        linked(&mut link, folder.join("program"))
    };
    let expected = link(&["env"], "");
    assert!(link(&["taskset", "-c", "0"], "") == expected);
    let cache = folder.join("cache");
    let (cache, named) = (&cache, cache.to_str().unwrap());
    assert!(link(&["env"], named) == expected);
    for step in [1, 2] {
        entries(cache).keys().step_by(step).for_each(|path| fs::remove_file(path).unwrap());
        assert!(link(&["env"], named) == expected, "{step}");
    }
    // Each entry alone.
    let kept = entries(cache);
    assert_eq!(kept.len(), COUNT);
    for path in kept.keys().step_by(9) {
        fs::remove_file(path).unwrap();
        assert!(link(&["env"], named) == expected);
        assert!(fs::read(path).unwrap() == kept[path]);
    }
}

/// A compiler that gives the code of one module for another one.
const WRONG: &str = source!("link/code_of_another_module.sh");

#[test]
fn code_of_another_module_is_refused() {
    let folder = work_folder("link_cache/wrong");
    let clang = folder.join("clang-wrong");
    fs::write(&clang, WRONG.replace("CLANG", llvm("clang").to_str().unwrap())).unwrap();
    fs::set_permissions(&clang, fs::Permissions::from_mode(0o755)).unwrap();
    for (name, text) in MODULES {
        fs::write(folder.join(name), text).unwrap();
        compile_one(&folder, name, &["--pcce-launch", clang.to_str().unwrap()]);
    }
    let refused: Output = run(&mut link(&folder, "program"));
    let said = refused.stderr.contains("is not its own") && refused.stderr.contains(".o");
    assert!(refused.status != 0 && said, "{}", refused.describe());
    assert!(clang.with_extension("kept").exists() || folder.join("clang-wrong.kept").exists());
    assert!(!folder.join("program").exists());
}

/// Compilers beside the first one take tokens from `make`, and put them back.
#[test]
fn compilers_take_tokens_of_make() {
    let folder = work_folder("link_cache/tokens");
    compile(&folder);
    let fifo = folder.join("fifo");
    run(&mut command("mkfifo", &[fifo.to_str().unwrap()])).expect_success();
    const NONBLOCK: i32 = 0o4000;
    let mut pipe = OpenOptions::new().read(true).write(true).custom_flags(NONBLOCK).open(&fifo).unwrap();
    let expected = linked(link(&folder, "program").env("PCCE_CACHE", ""), folder.join("program"));
    for tokens in ["", "+", "+abc"] {
        pipe.write_all(tokens.as_bytes()).unwrap();
        let flags = format!("-j --jobserver-auth=fifo:{}", fifo.display());
        let mut link = link(&folder, "program");
        let link = link.env("PCCE_CACHE", "").env("MAKEFLAGS", flags);
        assert!(linked(link, folder.join("program")) == expected, "{tokens}");
        let mut left = [0; 16];
        let count = pipe.read(&mut left).unwrap_or(0);
        let (mut left, mut given) = (left[..count].to_vec(), tokens.as_bytes().to_vec());
        left.sort_unstable();
        given.sort_unstable();
        assert_eq!(left, given);
    }
}

/// A program is the same in whatever folder it was built, and with relative or absolute names of its objects.
#[test]
fn programs_do_not_depend_on_the_folder() {
    let programs = ["one", "two", "two/inner"].map(|name| {
        let folder = work_folder("link_cache/folders").join(name);
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in MODULES {
            fs::write(folder.join(name), text).unwrap();
            let mut compile = command(artifact("pcce-clang"), &["-O2", "-c", name, "-o"]);
            let object = name.replace(".c", ".o");
            compile.arg(if folder.ends_with("inner") { folder.join(object) } else { object.into() });
            run(compile.current_dir(&folder)).expect_success();
        }
        linked(&mut link(&folder, "program"), folder.join("program"))
    });
    assert!(programs[0] == programs[1], "two folders");
    assert!(programs[0] == programs[2], "absolute names");
}
