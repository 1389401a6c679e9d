//! The images of a traced run: their functions, and what the code does at each call today.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use object::{Object as _, ObjectSection as _};
use pcce::trace::{Programs, TraceFile};
use pcce_dictionary::trace::{SECTION, Traced, parse};
use pcce_dictionary::{Dictionary, EdgeCode, Encoding, Function as Symbol, Module, SiteKind};

/// What is done to the context at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing: the call is not encoded.
    Nothing,
    /// An addition to the number, and whether code does anything for it.
    Add(u64, bool),
    /// The same, to whatever an open call reaches.
    Open(u64, bool),
    /// A push.
    Push,
}

/// A traced function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its image: index into [`Process::images`].
    pub image: u32,
    /// Whether nothing below it takes a context.
    pub silent: bool,
    /// The largest number in a sub-path that begins in it.
    pub largest: u64,
}

/// An executable or shared library.
#[derive(Clone, Debug)]
pub struct Image {
    /// The name of its file.
    pub name: String,
    /// Its largest numCC.
    pub ids: u64,
    /// Whether it is an executable that was encoded as a whole: it makes open calls.
    pub open: bool,
}

/// What is known of all images.
#[derive(Debug, Default)]
pub struct Process {
    /// What reads the trace.
    pub programs: Programs,
    /// The images with tables.
    pub images: Vec<Image>,
    /// By function of the tables.
    pub functions: Vec<Function>,
    /// By node of the tables.
    pub actions: Vec<Action>,
}

impl Process {
    /// Reads the images that a trace names. Those without tables are plain code.
    ///
    /// # Errors
    /// If a file with tables cannot be read.
    pub fn load(trace: &TraceFile) -> Result<Self> {
        let mut process = Self::default();
        let mut all: Vec<(String, Vec<Traced>)> = Vec::new();
        for image in &trace.images {
            if image.build_id.is_empty() || all.iter().any(|(id, _)| *id == image.build_id) {
                continue;
            }
            let context = || image.path.display().to_string();
            let Some(modules) = tables(&image.path).with_context(context)? else { continue };
            let dictionary = pcce::load::load(&image.path)?;
            process.add(&image.path, &modules, &dictionary).with_context(context)?;
            all.push((image.build_id.clone(), modules));
        }
        process.programs = Programs::from_modules(&all)?;
        ensure!(
            process.functions.len() == process.programs.tables.function_count(),
            "functions of the tables"
        );
        ensure!(process.actions.len() == process.programs.tables.node_count(), "nodes of the tables");
        Ok(process)
    }

    /// Functions and nodes get numbers in the order in which the tables give them theirs.
    fn add(&mut self, path: &Path, traced: &[Traced], dictionary: &Dictionary) -> Result<()> {
        let image = self.images.len() as u32;
        let encoded = Encoded::all(dictionary)?;
        self.images.push(Image {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            ids: encoded.iter().map(|encoded| encoded.ids).max().unwrap_or(1),
            open: encoded.iter().any(|encoded| encoded.open),
        });
        for module in traced {
            let found = encoded.iter().find_map(|encoded| encoded.module(module.sites));
            for function in &module.functions {
                let name = module.names[function.name as usize].as_str();
                let known = found.as_ref().and_then(|found| found.functions.get(name));
                let &(silent, largest) = known.unwrap_or(&(true, 0));
                self.functions.push(Function { image, silent, largest });
                self.actions.extend(function.nodes.iter().map(|node| match (&found, node.site) {
                    (Some(found), Some(site)) => {
                        found.actions.get(site as usize).copied().unwrap_or(Action::Nothing)
                    }
                    _ => Action::Nothing,
                }));
            }
        }
        Ok(())
    }
}

/// The tables in a file, if it has some.
fn tables(path: &Path) -> Result<Option<Vec<Traced>>> {
    let Ok(bytes) = std::fs::read(path) else { return Ok(None) };
    let file = object::File::parse(&*bytes)?;
    let Some(section) = file.section_by_name(SECTION) else { return Ok(None) };
    Ok(Some(parse(&section.uncompressed_data()?)?))
}

/// An encoding with the modules that it encodes.
struct Encoded<'d> {
    modules: Vec<(&'d Module, Vec<Action>)>,
    ids: u64,
    open: bool,
    /// By function, the largest number of sub-paths that begin in it.
    largest: Vec<u64>,
}

/// What the code of a module does.
struct InModule<'d> {
    /// By linkage name: whether it is silent, and the largest number of sub-paths that begin in it.
    functions: HashMap<&'d str, (bool, u64)>,
    /// By site.
    actions: &'d [Action],
}

impl<'d> Encoded<'d> {
    fn all(dictionary: &'d Dictionary) -> Result<Vec<Self>> {
        let encoded = dictionary.encodings.iter().map(|encoding| {
            let first = encoding.first_module as usize;
            let modules = dictionary.modules.get(first..first + encoding.module_count as usize);
            Self::new(modules.context("an encoding's modules")?, encoding)
        });
        encoded.collect()
    }

    fn new(modules: &'d [Module], encoding: &Encoding) -> Result<Self> {
        let symbols: Vec<&Symbol> = modules.iter().flat_map(|module| &module.functions).collect();
        let offset = |function: usize| encoding.functions[function].id_offset as u64;
        // Of each site the caller, the callee of a direct call, and what is done.
        let mut sites: Vec<(usize, Option<usize>, Action)> = Vec::new();
        let mut first = 0;
        for module in modules {
            sites.extend(module.sites.iter().map(|site| {
                let callee = match site.kind {
                    SiteKind::Direct(callee) => callee.map(|callee| first + callee as usize),
                    _ => None,
                };
                let action = match site.kind {
                    SiteKind::Direct(_) | SiteKind::Capture => Action::Nothing,
                    SiteKind::External(_) | SiteKind::Indirect | SiteKind::Asm | SiteKind::Entry => {
                        Action::Push
                    }
                };
                (first + site.function as usize, callee, action)
            }));
            first += module.functions.len();
        }
        for edge in &encoding.edges {
            let (caller, direct, action) = sites.get_mut(edge.site as usize).context("an edge's site")?;
            let callee = edge.callee.map(|callee| callee as usize).or(*direct);
            ensure!(
                *caller < symbols.len() && callee.is_none_or(|c| c < symbols.len()),
                "a site's functions"
            );
            *action = match (edge.code, callee) {
                (EdgeCode::Add(value), Some(callee)) => {
                    Action::Add(value, value.wrapping_add(offset(callee)) != offset(*caller))
                }
                (EdgeCode::Add(value) | EdgeCode::Open(value), _) => {
                    Action::Open(value, value != offset(*caller))
                }
                (EdgeCode::Back | EdgeCode::Cut | EdgeCode::Required, _) => Action::Push,
            };
        }
        let ids = encoding.functions.iter().map(|function| function.num_cc).chain(encoding.open_num_cc);
        let ids = ids.max().unwrap_or(1).max(1);
        let largest = largest(encoding, &sites);
        let mut actions = sites.into_iter().map(|(_, _, action)| action);
        let modules =
            modules.iter().map(|module| (module, actions.by_ref().take(module.sites.len()).collect()));
        Ok(Self { modules: modules.collect(), ids, open: encoding.open_num_cc.is_some(), largest })
    }

    fn module(&self, sites: u64) -> Option<InModule<'_>> {
        let mut first = 0;
        for (module, actions) in &self.modules {
            if module.sites_address != sites {
                first += module.functions.len();
                continue;
            }
            let mut functions = HashMap::new();
            for (function, &largest) in module.functions.iter().zip(&self.largest[first..]) {
                let names = std::iter::once(&function.name).chain(&function.aliases);
                let name =
                    |&number: &u32| (module.names[number as usize].as_str(), (function.silent, largest));
                functions.extend(names.map(name));
            }
            return Some(InModule { functions, actions });
        }
        None
    }
}

/// Of each function the largest number in a sub-path that begins in it: the longest way by the values that are added,
/// also through the open node.
fn largest(encoding: &Encoding, sites: &[(usize, Option<usize>, Action)]) -> Vec<u64> {
    let open = encoding.functions.len();
    let mut callers: Vec<Vec<(usize, u64)>> = vec![Vec::new(); open + 1];
    let mut waiting = vec![0; open + 1];
    let mut edge = |caller: usize, callee: usize, value| {
        callers[callee].push((caller, value));
        waiting[caller] += 1;
    };
    for at in &encoding.edges {
        let (caller, direct, action) = sites[at.site as usize];
        match action {
            Action::Add(value, _) => {
                edge(caller, at.callee.map_or(direct.unwrap_or(open), |c| c as usize), value)
            }
            Action::Open(value, _) => edge(caller, open, value),
            Action::Nothing | Action::Push => {}
        }
    }
    for (function, _) in encoding.functions.iter().enumerate().filter(|(_, function)| function.open) {
        edge(open, function, 0);
    }
    let mut largest = vec![0; open + 1];
    let mut ready: Vec<usize> = (0..=open).filter(|&function| waiting[function] == 0).collect();
    while let Some(callee) = ready.pop() {
        for &(caller, value) in &callers[callee] {
            largest[caller] = u64::max(largest[caller], largest[callee].saturating_add(value));
            waiting[caller] -= 1;
            if waiting[caller] == 0 {
                ready.push(caller);
            }
        }
    }
    largest
}
