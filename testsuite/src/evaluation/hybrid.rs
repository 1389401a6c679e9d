//! The possible effect of hybrid stack offsets (pcce.txt §6), without a build that has them: the algorithm of
//! `pcce-encoding` on the call graph of the linked program, with the frame offsets of its unwind tables, and
//! callgrind's count of each call.
//!
//! The graph is that of the machine code: an edge for each call instruction of an instrumented function that calls
//! another one, directly or through a pointer, and for each jump from one to another (a tail call, whose frame offset
//! is 0). The dictionary says which functions are silent, and which ones open calls may reach.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use gimli::{BaseAddresses, CfaRule, CieOrFde, EhFrame, LittleEndian, UnwindContext, UnwindSection as _};
use object::{Object as _, ObjectSection as _};
use pcce_dictionary::code::{self, Role};
use pcce_encoding::hybrid::{HybridCode, HybridOptions, Stack, hybrid};
use pcce_encoding::{CallGraph, EdgeCode, EdgeId, Encoding, FunctionId, Options, encode};
use serde::{Deserialize, Serialize};

use super::callgrind::Profile;
use super::declarations::Variant;
use crate::checked;
use crate::machine::{self, STACK_POINTER, Transfer};

/// Work for the encoding at the executed calls of a workload.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Work {
    /// Calls with an addition and its reversal.
    pub additions: u64,
    /// Calls that test the id, and add something if it is not 0.
    pub tests: u64,
    pub pushes: u64,
}

/// Work by the way of encoding.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Ways {
    /// Without silent functions, offsets of ids and known starts of sub-paths, as the paper has it.
    pub basic: Work,
    /// With all of them, like the pass.
    pub today: Work,
    /// With stack offsets as well.
    pub hybrid: Work,
    /// As `hybrid`, except that the id alone distinguishes sub-paths that begin in an open target.
    pub by_id: Work,
    /// The paper's Algorithm 4, with silent functions.
    pub algorithm_4: Work,
}

/// The possible effect on a program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Hybrid {
    /// Executed calls of instrumented functions, and through pointers.
    pub calls: u64,
    /// Calls in or of silent functions.
    pub silent: u64,
    /// Calls without a fixed frame offset.
    pub without_frame: u64,
    /// Executed instructions that add to the id, in this build: two for an addition and its reversal, or one for a
    /// reversal and the next call's addition.
    #[serde(default)]
    pub executed_updates: u64,
    /// With the counts as weights.
    pub counted: Ways,
    /// With every call site as likely as any other.
    pub equal: Ways,
}

struct Function {
    main: bool,
    open: bool,
    silent: bool,
    count: u64,
}

struct Call {
    caller: usize,
    /// `None` for a call through a pointer.
    callee: Option<usize>,
    count: u64,
    frame: Option<u32>,
}

/// Computes the possible effect from a build and its profile.
pub fn look(variant: &Variant, executable: &Path, profile: &Profile) -> Result<Hybrid> {
    let (functions, calls, executed_updates) = read(variant, executable, profile)?;
    let result = Hybrid { executed_updates, ..compare(&functions, &calls) };
    ensure!(result.calls > 0, "callgrind saw no call in {}", executable.display());
    Ok(result)
}

fn compare(functions: &[Function], calls: &[Call]) -> Hybrid {
    let quiet = |call: &Call| {
        functions[call.caller].silent || call.callee.is_some_and(|callee| functions[callee].silent)
    };
    let sum = |of: &dyn Fn(&Call) -> bool| calls.iter().filter(|call| of(call)).map(|call| call.count).sum();
    let mut result = Hybrid {
        calls: sum(&|_| true),
        silent: sum(&quiet),
        without_frame: sum(&|call| call.frame.is_none()),
        ..Hybrid::default()
    };
    for (counted, ways) in [(true, &mut result.counted), (false, &mut result.equal)] {
        let all: Vec<&Call> = calls.iter().collect();
        let (_, encoding) = encoded(functions, &all, counted, false);
        ways.basic = work(&all, |edge| match encoding.edge(edge) {
            EdgeCode::Push(_) => HybridCode::Push,
            EdgeCode::Add(value) => HybridCode::Add(value),
        });
        let loud: Vec<&Call> = calls.iter().filter(|call| !quiet(call)).collect();
        let (graph, encoding) = encoded(functions, &loud, counted, true);
        let add = |constant: Option<u64>| constant.map_or(HybridCode::Push, HybridCode::Add);
        ways.today = work(&loud, |edge| add(encoding.constant(edge)));
        let hybridised = |encoding: &Encoding, options: &HybridOptions, known: bool| {
            let mut stack = Stack::new(&graph);
            for (edge, call) in (0..).map(EdgeId::new).zip(&loud) {
                if let Some(frame) = call.frame {
                    stack.set_frame_offset(edge, frame);
                }
            }
            if !known {
                stack.set_unknown_base(graph.open_node().expect("it was added"));
            }
            let hybrid = hybrid(&graph, encoding, &stack, options);
            work(&loud, |edge| match hybrid.edge(edge) {
                HybridCode::Guarded(value) => HybridCode::Guarded(value),
                _ => add(hybrid.constant(edge)),
            })
        };
        ways.hybrid = hybridised(&encoding, &HybridOptions::default(), true);
        ways.by_id = hybridised(&encoding, &HybridOptions::default(), false);
        let (_, encoding) = encoded(functions, &loud, counted, false);
        let paper = HybridOptions { blocks: 1, stack_offsets: 1024, guards: true };
        ways.algorithm_4 = hybridised(&encoding, &paper, true);
    }
    result
}

fn work(calls: &[&Call], code: impl Fn(EdgeId) -> HybridCode) -> Work {
    let mut work = Work::default();
    for (edge, call) in (0..).map(EdgeId::new).zip(calls) {
        match code(edge) {
            HybridCode::Add(0) => {}
            HybridCode::Add(_) => work.additions += call.count,
            HybridCode::Guarded(_) => work.tests += call.count,
            HybridCode::Push => work.pushes += call.count,
        }
    }
    work
}

/// The graph with an open node, and its encoding.
fn encoded(
    functions: &[Function],
    calls: &[&Call],
    counted: bool,
    known_starts: bool,
) -> (CallGraph, Encoding) {
    let mut graph = CallGraph::new();
    for function in functions {
        graph.add_function(function.main, false);
    }
    let open = graph.add_open_node();
    let mut entered = vec![0u64; functions.len() + 1];
    for call in calls {
        entered[call.callee.unwrap_or(functions.len())] += call.count;
    }
    let opened = entered[functions.len()];
    for (i, function) in functions.iter().enumerate() {
        let id = FunctionId::new(i as u32);
        if function.open {
            let share = function.count.saturating_sub(entered[i]) as f64 / opened.max(1) as f64;
            graph.add_open_target(id, if counted { share } else { 1.0 });
        }
        if counted {
            graph.set_count(id, function.count as f64);
        }
    }
    if counted {
        graph.set_count(open, opened as f64);
    }
    for call in calls {
        let callee = call.callee.map_or(open, |callee| FunctionId::new(callee as u32));
        let frequency =
            if counted { call.count as f64 / functions[call.caller].count.max(1) as f64 } else { 1.0 };
        graph.add_edge(FunctionId::new(call.caller as u32), callee, frequency);
    }
    let encoding = encode(&graph, &Options { known_starts, ..Options::default() });
    (graph, encoding)
}

/// The functions, their calls, and the executions of instructions that add to the id.
fn read(variant: &Variant, executable: &Path, profile: &Profile) -> Result<(Vec<Function>, Vec<Call>, u64)> {
    let json = std::env::temp_dir().join(format!("pcce-hybrid-{}.json", std::process::id()));
    let mut pcce = Command::new(variant.tools.join("pcce"));
    checked("pcce dict", pcce.arg("dict").arg(executable).arg("-o").arg(&json).output())?;
    let text = fs::read(&json);
    let _ = fs::remove_file(&json);
    let dictionary = pcce_dictionary::from_json(&text?)?;
    // Each module's encoding, with the index of the module's first function in it.
    let mut encoded = HashMap::new();
    for encoding in &dictionary.encodings {
        let mut first = 0;
        for number in (encoding.first_module..).take(encoding.module_count as usize) {
            encoded.insert(number, (first, encoding));
            first += dictionary.modules.get(number as usize).map_or(0, |module| module.functions.len());
        }
    }
    let code = code::from_text(dictionary.code.as_deref().context("the dictionary has no machine code")?)?;

    let executed = |address: u64| profile.executed.get(&address).copied().unwrap_or(0);
    let mut functions = Vec::new();
    // From the first address to the end.
    let mut ranges: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    for function in &code.functions {
        let Role::Instrumented(module, row) = function.role else { continue };
        let symbol = dictionary.modules.get(module as usize).and_then(|m| m.functions.get(row as usize));
        let symbol = symbol.context("the machine code names functions of the dictionary")?;
        let row =
            encoded.get(&module).and_then(|(first, encoding)| encoding.functions.get(first + row as usize));
        let row = row.context("functions are encoded")?;
        ranges.insert(function.start, (function.start + function.len, functions.len()));
        let name = code.names.get(function.name as usize).context("functions have names")?;
        let count = executed(function.start);
        functions.push(Function { main: name == "main", open: row.open, silent: symbol.silent, count });
    }

    let data = fs::read(executable)?;
    let frames = Frames::read(&data)?;
    // The id is the block's first word.
    let block = pcce::tls_offset(&object::File::parse(&*data)?);
    let id = machine::thread_local_operand(block.context("the program has no block of the thread")? as u64);
    let listing = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(executable).output();
    let listing = checked("objdump", listing)?.stdout;
    let mut calls = Vec::new();
    let mut updates = 0;
    for line in String::from_utf8_lossy(&listing).lines() {
        let Some((address, text)) = line.trim_start().split_once(":\t") else { continue };
        let mut words = text.split_whitespace();
        let mnemonic = words.next().unwrap_or("");
        if machine::adds(mnemonic) && text.ends_with(&id) {
            updates += u64::from_str_radix(address, 16).map_or(0, executed);
        }
        let jump = match machine::transfer(mnemonic) {
            Some(Transfer::Call) => false,
            Some(Transfer::Jump) => true,
            Some(Transfer::Branch) | None => continue,
        };
        let (Ok(address), Some(operand)) = (u64::from_str_radix(address, 16), words.next()) else { continue };
        let Some((_, &(end, caller))) = ranges.range(..=address).next_back() else { continue };
        if address >= end {
            continue;
        }
        let callee = if machine::is_through_pointer(operand) {
            // Most jumps through registers are tables of a switch.
            if jump {
                continue;
            }
            None
        } else {
            let target = u64::from_str_radix(operand, 16).with_context(|| line.to_owned())?;
            match ranges.get(&target) {
                Some(&(_, callee)) if !jump || callee != caller => Some(callee),
                _ => continue,
            }
        };
        let frame = if jump { Some(0) } else { frames.at(address) };
        calls.push(Call { caller, callee, count: executed(address), frame });
    }
    Ok((functions, calls, updates))
}

/// The distances of the stack pointer from the beginning of the activation (the canonical frame address).
struct Frames {
    /// Ascending: first address, end, distance. Addresses where the frame does not count from the stack pointer have no
    /// row.
    rows: Vec<(u64, u64, u32)>,
}

impl Frames {
    fn read(data: &[u8]) -> Result<Self> {
        let file = object::File::parse(data)?;
        let section = file.section_by_name(".eh_frame").context("the program has no unwind tables")?;
        let text = file.section_by_name(".text").map_or(0, |text| text.address());
        let table = EhFrame::new(section.data()?, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(section.address()).set_text(text);
        let mut entries = table.entries(&bases);
        let mut context = UnwindContext::new();
        let mut cies = HashMap::new();
        let mut rows = Vec::new();
        while let Some(entry) = entries.next()? {
            let CieOrFde::Fde(partial) = entry else { continue };
            let fde = partial.parse(|section, bases, offset| match cies.get(&offset) {
                Some(cie) => Ok(Clone::clone(cie)),
                None => {
                    let cie = section.cie_from_offset(bases, offset)?;
                    cies.insert(offset, cie.clone());
                    Ok(cie)
                }
            })?;
            let mut table_rows = fde.rows(&table, &bases, &mut context)?;
            while let Some(row) = table_rows.next_row()? {
                if let CfaRule::RegisterAndOffset { register: STACK_POINTER, offset } = *row.cfa()
                    && let Ok(offset) = u32::try_from(offset)
                {
                    rows.push((row.start_address(), row.end_address(), offset));
                }
            }
        }
        rows.sort_unstable();
        Ok(Self { rows })
    }

    fn at(&self, address: u64) -> Option<u32> {
        let after = self.rows.partition_point(|&(start, ..)| start <= address);
        let &(_, end, offset) = self.rows.get(after.checked_sub(1)?)?;
        (address < end).then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// main calls a and b, which call c from frames of these sizes.
    fn diamond(frames: [u32; 2], silent: bool) -> Hybrid {
        let function = |main| Function { main, open: false, silent, count: 100 };
        let functions: Vec<Function> = (0..4).map(|i| function(i == 0)).collect();
        let call =
            |caller, callee, frame| Call { caller, callee: Some(callee), count: 100, frame: Some(frame) };
        let (a, b) = (call(0, 1, 16), call(0, 2, 16));
        compare(&functions, &[a, b, call(1, 3, frames[0]), call(2, 3, frames[1])])
    }

    #[test]
    fn stack_offsets_tell_contexts_apart() {
        let different = diamond([16, 32], false);
        assert_eq!(different.calls, 400);
        // One of two in-edges of c needs an addition, here or above it.
        for ways in [different.counted, different.equal] {
            assert_eq!([ways.basic, ways.today].map(|work| work.additions), [100, 100]);
            assert_eq!([ways.hybrid, ways.algorithm_4].map(|work| work.additions + work.tests), [0, 0]);
        }
        let equal = diamond([16, 16], false);
        assert_eq!(equal.counted.hybrid.additions, 100);
        let silent = diamond([16, 16], true);
        assert_eq!(
            (silent.silent, silent.counted.basic.additions, silent.counted.today.additions),
            (400, 100, 0)
        );
    }

    #[test]
    fn unwind_tables_give_frame_offsets() {
        // Rust programs have unwind tables, and few frame pointers.
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        let frames = Frames::read(&program).unwrap();
        assert!(frames.rows.len() > 1000);
        // At the beginning of a function there is only the return address.
        let starts = frames.rows.iter().filter(|&&(.., offset)| offset == 8).count();
        assert!(starts > 100, "{starts} of {}", frames.rows.len());
        let &(start, end, offset) = &frames.rows[frames.rows.len() / 2];
        assert_eq!((frames.at(start), frames.at(end - 1)), (Some(offset), Some(offset)));
        assert_eq!(frames.at(0), None);
    }
}
