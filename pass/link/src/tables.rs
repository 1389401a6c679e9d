//! The additional object of the second link: the dictionary, the modules' site arrays, and verify mode's
//! tables.
//!
//! The object is written as assembly, since only the linker knows the addresses.

use std::fmt::Write as _;

use pcce_abi::machine::objects::ThreadOffset;
use pcce_abi::skeleton::{records_symbol, sites_symbol};
use pcce_abi::tables::{self, Edge, Place, Table, WORD, Word};
use pcce_abi::{FunctionRecord, HYBRID_SYMBOL, InEdge, RECORDS_SECTION, TABLES_SECTION};
use pcce_dictionary::section::{SECTION, SITES_ADDRESS_OFFSET};
use pcce_dictionary::{self as dictionary, linked};
use pcce_model::Unannounced;
use pcce_model::verify::add_edge;

use crate::Error;
use crate::Whole;

/// The label of all site arrays together.
const SITES: &str = ".Lsites";

/// Writes the object, and the dictionary, which it includes from the file [`crate::DICTIONARY`].
///
/// # Errors
/// Verify mode's tables cannot hold a name.
pub fn assembly(
    whole: &Whole<'_>,
    rows: dictionary::Encoding,
    verify: bool,
) -> Result<(String, Vec<u8>), Error> {
    let mut asm = String::new();
    let mut symbols = whole.added.symbols.clone();
    let mut next = 0;
    let site_bytes = whole.site_bytes();
    let _ = writeln!(asm, "{}\n{SITES}:", if site_bytes.is_empty() { ".bss" } else { ".data" });
    for (module, symbols) in whole.modules.iter().zip(&mut symbols) {
        symbols.sites_address = next.into();
        let sites = symbols.sites.len().max(1) as u32;
        object(&mut asm, &sites_symbol(module.id), sites as usize);
        let mut zeros = 0;
        for site in next..next + sites {
            if let Some(byte) = site_bytes.get(&site) {
                let _ = writeln!(asm, ".zero {zeros}\n.byte {byte}");
                zeros = 0;
            } else {
                zeros += 1;
            }
        }
        let _ = writeln!(asm, ".zero {zeros}");
        next += sites;
    }
    if rows.hybrid.is_some() {
        let name = HYBRID_SYMBOL;
        let _ = writeln!(asm, ".section .rodata.{name},\"a\",@progbits");
        object(&mut asm, name, 1);
        let _ = writeln!(asm, ".byte 1");
    }
    if verify {
        write_tables(&mut asm, whole, &symbols, &rows)?;
    }
    if let Some(offset) = whole.thread_offset {
        check_thread_offset(&mut asm, offset);
    }
    let record = linked::to_bytes(&symbols, &[rows]);
    let _ = writeln!(asm, ".section {SECTION},\"\",@progbits");
    // As text, the dictionary would take longer to assemble than everything else.
    let file = crate::DICTIONARY;
    let _ = writeln!(asm, ".incbin \"{file}\", 0, {SITES_ADDRESS_OFFSET}");
    let _ = writeln!(asm, ".quad {SITES}");
    let _ = writeln!(asm, ".incbin \"{file}\", {}", SITES_ADDRESS_OFFSET + 8);
    asm.push_str(NO_CODE_ON_STACK);
    Ok((asm, record))
}

/// The second link fails if the thread's block is elsewhere than in the first one: code relies on that. The value of
/// one relocation is 0, and that of the other one is the largest that linkers accept.
fn check_thread_offset(asm: &mut String, (offset, limit): (u32, &ThreadOffset)) {
    let ThreadOffset { relocation, bits, instruction } = limit;
    let block = pcce_abi::TLS_SYMBOL;
    let _ = writeln!(asm, ".section .text.unlikely.{block},\"axR\",@progbits");
    let _ = writeln!(asm, ".type {block},%tls_object\n{block}_place:");
    for addend in [0, (1_i64 << bits) - 1] {
        let addend = addend - i64::from(offset);
        let _ = writeln!(asm, ".reloc ., {relocation}, {block}+({addend})\n.long {instruction}");
    }
}

/// Without this section, linkers give the whole program an executable stack.
pub const NO_CODE_ON_STACK: &str = ".section .note.GNU-stack,\"\",@progbits\n";

/// Defines a symbol, known in this image only, for the data after it.
pub fn object(asm: &mut String, name: &str, len: usize) {
    let _ =
        writeln!(asm, ".globl {name}\n.hidden {name}\n.type {name},@object\n.size {name}, {len}\n{name}:");
}

/// Writes bytes.
pub fn bytes(asm: &mut String, bytes: &[u8]) {
    for line in bytes.chunks(64) {
        let line: Vec<String> = line.iter().map(u8::to_string).collect();
        let _ = writeln!(asm, ".byte {}", line.join(","));
    }
}

/// Writes verify mode's tables. Functions and sites are numbered as in the whole program; the open node comes
/// last.
fn write_tables(
    asm: &mut String,
    whole: &Whole<'_>,
    symbols: &[dictionary::Module],
    rows: &dictionary::Encoding,
) -> Result<(), Error> {
    let contents = contents(whole, symbols, rows)?;
    let names = contents.names();
    let label = |table: Table| match table {
        Table::Records => ".Lrecords",
        Table::InEdges => ".Lin_edges",
        Table::Starts => ".Lstarts",
        Table::Groups => ".Lgroups",
    };
    let row = |table: Table, index: usize, size: usize| format!("{}+{}", label(table), index * size);
    // Sites are numbered over all modules, and the site array of an empty module has one byte.
    let site_addresses: Vec<u64> =
        symbols.iter().flat_map(|module| (module.sites_address..).take(module.sites.len())).collect();
    let address = |place: Place| match place {
        Place::Record(function) => row(Table::Records, function, size_of::<FunctionRecord>()),
        Place::Site(site) => format!("{SITES}+{}", site_addresses[site as usize]),
        Place::InEdge(index) => row(Table::InEdges, index, size_of::<InEdge>()),
        Place::Starts => label(Table::Starts).to_owned(),
        Place::Group(index) => row(Table::Groups, index, WORD),
        Place::Name(byte) => format!(".Lnames+{byte}"),
    };
    for table in [Table::Records, Table::InEdges, Table::Starts, Table::Groups] {
        let section = if table == Table::Records { RECORDS_SECTION } else { TABLES_SECTION };
        let _ = writeln!(asm, ".section {section},\"aR\",@progbits\n.p2align 3\n{}:", label(table));
        let mut lines = Vec::with_capacity(contents.len(table));
        contents.words(table, |word| {
            lines.push(match word {
                Word::Number(number) => format!(".quad {number}"),
                Word::To(None) => ".quad 0".to_owned(),
                Word::To(Some(place)) => format!(".quad {}-.", address(place)),
            });
        });
        let lens: Vec<usize> = symbols.iter().map(|module| module.functions.len()).collect();
        let first = lens.iter().scan(0, |next, len| Some(std::mem::replace(next, *next + len)));
        let mut starts = first.zip(&lens).zip(whole.modules).peekable();
        for (word, line) in lines.iter().enumerate() {
            while table == Table::Records
                && let Some(((_, len), module)) =
                    starts.next_if(|((first, _), _)| first * size_of::<FunctionRecord>() / WORD <= word)
            {
                object(asm, &records_symbol(module.id), len * size_of::<FunctionRecord>());
            }
            let _ = writeln!(asm, "{line}");
        }
        if table == Table::Records {
            starts.for_each(|(_, module)| object(asm, &records_symbol(module.id), 0));
        }
    }
    let _ = writeln!(asm, ".section .rodata.pcce,\"a\",@progbits\n.Lnames:");
    bytes(asm, &names);
    asm.push_str(".byte 0\n");
    Ok(())
}

fn contents(
    whole: &Whole<'_>,
    symbols: &[dictionary::Module],
    rows: &dictionary::Encoding,
) -> Result<tables::Program, Error> {
    let program = whole.program;
    let mut functions: Vec<tables::Function> = Vec::with_capacity(program.functions.len() + 1);
    let order = whole.added.order_of_functions();
    for (&id, encoded) in order.iter().zip(&rows.functions) {
        let function = &program[id];
        functions.push(tables::Function {
            name: function.name.replace('\0', "?"),
            entry: encoded.entry,
            reached: encoded.open,
            offset: encoded.id_offset as u64,
            silent: function.silent,
            shared: whole.decided.needs_offset(id),
            groups: function.tail_groups.iter().copied().map(u64::from).collect(),
            ..tables::Function::default()
        });
    }
    let open_node = program.graph.open_node().map(|node| node.index());
    functions.extend(open_node.map(|_| tables::Function {
        entry: true,
        groups: program.leaving_groups.iter().copied().map(u64::from).collect(),
        ..tables::Function::default()
    }));
    let mut first = 0;
    let mut base = 0;
    for (module, symbols) in whole.modules.iter().zip(symbols) {
        for (f, site) in module.facts.iter().flat_map(|facts| facts.entry_sites.iter().enumerate()) {
            let pushes = program[order[base + f]].unannounced == Unannounced::AnyId;
            functions[base + f].entry_site = site.filter(|_| pushes).map(|site| first + u64::from(site));
        }
        base += symbols.functions.len();
        first += symbols.sites.len() as u64;
    }
    let mut starts = Vec::new();
    let mut edges = rows.edges.iter();
    for (caller, c, site) in whole.sites() {
        let call = &program[caller].calls[c];
        if call.edge.is_none() {
            continue;
        }
        let edge = edges.next().expect("one for each such call");
        let row = Edge {
            start: 0,
            constant: whole.decided.action(caller, c).added(),
            caller: whole.added.number(caller) as usize,
            site: site.into(),
            group: call.tail_group.map(u64::from),
            callee: call.kind.function().map(|callee| whole.added.number(callee) as usize),
        };
        add_edge(&mut functions, &mut starts, open_node, edge.code, row);
    }
    starts.sort_unstable();
    tables::Program::new(functions, open_node, starts).map_err(|_| Error::NoVerifyTables)
}
