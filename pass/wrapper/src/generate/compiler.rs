//! Code generation for the modules that one command has compiled, and its further inputs.
//!
//! The driver prints the compiler's own command once (`-###`), with additions from configuration files and
//! the machine (`-march=native`). With it, one process makes the code of several modules, each of which would
//! cost clang about 25 ms as a process of its own.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::{Object, ReadCache};
use sha2::{Digest, Sha256};

use super::Failure;
use super::jobs::Product;
use crate::recorded::Recorded;

/// A placeholder for the bitcode in the driver's command.
const INPUT: &str = "/dev/null";
/// A placeholder for the object.
const OUTPUT: &str = "pcce-generated.o";
/// The options for the name of the debug information's file in the object, and for the file.
const SPLIT_NAME: &str = "-split-dwarf-file";
const SPLIT_OUTPUT: &str = "-split-dwarf-output";
/// The option that loads the pass.
const PLUGIN: &str = "-fpass-plugin=";

/// A command that generates code.
pub struct Compiler {
    /// The command as the objects record it.
    pub recorded: Recorded,
    /// The pass.
    pub plugin: PathBuf,
    /// The compiler's own command, without inputs and outputs; none if there are several commands, or the
    /// command is not known.
    own: Option<Vec<OsString>>,
    /// The hash of everything that code depends on besides the module.
    hash: Sha256,
    /// True if the hash covers everything.
    known: bool,
    /// The files that code depends on, besides those that were read when the modules were compiled.
    pub files: Vec<PathBuf>,
    /// The profile of calls that the options name.
    pub profile: Option<PathBuf>,
    /// The SHA-256 of the compiler's description of its command.
    pub says: [u8; 32],
    /// True if debug information goes into a file of its own.
    pub splits: bool,
    /// True if calls are recorded.
    pub traces: bool,
}

impl Compiler {
    /// # Errors
    /// The compiler cannot be run.
    pub fn new(recorded: Recorded, plugin: &Path) -> Result<Self, Failure> {
        let mut driver = driver(&recorded, plugin, Path::new(INPUT), Path::new(OUTPUT));
        let asked = driver.arg("-###").stdin(Stdio::null()).output();
        let asked = asked.map_err(|error| {
            format!("`{}` cannot be run in {}: {error}", recorded.compiler, recorded.folder)
        })?;
        let splits = asked.stderr.windows(SPLIT_OUTPUT.len()).any(|part| part == SPLIT_OUTPUT.as_bytes());
        let own = own_command(&asked.stderr);
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        add(b"pcce object 1");
        // The output names the compiler's version.
        add(asked.stderr.split(|byte| *byte == b'\n').next().unwrap_or_default());
        add(recorded.options.as_bytes());
        let mut says = Sha256::new();
        says.update(asked.stderr.split(|byte| *byte == b'\n').next().unwrap_or_default());
        let mut files: BTreeSet<PathBuf> = [plugin.to_owned()].into();
        let folder = Path::new(&recorded.folder);
        for word in own.iter().flatten().filter(|word| !word.as_bytes().starts_with(PLUGIN.as_bytes())) {
            add(word.as_bytes());
            says.update([word.as_bytes(), b"\0"].concat());
            // Lists and profiles: the files that a word names, or has after its last `=`.
            let value = word.as_bytes().rsplit(|byte| *byte == b'=').next().unwrap_or_default();
            files.extend([word.as_bytes(), value].map(|name| folder.join(OsStr::from_bytes(name))));
        }
        let options = pcce_options::PassOptions::read([&*recorded.options]).unwrap_or_default();
        // The facts have the content of these files, which may be gone.
        let lists = options.common.targets.iter().filter_map(|name| name.strip_prefix('@')).map(Path::new);
        let lists: Vec<&Path> =
            lists.chain(options.common.no_callback.iter().map(PathBuf::as_path)).collect();
        let others = options.files.iter().filter(|file| !lists.contains(&file.as_path()));
        files.extend(others.map(|file| folder.join(file)));
        let traces = options.common.trace.is_some();
        let profile = options.common.profile_use.map(|file| folder.join(file));
        if let Some(program) = own.as_ref().and_then(|own| own.first()) {
            files.extend(libraries(Path::new(program)));
        }
        let mut known = own.is_some();
        let files: Vec<PathBuf> = files.into_iter().filter(|file| file.is_file()).collect();
        for file in &files {
            match identity(file) {
                Some(identity) => add(&identity),
                None => known = false,
            }
        }
        let says = says.finalize().into();
        Ok(Self {
            recorded,
            plugin: plugin.to_owned(),
            own,
            hash,
            known,
            files,
            profile,
            says,
            splits,
            traces,
        })
    }

    /// Returns whether this command generates the same code: only the object's name differs.
    pub fn is_for(&self, other: &Recorded) -> bool {
        let same = |recorded: &Recorded| Recorded { output: String::new(), ..recorded.clone() };
        same(&self.recorded) == same(other)
    }

    /// The beginning of a key.
    pub fn hash(&self) -> Sha256 {
        self.hash.clone()
    }

    /// Returns whether the hash covers everything that code depends on.
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// The optimisation level, 0 to 3.
    pub fn level(&self) -> u32 {
        let recorded = || self.recorded.words.iter().map(OsString::from).collect();
        let words: Vec<OsString> = self.own.clone().unwrap_or_else(recorded);
        match words.iter().rev().find_map(|word| word.as_bytes().strip_prefix(b"-O")) {
            None | Some(b"0") => 0,
            Some(b"" | b"1" | b"g") => 1,
            Some(b"2" | b"s" | b"z") => 2,
            Some(_) => 3,
        }
    }

    /// The number of modules that one process can handle. Modules in one process share data of LLVM: equal
    /// debug information is merged, so that a module after another one has less of it (seen in C++).
    pub fn most(&self) -> usize {
        let is_debug = |word: &OsString| word.as_bytes().starts_with(b"-debug-info-kind=");
        if self.own.as_ref().is_some_and(|own| !own.iter().any(is_debug)) { 16 } else { 1 }
    }

    /// Generates the code of the modules; their orders are in `folder`.
    pub fn command(&self, products: &[Product], folder: &Path) -> Command {
        // With debug information each module needs a process.
        let split = products.first().and_then(|product| Some((product, product.split.as_ref()?)));
        let mut command = match (&self.own, products) {
            (Some(own), _) => {
                let mut command = Command::new(&own[0]);
                // The objects are named after the modules.
                command.args(&own[1..]);
                if let Some((product, split)) = split {
                    command.arg(SPLIT_NAME).arg(&split.name).arg(SPLIT_OUTPUT).arg(product.debug_file());
                }
                command.args(products.iter().map(|product| &product.bitcode));
                command.current_dir(folder_of(&self.recorded));
                command
            }
            (None, products) => {
                let (bitcode, object) =
                    products.first().map_or((Path::new(INPUT), Path::new(OUTPUT)), |product| {
                        (&product.bitcode, &product.object)
                    });
                let mut command = driver(&self.recorded, &self.plugin, bitcode, object);
                if let Some((_, split)) = split {
                    command.args(["-Xclang", SPLIT_NAME, "-Xclang"]).arg(&split.name);
                }
                command
            }
        };
        let options = format!("{};slice={}", self.recorded.options, folder.display());
        command.env(pcce_options::VARIABLE, options).env_remove(pcce_options::COMMAND_VARIABLE);
        command
    }
}

fn driver(recorded: &Recorded, plugin: &Path, bitcode: &Path, object: &Path) -> Command {
    let mut command = Command::new(&recorded.compiler);
    command.args(recorded.arguments(bitcode, object, plugin)).current_dir(folder_of(recorded));
    command
}

/// The folder in which the module was compiled. It may be gone, for instance if an archive was installed.
/// Then only files that the words name relative to it are missing, and the compiler reports them.
fn folder_of(recorded: &Recorded) -> &Path {
    let folder = Path::new(&recorded.folder);
    if folder.is_dir() { folder } else { Path::new("/") }
}

/// The compiler's own command in the driver's output, if there is only one.
fn own_command(said: &[u8]) -> Option<Vec<OsString>> {
    let mut commands = said.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b" \""));
    let mut words = words(commands.next()?)?;
    let is = |word: Option<&OsString>, text: &str| word.is_some_and(|word| word == text);
    if commands.next().is_some() || !is(words.get(1), "-cc1") || !is(words.last(), INPUT) {
        return None;
    }
    words.pop();
    let output = words.windows(2).position(|pair| pair[0] == "-o" && pair[1] == OUTPUT)?;
    words.drain(output..output + 2);
    // These options are different for each module.
    for option in [SPLIT_NAME, SPLIT_OUTPUT] {
        if let Some(at) = words.iter().position(|word| word == option) {
            words.drain(at..words.len().min(at + 2));
        }
    }
    // One process handles several modules.
    words.retain(|word| word != "-disable-free");
    Some(words)
}

/// The words of a line, each in quotes.
fn words(line: &[u8]) -> Option<Vec<OsString>> {
    let mut words = Vec::new();
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' => continue,
            b'"' => {}
            _ => return None,
        }
        let mut word = Vec::new();
        loop {
            match bytes.next()? {
                b'"' => break,
                b'\\' => word.push(bytes.next()?),
                byte => word.push(byte),
            }
        }
        words.push(OsString::from_vec(word));
    }
    Some(words)
}

/// The files of a compiler and its libraries.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let Ok(program) = fs::canonicalize(program) else { return Vec::new() };
    let folder = program.parent().unwrap_or(Path::new("/")).join("../lib");
    let names = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let is_part = |name: &OsStr| {
        let name = name.to_string_lossy();
        (name.starts_with("libLLVM") || name.starts_with("libclang-cpp")) && name.contains(".so")
    };
    let parts = names.filter(|file| is_part(&file.file_name())).map(|file| file.path());
    parts.chain([program.clone()]).collect()
}

/// The identity of a file: its build id, or its content.
fn identity(path: &Path) -> Option<Vec<u8>> {
    let file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len().to_le_bytes();
    let cache = ReadCache::new(file);
    let build_id =
        object::File::parse(&cache).ok().and_then(|file| file.build_id().ok().flatten().map(<[u8]>::to_vec));
    match build_id {
        Some(id) => Some([&b"id"[..], &length, &id].concat()),
        None => Some([&b"content"[..], &length, &Sha256::digest(fs::read(path).ok()?)].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compilers_own_command_is_read() {
        let said = "clang version 19.1.7\nTarget: x\n \"/usr/bin/cla\\\"ng\" \"-cc1\" \"-disable-free\" \
                    \"-DX=\\$a \\\\\" \"-o\" \"pcce-generated.o\" \"-x\" \"ir\" \"/dev/null\"\n";
        let own = own_command(said.as_bytes()).unwrap();
        assert_eq!(own, ["/usr/bin/cla\"ng", "-cc1", "-DX=$a \\", "-x", "ir"]);
        let second = format!("{said} \"/usr/bin/as\" \"x.s\"\n");
        for other in
            [&*second, "", " \"clang\" \"-cc1as\"\n", " \"clang\" \"-cc1\" \"-o\" \"x\" \"/dev/null\"\n"]
        {
            assert_eq!(own_command(other.as_bytes()), None, "{other}");
        }
        for line in [" \"a", " \"a\" b", " \"a\\"] {
            assert_eq!(words(line.as_bytes()), None, "{line}");
        }
    }
}
