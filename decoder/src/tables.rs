//! The dictionaries as decoding needs them: checked, and flattened into arrays over all modules.
//!
//! Indices here are dense numbers over all images and modules that were given; the types of the
//! files end at this module. No file is trusted: every index, address and number is checked once,
//! here, so that decoding needs no check but those of the token.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use pcce_dictionary::{self as files, Dictionary, EdgeCode, SiteKind};
use pcce_encoding::FunctionId;
use pcce_encoding::decode::{
    AddEdge, FunctionRow, PathDecoder, StackEdge, StackPathDecoder, SubPaths, TableError,
};
use thiserror::Error;

use crate::code::table::{CodeTable, Source};
use crate::names;
use crate::token::BuildId;

/// Why a dictionary that could be read cannot be used.
#[derive(Debug, Error)]
#[error("the dictionary of {program}{}: {cause}{}", in_module(.module), cure(.cause))]
pub struct InvalidDictionary {
    /// Name of the program in the dictionary.
    pub program: String,
    /// Name of the module, if it is about one.
    pub module: Option<String>,
    /// What is wrong.
    pub cause: Cause,
}

fn in_module(module: &Option<String>) -> String {
    module.as_ref().map_or_else(String::new, |name| format!(", module {name}"))
}

fn cure(cause: &Cause) -> &'static str {
    match cause {
        Cause::SameBuildId(_) | Cause::TooLarge(_) => "; give fewer of them",
        _ => "; write it again with `pcce dict PROGRAM -o FILE`",
    }
}

/// What is wrong with a dictionary.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Cause {
    /// Not an even number of lower-case hexadecimal digits.
    #[error("its build id is {0:?}, which is no row of bytes in lower-case hexadecimal digits")]
    BuildId(String),
    /// Tokens could not tell two dictionaries apart.
    #[error("another one given has the same build id {0}, as far as tokens carry it")]
    SameBuildId(BuildId),
    /// An index into another table is out of range.
    #[error("{what} {at} names {target} {index}, and there are {len}")]
    Index {
        /// Kind of the row with the index.
        what: &'static str,
        /// Number of the row with the index.
        at: usize,
        /// Kind of the row that is named.
        target: &'static str,
        /// The index.
        index: u32,
        /// Number of rows.
        len: usize,
    },
    /// The sites of a module have addresses outside the address space, or those of another module.
    #[error(
        "its site array at {address:#x} with {sites} sites overlaps another one, or the end of the address space"
    )]
    SiteArray {
        /// Address of the array.
        address: u64,
        /// Number of sites.
        sites: usize,
    },
    /// An edge at a site that cannot have it: one with a callee belongs to a direct call, an open one without a callee to a
    /// module with an open node.
    #[error("edge {edge} is at site {site}, which is no call of that kind")]
    EdgeSite {
        /// Number of the edge.
        edge: usize,
        /// Number of the site.
        site: u32,
    },
    /// Two edges at one site.
    #[error("edge {edge} is at site {site}, which has another edge already")]
    SecondEdge {
        /// Number of the second edge.
        edge: usize,
        /// Number of the site.
        site: u32,
    },
    /// Two modules of a program have an open node.
    #[error("another module has an open node, too")]
    SecondOpenNode,
    /// The edges and ids are not an encoding.
    #[error("{0}")]
    Encoding(TableError),
    /// The numbers of a function leave the range of numbers without a process.
    #[error(
        "the numbers of function {function} start at {base} and are {num_cc}, and 1 to 2^63 - 1 are allowed"
    )]
    Range {
        /// Linkage name of the function.
        function: String,
        /// Its first number.
        base: u64,
        /// How many there are.
        num_cc: u64,
    },
    /// More rows than 32-bit numbers can name.
    #[error("all dictionaries together have more than 4294967294 {0}")]
    TooLarge(&'static str),
}

/// A program or shared library.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) id: BuildId,
    /// The whole build id, in hexadecimal digits.
    pub(crate) build_id: String,
    pub(crate) program: String,
    /// Site arrays, by ascending address.
    spans: Vec<Span>,
    /// The module with an open node.
    pub(crate) open_module: Option<u32>,
    /// The image's modules: the first function, and how many there are.
    pub(crate) modules: Vec<(u32, u32)>,
    /// Hybrid encoding: ⟨module, caller, callee⟩ of calls that are taken to be jumps, numbered as in the dictionary.
    jumps: Vec<(u32, u32, u32)>,
    code: OnceLock<Result<Option<CodeTable>, String>>,
    pub(crate) code_source: Source,
}

#[derive(Debug)]
struct Span {
    start: u64,
    /// One past the last site's address.
    end: u64,
    first_site: u32,
}

#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) first_function: u32,
    pub(crate) first_site: u32,
    /// The image, and which one of its modules it is.
    pub(crate) image: u32,
    pub(crate) number: u32,
    /// The open node, if there is one, comes after the functions.
    pub(crate) paths: SubPaths,
    pub(crate) open_node: Option<FunctionId>,
}

impl Module {
    /// The function as the module's own tables number it.
    pub(crate) fn local(&self, function: u32) -> FunctionId {
        FunctionId::new(function - self.first_function)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) symbol: u32,
    pub(crate) module: u32,
    pub(crate) external: bool,
    pub(crate) tail_called: bool,
    /// Whether a jump may lead to it that was a call in the source.
    pub(crate) jumped_to: bool,
    /// Whether it only pushes for its caller, and traces do not show it.
    pub(crate) push_thunk: bool,
    /// Whether it pushes at its own entry.
    pub(crate) enters: bool,
    /// Whether its callers do nothing to the id, so that it is one of a caller further out.
    pub(crate) silent: bool,
    pub(crate) num_cc: u64,
    pub(crate) offset: u64,
    negated: bool,
    /// How far the stack pointer is below the canonical frame address at calls, if the encoding relies on that.
    frame_offset: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) function: u32,
    pub(crate) target: Target,
    /// The group of functions that it may reach and that make tail calls which leave no frame.
    pub(crate) tail_group: Option<u32>,
    /// How far below the function's activation that of the callee begins, if that is known and needed.
    pub(crate) frame: Option<u32>,
    first_location: u32,
    locations: u32,
}

/// What happens at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A direct call that pushes, or is open, of this function.
    Push(u32),
    /// A direct call that adds.
    Add,
    /// A direct call without an edge.
    NoEdge,
    /// A call of this symbol.
    External(u32),
    Indirect,
    Asm,
    Capture,
    Signal,
    Entry,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    pub(crate) symbol: u32,
    pub(crate) file: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

#[derive(Debug)]
struct Range {
    base: u64,
    /// One past the last number.
    end: u64,
    /// The largest `end` up to this row.
    max_end: u64,
    function: u32,
}

#[derive(Debug)]
struct Symbol {
    linkage: Box<str>,
    demangled: OnceLock<Box<str>>,
    /// An instrumented function that other modules can call has this name.
    defined: bool,
}

/// All dictionaries.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) images: Vec<Image>,
    pub(crate) modules: Vec<Module>,
    pub(crate) functions: Vec<Function>,
    pub(crate) sites: Vec<Site>,
    locations: Vec<Location>,
    files: Vec<Box<str>>,
    symbols: Vec<Symbol>,
    ranges: Vec<Range>,
    /// Other names by which other modules can call a function, as ⟨symbol, function⟩.
    aliases: HashSet<(u32, u32)>,
    /// Who may stand in the place of a function of a group, as ⟨the group's module, its number, function⟩.
    tails: HashSet<(u32, u32, u32)>,
    /// Groups of which one may leave its frame to a function of another module.
    leaving: HashSet<(u32, u32)>,
    /// The module of an executable that was built in targeted mode.
    pub(crate) targeted: Option<u32>,
}

impl Tables {
    /// Whether what a call reached without a push may have left its frame to this function.
    pub(crate) fn may_leave(&self, site: &Site, function: u32) -> bool {
        let Some(group) = site.tail_group else { return false };
        let [from, to] = [site.function, function].map(|function| self.functions[function as usize].module);
        self.tails.contains(&(from, group, function)) || from != to && self.leaving.contains(&(from, group))
    }

    pub(crate) fn new(dictionaries: &[Dictionary]) -> Result<Self, InvalidDictionary> {
        let mut tables = Self::default();
        let mut symbols = HashMap::new();
        for dictionary in dictionaries {
            let invalid = |module: Option<&files::Module>, cause| InvalidDictionary {
                program: dictionary.program.clone(),
                module: module.map(|module| module.name.clone()),
                cause,
            };
            tables.add_image(dictionary).map_err(|cause| invalid(None, cause))?;
            for module in &dictionary.modules {
                tables.add_module(module, &mut symbols).map_err(|cause| invalid(Some(module), cause))?;
            }
        }
        tables.ranges.sort_unstable_by_key(|range| range.base);
        let mut max_end = 0;
        for range in &mut tables.ranges {
            max_end = max_end.max(range.end);
            range.max_end = max_end;
        }
        Ok(tables)
    }

    fn add_image(&mut self, dictionary: &Dictionary) -> Result<(), Cause> {
        let bytes = hex(&dictionary.build_id).ok_or_else(|| Cause::BuildId(dictionary.build_id.clone()))?;
        let id = BuildId::from_prefix(&bytes);
        if self.images.iter().any(|image| image.id == id) {
            return Err(Cause::SameBuildId(id));
        }
        self.images.push(Image {
            id,
            build_id: dictionary.build_id.clone(),
            program: dictionary.program.clone(),
            spans: Vec::new(),
            open_module: None,
            modules: Vec::new(),
            jumps: Vec::new(),
            code: OnceLock::new(),
            code_source: dictionary.code.clone().map_or(Source::None, Source::Text),
        });
        Ok(())
    }

    /// Adds a module to the last image.
    fn add_module<'d>(
        &mut self,
        module: &'d files::Module,
        symbols: &mut HashMap<&'d str, u32>,
    ) -> Result<(), Cause> {
        let number = index(self.modules.len(), "modules")?;
        let first_function = index(self.functions.len(), "functions")?;
        let first_site = index(self.sites.len(), "sites")?;
        let first_file = index(self.files.len(), "files")?;
        // Checks the sums once, so that sums with indices in range do not overflow.
        index(self.functions.len() + module.functions.len(), "functions")?;
        index(self.sites.len() + module.sites.len(), "sites")?;
        index(self.files.len() + module.files.len(), "files")?;

        let mut names = Vec::with_capacity(module.names.len());
        for name in &module.names {
            let next = index(self.symbols.len(), "names")?;
            let symbol = *symbols.entry(name).or_insert(next);
            if symbol == next {
                let linkage = name.as_str().into();
                self.symbols.push(Symbol { linkage, demangled: OnceLock::new(), defined: false });
            }
            names.push(symbol);
        }
        let name_of = |what, at, index: u32| {
            let (target, len) = ("name", names.len());
            names.get(index as usize).copied().ok_or(Cause::Index { what, at, target, index, len })
        };
        self.files.extend(module.files.iter().map(|file| Box::from(file.as_str())));

        for (at, function) in module.functions.iter().enumerate() {
            let symbol = name_of("function", at, function.name)?;
            self.symbols[symbol as usize].defined |= function.external;
            let global = first_function + at as u32;
            for &alias in &function.aliases {
                let symbol = name_of("an alias of function", at, alias)?;
                self.symbols[symbol as usize].defined = true;
                self.aliases.insert((symbol, global));
            }
            if let Some(base) = function.range {
                let end =
                    base.checked_add(function.num_cc).filter(|end| *end <= pcce_abi::INTERNED && base > 0);
                let Some(end) = end else {
                    let function_name = self.symbols[symbol as usize].linkage.to_string();
                    return Err(Cause::Range { function: function_name, base, num_cc: function.num_cc });
                };
                self.ranges.push(Range { base, end, max_end: 0, function: global });
            }
            self.tails.extend(function.tail_groups.iter().map(|&group| (number, group, global)));
            self.functions.push(Function {
                symbol,
                module: number,
                external: function.external,
                tail_called: function.tail_called,
                jumped_to: function.jumped_to,
                push_thunk: function.push_thunk,
                enters: false,
                silent: function.silent,
                num_cc: function.num_cc,
                offset: function.offset as u64,
                negated: module.open_num_cc.is_none(),
                frame_offset: function.frame_offset,
            });
        }

        self.leaving.extend(module.leaving_groups.iter().map(|&group| (number, group)));
        for (at, site) in module.sites.iter().enumerate() {
            check("site", at, "function", site.function, module.functions.len())?;
            let target = match site.kind {
                SiteKind::Direct => Target::NoEdge,
                SiteKind::External(name) => Target::External(name_of("site", at, name)?),
                SiteKind::Indirect => Target::Indirect,
                SiteKind::Asm => Target::Asm,
                SiteKind::Capture => Target::Capture,
                SiteKind::Signal => Target::Signal,
                SiteKind::Entry => {
                    self.functions[(first_function + site.function) as usize].enters = true;
                    Target::Entry
                }
            };
            let first_location = index(self.locations.len(), "locations")?;
            for location in &site.locations {
                check("a location of site", at, "file", location.file, module.files.len())?;
                self.locations.push(Location {
                    symbol: name_of("a location of site", at, location.name)?,
                    file: first_file + location.file,
                    line: location.line,
                    column: location.column,
                });
            }
            let locations = index(self.locations.len(), "locations")? - first_location;
            let function = first_function + site.function;
            let tail_group = site.tail_group;
            self.sites.push(Site { function, target, tail_group, frame: None, first_location, locations });
        }

        let open_node = FunctionId::new(module.functions.len() as u32);
        let mut adds = Vec::new();
        let mut second = HashSet::new();
        for (at, edge) in module.edges.iter().enumerate() {
            check("edge", at, "site", edge.site, module.sites.len())?;
            if let Some(callee) = edge.callee {
                check("edge", at, "function", callee, module.functions.len())?;
            }
            let open_call = matches!(edge.code, EdgeCode::Open(_));
            if open_call && module.open_num_cc.is_none() {
                return Err(Cause::EdgeSite { edge: at, site: edge.site });
            }
            if !second.insert(edge.site) {
                return Err(Cause::SecondEdge { edge: at, site: edge.site });
            }
            if let EdgeCode::Add(value) | EdgeCode::Open(value) = edge.code {
                let add = AddEdge {
                    caller: FunctionId::new(module.sites[edge.site as usize].function),
                    callee: edge.callee.filter(|_| !open_call).map_or(open_node, FunctionId::new),
                    value,
                    site: edge.site,
                };
                adds.push(StackEdge { add, frame_offset: edge.frame });
            }
            self.sites[(first_site + edge.site) as usize].frame = edge.frame;
            if let (Some(0), Some(callee)) = (edge.frame, edge.callee) {
                let image = self.images.last_mut().expect("an image was added before its modules");
                let number = image.modules.len() as u32;
                image.jumps.push((number, module.sites[edge.site as usize].function, callee));
            }
            let target = &mut self.sites[(first_site + edge.site) as usize].target;
            match (&target, edge.callee, edge.code) {
                (Target::NoEdge, Some(_), EdgeCode::Add(_)) => *target = Target::Add,
                (Target::NoEdge, Some(callee), _) => *target = Target::Push(first_function + callee),
                (Target::External(_) | Target::Indirect | Target::Asm, None, EdgeCode::Add(_))
                | (_, Some(_), _) => {
                    return Err(Cause::EdgeSite { edge: at, site: edge.site });
                }
                (Target::External(_) | Target::Indirect | Target::Asm, None, _) => {}
                _ => return Err(Cause::EdgeSite { edge: at, site: edge.site }),
            }
        }
        let row = |f: &files::Function| FunctionRow { num_cc: f.num_cc, entry: f.entry, open: f.open };
        let open_row = module.open_num_cc.map(|num_cc| FunctionRow { num_cc, entry: true, open: false });
        let rows: Vec<_> = module.functions.iter().map(row).chain(open_row).collect();
        let node = open_row.map(|_| open_node);
        let paths = if module.hybrid_rounds.is_some() {
            // Whoever an open call reaches: the open node's sub-paths begin outside of the program.
            let unknown_base: Vec<bool> =
                module.functions.iter().map(|f| f.unknown_base).chain(node.map(|_| true)).collect();
            StackPathDecoder::new(&rows, &unknown_base, node, adds.into_iter()).map(SubPaths::StackOffsets)
        } else {
            PathDecoder::new(&rows, node, adds.into_iter().map(|edge| edge.add)).map(SubPaths::Numbers)
        };
        let paths = paths.map_err(Cause::Encoding)?;
        if open_row.is_some() {
            let image = self.images.last_mut().expect("an image was added before its modules");
            if image.open_module.replace(number).is_some() {
                return Err(Cause::SecondOpenNode);
            }
            if module.options.iter().any(|option| option.starts_with("target=")) {
                self.targeted = Some(number);
            }
        }
        let image = self.images.len() - 1;
        self.modules.push(Module {
            image: image as u32,
            number: self.images[image].modules.len() as u32,
            first_function,
            first_site,
            paths,
            open_node: open_row.map(|_| open_node),
        });
        let image = self.images.last_mut().expect("an image was added before its modules");
        image.modules.push((first_function, module.functions.len() as u32));
        self.add_span(module, first_site)
    }

    fn add_span(&mut self, module: &files::Module, first_site: u32) -> Result<(), Cause> {
        let sites = module.sites.len();
        if sites == 0 {
            return Ok(());
        }
        let start = module.sites_address;
        let invalid = Cause::SiteArray { address: start, sites };
        let Some(end) = start.checked_add(sites as u64) else { return Err(invalid) };
        let image = self.images.last_mut().expect("an image was added before its modules");
        let at = image.spans.partition_point(|span| span.start < start);
        let after_previous = at.checked_sub(1).is_none_or(|before| image.spans[before].end <= start);
        let before_next = image.spans.get(at).is_none_or(|next| end <= next.start);
        if !after_previous || !before_next {
            return Err(invalid);
        }
        image.spans.insert(at, Span { start, end, first_site });
        Ok(())
    }

    /// The number of the sub-path for which an id of the program stands in a function. `start`: where the sub-path starts, if that is
    /// known.
    #[inline]
    pub(crate) fn number(&self, function: u32, id: u64, start: Option<u32>) -> u64 {
        let offset = start.map_or(0, |start| self.functions[start as usize].offset);
        let function = &self.functions[function as usize];
        let plus_offset = if function.negated { id.wrapping_neg() } else { id };
        plus_offset.wrapping_add(offset).wrapping_sub(function.offset)
    }

    /// The site with an address in an image.
    #[inline]
    pub(crate) fn site_at(&self, image: u32, address: u64) -> Option<u32> {
        let spans = &self.images[image as usize].spans;
        let span = &spans[spans.partition_point(|span| span.start <= address).checked_sub(1)?];
        (address < span.end).then(|| span.first_site + (address - span.start) as u32)
    }

    /// The function with this number in this module of an image, both as in its dictionary.
    pub(crate) fn function_of(&self, image: u32, module: u32, function: u32) -> u32 {
        self.images[image as usize].modules[module as usize].0 + function
    }

    /// The machine code of an image; None if it is not at hand.
    pub(crate) fn code(&self, image: u32) -> Result<Option<&CodeTable>, &str> {
        let image = &self.images[image as usize];
        let code = image.code.get_or_init(|| {
            let mut code = image.code_source.read(&image.modules)?;
            if let Some(code) = &mut code {
                code.frames_hold = self.check_frames(image, code)?;
            }
            Ok(code)
        });
        code.as_ref().map(Option::as_ref).map_err(String::as_str)
    }

    /// What the encoding relies on must be so in the program. False where that cannot be seen in the code of all functions.
    fn check_frames(&self, image: &Image, code: &CodeTable) -> Result<bool, String> {
        let mut seen = true;
        for (module, &(first, count)) in (0..).zip(&image.modules) {
            for number in 0..count {
                let function = &self.functions[(first + number) as usize];
                let Some(expected) = function.frame_offset else { continue };
                // The linker may have left the function out, or taken another one with the same code.
                let Some(code) = code.of(module, number) else { continue };
                match code.frame_offset {
                    Some(found) if found == expected => {}
                    Some(found) => {
                        return Err(format!(
                            "function {} has a stack frame of {found} bytes, and its contexts are encoded for {expected} bytes: code was generated \
                             with other options than the pass expected; build without --pcce-hybrid",
                            self.linkage(function.symbol)
                        ));
                    }
                    None => seen = false,
                }
            }
        }
        for &(module, caller, callee) in &image.jumps {
            let (Some(code), Some(to)) = (code.of(module, caller), code.of(module, callee)) else { continue };
            if code.calls.iter().any(|call| call.1 == to.name + 1) {
                let name = |function: u32| {
                    let function = image.modules[module as usize].0 + function;
                    self.linkage(self.functions[function as usize].symbol)
                };
                return Err(format!(
                    "function {} calls {}, and its contexts are encoded for a jump: code was generated with other options than the pass expected; \
                     build without --pcce-hybrid",
                    name(caller),
                    name(callee)
                ));
            }
        }
        Ok(seen)
    }

    #[inline]
    pub(crate) fn locations(&self, site: &Site) -> &[Location] {
        &self.locations[site.first_location as usize..][..site.locations as usize]
    }

    pub(crate) fn linkage(&self, symbol: u32) -> &str {
        &self.symbols[symbol as usize].linkage
    }

    pub(crate) fn name(&self, symbol: u32) -> &str {
        let symbol = &self.symbols[symbol as usize];
        symbol.demangled.get_or_init(|| names::demangle(&symbol.linkage).into())
    }

    /// Whether other modules can call the function by this name, which is not its own.
    pub(crate) fn is_alias(&self, symbol: u32, function: u32) -> bool {
        self.aliases.contains(&(symbol, function))
    }

    pub(crate) fn is_defined(&self, symbol: u32) -> bool {
        self.symbols[symbol as usize].defined
    }

    pub(crate) fn file(&self, file: u32) -> &str {
        &self.files[file as usize]
    }

    /// The functions, with their ids, that a number may stand for: none, one, or several if the
    /// ranges of modules overlap.
    pub(crate) fn in_ranges(&self, number: u64) -> impl Iterator<Item = (u32, u64)> {
        let end = self.ranges.partition_point(|range| range.base <= number);
        self.ranges[..end]
            .iter()
            .rev()
            .take_while(move |range| range.max_end > number)
            .filter(move |range| range.end > number)
            .map(move |range| (range.function, number - range.base))
    }
}

fn check(what: &'static str, at: usize, target: &'static str, index: u32, len: usize) -> Result<(), Cause> {
    if (index as usize) < len { Ok(()) } else { Err(Cause::Index { what, at, target, index, len }) }
}

/// A number of rows, or the number of the next row, as an index.
fn index(len: usize, what: &'static str) -> Result<u32, Cause> {
    u32::try_from(len).ok().filter(|index| *index < u32::MAX).ok_or(Cause::TooLarge(what))
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.as_bytes().chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}
