//! Verify mode's tables of the whole program, in the room that the objects have for them.

use std::collections::HashMap;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions};
use pcce_abi::tables::{Edge, Function, Program};
use pcce_abi::{FunctionRecord, RECORDS_ADDRESS_SECTION, TABLES_SECTION};
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
    let rows = image.debug_section(RECORDS_ADDRESS_SECTION)?;
    let mut words = rows.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
    let mut of_module: HashMap<u64, u64> = HashMap::new();
    while let (Some(sites), Some(records)) = (words.next(), words.next()) {
        of_module.insert(sites, records);
    }
    let record = |module: usize, function: usize| {
        let records = of_module.get(&modules.list[module].symbols.sites_address);
        records.map(|records| records + (function * size_of::<FunctionRecord>()) as u64)
    };
    let mut records = Vec::with_capacity(bound.program.functions.len() + 1);
    for (m, module) in modules.list.iter().enumerate() {
        for f in 0..module.facts.functions.len() {
            records.push(record(m, f).ok_or(Error::NoVerifyTables)?);
        }
    }
    // Whose body was kept is not known where it has no calls. It hands over a record of its own module.
    let number = |(module, function): (usize, usize)| bound.bases[module] + function;
    for (m, module) in modules.list.iter().enumerate() {
        for (f, address) in module.addresses.iter().enumerate() {
            let Some(&owner) = modules.owners.get(address).filter(|&&owner| owner != (m, f)) else {
                continue;
            };
            let (Some(first), Some(end)) = (record(m, 0), record(m, module.addresses.len())) else {
                continue;
            };
            if refers_to(image, *address, first..end) {
                records.swap(number((m, f)), number(owner));
            }
        }
    }
    // Each module has a record for the open node. One is enough.
    records.push(record(0, modules.list[0].facts.functions.len()).ok_or(Error::NoVerifyTables)?);
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

/// Whether the code of a function has one of these addresses.
fn refers_to(image: &Image, function: u64, addresses: Range<u64>) -> bool {
    let code = image.at(function);
    let size = image.sizes.get(&function).map_or(0, |&size| usize::try_from(size).unwrap_or(usize::MAX));
    let mut code = Decoder::with_ip(64, &code[..size.min(code.len())], function, DecoderOptions::NONE);
    code.iter().any(|instruction| {
        let relative = instruction.is_ip_rel_memory_operand();
        relative && addresses.contains(&instruction.ip_rel_memory_address())
            || (0..instruction.op_count())
                .any(|i| instruction.try_immediate(i).is_ok_and(|immediate| addresses.contains(&immediate)))
    })
}

/// What the tables say. Functions are numbered as in the program; the open node comes last.
fn contents(modules: &Modules, bound: &Bound) -> Result<Program, Error> {
    let count = bound.program.functions.len();
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
    functions.push(Function {
        entry: true,
        groups: bound.program.leaving_groups.iter().copied().map(u64::from).collect(),
        ..Function::default()
    });
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
                    (EdgeCode::Open(start), _) => (start, Some(count)),
                    (_, Some(callee)) => {
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
    Program::new(functions, Some(count), starts).map_err(|_| Error::NoVerifyTables)
}
