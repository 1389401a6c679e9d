//! Real programs from Debian's source packages: how each is built and what it is run on.
//!
//! Nothing of them is in the repository: apt fetches the tarballs when they are needed.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::{repository, target};

/// A program, described by what differs from the others.
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// Debian's source package.
    pub package: &'static str,
    /// Shell commands that make the sources ready, once; run in the sources' folder.
    prepare: &'static str,
    /// Shell commands that build it with `$CC` (or `$CXX`) and `$CFLAGS` and leave the executable as `$OUT`; run in a copy of the
    /// prepared sources.
    build: &'static str,
    /// Shell command of the workload with `$EXE`, `$INPUT` (10 MB of text) and `$WORKLOADS`; it prints a deterministic
    /// result. `$SCALE` is 1 for checking and larger for timing.
    run: &'static str,
}

/// The programs of the acceptance list.
pub const PROGRAMS: [Program; 6] = [
    Program {
        name: "bzip2",
        package: "bzip2",
        prepare: ":",
        build: "make -s CC=\"$CC\" CFLAGS=\"$CFLAGS -D_FILE_OFFSET_BITS=64\" bzip2 && cp bzip2 \"$OUT\"",
        run: "\"$EXE\" -9 -c \"$INPUT\" > \"$OUT.bz2\" && \"$EXE\" -d -c \"$OUT.bz2\" | cmp - \"$INPUT\" && cat \"$OUT.bz2\"",
    },
    Program {
        name: "lua",
        package: "lua5.4",
        prepare: ":",
        // Through a static library made with the plain `ar`.
        build: "make -s -C src CC=\"$CC\" CFLAGS=\"$CFLAGS -DLUA_USE_POSIX -DLUA_COMPAT_5_3\" LIBS=-lm lua && cp src/lua \"$OUT\"",
        run: "\"$EXE\" \"$WORKLOADS/lua.lua\" $SCALE",
    },
    Program {
        name: "sqlite3",
        package: "sqlite3",
        prepare: "./configure CC=clang-19 --disable-tcl --disable-readline --disable-shared && make sqlite3.c shell.c",
        build: "$CC $CFLAGS -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_ENABLE_FTS5 -I. \
                sqlite3.c shell.c -lm -o \"$OUT\"",
        run: "for i in $(seq $SCALE); do \"$EXE\" -batch :memory: \".read $WORKLOADS/sqlite3.sql\"; done",
    },
    Program {
        name: "gzip",
        package: "gzip",
        prepare: ":",
        build: "FORCE_UNSAFE_CONFIGURE=1 ./configure -q CC=\"$CC\" CFLAGS=\"$CFLAGS\" --disable-dependency-tracking \
                && make -s && cp gzip \"$OUT\"",
        run: "\"$EXE\" -9 -n -c \"$INPUT\" > \"$OUT.gz\" && \"$EXE\" -d -c \"$OUT.gz\" | cmp - \"$INPUT\" && cat \"$OUT.gz\"",
    },
    Program {
        name: "minisat",
        package: "minisat2",
        // A friend declaration with a default argument, which clang refuses.
        prepare: "sed -i 's/friend Lit mkLit(Var var, bool sign = false);/friend Lit mkLit(Var var, bool sign);/; \
                  s/^inline  Lit  mkLit     (Var var, bool sign)/inline  Lit  mkLit     (Var var, bool sign = false)/' \
                  minisat/core/SolverTypes.h",
        build: "for f in core/Solver utils/Options utils/System simp/SimpSolver simp/Main; do $CXX $CFLAGS -I. -std=c++98 \
                -D__STDC_LIMIT_MACROS -D__STDC_FORMAT_MACROS -Wno-reserved-user-defined-literal -c minisat/$f.cc; done \
                && $CXX $CFLAGS *.o -lz -o \"$OUT\"",
        // Pigeonholes, which have no solution: status 20.
        run: "awk 'BEGIN { n = 7; print \"p cnf\", n * (n + 1), n + 1 + n * n * (n + 1) / 2; \
              for (p = 0; p <= n; p++) { for (h = 1; h <= n; h++) printf \"%d \", p * n + h; print 0 } \
              for (h = 1; h <= n; h++) for (p = 0; p <= n; p++) for (q = 0; q < p; q++) print -(p * n + h), -(q * n + h), 0 }' \
              > \"$OUT.cnf\"; for i in $(seq $SCALE); do \"$EXE\" -verb=0 \"$OUT.cnf\" /dev/stdout || [ $? = 20 ]; done",
    },
    Program {
        name: "xz",
        package: "xz-utils",
        prepare: ":",
        build: "./configure -q CC=\"$CC\" CFLAGS=\"$CFLAGS\" --disable-nls --disable-shared --disable-assembler --disable-doc \
                --disable-xzdec --disable-lzmadec --disable-lzmainfo --disable-scripts --disable-dependency-tracking \
                && make -s && cp src/xz/xz \"$OUT\"",
        // With threads.
        run: "head -c 4000000 \"$INPUT\" > \"$OUT.text\"; \"$EXE\" -T2 --block-size=1MiB -2 -c \"$OUT.text\" > \"$OUT.xz\" \
              && \"$EXE\" -T2 -d -c \"$OUT.xz\" | cmp - \"$OUT.text\" && cat \"$OUT.xz\"",
    },
];

/// A file of 10 MB of text-like words, the same each time.
///
/// # Panics
/// If it cannot be written.
pub fn input() -> PathBuf {
    let path = target().join("workloads/text");
    if !path.exists() {
        fs::create_dir_all(path.parent().expect("has a parent")).expect("target/ can be written");
        let mut seed = 20_100_601u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let words: Vec<String> = (0..4000)
            .map(|_| {
                (0..=random(4))
                    .map(|_| {
                        let consonant = b"bcdfghjklmnprstvwz"[random(18) as usize] as char;
                        format!("{consonant}{}", b"aeiou"[random(5) as usize] as char)
                    })
                    .collect()
            })
            .collect();
        let mut text = String::with_capacity(10 << 20);
        while text.len() < 10_000_000 {
            let common = random(4000) * random(4000) / 4000;
            text.push_str(&words[common as usize]);
            text.push(if random(12) == 0 { '\n' } else { ' ' });
        }
        let partial = path.with_extension(std::process::id().to_string());
        fs::File::create(&partial)
            .and_then(|mut f| f.write_all(text.as_bytes()))
            .expect("target/ can be written");
        fs::rename(&partial, &path).expect("target/ can be written");
    }
    path
}

impl Program {
    /// The prepared sources.
    fn sources(&self) -> Result<PathBuf, String> {
        let folder = target().join("real").join(self.name).join("sources");
        let ready = folder.with_extension("ready");
        if !ready.exists() {
            let fetch = repository().join("scripts/fetch-source");
            let fetched = Command::new(fetch)
                .args([self.package.as_ref(), target().join("sources").as_os_str()])
                .output();
            let tarball = String::from_utf8(checked("scripts/fetch-source", fetched)?.stdout)
                .map_err(|e| e.to_string())?;
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            let script =
                format!("tar xf '{}' --strip-components=1 && {{ {}; }} >&2", tarball.trim(), self.prepare);
            checked(self.name, Command::new("sh").args(["-ec", &script]).current_dir(&folder).output())?;
            fs::write(&ready, "").map_err(|e| e.to_string())?;
        }
        Ok(folder)
    }

    /// Builds the program with `cc` (a compiler and flags, as builds take them in `CC`) and `cflags`, in a folder named
    /// after `variant`. Returns the executable.
    ///
    /// # Errors
    /// What failed, with the end of its output.
    pub fn build(&self, variant: &str, cc: &str, cflags: &str) -> Result<PathBuf, String> {
        let sources = self.sources()?;
        let folder = target().join("real").join(self.name).join(variant);
        let _ = fs::remove_dir_all(&folder);
        let out = folder.join("executable");
        let script =
            format!("cp -a '{}' '{}' && cd '{1}' && {}", sources.display(), folder.display(), self.build);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = vec![target().join("release")];
        folders.extend(std::env::split_paths(&path));
        let output = Command::new("sh")
            .args(["-ec", &script])
            .env("PATH", std::env::join_paths(folders).map_err(|e| e.to_string())?)
            .env("CC", cc)
            .env("CXX", cc.replacen("clang", "clang++", 1))
            .env("CFLAGS", format!("{cflags} -w"))
            .env("OUT", &out)
            .output();
        checked(&format!("building {} ({variant})", self.name), output)?;
        Ok(out)
    }

    /// The command that runs the workload on `executable`.
    pub fn workload(&self, executable: &Path, scale: u32) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-ec", self.run])
            .env("EXE", executable)
            .env("OUT", executable.with_extension("output"))
            .env("INPUT", input())
            .env("WORKLOADS", repository().join("testsuite/workloads"))
            .env("SCALE", scale.to_string())
            .env("LC_ALL", "C");
        command
    }
}

/// The output of a command that must have succeeded.
///
/// # Errors
/// With the end of what it wrote.
pub fn checked(what: &str, output: std::io::Result<Output>) -> Result<Output, String> {
    let output = output.map_err(|e| format!("{what}: {e}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let tail: Vec<&str> = text.lines().rev().take(20).collect();
    Err(format!("{what}: {}\n{}", output.status, tail.into_iter().rev().collect::<Vec<_>>().join("\n")))
}
