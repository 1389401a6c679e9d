//! The encodings of the images, which give the ids of programs their meaning. Each encoding is of
//! some modules of one image, and has one table of paths.
//!
//! The rows are checked once, here. Functions and sites have the numbers of [`symbols`](crate::images::symbols).

use std::collections::{HashMap, HashSet};

use pcce_dictionary::{self as files, EdgeCode, SiteKind};
use pcce_encoding::FunctionId;
use pcce_encoding::decode::{AddEdge, FunctionRow, PathDecoder, StackEdge, StackPathDecoder, SubPaths};

use crate::context::Piece;
use crate::images::invalid::{Cause, check, index};
use crate::images::symbols::Symbols;

/// The encoding of some modules of an image.
#[derive(Debug)]
pub(crate) struct Encoding {
    image: u32,
    first_function: u32,
    first_site: u32,
    functions: Vec<Row>,
    /// The effect of each site's call.
    effects: Vec<Effect>,
    /// The callees of calls by name that the link has bound to functions of the encoding, by site.
    callees: HashMap<u32, u32>,
    pub(crate) paths: SubPaths,
    /// The open node, if there is one. Its number follows those of the functions.
    pub(crate) open_node: Option<FunctionId>,
    pub(crate) stack: Stack,
    pub(crate) tail_groups: TailGroups,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    num_cc: u64,
    id_offset: u64,
    entry: bool,
}

/// The effect of a call on the id, by its edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// A direct call that adds.
    Add,
    /// A call that pushes, or an open call.
    Other,
}

/// The stack frames on which a hybrid encoding relies; empty in others. Functions and sites are those of all
/// images.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    /// The distance from the caller's activation down to that of the callee, by site.
    offsets: HashMap<u32, u32>,
    /// The distance from the canonical frame address down to the stack pointer at the calls of functions.
    sizes: Vec<(u32, u32)>,
    /// ⟨Caller, callee⟩ of calls that are taken to be jumps.
    jumps: Vec<(u32, u32)>,
}

impl Stack {
    /// The distance from the caller's activation down to that of the callee, if it is known and needed.
    pub(crate) fn offset(&self, site: u32) -> Option<u32> {
        self.offsets.get(&site).copied()
    }

    /// Functions on whose stack the encoding relies, with their sizes.
    pub(crate) fn sizes(&self) -> &[(u32, u32)] {
        &self.sizes
    }

    /// ⟨Caller, callee⟩ of calls that are taken to be jumps.
    pub(crate) fn jumps(&self) -> &[(u32, u32)] {
        &self.jumps
    }
}

impl Encoding {
    /// The function as the encoding's own tables number it.
    pub(crate) fn local(&self, function: u32) -> FunctionId {
        FunctionId::new(function - self.first_function)
    }

    /// The function with this number in the encoding's own tables.
    pub(crate) fn function(&self, local: FunctionId) -> u32 {
        self.first_function + local.index() as u32
    }

    /// The site with this number in the encoding's own tables.
    pub(crate) fn site(&self, local: u32) -> u32 {
        self.first_site + local
    }

    /// The effect of the call at a site.
    #[inline]
    pub(crate) fn effect(&self, site: u32) -> Effect {
        self.effects[(site - self.first_site) as usize]
    }

    /// The function to which the link has bound a call by name.
    pub(crate) fn callee(&self, site: u32) -> Option<u32> {
        self.callees.get(&site).copied()
    }

    /// The number of sub-paths of the function.
    pub(crate) fn num_cc(&self, function: u32) -> u64 {
        self.row(function).num_cc
    }

    /// The difference between the function's ids and the numbers of its sub-paths.
    pub(crate) fn id_offset(&self, function: u32) -> u64 {
        self.row(function).id_offset
    }

    /// Returns whether calls that the encoding does not know may enter the function.
    pub(crate) fn is_entered(&self, function: u32) -> bool {
        self.row(function).entry
    }

    fn row(&self, function: u32) -> &Row {
        &self.functions[(function - self.first_function) as usize]
    }

    /// The number of the sub-path for which an id of the program stands in a function. `start`: where the
    /// sub-path starts, if that is known.
    #[inline]
    pub(crate) fn number(&self, function: u32, id: u64, start: Option<u32>) -> u64 {
        let offset = start.map_or(0, |start| self.id_offset(start));
        let plus_offset = if self.open_node.is_none() { id.wrapping_neg() } else { id };
        plus_offset.wrapping_add(offset).wrapping_sub(self.id_offset(function))
    }
}

/// The numbers of a place that stand for contexts by themselves.
#[derive(Debug)]
struct Range {
    base: u64,
    /// One past the last number.
    end: u64,
    /// The largest `end` up to this row.
    max_end: u64,
    function: u32,
    /// The frames of the place.
    place: Piece,
}

/// A place and a sub-path, for which a number stands.
pub(crate) struct InRange {
    pub(crate) function: u32,
    /// The number of the sub-path in the function.
    pub(crate) id: u64,
    /// The frames of the place at which it was taken.
    pub(crate) place: Piece,
}

#[derive(Debug, Default)]
pub(crate) struct Encodings {
    all: Vec<Encoding>,
    /// The encoding of each module. Modules without one are refused.
    of_module: Vec<Option<u32>>,
    /// The encodings with an open node, by image.
    open: HashMap<u32, u32>,
    ranges: Vec<Range>,
    /// The sites of captures whose numbers may have been taken in other lines of their places.
    several_lines: HashSet<u32>,
}

impl Encodings {
    /// The encoding of a function.
    #[inline]
    pub(crate) fn of(&self, symbols: &Symbols, function: u32) -> &Encoding {
        let module = symbols.functions[function as usize].module;
        let number = self.of_module[module as usize].expect("modules without one were refused");
        &self.all[number as usize]
    }

    /// The encoding of an image that has the open node.
    pub(crate) fn open_of(&self, image: u32) -> Option<&Encoding> {
        self.open.get(&image).map(|&number| &self.all[number as usize])
    }

    pub(crate) fn of_image(&self, image: u32) -> impl Iterator<Item = &Encoding> {
        self.all.iter().filter(move |encoding| encoding.image == image)
    }

    /// Returns whether a number that was taken at this site may have been taken in other lines of its place.
    pub(crate) fn is_of_several_lines(&self, site: u32) -> bool {
        self.several_lines.contains(&site)
    }

    /// The contexts for which a number may stand: none, one, or several if the ranges of images overlap.
    pub(crate) fn in_ranges(&self, number: u64) -> impl Iterator<Item = InRange> {
        let end = self.ranges.partition_point(|range| range.base <= number);
        self.ranges[..end]
            .iter()
            .rev()
            .take_while(move |range| range.max_end > number)
            .filter(move |range| range.end > number)
            .map(move |range| InRange {
                function: range.function,
                id: number - range.base,
                place: range.place,
            })
    }

    /// Adds the encodings of the last image. An error has the number of its module, if it concerns only one.
    pub(crate) fn add_image(
        &mut self,
        dictionary: &files::Dictionary,
        symbols: &Symbols,
    ) -> Result<(), (Option<usize>, Cause)> {
        self.of_module.resize(symbols.modules.len(), None);
        for (at, encoding) in dictionary.encodings.iter().enumerate() {
            let (first, count) = (encoding.first_module as usize, encoding.module_count as usize);
            let modules = dictionary.modules.len();
            if count == 0 || first.checked_add(count).is_none_or(|end| end > modules) {
                let (first, count) = (encoding.first_module, encoding.module_count);
                return Err((None, Cause::Modules { encoding: at, first, count, modules }));
            }
            let of_encoding = &dictionary.modules[first..][..count];
            self.add(encoding, of_encoding, symbols)
                .map_err(|cause| (Some(first).filter(|_| count == 1), cause))?;
        }
        let first = symbols.images.last().map_or(0, |image| image.first_module) as usize;
        match self.of_module[first..].iter().position(Option::is_none) {
            Some(module) => Err((Some(module), Cause::NotEncoded)),
            None => Ok(()),
        }
    }

    /// To be called after the last image was added.
    pub(crate) fn finish(&mut self) {
        self.ranges.sort_unstable_by_key(|range| range.base);
        let mut max_end = 0;
        for range in &mut self.ranges {
            max_end = max_end.max(range.end);
            range.max_end = max_end;
        }
    }

    /// Adds the encoding of these modules of the last image.
    fn add(
        &mut self,
        encoding: &files::Encoding,
        modules: &[files::Module],
        symbols: &Symbols,
    ) -> Result<(), Cause> {
        let number = index(self.all.len(), "encodings")?;
        let image = symbols.images.len() - 1;
        let first = symbols.images[image].first_module + encoding.first_module;
        let end = first + encoding.module_count;
        for module in first..end {
            if self.of_module[module as usize].replace(number).is_some() {
                return Err(Cause::DuplicateEncoding);
            }
        }
        let rows = Rows::new(encoding, symbols, first, end)?;
        let Calls { effects, callees, adds } = rows.calls()?;
        let open_node = encoding.open_num_cc.map(|_| FunctionId::new(encoding.functions.len() as u32));
        let (stack, paths) = rows.paths(adds, open_node)?;
        if open_node.is_some() && self.open.insert(image as u32, number).is_some() {
            return Err(Cause::SecondOpenNode);
        }
        rows.ranges(self)?;
        let row = |f: &files::EncodedFunction| Row {
            num_cc: f.num_cc,
            id_offset: f.id_offset as u64,
            entry: f.entry,
        };
        self.all.push(Encoding {
            image: image as u32,
            first_function: rows.first_function,
            first_site: rows.first_site,
            functions: encoding.functions.iter().map(row).collect(),
            effects,
            callees,
            paths,
            open_node,
            stack,
            tail_groups: TailGroups::new(modules, rows.first_function),
        });
        Ok(())
    }
}

/// An edge that adds, with its number in the file.
type NumberedEdge = (u32, AddEdge);

/// The calls, as the edges describe them.
struct Calls {
    /// See [`Encoding`].
    effects: Vec<Effect>,
    callees: HashMap<u32, u32>,
    adds: Vec<NumberedEdge>,
}

/// An encoding that is being checked.
struct Rows<'d> {
    encoding: &'d files::Encoding,
    symbols: &'d Symbols,
    first_function: u32,
    first_site: u32,
    /// The number of sites.
    sites: usize,
}

impl<'d> Rows<'d> {
    /// For the modules from `first` up to `end`.
    fn new(encoding: &'d files::Encoding, symbols: &'d Symbols, first: u32, end: u32) -> Result<Self, Cause> {
        let (functions, sites) = (symbols.functions.len() as u32, symbols.sites.len() as u32);
        let start_of = |module: u32| {
            let module = symbols.modules.get(module as usize);
            module.map_or((functions, sites), |module| (module.first_function, module.first_site))
        };
        let ((first_function, first_site), (end_function, end_site)) = (start_of(first), start_of(end));
        let (rows, functions) = (encoding.functions.len(), (end_function - first_function) as usize);
        if rows != functions {
            return Err(Cause::Functions { rows, functions });
        }
        Ok(Self { encoding, symbols, first_function, first_site, sites: (end_site - first_site) as usize })
    }

    /// The caller and the kind of a site.
    fn site(&self, number: u32) -> (u32, SiteKind) {
        let site = &self.symbols.sites[(self.first_site + number) as usize];
        (site.function - self.first_function, site.kind)
    }

    /// The calls, as the edges describe them.
    fn calls(&self) -> Result<Calls, Cause> {
        let mut calls = Calls {
            effects: vec![Effect::None; self.sites],
            callees: HashMap::new(),
            adds: Vec::with_capacity(self.encoding.edges.len()),
        };
        for (edge, row) in self.encoding.edges.iter().enumerate() {
            let site = row.site;
            check("edge", edge, "site", site, self.sites)?;
            let effect = &mut calls.effects[site as usize];
            if *effect != Effect::None {
                return Err(Cause::SecondEdge { edge, site });
            }
            *effect = if matches!(row.code, EdgeCode::Add(_)) { Effect::Add } else { Effect::Other };
            let callee = self.callee(edge, row)?;
            if let Some(bound) = row.callee {
                calls.callees.insert(self.first_site + site, self.first_function + bound);
            }
            if let EdgeCode::Add(value) | EdgeCode::Open(value) = row.code {
                let caller = FunctionId::new(self.site(site).0);
                calls.adds.push((edge as u32, AddEdge { caller, callee, value, site }));
            }
        }
        Ok(calls)
    }

    /// The callee of an edge, whose site was checked.
    fn callee(&self, edge: usize, row: &files::Edge) -> Result<FunctionId, Cause> {
        let site = row.site;
        let functions = self.encoding.functions.len();
        let open_node = FunctionId::new(functions as u32);
        let (_, kind) = self.site(site);
        if let Some(callee) = row.callee {
            check("edge", edge, "function", callee, functions)?;
            if !matches!(kind, SiteKind::External(_)) {
                return Err(Cause::Callee { edge, site });
            }
        }
        match (kind, row.code) {
            (_, EdgeCode::Open(_)) if self.encoding.open_num_cc.is_none() => None,
            // Like a direct call of the function to which the link has bound the call.
            (SiteKind::External(_), EdgeCode::Open(_)) if row.callee.is_some() => Some(open_node),
            (SiteKind::External(_), _) if row.callee.is_some() => row.callee.map(FunctionId::new),
            (SiteKind::Direct(Some(_)), EdgeCode::Open(_)) => Some(open_node),
            (SiteKind::Direct(Some(callee)), _) => Some(FunctionId::new(callee - self.first_function)),
            (SiteKind::External(_) | SiteKind::Indirect | SiteKind::Asm, EdgeCode::Add(_)) => None,
            (SiteKind::External(_) | SiteKind::Indirect | SiteKind::Asm, _) => Some(open_node),
            (SiteKind::Direct(None) | SiteKind::Replaced(_) | SiteKind::Capture | SiteKind::Entry, _) => None,
        }
        .ok_or(Cause::EdgeSite { edge, site })
    }

    /// The table of paths, and the stack frames on which it relies.
    fn paths(
        &self,
        adds: Vec<NumberedEdge>,
        open_node: Option<FunctionId>,
    ) -> Result<(Stack, SubPaths), Cause> {
        let row = |f: &files::EncodedFunction| FunctionRow { num_cc: f.num_cc, entry: f.entry, open: f.open };
        let open_row =
            self.encoding.open_num_cc.map(|num_cc| FunctionRow { num_cc, entry: true, open: false });
        let rows: Vec<_> = self.encoding.functions.iter().map(row).chain(open_row).collect();
        let adds = adds.into_iter();
        let Some(hybrid) = &self.encoding.hybrid else {
            let paths =
                PathDecoder::new(&rows, open_node, adds.map(|(_, add)| add)).map_err(Cause::Encoding)?;
            return Ok((Stack::default(), SubPaths::Numbers(paths)));
        };
        // The open node's sub-paths begin outside of the program, in whichever function an open call reaches.
        let functions = self.encoding.functions.len();
        let mut unknown_base: Vec<bool> = (0..rows.len()).map(|row| row >= functions).collect();
        for (at, &function) in hybrid.unknown_bases.iter().enumerate() {
            check("an unknown base", at, "function", function, functions)?;
            unknown_base[function as usize] = true;
        }
        let offsets = unique("edge", &hybrid.stack_offsets, self.encoding.edges.len())?;
        let edges = adds.map(|(edge, add)| StackEdge { add, frame_offset: offsets.get(&edge).copied() });
        let paths = StackPathDecoder::new(&rows, &unknown_base, open_node, edges).map_err(Cause::Encoding)?;
        Ok((self.stack(hybrid, &offsets)?, SubPaths::StackOffsets(paths)))
    }

    /// The stack frames on which a hybrid encoding relies. `offsets`: the edges' stack offsets.
    fn stack(&self, hybrid: &files::Hybrid, offsets: &HashMap<u32, u32>) -> Result<Stack, Cause> {
        unique("function", &hybrid.stack_sizes, self.encoding.functions.len())?;
        let sizes = hybrid.stack_sizes.iter().map(|&(f, bytes)| (self.first_function + f, bytes)).collect();
        let mut stack = Stack { sizes, ..Stack::default() };
        for (&edge, &bytes) in offsets {
            let number = self.encoding.edges[edge as usize].site;
            stack.offsets.insert(self.first_site + number, bytes);
            let (caller, kind) = self.site(number);
            let callee = match (kind, self.encoding.edges[edge as usize].callee) {
                (_, Some(callee)) => Some(self.first_function + callee),
                (SiteKind::Direct(callee), None) => callee,
                _ => None,
            };
            if let (0, Some(callee)) = (bytes, callee) {
                stack.jumps.push((self.first_function + caller, callee));
            }
        }
        stack.jumps.sort_unstable();
        Ok(stack)
    }

    /// Adds the places at which numbers are taken.
    fn ranges(&self, to: &mut Encodings) -> Result<(), Cause> {
        let mut add = |base: u64, number: u32, place| {
            let function = self.first_function + number;
            let num_cc = self.encoding.functions[number as usize].num_cc;
            let end = base.checked_add(num_cc).filter(|end| *end <= pcce_abi::INTERNED && base > 0);
            let Some(end) = end else {
                let name = self.symbols.function_name(function).to_owned();
                return Err(Cause::Range { function: name, base, num_cc });
            };
            to.ranges.push(Range { base, end, max_end: 0, function, place });
            Ok(())
        };
        for (number, row) in (0..).zip(&self.encoding.functions) {
            if let Some(base) = row.range {
                add(base, number, Piece::Function(self.first_function + number))?;
            }
        }
        for (at, row) in self.encoding.places.iter().enumerate() {
            check("place", at, "site", row.site, self.sites)?;
            let (function, kind) = self.site(row.site);
            if kind != SiteKind::Capture {
                return Err(Cause::NoCapture { place: at, site: row.site });
            }
            let site = self.first_site + row.site;
            if let Some(base) = row.base {
                add(base, function, if row.line { Piece::Site(site) } else { Piece::AnyLine(site) })?;
            } else if !row.line {
                to.several_lines.insert(site);
            }
        }
        Ok(())
    }
}

/// The groups of functions that make tail calls which leave no frame. They are numbered over the modules of an
/// encoding.
#[derive(Debug, Default)]
pub(crate) struct TailGroups {
    /// Functions to which one of a group may leave its activation: ⟨group, function⟩.
    tails: HashSet<(u32, u32)>,
    /// Groups with a function that may leave its activation to a function of another encoding.
    leaving: HashSet<u32>,
}

impl TailGroups {
    /// Reads the groups of these modules, whose functions are numbered from `first_function` on.
    pub(crate) fn new(modules: &[files::Module], first_function: u32) -> Self {
        let mut groups = Self::default();
        let functions = modules.iter().flat_map(|module| &module.functions);
        for (number, function) in (first_function..).zip(functions) {
            groups.tails.extend(function.tail_groups.iter().map(|&group| (group, number)));
        }
        groups.leaving.extend(modules.iter().flat_map(|module| &module.leaving_groups));
        groups
    }

    /// Returns whether a function of the group may have left its activation to this function. `inside`: this
    /// function is one of this encoding.
    pub(crate) fn may_leave(&self, group: u32, function: u32, inside: bool) -> bool {
        self.tails.contains(&(group, function)) || !inside && self.leaving.contains(&group)
    }
}

/// The bytes by index. Checks that each index is in range and unique.
fn unique(what: &'static str, rows: &[(u32, u32)], len: usize) -> Result<HashMap<u32, u32>, Cause> {
    let mut bytes = HashMap::with_capacity(rows.len());
    for (at, &(index, value)) in rows.iter().enumerate() {
        check("a row of the hybrid encoding,", at, what, index, len)?;
        if bytes.insert(index, value).is_some() {
            return Err(Cause::Duplicate { what, index });
        }
    }
    Ok(bytes)
}
