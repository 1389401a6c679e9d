//! The compilers of a link, several at once.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use sha2::{Digest, Sha256};

use super::compiler::Compiler;
use super::split::Split;
use super::tokens::Server;
use super::{Failure, check};

/// The time after which a waiting job looks again for a token of `make`.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// After this time, progress is shown on a terminal.
const PROGRESS_DELAY: Duration = Duration::from_secs(1);

/// An object that is made of a module.
pub struct Product {
    /// The module.
    pub id: u64,
    /// A hash of everything that the object is made of.
    pub key: [u8; 32],
    /// The module's name in messages.
    pub shown: String,
    pub bitcode: PathBuf,
    /// The object, beside the bitcode and with the same name.
    pub object: PathBuf,
    /// The file for its debug information, if that is not in the object.
    pub split: Option<Split>,
    /// Its compiler, by index.
    pub compiler: usize,
    /// The length of the bitcode.
    pub size: usize,
}

impl Product {
    /// The key of the debug information in the cache.
    pub fn debug_key(&self) -> [u8; 32] {
        Sha256::digest([&self.key[..], b"dwo"].concat()).into()
    }

    /// The file that the compiler writes for [`Product::split`].
    pub fn debug_file(&self) -> PathBuf {
        self.object.with_extension("dwo")
    }
}

/// One process, or several in turn.
pub struct Job<'a> {
    work: Work<'a>,
    products: Vec<Product>,
}

enum Work<'a> {
    /// Code of modules, whose orders are in a folder.
    Code(&'a Compiler, &'a Path),
    /// Another command, and its name in messages.
    Other(&'static str, Box<Command>),
}

impl Job<'_> {
    /// Makes a job of another command.
    pub fn other(shown: &'static str, command: Command) -> Self {
        Self { work: Work::Other(shown, Box::new(command)), products: Vec::new() }
    }

    fn run(&mut self) -> Result<(), Failure> {
        let (compiler, folder) = match &mut self.work {
            Work::Code(compiler, folder) => (*compiler, *folder),
            Work::Other(shown, command) => return run_one(command, shown),
        };
        // If one of several modules fails, it is not known which.
        if self.products.len() > 1 && compile(compiler, folder, &self.products).is_ok() {
            return Ok(());
        }
        self.products.iter().try_for_each(|product| compile(compiler, folder, std::slice::from_ref(product)))
    }
}

/// Jobs for the objects of modules: large ones first, and several small ones in one process.
pub fn of_modules<'a>(
    mut products: Vec<Product>,
    compilers: &'a [Compiler],
    folder: &'a Path,
    processors: usize,
) -> Vec<Job<'a>> {
    let whole: usize = products.iter().map(|product| product.size).sum();
    // All processors should finish at about the same time.
    let max_size = whole / (4 * processors.max(1));
    products.sort_by_key(|product| (product.compiler, std::cmp::Reverse(product.size), product.id));
    let mut jobs: Vec<(usize, Job<'a>)> = Vec::new();
    for product in products {
        let compiler = &compilers[product.compiler];
        if let Some((size, job)) = jobs.last_mut()
            && job.products.first().is_some_and(|first| first.compiler == product.compiler)
            && job.products.len() < compiler.most()
            && *size + product.size <= max_size
        {
            *size += product.size;
            job.products.push(product);
        } else {
            let work = Work::Code(compiler, folder);
            jobs.push((product.size, Job { work, products: vec![product] }));
        }
    }
    jobs.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    jobs.into_iter().map(|(_, job)| job).collect()
}

/// The number of processors for jobs.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Runs the jobs, as many at once as there are processors, and with a job server of `make`, as many as it
/// allows. `target` is the user's output, for messages. Returns the products.
///
/// # Errors
/// A job fails. No further job begins then.
pub fn run(jobs: Vec<Job<'_>>, target: &Path) -> Result<Vec<Product>, Failure> {
    let server = env::var_os("MAKEFLAGS").and_then(|flags| Server::of(&flags));
    let progress = Progress::new(target, jobs.iter().map(|job| job.products.len()).sum());
    let jobs: Vec<_> = jobs.into_iter().map(Mutex::new).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = |takes_tokens: bool| -> Result<(), Failure> {
        while next.load(Ordering::Relaxed) < jobs.len() && !failed.load(Ordering::Relaxed) {
            let _token = match &server {
                Some(server) if takes_tokens => match server.take() {
                    Ok(Some(token)) => Some(token),
                    Ok(None) => {
                        thread::sleep(POLL_INTERVAL);
                        continue;
                    }
                    // The other jobs continue.
                    Err(_) => return Ok(()),
                },
                _ => None,
            };
            let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            let mut job = job.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(failure) = job.run() {
                failed.store(true, Ordering::Relaxed);
                return Err(failure);
            }
            progress.add(job.products.len());
        }
        Ok(())
    };
    let result = thread::scope(|scope| {
        let count = processors().min(jobs.len());
        let workers: Vec<_> = (1..count).map(|_| scope.spawn(|| work(true))).collect();
        let own = work(false);
        workers.into_iter().fold(own, |result, worker| {
            result.and(worker.join().unwrap_or_else(|_| Err("a job has failed".into())))
        })
    });
    progress.end();
    result?;
    let products =
        jobs.into_iter().flat_map(|job| job.into_inner().unwrap_or_else(PoisonError::into_inner).products);
    Ok(products.collect())
}

/// Makes the code of modules, and checks it.
fn compile(compiler: &Compiler, folder: &Path, products: &[Product]) -> Result<(), Failure> {
    let shown = products.first().map_or("", |product| &product.shown);
    run_one(&mut compiler.command(products, folder), shown)?;
    for product in products {
        let object = fs::read(&product.object).map_err(|error| {
            format!("code of {} was not generated: {}: {error}", product.shown, product.object.display())
        })?;
        check(&object, product).map_err(|what| {
            format!(
                "the code that was generated for {} is not its own: {what}; please report it",
                product.shown
            )
        })?;
        if product.split.is_some() && !product.debug_file().is_file() {
            return Err(format!("debug information of {} was not generated", product.shown).into());
        }
    }
    Ok(())
}

fn run_one(command: &mut Command, shown: &str) -> Result<(), Failure> {
    let output = command.stdin(Stdio::null()).output();
    let output = output
        .map_err(|error| format!("{shown}: `{}` cannot be run: {error}", command.get_program().display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("code of {shown} cannot be generated ({}): {said}", output.status).into());
    }
    // The compiler's warnings.
    let _ = io::stderr().write_all(&output.stderr);
    Ok(())
}

/// Progress on a terminal.
struct Progress<'a> {
    target: &'a Path,
    all: usize,
    begin: Instant,
    is_terminal: bool,
    /// The number of finished modules, and whether a line was written.
    state: Mutex<(usize, bool)>,
}

impl<'a> Progress<'a> {
    fn new(target: &'a Path, all: usize) -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { target, all, begin: Instant::now(), is_terminal, state: Mutex::default() }
    }

    fn add(&self, count: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += count;
        if self.is_terminal && self.begin.elapsed() >= PROGRESS_DELAY {
            state.1 = true;
            let (target, all, done) = (self.target.display(), self.all, state.0);
            let _ = write!(io::stderr(), "\rpcce-ld: {target}: code of {done} of {all} modules\x1b[K");
        }
    }

    /// Removes the line, for other output.
    fn end(&self) {
        if self.state.lock().unwrap_or_else(PoisonError::into_inner).1 {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
