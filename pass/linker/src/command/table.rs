//! The options of the linkers: GNU ld, gold, lld and mold. A test compares them with what `--help` of each says.
//!
//! A name that is not here is passed on as it is, and takes no value.

/// Where an option has its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// It has none.
    Nothing,
    /// In the next word, or behind `=`; behind the letter for options of one letter.
    Value,
    /// Behind `=` only, if it has one.
    Joined,
    /// In the next word if that begins with a digit: linkers differ in whether there is one.
    Number,
}

/// What an option means for who links twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Nothing else: both links have it.
    Other,
    /// The name of the output.
    Output,
    /// `-l`.
    Library,
    /// `-L`.
    Folder,
    /// `--sysroot`.
    Root,
    /// From here on `-l` finds archives only, or shared libraries, too.
    Static,
    /// See [`Meaning::Static`].
    Dynamic,
    /// Keeps what [`Meaning::Static`] says.
    Push,
    /// Takes it back.
    Pop,
    /// Between them objects are linked where they are needed.
    StartLib,
    /// See [`Meaning::StartLib`].
    EndLib,
    /// The output is no image, but one more object.
    Relocatable,
    /// The output is a shared library.
    Shared,
    /// The output is an executable.
    Executable,
    /// The output is an executable at fixed addresses.
    Fixed,
    /// The linker answers, and does not link.
    Question,
    /// The first link leaves it out: it asks for side files, for further output, or changes what is in the output, or
    /// what ends a link (the first one warns of what only generated code has).
    SecondOnly,
    /// The same; it names a text in which names of linked files stand.
    SideText,
    /// The same; `make` reads the text.
    Dependencies,
    /// The same; it names another file that the linker writes.
    SideFile,
    /// The same: the linker leaves the objects there that it compiles. Where it does, they are compared with the
    /// output, so that nothing can be linked twice with it.
    Objects,
    /// Its value is the name of a file that the linker reads, and that is no input.
    Reads,
    /// The same, in the second link only.
    SecondReads,
    /// Loads a pass: the linker compiles.
    Plugin,
    /// The linker compiles, and links no image.
    CompilesOnly,
    /// How response files are read; they are open behind [`super::Command`].
    Quoting,
    /// Equal functions become one. No link does that: nobody could tell which of them is active.
    Folding,
    /// Nothing can be linked twice with it.
    Refused,
}

use Meaning::*;
use Takes::*;

/// The option with words for a plugin, of which lld takes some for its own.
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
    // They look like two letters.
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

/// Options of one letter. What is not here takes nothing, and is [`Meaning::Other`].
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
    // Of GNU ld a size; of all linkers, without one, a shared library.
    (b'G', Number, Shared),
    // Of mold a folder, from which all names count.
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
    // They say which linker this is, and it goes on.
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

/// An option by its whole name without dashes, or by the one name that begins so where there were two dashes.
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
