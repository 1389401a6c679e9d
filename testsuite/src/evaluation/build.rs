//! Building a program in a variant: sources fetched and prepared once, then built in a copy of them.
//!
//! Builds find their compilers under one name, in `bin/`, whatever the variant: the results of a configure script hold
//! for all of them, and libtool cannot drop flags that are in the compiler itself. All copies have the same folder, so
//! that no path differs.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use object::read::archive::ArchiveFile;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};
use serde::{Deserialize, Serialize};

use super::declarations::{Compiler, Program, Sources, Variant, micro};
use super::store::{fingerprint, fingerprint_file};
use super::workload::{Shell, Usage};
use crate::{artifact, checked, llvm, repository, target};

#[derive(Clone, Debug)]
pub struct Workshop {
    root: PathBuf,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Built {
    pub executable: PathBuf,
    /// The shared libraries that were built for it, all in one folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<PathBuf>,
    pub fingerprint: String,
    /// The usage of the build, without `prepare`.
    pub usage: Usage,
    pub code_size: u64,
    /// Bytes of it in functions of the runtime library, as far as symbols show them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub runtime_size: u64,
}

/// A command of a compiler.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub folder: PathBuf,
    /// True for a compiler of C++.
    pub cxx: bool,
    /// All words after the compiler's name.
    pub words: Vec<OsString>,
}

fn is_zero(size: &u64) -> bool {
    *size == 0
}

impl Built {
    /// The executable and its libraries.
    pub fn images(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.executable).chain(&self.libraries).map(PathBuf::as_path)
    }

    /// The variables by which the executable finds its libraries.
    pub fn environment(&self) -> Vec<(String, OsString)> {
        let folder = self.libraries.first().and_then(|library| library.parent());
        folder.map(|folder| ("LD_LIBRARY_PATH".into(), folder.into())).into_iter().collect()
    }
}

impl Workshop {
    /// Builds below the folder `root`.
    pub fn new(root: PathBuf) -> Result<Workshop> {
        let workshop = Workshop { root };
        for name in ["cc", "c++"] {
            let text = format!("#!/bin/sh\nexec \"$EVALUATION_COMPILERS/{name}\" \"$@\"\n");
            script(&workshop.bin().join(name), &text)?;
        }
        Ok(workshop)
    }

    fn bin(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// The folder with the variant's compilers, `cc` and `c++`: scripts, which those in `bin/` call.
    pub fn compilers(&self, variant: &Variant, verify: bool) -> Result<PathBuf> {
        let name = if verify { variant.folder_name() + "-verify" } else { variant.folder_name() };
        let folder = self.root.join("compilers").join(name);
        for (name, suffix) in [("cc", ""), ("c++", "++")] {
            let compiler = match variant.compiler {
                Compiler::Clang => llvm(&format!("clang{suffix}")),
                Compiler::Pcce => variant.tools.join(format!("pcce-clang{suffix}")),
            };
            let flags = if verify { variant.flags.clone() + " --pcce-verify" } else { variant.flags.clone() };
            // The flags come after the build's own, so that they have precedence. Some commands do not use all of them.
            let text = format!(
                "#!/bin/sh\nexec '{}' \"$@\" --start-no-unused-arguments {flags} --end-no-unused-arguments\n",
                compiler.display()
            );
            script(&folder.join(name), &text)?;
        }
        Ok(folder)
    }

    /// A fingerprint of the compiler and its flags.
    pub fn compiler_fingerprint(&self, variant: &Variant) -> Result<String> {
        let mut parts = vec![variant.flags.clone(), format!("{:?}", variant.environment)];
        parts.extend((!variant.through.is_empty()).then(|| variant.through.clone()));
        match variant.compiler {
            Compiler::Clang => {}
            Compiler::Pcce => {
                for tool in
                    ["pcce-clang", "libpcce_pass.so", "libpcce_rt.a", "libpcce_trace.a", "libpcce_verify.a"]
                {
                    parts.push(fingerprint_file(&variant.tools.join(tool))?);
                }
            }
        }
        let version = checked("clang", Command::new(llvm("clang")).arg("--version").output())?.stdout;
        parts.push(String::from_utf8_lossy(&version).into_owned());
        Ok(fingerprint(parts))
    }

    /// The file for the profile of a program that is built as `name` says.
    pub fn profile(&self, program: &str, name: &str) -> Result<PathBuf> {
        let folder = self.root.join("profiles").join(program);
        fs::create_dir_all(&folder)?;
        Ok(folder.join(name))
    }

    /// The folder for what the links of a program keep.
    pub fn kept(&self, program: &str, name: &str) -> Result<PathBuf> {
        let folder = self.root.join("kept").join(program).join(name);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// The prepared sources of a program, configured with the compilers of `variant`.
    pub fn sources(&self, program: &Program, variant: &Variant) -> Result<PathBuf> {
        let folder = self.root.join("sources").join(&program.name).join(variant.folder_name());
        let stamp = folder.with_extension("prepared");
        let prepared = fingerprint([&program.sources.fingerprint()?, &program.prepare, &variant.flags]);
        if fs::read_to_string(&stamp).is_ok_and(|found| found == prepared) {
            return Ok(folder);
        }
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        match &program.sources {
            Sources::Package(name) => unpack(&tarball(name)?, &folder)?,
            Sources::File { file: name } => {
                let file = micro(name);
                fs::copy(&file, folder.join(name)).with_context(|| file.display().to_string())?;
            }
            Sources::Folder { folder: from } => {
                let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(&folder).output();
                checked("cp", copied)?;
            }
        }
        self.shell(program, variant, &self.compilers(variant, false)?, &program.prepare, &folder)
            .with_context(|| format!("preparing the sources of {}", program.name))?;
        fs::write(stamp, prepared)?;
        Ok(folder)
    }

    /// Builds a program from its prepared `sources`, in verify mode if `verify`.
    ///
    /// # Errors
    /// If a command fails, with the end of its output.
    pub fn build(&self, program: &Program, sources: &Path, variant: &Variant, verify: bool) -> Result<Built> {
        let folder = self.copy(program, sources)?;
        let name = if verify { variant.folder_name() + "-verify" } else { variant.folder_name() };
        let usage = self
            .shell(program, variant, &self.compilers(variant, verify)?, &program.build, &folder)
            .with_context(|| format!("building {} ({name})", program.name))?;
        let executables = self.root.join("executables").join(&program.name);
        let take = |built: &Path, to: PathBuf| -> Result<PathBuf> {
            fs::create_dir_all(to.parent().expect("has a parent"))?;
            ensure!(folder.join(built).exists(), "the build of {} left no {}", program.name, built.display());
            // The old file may be running, so it is not overwritten.
            let _ = fs::remove_file(&to);
            fs::copy(folder.join(built), &to).with_context(|| built.display().to_string())?;
            Ok(to)
        };
        let executable = take(&program.executable, executables.join(&name))?;
        let mut libraries = Vec::new();
        for library in &program.libraries {
            let file = library.file_name().context("a library is a file")?;
            libraries.push(take(library, executables.join(format!("{name}.libraries")).join(file))?);
        }
        fs::remove_dir_all(&folder)?;
        let mut built =
            Built { executable, libraries, fingerprint: String::new(), usage, code_size: 0, runtime_size: 0 };
        let mut fingerprints = Vec::new();
        for image in built.images() {
            fingerprints.push(fingerprint_file(image)?);
        }
        built.code_size = built.images().map(code_size).sum::<Result<u64>>()?;
        let of_runtime = functions_of_runtime()?;
        built.runtime_size =
            built.images().map(|image| runtime_size(image, &of_runtime)).sum::<Result<u64>>()?;
        built.fingerprint = match fingerprints.len() {
            1 => fingerprints.swap_remove(0),
            _ => fingerprint(fingerprints),
        };
        Ok(built)
    }

    /// A fresh copy of a program's prepared sources, in which it can be built.
    fn copy(&self, program: &Program, sources: &Path) -> Result<PathBuf> {
        let folder = self.root.join("build").join(&program.name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.parent().expect("has a parent"))?;
        let copied = Command::new("cp").arg("-a").arg(sources).arg(&folder).output();
        checked("cp", copied)?;
        Ok(folder)
    }

    /// Builds a program, and returns the commands of the compilers. The folder in which it was built stays.
    ///
    /// # Errors
    /// If a command fails, with the end of its output.
    pub fn commands(&self, program: &Program, sources: &Path, variant: &Variant) -> Result<Vec<Compiled>> {
        let folder = self.copy(program, sources)?;
        let compilers = self.root.join("compilers").join(variant.folder_name() + "-recorded");
        let plain = self.compilers(variant, false)?;
        let record = folder.with_extension("commands");
        let _ = fs::remove_file(&record);
        for name in ["cc", "c++"] {
            let text = format!(
                "#!/bin/sh\nset -- \"$@\" --start-no-unused-arguments {} --end-no-unused-arguments\n\
                 printf '%s\\0' \"$PWD\" {name} $# \"$@\" >> '{}'\nexec '{}' \"$@\"\n",
                variant.flags,
                record.display(),
                plain.join(name).display()
            );
            script(&compilers.join(name), &text)?;
        }
        self.shell(program, variant, &compilers, &program.build, &folder)
            .with_context(|| format!("building {}", program.name))?;
        let data = fs::read(&record).with_context(|| record.display().to_string())?;
        let mut words = data.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
        let mut commands = Vec::new();
        while let (Some(folder), Some(compiler), Some(count)) = (words.next(), words.next(), words.next()) {
            let count = count.to_string_lossy().parse().context("the record of commands is cut")?;
            let folder = folder.into();
            let cxx = compiler == "c++";
            commands.push(Compiled { folder, cxx, words: words.by_ref().take(count).collect() });
        }
        Ok(commands)
    }

    /// Compiles a C source file in the variant.
    pub fn compile(&self, variant: &Variant, source: &Path, object: &Path) -> Result<()> {
        let compiler = self.compilers(variant, false)?.join("cc");
        let output = Command::new(compiler).arg("-c").arg(source).arg("-o").arg(object).output();
        checked(&source.display().to_string(), output)?;
        Ok(())
    }

    /// Builds a program of one C++ source file in the variant.
    pub fn link(&self, variant: &Variant, source: &Path, executable: &Path) -> Result<()> {
        let compiler = self.compilers(variant, false)?.join("c++");
        let output = Command::new(compiler).arg(source).arg("-o").arg(executable).output();
        checked(&source.display().to_string(), output)?;
        Ok(())
    }

    fn shell(
        &self,
        program: &Program,
        variant: &Variant,
        compilers: &Path,
        commands: &str,
        folder: &Path,
    ) -> Result<Usage> {
        let log = self.root.join("logs").join(&program.name);
        fs::create_dir_all(&log)?;
        let mut environment: Vec<(String, OsString)> = vec![
            ("EVALUATION_COMPILERS".into(), compilers.into()),
            ("CC".into(), self.bin().join("cc").into()),
            ("CXX".into(), self.bin().join("c++").into()),
            ("AR".into(), llvm("llvm-ar").into()),
            ("RANLIB".into(), llvm("llvm-ranlib").into()),
            ("NM".into(), llvm("llvm-nm").into()),
        ];
        environment.extend(variant.environment.iter().map(|(n, v)| (n.clone(), v.into())));
        let (output, errors) = (log.join("output"), log.join("errors"));
        Shell { commands, folder, environment, output: &output, errors: &errors }.run()
    }
}

/// Unpacks sources into a folder.
pub fn unpack(sources: &Path, folder: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--strip-components=1", "-xf"]).arg(sources).current_dir(folder);
    checked("tar", tar.output()).map(drop)
}

/// The upstream tarball of a Debian source package.
pub fn tarball(package: &str) -> Result<PathBuf> {
    let fetch = repository().join("scripts/fetch-source");
    let fetched = Command::new(fetch).arg(package).arg(target().join("sources")).output();
    let path = String::from_utf8(checked("scripts/fetch-source", fetched)?.stdout)?;
    Ok(PathBuf::from(path.trim()))
}

pub(super) fn script(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().expect("has a parent"))?;
    // Atomically, since tests run in parallel.
    let partial = path.with_extension(format!("{:?}", std::thread::current().id()));
    fs::write(&partial, text).with_context(|| partial.display().to_string())?;
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o755))?;
    fs::rename(&partial, path)?;
    Ok(())
}

fn code_size(executable: &Path) -> Result<u64> {
    let data = fs::read(executable)?;
    let file = object::File::parse(&*data)?;
    Ok(file.sections().filter(|s| s.kind() == object::SectionKind::Text).map(|s| s.size()).sum())
}

/// The functions of the runtime library: their names and sizes.
fn functions_of_runtime() -> Result<HashSet<(Vec<u8>, u64)>> {
    let data = fs::read(artifact("libpcce_rt.a"))?;
    let mut found = HashSet::new();
    for member in ArchiveFile::parse(&*data)?.members() {
        let file = object::File::parse(member?.data(&*data)?)?;
        let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
        found.extend(functions.filter_map(|f| Some((f.name_bytes().ok()?.to_vec(), f.size()))));
    }
    Ok(found)
}

/// Bytes of these functions in an image; 0 if it is stripped.
fn runtime_size(image: &Path, functions: &HashSet<(Vec<u8>, u64)>) -> Result<u64> {
    let data = fs::read(image)?;
    let file = object::File::parse(&*data)?;
    let is_one = |name: &[u8], size: u64| functions.contains(&(name.to_vec(), size));
    // Functions may have several names.
    let sizes: BTreeMap<u64, u64> = file
        .symbols()
        .filter(|s| s.kind() == SymbolKind::Text && s.name_bytes().is_ok_and(|name| is_one(name, s.size())))
        .map(|s| (s.address(), s.size()))
        .collect();
    Ok(sizes.values().sum())
}
