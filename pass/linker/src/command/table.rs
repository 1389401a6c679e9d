//! The options of the linkers GNU ld, gold, lld and mold. A test compares the table with the output of their
//! `--help`.
//!
//! A name that is not in the table is passed on unchanged, and takes no value.

/// The position of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// There is no value.
    Nothing,
    /// In the next word, or after `=`. For options of one letter, after the letter.
    Value,
    /// After `=` only. The value is optional.
    Joined,
    /// In the next word if it begins with a digit. Linkers differ in whether there is a value.
    Number,
}

/// The meaning of an option for a program that links twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// No special meaning: both links have the option.
    Other,
    /// The name of the output.
    Output,
    /// `-l`.
    Library,
    /// `-L`.
    Folder,
    /// `--sysroot`.
    Root,
    /// From here on `-l` finds archives only, or shared libraries as well.
    Static,
    /// See [`Meaning::Static`].
    Dynamic,
    /// Saves the state of [`Meaning::Static`].
    Push,
    /// Restores the state that [`Meaning::Push`] has saved.
    Pop,
    /// Begins a list of objects that are linked only if they are needed.
    StartLib,
    /// See [`Meaning::StartLib`].
    EndLib,
    /// The output is an object, and not an image.
    Relocatable,
    /// The output is a shared library.
    Shared,
    /// The output is an executable.
    Executable,
    /// The output is an executable at fixed addresses.
    Fixed,
    /// The linker answers a question, and does not link.
    Question,
    /// Left out in the first link: it asks for side files or further output, changes the content of the
    /// output, or decides which warnings end a link (the first link warns of things that only generated code
    /// has).
    SecondOnly,
    /// Left out in the first link. Its value is a text file in which the linker writes names of linked files.
    SideText,
    /// Like [`Meaning::SideText`], and `make` reads the file.
    Dependencies,
    /// Left out in the first link. Its value is another file that the linker writes.
    SideFile,
    /// Left out in the first link. Its value is the place for the objects that the linker compiles. If it
    /// compiles, these are compared with the output, so that linking twice is impossible.
    Objects,
    /// Its value is a file that the linker reads, and that is no input.
    Reads,
    /// Like [`Meaning::Reads`], in the second link only.
    SecondReads,
    /// Loads a pass into a linker that compiles.
    Plugin,
    /// The linker compiles, and links no image.
    CompilesOnly,
    /// Decides how response files are read. They are expanded before [`super::Command`] sees them.
    Quoting,
    /// Folds equal functions. No link does that, since it would not be known which of them is active.
    Folding,
    /// Makes linking twice impossible.
    Refused,
}

use Meaning::*;
use Takes::*;

/// The option with words for a plugin, some of which lld treats as its own options.
pub const PLUGIN_OPTION: &str = "plugin-opt";

/// Options of more than one letter, without dashes.
pub const LONG: &[(Takes, Meaning, &[&str])] = &[
    (Value, Output, &["output"]),
    (Value, Library, &["library"]),
    (Value, Folder, &["library-path"]),
    (Value, Root, &["sysroot"]),
    (Nothing, Static, &["Bstatic", "dn", "non_shared", "static"]),
    (Nothing, Dynamic, &["Bdynamic", "dy", "call_shared"]),
    (Nothing, Push, &["push-state"]),
    (Nothing, Pop, &["pop-state"]),
    (Nothing, StartLib, &["start-lib"]),
    (Nothing, EndLib, &["end-lib"]),
    (Nothing, Relocatable, &["relocatable", "Ur"]),
    (Nothing, Shared, &["shared", "Bshareable"]),
    (Nothing, Executable, &["pie", "pic-executable"]),
    (Nothing, Fixed, &["no-pie", "no-pic-executable", "nopie"]),
    (Nothing, Question, &["help", "version", "target-help", "print-output-format", "print-sysroot", "run"]),
    (Joined, Quoting, &["rsp-quoting"]),
    (Value, Folding, &["icf"]),
    (Nothing, CompilesOnly, &["lto-emit-asm", "lto-emit-llvm"]),
    (Joined, CompilesOnly, &["thinlto-index-only"]),
    (Value, Plugin, &["load-pass-plugin"]),
    (Value, SideText, &["Map"]),
    (Value, Dependencies, &["dependency-file"]),
    (Value, Objects, &["lto-obj-path"]),
    (Value, SideFile, &["opt-remarks-filename", "out-implib", "reproduce"]),
    (Joined, SideFile, &["save-temps", "time-trace"]),
    (Nothing, SideFile, &["repro"]),
    (
        Value,
        Reads,
        &[
            "call-graph-ordering-file",
            "dT",
            "default-script",
            "dynamic-list",
            "export-dynamic-symbol-list",
            "just-symbols",
            "mri-script",
            "remap-inputs-file",
            "script",
            "section-ordering-file",
            "symbol-ordering-file",
            "version-script",
        ],
    ),
    (Value, SecondReads, &["retain-symbols-file"]),
    (
        Value,
        SecondOnly,
        &[
            "keep-unique",
            "icf-iterations",
            "opt-remarks-format",
            "opt-remarks-hotness-threshold",
            "opt-remarks-passes",
            "print-archive-stats",
            "print-symbol-counts",
            "print-symbol-order",
            "time-trace-granularity",
            "thinlto-cache-dir",
            "thinlto-cache-policy",
            "trace-symbol",
            "why-extract",
        ],
    ),
    (Joined, SecondOnly, &["build-id", "debug", "verbose"]),
    (
        Nothing,
        SecondOnly,
        &[
            "cref",
            "discard-all",
            "emit-relocs",
            "fatal-warnings",
            "gdb-index",
            "opt-remarks-with-hotness",
            "perf",
            "print-gc-sections",
            "print-icf-sections",
            "print-map",
            "print-memory-usage",
            "stats",
            "strip-all",
            "strip-debug",
            "strip-debug-gdb",
            "strip-debug-non-line",
            "trace",
            "warn-backrefs",
        ],
    ),
    (
        Nothing,
        Refused,
        &[
            "incremental",
            "incremental-changed",
            "incremental-full",
            "incremental-unchanged",
            "incremental-unknown",
            "incremental-update",
        ],
    ),
    (Value, Refused, &["chroot", "directory", "incremental-base", "incremental-patch", "oformat"]),
    (
        Joined,
        Other,
        &[
            "color-diagnostics",
            "default-imported-symver",
            "demangle",
            "flto",
            "flto-partition",
            "fuse-ld",
            "lto",
            "lto-CGO0",
            "lto-CGO1",
            "lto-CGO2",
            "lto-CGO3",
            "lto-O0",
            "lto-O1",
            "lto-O2",
            "lto-O3",
            "package-metadata",
            "plt-align",
            "power10-stubs",
            "shuffle-sections",
            "sort-common",
            "split-by-file",
            "split-by-reloc",
            "unique",
        ],
    ),
    (Number, Other, &["threads"]),
    // Other names begin with these.
    (Nothing, Other, &["export-dynamic", "rosegment"]),
    // These look like two options of one letter.
    (Nothing, Other, &["dc", "dp"]),
    (
        Value,
        Other,
        &[
            "Tbss",
            "Tdata",
            "Tldata-segment",
            "Trodata-segment",
            "Ttext",
            "Ttext-segment",
            "android-memtag-mode",
            "architecture",
            "assert",
            "audit",
            "auxiliary",
            "build-id-chunk-size-for-treehash",
            "build-id-min-file-size-for-treehash",
            "call-graph-profile-sort",
            "compress-debug-sections",
            "compress-sections",
            "ctf-share-types",
            "defsym",
            "depaudit",
            "dynamic-linker",
            "entry",
            "error-handling-script",
            "error-limit",
            "exclude-libs",
            "export-dynamic-symbol",
            "filter",
            "fini",
            "format",
            "gpsize",
            "hash-bucket-empty-fraction",
            "hash-size",
            "hash-style",
            "ignore-unresolved-symbol",
            "image-base",
            "in-implib",
            "init",
            "lto-aa-pipeline",
            "lto-basic-block-sections",
            "lto-cs-profile-file",
            "lto-known-safe-vtables",
            "lto-newpm-passes",
            "lto-partitions",
            "lto-sample-profile",
            "max-cache-size",
            "mllvm",
            "optimize",
            "orphan-handling",
            "pack-dyn-relocs",
            "plugin",
            PLUGIN_OPTION,
            "remap-inputs",
            "require-defined",
            "rosegment-gap",
            "rpath",
            "rpath-link",
            "section-start",
            "soname",
            "sort-section",
            "spare-dynamic-tags",
            "split-stack-adjust-size",
            "stub-group-size",
            "target2",
            "task-link",
            "thinlto-emit-imports-files",
            "thinlto-jobs",
            "thinlto-object-suffix-replace",
            "thinlto-prefix-replace",
            "thinlto-single-module",
            "thread-count",
            "thread-count-final",
            "thread-count-initial",
            "thread-count-middle",
            "undefined",
            "undefined-glob",
            "unresolved-symbols",
            "version-exports-section",
            "warn-backrefs-exclude",
            "wrap",
            "z",
        ],
    ),
];

/// Options of one letter. A letter that is not here takes no value, and is [`Meaning::Other`].
pub const SHORT: &[(u8, Takes, Meaning)] = &[
    (b'o', Value, Output),
    (b'l', Value, Library),
    (b'L', Value, Folder),
    (b'r', Nothing, Relocatable),
    (b'i', Nothing, Relocatable),
    (b's', Nothing, SecondOnly),
    (b'x', Nothing, SecondOnly),
    (b'q', Nothing, SecondOnly),
    (b'S', Nothing, SecondOnly),
    (b't', Nothing, SecondOnly),
    (b'M', Nothing, SecondOnly),
    (b'y', Value, SecondOnly),
    // For GNU ld it has a size; for all linkers, without one, it makes a shared library.
    (b'G', Number, Shared),
    // For mold it has the folder that all names are relative to.
    (b'C', Value, Refused),
    (b'A', Value, Other),
    (b'F', Value, Other),
    (b'I', Value, Other),
    (b'O', Value, Other),
    (b'P', Value, Other),
    (b'R', Value, Reads),
    (b'T', Value, Reads),
    (b'Y', Value, Other),
    (b'a', Value, Other),
    (b'b', Value, Other),
    (b'c', Value, Reads),
    (b'e', Value, Other),
    (b'f', Value, Other),
    (b'h', Value, Other),
    (b'm', Value, Other),
    (b'u', Value, Other),
    (b'z', Value, Other),
    // The linker prints its version, and goes on.
    (b'v', Nothing, SecondOnly),
    (b'V', Nothing, SecondOnly),
    (b'(', Nothing, Other),
    (b')', Nothing, Other),
    (b'E', Nothing, Other),
    (b'N', Nothing, Other),
    (b'X', Nothing, Other),
    (b'd', Nothing, Other),
    (b'g', Nothing, Other),
    (b'n', Nothing, Other),
    (b'p', Nothing, Other),
    (b'w', Nothing, Other),
];

/// An option by its whole name without dashes, or, with two dashes, by the only name with that prefix.
pub fn long(name: &str, dashes: usize) -> Option<(Takes, Meaning)> {
    let all = || LONG.iter().flat_map(|(takes, meaning, names)| names.iter().map(|n| (*n, *takes, *meaning)));
    if let Some((_, takes, meaning)) = all().find(|(known, ..)| *known == name) {
        return Some((takes, meaning));
    }
    let mut begin = all()
        .filter(|(known, ..)| dashes == 2 && name.len() > 1 && known.starts_with(name))
        .map(|(_, t, m)| (t, m));
    let first = begin.next()?;
    begin.all(|other| other == first).then_some(first)
}

/// An option of one letter.
pub fn short(letter: u8) -> Option<(Takes, Meaning)> {
    SHORT.iter().find(|(known, ..)| *known == letter).map(|(_, takes, meaning)| (*takes, *meaning))
}
