//! Verify mode's tables of the whole program, in the room that the objects have for them.

use pcce_abi::tables::{Edge, Function, Program};
use pcce_abi::{FunctionRecord, TABLES_SECTION};
use pcce_dictionary::{EdgeCode, SiteKind};

use crate::Error;
use crate::bind::Bound;
use crate::image::Image;
use crate::modules::Modules;

/// Fills the tables, if there are any.
///
/// # Errors
/// There is no room.
pub fn fill(image: &mut Image, modules: &Modules, bound: &Bound) -> Result<(), Error> {
    if !modules.list[0].facts.options.verify {
        return Ok(());
    }
    let record = |module: usize, function: usize| {
        let records = modules.list[module].records;
        records.map(|records| records + (function * size_of::<FunctionRecord>()) as u64)
    };
    let mut records = Vec::with_capacity(bound.program.functions.len() + 1);
    for (m, module) in modules.list.iter().enumerate() {
        for f in 0..module.facts.functions.len() {
            records.push(record(m, f).ok_or(Error::NoVerifyTables)?);
        }
    }
    if bound.program.graph.open_node().is_some() {
        // Each module has a record for the open node. One is enough.
        records.push(record(0, modules.list[0].facts.functions.len()).ok_or(Error::NoVerifyTables)?);
    }
    let room = image.sections.iter().find(|section| section.name == TABLES_SECTION);
    let room = room.ok_or(Error::NoVerifyTables)?.addresses.clone();
    let tables = contents(modules, bound)?;
    let linked = tables.link(room.start, &records).map_err(|_| Error::NoVerifyTables)?;
    if linked.bytes.len() as u64 > room.end - room.start {
        return Err(Error::NoVerifyTables);
    }
    image.overwrite(room.start, &linked.bytes);
    for (at, record) in records.into_iter().zip(&linked.records) {
        if image.at(at).len() < record.len() {
            return Err(Error::NoVerifyTables);
        }
        image.overwrite(at, record);
    }
    Ok(())
}

/// What the tables say. Functions are numbered as in the program; the open node comes last.
fn contents(modules: &Modules, bound: &Bound) -> Result<Program, Error> {
    let functions = bound.program.functions.iter().zip(&bound.encoding_rows.functions);
    let function =
        |(function, encoded): (&pcce_model::Function, &pcce_dictionary::EncodedFunction)| Function {
            name: function.name.replace('\0', "?"),
            entry: encoded.entry,
            reached: encoded.open,
            offset: encoded.id_offset as u64,
            silent: function.silent,
            shared: false,
            entry_site: None,
            in_edges: Vec::new(),
            groups: function.tail_groups.iter().copied().map(u64::from).collect(),
        };
    let mut functions: Vec<Function> = functions.map(function).collect();
    let open_node = bound.program.graph.open_node().map(|node| node.index());
    functions.extend(open_node.map(|_| Function {
        entry: true,
        groups: bound.program.leaving_groups.iter().copied().map(u64::from).collect(),
        ..Function::default()
    }));
    let mut starts = Vec::new();
    let mut edges = bound.encoding_rows.edges.iter();
    for (module, &base) in modules.list.iter().zip(&bound.bases) {
        for (site, row) in (module.symbols.sites_address..).zip(&module.symbols.sites) {
            if row.kind == SiteKind::Entry
                && let Some(function) = functions.get_mut(base + row.function as usize)
            {
                function.entry_site = Some(site);
            }
        }
        for (f, row) in module.facts.calls.iter().enumerate() {
            let caller = base + f;
            for (c, (call, code)) in bound.program.functions[caller].calls.iter().zip(row).enumerate() {
                if call.edge.zip(code.site).is_none() {
                    continue;
                }
                let Some(edge) = edges.next() else { return Err(Error::NoVerifyTables) };
                let site = module.symbols.sites_address + u64::from(code.site.unwrap_or(0));
                let called = match call.kind {
                    pcce_model::CallKind::Direct(callee) => Some(callee.index()),
                    _ => None,
                };
                let (start, callee) = match (edge.code, called) {
                    (EdgeCode::Add(start), callee) => (start, callee),
                    (EdgeCode::Open(start), _) => (start, open_node),
                    (_, Some(callee)) if open_node.is_some() => {
                        starts.push((site, callee));
                        continue;
                    }
                    _ => continue,
                };
                if let Some(callee) = callee {
                    functions[callee].in_edges.push(Edge {
                        start,
                        constant: bound.values.get(&(caller, c)).copied().unwrap_or(0),
                        caller,
                        site,
                        group: call.tail_group.map(u64::from),
                        callee: called,
                    });
                }
            }
        }
    }
    Program::new(functions, open_node, starts).map_err(|_| Error::NoVerifyTables)
}
