//! The code of the modules that a link has, between its two runs: the program is encoded, and clang makes an object of
//! the bitcode of each module by what is decided of it.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use object::{Object, ObjectSymbol};
use pcce_link::relink::{self, Module, Scratch};
use pcce_linker::{FirstLink, Generate, Generated, PlainObject};

use crate::install;
use crate::recorded::Recorded;

/// What can go wrong, as `pcce-ld` says it.
type Failure = Box<dyn StdError + Send + Sync>;

/// Generates code with the plugin.
pub struct Generator {
    /// The pass.
    pub plugin: PathBuf,
}

impl Generator {
    /// With the plugin beside this executable.
    ///
    /// # Errors
    /// Nobody tells where that is.
    pub fn new() -> std::io::Result<Self> {
        let executable = env::current_exe().and_then(fs::canonicalize)?;
        let files = install::Files::beside(&executable, install::LLVM, |path| path.exists());
        Ok(Self { plugin: files.plugin })
    }
}

impl Generate for Generator {
    fn generate(&self, first: &FirstLink) -> Result<Generated, Failure> {
        let mut modules = Vec::with_capacity(first.modules.len());
        for module in first.modules {
            let object = part(&module.file, module.range.as_ref())?;
            modules.push(
                Module::read(module.id, &object).map_err(|error| format!("{}: {error}", module.shown))?,
            );
        }
        let image = fs::read(first.output)?;
        let scratch = Scratch::read(&image, &modules)?;
        let mut plain = Vec::new();
        for object in first.plain {
            plain.extend(names_of(object)?);
        }
        let encoded = relink::encode(&scratch, &modules, plain.into_iter())?;
        for warning in &encoded.warnings {
            eprintln!("pcce-ld: warning: {warning}");
        }
        let mut jobs = Vec::with_capacity(modules.len() + 1);
        let mut generated = Generated::default();
        for (module, order) in modules.iter().zip(&encoded.orders) {
            let file = |kind: &str| first.folder.join(format!("{:016x}.{kind}", module.id));
            let (bitcode, slice, object) = (file("bc"), file("json"), file("o"));
            fs::write(&bitcode, &module.bitcode)?;
            fs::write(&slice, serde_json::to_vec(order)?)?;
            let recorded: Recorded = serde_json::from_slice(&module.command)?;
            let mut job = Command::new(&recorded.compiler);
            job.args(recorded.arguments(&bitcode, &object, &self.plugin)).current_dir(&recorded.folder);
            job.env(pcce_options::VARIABLE, format!("{};slice={}", recorded.options, slice.display()));
            job.env_remove(pcce_options::COMMAND_VARIABLE);
            jobs.push((module.name().to_owned(), job));
            generated.objects.push((module.id, object));
        }
        let compiler =
            modules.first().and_then(|module| serde_json::from_slice::<Recorded>(&module.command).ok());
        if let Some(recorded) = compiler {
            let (assembly, object) = (first.folder.join("tables.s"), first.folder.join("tables.o"));
            fs::write(&assembly, &encoded.tables)?;
            let mut job = Command::new(&recorded.compiler);
            job.arg("-c").arg(&assembly).arg("-o").arg(&object);
            jobs.push(("its tables".to_owned(), job));
            generated.extra.push(object);
        }
        run(jobs)?;
        Ok(generated)
    }
}

/// The bytes of an object.
fn part(file: &Path, range: Option<&std::ops::Range<u64>>) -> Result<Vec<u8>, Failure> {
    let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let Some(range) = range else { return Ok(bytes) };
    let part = bytes.get(range.start as usize..range.end as usize);
    Ok(part.ok_or_else(|| format!("{}: it has changed while it was linked", file.display()))?.to_vec())
}

/// The names that an object without the pass knows: its own, which another object may define in its stead, and those
/// that it leaves to others.
fn names_of(object: &PlainObject) -> Result<Vec<String>, Failure> {
    let of_linker = || -> Failure {
        let shown = &object.shown;
        format!("`{shown}` has no code until the linker makes it (-flto), so that nobody knows what it refers to; \
                 compile it without -flto, or all with `--pcce-mode=lto`")
            .into()
    };
    if object.bitcode {
        return Err(of_linker());
    }
    let bytes = part(&object.file, object.range.as_ref())?;
    let file = object::File::parse(&*bytes).map_err(|error| format!("{}: {error}", object.shown))?;
    let symbols = file.symbols().filter(|symbol| !symbol.is_local());
    let mut names: Vec<String> = symbols.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect();
    // That the start-up code calls `main` is known, and that it calls it before all others.
    if names.iter().any(|name| name == "_start") {
        names.retain(|name| name != "main");
    }
    // gcc's kind of bitcode.
    if names.iter().any(|name| name == "__gnu_lto_slim") {
        return Err(of_linker());
    }
    Ok(names)
}

/// Runs the jobs, as many at once as there are processors.
fn run(jobs: Vec<(String, Command)>) -> Result<(), Failure> {
    let next = AtomicUsize::new(0);
    let jobs: Vec<_> = jobs.into_iter().map(std::sync::Mutex::new).collect();
    let work = || -> Result<(), Failure> {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut job = job.lock().map_err(|_| "a job has failed")?;
            let (name, command) = &mut *job;
            let output = command.stdin(Stdio::null()).output();
            let output = output.map_err(|error| {
                format!("{name}: `{}` cannot be run: {error}", command.get_program().display())
            })?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(format!("code of {name} cannot be generated: {said}").into());
            }
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    };
    let count = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| Err("a job has failed".into())))
    })
}
