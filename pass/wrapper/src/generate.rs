//! Generates the code of the modules of a link, between the linker's two runs. The program is encoded, and
//! clang makes an object from the bitcode of each module, by the decisions for it.
//!
//! 1. [`compiler`]: how the code of a module is generated, and what else it depends on;
//! 2. [`objects`]: the cache of objects that earlier links have made of the same inputs;
//! 3. [`split`]: files for debug information that is not in the objects;
//! 4. [`jobs`]: the compilers that make the other objects, as many at once as `make` allows ([`tokens`]);
//! 5. [`values`]: the values that are then written into all objects;
//! 6. [`sizes`]: the sizes of sections, for programs with the same addresses.

pub mod compiler;
pub mod jobs;
pub mod objects;
pub mod sizes;
pub mod split;
pub mod tokens;
pub mod values;

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::error::Error as StdError;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, io};

use object::{Object, ObjectSection, ObjectSymbol};
use pcce_abi::skeleton;
use pcce_link::{Module, Order, Scratch};
use pcce_linker::{FirstLink, Generate, Generated, PlainObject, compiled};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::install;
use crate::recorded::Recorded;
use crate::thin_lto;
use compiler::Compiler;
use jobs::{Job, Product};
use objects::Cache;
use sizes::Sizes;
use split::Split;

/// An error of `pcce-ld`.
pub type Failure = Box<dyn StdError + Send + Sync>;

/// Generates code with the pass, for the LLVM that a module was compiled with.
pub struct Generator {
    executable: PathBuf,
    /// Changes of the names that options gave when the modules were compiled.
    pub instead: pcce_link::Wanted,
    /// The sections of the objects get these sizes.
    pub sizes: Option<Sizes>,
    /// The sizes of the objects' sections are written to this file.
    pub sizes_to: Option<PathBuf>,
}

impl Generator {
    /// Takes the plugins beside this executable.
    ///
    /// # Errors
    /// The executable's own path is unknown.
    pub fn new() -> io::Result<Self> {
        let executable = env::current_exe().and_then(fs::canonicalize)?;
        Ok(Self { executable, instead: pcce_link::Wanted::default(), sizes: None, sizes_to: None })
    }

    /// The pass for an LLVM.
    ///
    /// # Errors
    /// PCCE is not installed for it.
    fn plugin(&self, llvm: u32, of: &str) -> Result<PathBuf, Failure> {
        let plugin = install::Files::beside(&self.executable, llvm, |path| path.exists()).plugin;
        if plugin.exists() {
            return Ok(plugin);
        }
        let plugin = plugin.display();
        Err(format!(
            "{of} was compiled with LLVM {llvm}, and the pass for it ({plugin}) is not here; install PCCE for LLVM \
             {llvm} beside this one, or compile with another `--pcce-llvm`"
        )
        .into())
    }
}

impl Generate for Generator {
    fn generate(&self, first: &FirstLink) -> Result<Generated, Failure> {
        let cache = Cache::of_environment()?;
        let mut modules = Vec::with_capacity(first.modules.len());
        for module in first.modules {
            let object = part(&module.file, module.range.as_ref())?;
            let mut read =
                Module::read(module.id, &object).map_err(|error| format!("{}: {error}", module.shown))?;
            read.ask_for(&self.instead);
            modules.push(read);
        }
        let asked = env::var(pcce_options::ASKED_VARIABLE);
        let asked_for = asked.as_deref().unwrap_or_default().split(';').filter(|name| !name.is_empty());
        pcce_link::check_options(&modules, asked_for.clone())?;
        // Libraries record in the program's profile.
        if let Some(module) = pcce_link::with_heap(&modules)
            && !first.is_library
            && asked.is_ok()
            && !asked_for.clone().any(|option| option == "heap")
        {
            eprintln!(
                "pcce-ld: warning: {} was compiled with `--pcce-heap`, and the link lacks it: no heap profile will be \
                 written; give the link the flags of the compiler",
                module.name()
            );
        }
        let image = fs::read(first.output)?;
        let mut scratch = Scratch::read(&image, &modules)?;
        scratch.thread_offset = scratch.thread_offset.filter(|_| !first.lays_out_anew);
        let compiles = first.modules.iter().any(|module| module.by_linker);
        let mut plain = Vec::new();
        for object in first.plain {
            plain.extend(names_of(object, compiles)?);
        }
        let mut commands: HashMap<&[u8], usize> = HashMap::new();
        let mut compilers: Vec<Compiler> = Vec::new();
        let mut debug_files = split::Files::of(first.target)?;
        let mut how = Vec::with_capacity(modules.len());
        for (module, linked) in modules.iter().zip(first.modules) {
            let recorded: Recorded = serde_json::from_slice(&module.command)?;
            let compiler = match commands.entry(&module.command) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let known = compilers.iter().position(|compiler| compiler.is_for(&recorded));
                    *new.insert(match known {
                        Some(known) => known,
                        None => {
                            let plugin = self.plugin(recorded.llvm, &linked.shown)?;
                            compilers.push(Compiler::new(recorded.clone(), &plugin)?);
                            compilers.len() - 1
                        }
                    })
                }
            };
            // A linker that compiles splits debug information itself.
            let splits = compilers[compiler].splits && !compiles;
            how.push((compiler, splits.then(|| debug_files.add(module.name(), &recorded))));
        }
        let round = Round {
            first,
            modules: &modules,
            compilers: &compilers,
            how: &how,
            cache: cache.as_ref(),
            sizes: self.sizes.as_ref(),
        };
        // With a hybrid encoding the code depends on frames, which are known only from code.
        let mut frames = pcce_link::Frames::default();
        let mut keys = HashMap::new();
        let encoded = loop {
            let encoded = pcce_link::encode(&scratch, &modules, plain.iter().cloned(), &frames)?;
            let objects = round.generate(&encoded, &mut keys)?;
            if encoded.measured && compiles {
                eprintln!(
                    "pcce-ld: warning: `--pcce-hybrid` has no effect with `-flto=thin`: the linker has the code, and its frames"
                );
                break encoded;
            }
            if !encoded.measured || frames.rounds.is_some() && encoded.used.offsets.is_empty() {
                break encoded;
            }
            let objects: Result<Vec<_>, _> = objects.iter().map(fs::read).collect();
            if frames.learn(&encoded.used, pcce_link::measured(&modules, &objects?)?) {
                break encoded;
            }
            let next = frames.rounds.map_or(1, |round| round + 1);
            if next > pcce_link::MOST_ROUNDS {
                frames.forget();
            } else {
                frames.rounds = Some(next);
            }
        };
        for warning in &encoded.warnings {
            eprintln!("pcce-ld: warning: {warning}");
        }
        let mut generated =
            Generated { relies_on_layout: scratch.thread_offset.is_some(), ..Generated::default() };
        let own = modules.iter().zip(first.modules).filter(|(_, linked)| !linked.by_linker);
        generated.objects = own.map(|(module, _)| (module.id, round.object(module))).collect();
        generated.extra.push(first.folder.join("tables.o"));
        if let Some(file) = &self.sizes_to {
            let mut sizes = Sizes::default();
            for (id, object) in &generated.objects {
                sizes.add(*id, &fs::read(object)?)?;
            }
            sizes.write(file)?;
        }
        let mut says = Sha256::new();
        compilers.iter().for_each(|compiler| says.update(compiler.says));
        generated.commands = hex(&says.finalize());
        generated.profile = compilers.iter().find_map(|compiler| compiler.profile.clone());
        generated.depends = compilers.iter().flat_map(|compiler| compiler.files.iter().cloned()).collect();
        if let Some(cache) = &cache {
            cache.shrink();
        }
        let splits = modules.iter().zip(&how);
        let splits =
            splits.filter_map(|(module, (_, split))| Some((round.file(module, "dwo"), split.clone()?)));
        let split_files: Vec<_> = splits.collect();
        let objects: HashMap<u64, PathBuf> = generated.objects.iter().cloned().collect();
        let compiled = first.folder.join("compiled");
        if compiles {
            fs::create_dir(&compiled)?;
            generated.words.push(compiled::into(&compiled));
            let options = env::var_os(pcce_options::VARIABLE).unwrap_or_default();
            let mut decided = Sha256::new();
            modules.iter().filter_map(|module| keys.get(&module.id)).for_each(|key| decided.update(key));
            // One linker compiles all modules, so they have one LLVM.
            let plugin = compilers.first().map_or(Path::new(""), |compiler| &compiler.plugin);
            let key = thin_lto::key(plugin, &options, &[], &hex(&decided.finalize()));
            generated.words.extend(["-mllvm".into(), key]);
            let slice = [&*options, OsStr::new(";slice="), first.folder.as_os_str()].into_iter().collect();
            generated.variables.push((pcce_options::VARIABLE, slice));
        }
        generated.check = Some(Box::new(move |output| {
            let compiled = if compiles { compiled_by_linker(&compiled)? } else { HashMap::new() };
            let object = |module: &Module| objects.get(&module.id).or_else(|| compiled.get(&module.id));
            // The linker does not copy objects from its own cache.
            let code = modules.iter().map(|module| object(module).map(fs::read).transpose());
            let code: Vec<Option<Vec<u8>>> = code.collect::<Result<_, _>>()?;
            let difference = pcce_link::difference(&scratch, &modules, &code, &fs::read(output)?)?;
            if difference.is_none() {
                split::keep(&split_files)?;
            }
            Ok(difference)
        }));
        Ok(generated)
    }
}

/// An order as the pass reads it.
#[derive(Serialize)]
struct Keyed<'a> {
    /// A hash of everything that the code is made of. The object repeats it.
    key: String,
    /// The optimisation level of code generation, 0 to 3.
    level: u32,
    #[serde(flatten)]
    order: &'a Order,
}

/// Makes the code of all modules, once or several times.
struct Round<'a> {
    first: &'a FirstLink<'a>,
    modules: &'a [Module],
    compilers: &'a [Compiler],
    /// For each module, the compiler of its code, and the file of its debug information.
    how: &'a [(usize, Option<Split>)],
    cache: Option<&'a Cache>,
    /// [`Generator::sizes`].
    sizes: Option<&'a Sizes>,
}

impl Round<'_> {
    /// A file of a module.
    fn file(&self, module: &Module, ending: &str) -> PathBuf {
        self.first.folder.join(format!("{:016x}.{ending}", module.id))
    }

    /// The object of a module that is linked.
    fn object(&self, module: &Module) -> PathBuf {
        self.file(module, "linked.o")
    }

    /// Makes the tables and the objects, except those that exist. `keys` has the keys of existing objects, by
    /// module. Returns all objects.
    fn generate(
        &self,
        encoded: &pcce_link::Encoded,
        keys: &mut HashMap<u64, [u8; 32]>,
    ) -> Result<Vec<PathBuf>, Failure> {
        let mut missing: Vec<Product> = Vec::new();
        let mut values: HashMap<u64, Vec<i64>> = HashMap::new();
        let modules = self.modules.iter().zip(&encoded.orders).zip(self.first.modules).zip(self.how);
        for (((module, order), linked), (compiler, split)) in modules {
            let by = &self.compilers[*compiler];
            // Modules that the linker compiles, or an assembler, have their values from the beginning.
            let shared =
                (by.is_known() && !linked.by_linker).then(|| order.without_values(encoded.value_widths));
            let order = match shared {
                Some((order, list)) => {
                    values.insert(module.id, list);
                    Cow::Owned(order)
                }
                None => Cow::Borrowed(order),
            };
            let order = &*order;
            let decisions = serde_json::to_vec(order)?;
            let mut hash = by.hash();
            let name = split.as_ref().map(|split| split.name.as_os_str().as_bytes());
            for part in [&*module.bitcode, &*decisions].into_iter().chain(name) {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
            let key: [u8; 32] = hash.finalize().into();
            if keys.insert(module.id, key) == Some(key) {
                continue;
            }
            let product = Product {
                id: module.id,
                key,
                shown: linked.shown.clone(),
                bitcode: self.file(module, "bc"),
                object: self.file(module, "o"),
                split: split.clone(),
                compiler: *compiler,
                size: module.bitcode.len(),
            };
            let order = serde_json::to_vec(&Keyed { key: hex(&key), level: by.level(), order })?;
            if linked.by_linker {
                fs::write(self.file(module, "json"), order)?;
                continue;
            }
            let known = self.cache.filter(|_| by.is_known());
            if known.map_or(Ok(false), |cache| take(cache, &product))? {
                continue;
            }
            fs::write(&product.bitcode, &module.bitcode)?;
            fs::write(product.bitcode.with_extension("json"), order)?;
            missing.push(product);
        }
        let folder = self.first.folder;
        let mut jobs = jobs::of_modules(missing, self.compilers, folder, jobs::processors());
        if let Some(compiler) = self.compilers.first() {
            fs::write(folder.join("tables.s"), &encoded.tables)?;
            fs::write(folder.join(pcce_link::DICTIONARY), &encoded.dictionary)?;
            let mut command = Command::new(&compiler.recorded.compiler);
            command.args(compiler.recorded.target());
            command.args(["-c", "tables.s", "-o", "tables.o"]).current_dir(folder);
            jobs.push(Job::other("its tables", command));
        }
        let made = jobs::run(jobs, self.first.target)?;
        if let Some(cache) = self.cache {
            for product in made.iter().filter(|product| self.compilers[product.compiler].is_known()) {
                cache.put(&product.key, &product.object);
                if product.split.is_some() {
                    cache.put(&product.debug_key(), &product.debug_file());
                }
            }
        }
        let mut objects = Vec::with_capacity(self.modules.len());
        for ((module, linked), (compiler, _)) in self.modules.iter().zip(self.first.modules).zip(self.how) {
            objects.push(self.object(module));
            if linked.by_linker {
                continue;
            }
            let mut object = fs::read(self.file(module, "o"))?;
            let values = values.remove(&module.id).unwrap_or_default();
            let size = |object: &mut Vec<u8>| match self.sizes {
                Some(sizes) => sizes.fit(module.id, object),
                None if self.compilers[*compiler].traces => sizes::leave_room(object),
                None => Ok(()),
            };
            values::bind(&mut object, &values).and_then(|()| size(&mut object)).map_err(|what| {
                format!("code of {} cannot be used: {what}; please report it", linked.shown)
            })?;
            fs::write(self.object(module), object)?;
        }
        Ok(objects)
    }
}

/// Takes a product that an earlier link has made. Returns whether it is complete.
fn take(cache: &Cache, product: &Product) -> io::Result<bool> {
    let Some(object) = cache.get(&product.key).filter(|object| check(object, product).is_ok()) else {
        return Ok(false);
    };
    if product.split.is_some() {
        let Some(debug) = cache.get(&product.debug_key()) else { return Ok(false) };
        fs::write(product.debug_file(), debug)?;
    }
    fs::write(&product.object, object)?;
    Ok(true)
}

/// Checks that an object is the one that was ordered: for the module, from this bitcode, by this order, with
/// this compiler.
///
/// # Errors
/// The difference.
pub fn check(object: &[u8], product: &Product) -> Result<(), String> {
    let file = object::File::parse(object).map_err(|error| error.to_string())?;
    let data = |name: &str| {
        let section = file.section_by_name(name).ok_or_else(|| format!("it has no section {name}"))?;
        section.data().map_err(|error| error.to_string())
    };
    let id = [&skeleton::CODE_MAGIC[..], &product.id.to_le_bytes()].concat();
    if data(skeleton::CODE_SECTION)? != id {
        return Err("it is of another module".to_owned());
    }
    if data(skeleton::KEY_SECTION)? != hex(&product.key).as_bytes() {
        return Err("it was made of something else".to_owned());
    }
    Ok(())
}

/// The objects that the linker has compiled, by the ids of their modules.
fn compiled_by_linker(folder: &Path) -> Result<HashMap<u64, PathBuf>, Failure> {
    let mut objects = HashMap::new();
    for file in compiled::objects(folder)? {
        let (_, ids) = pcce_linker::elf::ids_of_file(&file, &file)?;
        objects.extend(ids.into_iter().map(|id| (id, file.clone())));
    }
    Ok(objects)
}

/// A key in hexadecimal digits.
pub fn hex(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of an object.
fn part(path: &Path, range: Option<&std::ops::Range<u64>>) -> Result<Vec<u8>, Failure> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let Some(range) = range else { return Ok(fs::read(path).map_err(failed)?) };
    let file = File::open(path).map_err(failed)?;
    let changed = || format!("{}: it has changed while it was linked", path.display());
    if range.end > file.metadata().map_err(failed)?.len() {
        return Err(changed().into());
    }
    let mut bytes = vec![0; usize::try_from(range.end - range.start)?];
    file.read_exact_at(&mut bytes, range.start).map_err(|_| changed())?;
    Ok(bytes)
}

/// The names in an object without the pass: its own, which another object may define instead, and its
/// undefined ones. `compiles`: the linker has compiled bitcode, so that bitcode is a module.
fn names_of(object: &PlainObject, compiles: bool) -> Result<Vec<String>, Failure> {
    let of_linker = || -> Failure {
        let shown = &object.shown;
        format!("`{shown}` has no code until the linker makes it (-flto), so that nobody knows what it refers to; \
                 compile it without -flto, or all with `--pcce-mode=lto`")
            .into()
    };
    if object.bitcode && !compiles {
        return Err(of_linker());
    }
    if object.bitcode {
        return Ok(Vec::new());
    }
    let bytes = part(&object.file, object.range.as_ref())?;
    let file = object::File::parse(&*bytes).map_err(|error| format!("{}: {error}", object.shown))?;
    // The object has bitcode beside machine code, and the linker uses the bitcode.
    if compiles && file.section_by_name(".llvm.lto").is_some() {
        return Ok(Vec::new());
    }
    let symbols = file.symbols().filter(|symbol| !symbol.is_local());
    let mut names: Vec<String> = symbols.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect();
    // It is known that the start-up code calls `main`, before all other calls.
    if names.iter().any(|name| name == "_start") {
        names.retain(|name| name != "main");
    }
    // gcc's kind of bitcode.
    if names.iter().any(|name| name == "__gnu_lto_slim") {
        return Err(of_linker());
    }
    Ok(names)
}
