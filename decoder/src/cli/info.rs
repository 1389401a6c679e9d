//! `pcce info`: the contents of a dictionary, and the tools that were found.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use pcce_dictionary::{Dictionary, EdgeCode, Encoding, SiteKind, SkipReason};
use serde::Serialize;

use super::adapt::Record;
use super::{InfoArgs, InfoFormat, Status};

#[derive(Serialize)]
struct Info {
    /// Null without a file.
    dictionary: Option<Summary>,
    /// How the program was made by `pcce adapt`; null if it was not.
    adapted: Option<Record>,
    toolchain: Vec<Tool>,
}

/// The sums over a dictionary's modules.
#[derive(Default, Serialize)]
struct Summary {
    version: u32,
    build_id: String,
    program: String,
    modules: Vec<ModuleSummary>,
    /// The number of modules that were encoded together at the link (link mode).
    linked_modules: usize,
    functions: usize,
    /// Push thunks. `functions` counts them, too.
    push_thunks: usize,
    /// Functions with a body that are not instrumented, by reason.
    skipped: BTreeMap<SkipReason, u64>,
    sites: Sites,
    edges: Edges,
    /// Largest number of encodings of one function, and that function.
    max_num_cc: Option<MaxNumCc>,
    /// Places at which context numbers are taken.
    places: Places,
    /// For programs with a hybrid encoding.
    #[serde(skip_serializing_if = "Option::is_none")]
    hybrid: Option<Hybrid>,
}

#[derive(Serialize)]
struct Hybrid {
    /// How often code was generated to measure stacks.
    rounds: u32,
    /// Functions on whose stack sizes the encoding relies.
    frames: usize,
}

#[derive(Serialize)]
struct ModuleSummary {
    name: String,
    producer: String,
    options: Vec<String>,
    functions: usize,
    sites: usize,
    edges: usize,
}

#[derive(Default, Serialize)]
struct Sites {
    direct: usize,
    external: usize,
    indirect: usize,
    asm: usize,
    capture: usize,
    /// Always 0: early dictionaries had sites of this kind.
    signal: usize,
    entry: usize,
}

#[derive(Default, Serialize)]
struct Edges {
    /// Calls that add 0, which costs nothing.
    add_zero: usize,
    add: usize,
    /// Calls whose callee is not known, and that add.
    open: usize,
    back: usize,
    cut: usize,
    /// Functions that these calls reach: the nodes of the paper's selective reduction.
    reduced: usize,
    required: usize,
}

#[derive(Default, Serialize)]
struct Places {
    /// Places with a range of numbers below 2^63.
    with_range: usize,
    /// Places of which the process gives all numbers.
    without_range: usize,
}

#[derive(Serialize)]
struct MaxNumCc {
    num_cc: u64,
    function: String,
}

#[derive(Serialize)]
struct Tool {
    name: String,
    purpose: &'static str,
    found: Option<PathBuf>,
    /// How to install a tool that is not found.
    cure: Option<String>,
}

/// Describes the file, if there is one, and the tools.
pub fn run(args: &InfoArgs) -> anyhow::Result<Status> {
    let dictionary = args.file.as_deref().map(pcce::load::load).transpose()?;
    if let Some(dictionary) = &dictionary {
        pcce::Decoder::new(std::slice::from_ref(dictionary))?;
    }
    let adapted = args.file.as_deref().zip(dictionary.as_ref());
    let adapted = adapted.and_then(|(file, dictionary)| Record::of(file, &dictionary.build_id));
    let info = Info { dictionary: dictionary.as_ref().map(summarise), adapted, toolchain: toolchain() };
    let text = match args.format {
        InfoFormat::Text => text(&info),
        InfoFormat::Json => pcce::printable::json(&info) + "\n",
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")?;
    let missing = info.toolchain.iter().any(|tool| tool.found.is_none());
    Ok(if info.dictionary.is_none() && missing { Status::Failed } else { Status::Done })
}

/// Sums up a dictionary. The decoder must have accepted it, and so checked its indices.
fn summarise(dictionary: &Dictionary) -> Summary {
    let mut summary = Summary {
        version: dictionary.version,
        build_id: dictionary.build_id.clone(),
        program: dictionary.program.clone(),
        ..Summary::default()
    };
    for module in &dictionary.modules {
        summary.functions += module.functions.len();
        summary.push_thunks += module.functions.iter().filter(|function| function.push_thunk).count();
        for skipped in &module.skipped {
            *summary.skipped.entry(skipped.reason).or_default() += u64::from(skipped.functions);
        }
        let sites = &mut summary.sites;
        for site in &module.sites {
            *match site.kind {
                SiteKind::Direct(_) => &mut sites.direct,
                SiteKind::External(_) | SiteKind::Replaced(_) => &mut sites.external,
                SiteKind::Indirect => &mut sites.indirect,
                SiteKind::Asm => &mut sites.asm,
                SiteKind::Capture => &mut sites.capture,
                SiteKind::Entry => &mut sites.entry,
            } += 1;
        }
        summary.modules.push(ModuleSummary {
            name: module.name.clone(),
            producer: module.producer.clone(),
            options: module.options.clone(),
            functions: module.functions.len(),
            sites: module.sites.len(),
            edges: 0,
        });
    }
    for encoding in &dictionary.encodings {
        add_encoding(&mut summary, dictionary, encoding);
    }
    summary
}

fn add_encoding(summary: &mut Summary, dictionary: &Dictionary, encoding: &Encoding) {
    let first_module = encoding.first_module as usize;
    let modules = &dictionary.modules[first_module..][..encoding.module_count as usize];
    let names =
        modules.iter().flat_map(|module| module.functions.iter().map(|f| &module.names[f.name as usize]));
    for (function, name) in encoding.functions.iter().zip(names) {
        if summary.max_num_cc.as_ref().is_none_or(|max| function.num_cc > max.num_cc) {
            let name = pcce::names::demangle(name);
            summary.max_num_cc = Some(MaxNumCc { num_cc: function.num_cc, function: name });
        }
    }
    for place in &encoding.places {
        *match place.base {
            Some(_) => &mut summary.places.with_range,
            None => &mut summary.places.without_range,
        } += 1;
    }
    if modules.len() > 1 {
        summary.linked_modules += modules.len();
    }
    if let Some(hybrid) = &encoding.hybrid {
        summary.hybrid = Some(Hybrid { rounds: hybrid.rounds, frames: hybrid.stack_sizes.len() });
    }
    // For each site: its module, and the number of the module's first function in the encoding.
    let mut sites = Vec::new();
    let mut first_function = 0;
    for (number, module) in modules.iter().enumerate() {
        sites.extend(module.sites.iter().map(|site| (number, first_function, site)));
        first_function += module.functions.len();
    }
    let edges = &mut summary.edges;
    let mut reduced = HashSet::new();
    for edge in &encoding.edges {
        let (module, first_function, site) = sites[edge.site as usize];
        summary.modules[first_module + module].edges += 1;
        let offset = |function: usize| encoding.functions[function].id_offset as u64;
        // A call without a known callee reaches the open node.
        let callee = match (edge.callee, site.kind) {
            (None, SiteKind::Direct(Some(callee))) => Some(first_function + callee as usize),
            (bound, _) => bound.map(|callee| callee as usize),
        };
        let caller = first_function + site.function as usize;
        let difference = callee.map_or(0, offset).wrapping_sub(offset(caller));
        if edge.code == EdgeCode::Cut {
            reduced.insert(callee);
        }
        *match edge.code {
            EdgeCode::Add(value) if value.wrapping_add(difference) == 0 => &mut edges.add_zero,
            EdgeCode::Add(_) => &mut edges.add,
            EdgeCode::Open(_) => &mut edges.open,
            EdgeCode::Back => &mut edges.back,
            EdgeCode::Cut => &mut edges.cut,
            EdgeCode::Required => &mut edges.required,
        } += 1;
    }
    edges.reduced += reduced.len();
}

fn toolchain() -> Vec<Tool> {
    const BUILD: &str = "run `make build` in the source tree, or install the package again";
    let own_folder = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned));
    let beside = |name: &str| {
        let own = own_folder.as_ref()?;
        [own.join(name), own.join("../lib/pcce").join(name)].into_iter().find(|path| path.is_file())
    };
    let tool = |name: &str, purpose, found: Option<PathBuf>, cure: &str| {
        let cure = found.is_none().then(|| cure.to_owned());
        Tool { name: name.to_owned(), purpose, found, cure }
    };
    let library = |name: &str, purpose| tool(name, purpose, beside(name), BUILD);
    let headers = own_folder.iter().flat_map(|own| ["include", "../include"].map(|at| own.join(at)));
    let header = headers.map(|folder| folder.join("pcce.h")).find(|path| path.is_file());
    let llvm = pcce_options::llvm();
    let package =
        |name: &str| format!("Debian, Ubuntu: apt install {name}-{llvm}; else https://apt.llvm.org");
    let (clang, lld) = (format!("clang-{llvm}"), format!("ld.lld-{llvm}"));
    vec![
        tool(&clang, "compiles", in_path(&[&clang]), &package("clang")),
        tool(&lld, "links whole programs (LTO)", in_path(&[&lld, "ld.lld"]), &package("lld")),
        library("libpcce_pass.so", "the pass, a plugin of clang"),
        library("libpcce_rt.a", "the runtime, for executables"),
        library("libpcce_verify.a", "the runtime of programs that check or count their calls"),
        library("libpcce_heap.a", "the runtime of programs that record their allocations"),
        library("libpcce_libc.a", "what executables have in libc's place"),
        library("libpcce_trace.a", "the tracer of programs that record their calls"),
        library("libpcce_rt.so", "the runtime, for shared libraries"),
        library("libpcce_trace.so", "the tracer, for shared libraries"),
        tool("pcce.h", "the API", header, BUILD),
    ]
}

/// The first of the names that is a file in a folder of `PATH`.
fn in_path(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file()))
}

fn text(info: &Info) -> String {
    let mut lines = Vec::new();
    if let Some(summary) = &info.dictionary {
        lines.push(format!("program     {}", summary.program));
        lines.push(format!("build id    {}", summary.build_id));
        lines.push(format!("schema      version {}", summary.version));
        if let Some(adapted) = &info.adapted {
            lines.extend(adapted.lines());
        }
        let thunks = match summary.push_thunks {
            0 => String::new(),
            count => format!(", {count} of which only push for others"),
        };
        lines.push(format!("functions   {}{thunks}", summary.functions));
        for (reason, functions) in &summary.skipped {
            lines.push(format!("skipped     {functions}: {}", reason.text()));
        }
        let s = &summary.sites;
        lines.push(format!(
            "sites       {} direct, {} external, {} indirect, {} asm, {} capture, {} signal, {} entry",
            s.direct, s.external, s.indirect, s.asm, s.capture, s.signal, s.entry
        ));
        let e = &summary.edges;
        lines.push(format!(
            "edges       {} add nothing, {} add, {} open, {} back, {} cut, {} required",
            e.add_zero, e.add, e.open, e.back, e.cut, e.required
        ));
        if e.reduced > 0 {
            lines.push(format!(
                "reduced     {} functions, with the edges cut: they would have more contexts than ids",
                e.reduced
            ));
        }
        if let Some(hybrid) = &summary.hybrid {
            lines.push(format!(
                "hybrid      frames of {} functions; rounds of measuring: {}",
                hybrid.frames, hybrid.rounds
            ));
        }
        if let Some(max) = &summary.max_num_cc {
            lines.push(format!("max numCC   {} ({})", max.num_cc, max.function));
        }
        let Places { with_range, without_range } = summary.places;
        if with_range + without_range > 0 {
            lines.push(format!(
                "numbers     {with_range} places with a range, {without_range} whose numbers the process gives"
            ));
        }
        let linked = match summary.linked_modules {
            0 => String::new(),
            linked => format!(", {linked} of which were encoded as a whole at the link (link mode)"),
        };
        lines.push(format!("modules     {}{linked}", summary.modules.len()));
        for module in &summary.modules {
            lines.push(format!(
                "  {}: {} functions, {} sites, {} edges",
                module.name, module.functions, module.sites, module.edges
            ));
            let options =
                if module.options.is_empty() { "none".to_owned() } else { module.options.join(" ") };
            lines.push(format!("    by {}, options: {options}", module.producer));
        }
        lines.push(String::new());
    }
    lines.push("toolchain".to_owned());
    for tool in &info.toolchain {
        let state = match &tool.found {
            Some(path) => format!("found    {}", path.display()),
            None => format!("missing  {}; {}", tool.purpose, tool.cure.as_deref().unwrap_or_default()),
        };
        lines.push(format!("  {:<17} {state}", tool.name));
    }
    // The names come from a file that is not trusted.
    lines.iter().map(|line| super::printable(line) + "\n").collect()
}
