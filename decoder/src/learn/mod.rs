//! What contexts tell about the use of a program: the edges that were executed, with weights (dacce.txt §4 takes
//! samples of contexts for the same purpose). `pcce adapt` makes a profile of calls of them.

pub mod fit;

use std::collections::{BTreeMap, HashMap};

use pcce_dictionary::calls::{Call, Calls, Function};
use pcce_dictionary::{Dictionary, Module, SiteKind};

use crate::context::{Context, Piece};
use crate::decode::Decoder;

/// How much an edge counts that is not the innermost one of a sample. Samples tell time, so the function in which most
/// of it is spent is the innermost one, and edges further out were executed at least once only.
const FURTHER_OUT: f64 = 1.0 / 64.0;
/// The count of a profile for all of the weight.
const ALL: f64 = 1e12;

/// A function, as ⟨image, number over all modules of the image⟩. Images are counted in the order of the decoder's
/// dictionaries.
pub type Place = (u32, u32);

/// An edge that was executed: a site, by its number over all modules of the image, and the function that was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge {
    pub image: u32,
    pub site: u32,
    pub callee: Place,
}

/// The weights of what was executed.
#[derive(Clone, Debug, Default)]
pub struct Learnt {
    pub edges: HashMap<Edge, f64>,
    /// Functions, entered by whatever caller.
    pub functions: HashMap<Place, f64>,
}

impl Learnt {
    /// Adds a context that the decoder has decoded.
    pub fn add(&mut self, decoder: &Decoder, context: &Context, weight: f64) {
        let symbols = &decoder.images.symbols;
        let (mut weight, mut is_innermost) = (weight, true);
        let mut inner: Option<Place> = None;
        let mut start = 0;
        for (pieces, count) in context.slices() {
            // What is repeated was called by itself, too.
            for _ in 0..count.min(2) {
                for (number, piece) in (start..).zip(pieces) {
                    let site = match *piece {
                        Piece::Site(site) | Piece::AnyLine(site) => Some(site),
                        _ => None,
                    };
                    let function = match *piece {
                        Piece::Function(function) => Some(function),
                        _ => site.map(|site| symbols.sites[site as usize].function),
                    };
                    if let Some(callee) = inner {
                        if let Some((image, site)) = site.map(|site| symbols.place_of_site(site)) {
                            *self.edges.entry(Edge { image, site, callee }).or_default() += weight;
                        }
                        *self.functions.entry(callee).or_default() += weight;
                        if std::mem::take(&mut is_innermost) {
                            weight *= FURTHER_OUT;
                        }
                    }
                    inner = function
                        .or_else(|| context.owner(number))
                        .map(|function| symbols.place_of_function(function));
                }
            }
            start += pieces.len();
        }
        if let Some(callee) = inner {
            *self.functions.entry(callee).or_default() += weight;
        }
    }
}

/// The calls of an image, by the functions that they call.
pub struct Sites<'d> {
    pub dictionary: &'d Dictionary,
    /// For each function over all modules: its module, and its name.
    pub functions: Vec<(&'d Module, &'d str)>,
    /// For each site over all modules: its function, and where the link has compared the pointer of another call to
    /// make it, that call's site.
    pub sites: Vec<(u32, Option<u32>)>,
    /// For each site: the name that it calls, none through a pointer. None for what is no call.
    pub callees: Vec<Option<Option<&'d str>>>,
    /// The kind of each site, with functions numbered over all modules.
    kinds: Vec<SiteKind>,
    /// For each function, whether it is a push thunk.
    thunks: Vec<bool>,
}

impl<'d> Sites<'d> {
    pub fn new(dictionary: &'d Dictionary) -> Self {
        let (mut functions, mut sites, mut callees) = (Vec::new(), Vec::new(), Vec::new());
        let (mut kinds, mut thunks) = (Vec::new(), Vec::new());
        for module in &dictionary.modules {
            let name = |name: u32| module.names[name as usize].as_str();
            let first = (functions.len() as u32, sites.len() as u32);
            functions.extend(module.functions.iter().map(|function| (module, name(function.name))));
            thunks.extend(module.functions.iter().map(|function| function.push_thunk));
            kinds.extend(module.sites.iter().map(|site| match site.kind {
                SiteKind::Direct(Some(callee)) => SiteKind::Direct(Some(first.0 + callee)),
                kind => kind,
            }));
            // What a push thunk calls is what its caller calls.
            let within: HashMap<u32, SiteKind> =
                module.sites.iter().map(|site| (site.function, site.kind)).collect();
            let mut pointers = HashMap::new();
            for (number, site) in (first.1..).zip(&module.sites) {
                let mut kind = site.kind;
                if let SiteKind::Direct(Some(callee)) = kind
                    && module.functions[callee as usize].push_thunk
                {
                    kind = within[&callee];
                }
                let known = (site.function, &site.locations);
                if kind == SiteKind::Indirect && !site.locations.is_empty() {
                    pointers.entry(known).or_insert(number);
                }
                let callee = match kind {
                    SiteKind::Direct(Some(callee)) => {
                        Some(Some(name(module.functions[callee as usize].name)))
                    }
                    SiteKind::External(callee) => Some(Some(name(callee))),
                    SiteKind::Indirect => Some(None),
                    _ => None,
                };
                let compared = pointers.get(&known).copied().filter(|_| matches!(callee, Some(Some(_))));
                sites.push((first.0 + site.function, compared));
                let is_of_thunk = module.functions[site.function as usize].push_thunk;
                callees.push(callee.filter(|_| !is_of_thunk));
            }
        }
        Self { dictionary, functions, sites, callees, kinds, thunks }
    }
}

impl Learnt {
    /// A profile for an image, by sites.
    pub fn calls(&self, images: &[Sites<'_>], is_of_image: impl Fn(&Dictionary) -> bool) -> Calls {
        let all: f64 = self.functions.values().sum();
        let count = |weight: f64| (weight / all * ALL).round() as u64;
        let mut functions = Vec::new();
        for (number, image) in (0..).zip(images).filter(|(_, image)| is_of_image(image.dictionary)) {
            // The calls of each function, in the order of the sites.
            let mut calls: BTreeMap<u32, Vec<Call>> = BTreeMap::new();
            let mut places = HashMap::new();
            for (site, (&(function, compared), callee)) in (0..).zip(image.sites.iter().zip(&image.callees)) {
                if let (Some(callee), None) = (callee, compared) {
                    let calls = calls.entry(function).or_default();
                    places.insert(site, (function, calls.len()));
                    calls.push(Call(callee.map(str::to_owned), 0, Vec::new()));
                }
            }
            for (edge, &weight) in self.edges.iter().filter(|(edge, _)| edge.image == number) {
                let site = image.sites[edge.site as usize].1.unwrap_or(edge.site);
                let Some(&(function, place)) = places.get(&site) else { continue };
                let call = &mut calls.get_mut(&function).expect("it has calls")[place];
                call.1 += count(weight);
                if call.0.is_none() {
                    let name = images[edge.callee.0 as usize].functions[edge.callee.1 as usize].1;
                    match call.2.iter_mut().find(|target| target.0 == name) {
                        Some(target) => target.1 += count(weight),
                        None => call.2.push((name.to_owned(), count(weight))),
                    }
                }
            }
            for (function, (module, name)) in (0..).zip(&image.functions) {
                if let Some(&weight) = self.functions.get(&(number, function)) {
                    let mut calls = calls.remove(&function).unwrap_or_default();
                    calls.iter_mut().for_each(|call| call.2.sort());
                    let function = Function { function: (*name).to_owned(), count: count(weight), calls };
                    functions.push((module.name.clone(), function));
                }
            }
        }
        Calls { functions, by_site: true }.merged()
    }
}
