//! Programs that count their calls, and programs that are encoded with a profile of calls.

use std::fmt::Write as _;

use pcce_abi::skeleton::{TARGET_NAMES, function_symbol};
use pcce_dictionary::calls;
use pcce_encoding::{Encoding, FunctionId, Options};
use pcce_model::slice::{CountedFunction, SliceCounts};
use pcce_model::{Function, Matched, Profile, Program, counted};

use crate::Error;
use crate::added::Added;
use crate::merge::Merged;
use crate::scratch::Scratch;
use crate::{Module, Order, tables};

/// A profile, for a program of several modules.
pub struct Counts {
    profile: Option<Profile>,
    /// For each function of which the program has the body, the name of its module.
    modules: Vec<Option<String>>,
}

impl Counts {
    /// Reads the profile that the options name.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn load(merged: &Merged, modules: &[Module], scratch: &Scratch) -> Result<Self, Error> {
        let profile = merged.wanted.profile.as_deref().map(Profile::load).transpose()?;
        let profiled = modules.iter().enumerate().filter(|_| profile.is_some());
        let names = profiled.flat_map(|(m, module)| {
            let places = (0..module.functions().len()).map(move |f| (m, f));
            places.map(|place| scratch.has(place).then(|| module.name().to_owned()))
        });
        Ok(Self { modules: names.collect(), profile })
    }

    /// The counts of the profile for the functions.
    pub fn find(&self, functions: &[Function]) -> Matched {
        match &self.profile {
            Some(profile) => profile.find(|function| self.modules[function].as_deref(), functions),
            None => Matched::default(),
        }
    }

    /// A warning for the user.
    pub fn report(&self, program: &Program) -> Option<String> {
        self.profile.as_ref()?.report("the program", &program.counts)
    }

    /// Compares calls through pointers that push with the functions that they reach most according to the
    /// profile, and the others with their few possible targets. Returns the counts afterwards.
    pub fn compare(
        &self,
        added: &mut Added<'_>,
        scratch: &Scratch,
        merged: &mut Merged,
        program: &Program,
        encoding: &Encoding,
        options: &Options,
    ) -> Matched {
        let mut counts = program.counts.clone();
        let is_there = |callee| scratch.has(added.place(callee));
        let of_profile =
            self.profile.as_ref().map(|profile| profile.candidates(program, encoding, options, is_there));
        for candidate in of_profile.into_iter().flatten() {
            let direct = merged.functions[candidate.function.index()].calls.len();
            if added.compare_with_function(
                scratch,
                merged,
                candidate.function,
                candidate.call,
                candidate.callee,
            ) {
                counts.compare(&candidate, direct);
            }
        }
        added.compare(scratch, merged, program, encoding, &mut counts);
        counts
    }
}

/// Makes the modules count. Returns the tables for it, as assembly.
pub fn generate(
    orders: &mut [Order],
    modules: &[Module],
    program: &Program,
    added: &Added<'_>,
    scratch: &Scratch,
) -> String {
    let mut counts: Vec<SliceCounts> = modules.iter().map(|_| SliceCounts::default()).collect();
    let (mut rows, mut texts, mut reached) = (String::new(), Vec::new(), 0);
    for (id, function) in program.iter() {
        let (module, number) = added.place(id);
        if !scratch.has((module, number)) {
            continue;
        }
        if !function.silent {
            counts[module].functions.push(counted_function(program, id, number));
        }
        if function.external || function.otherwise_used || function.address_taken {
            orders[module].slice.functions[number].labelled = true;
            let label = function_symbol(&function.name, (modules[module].id, number as u32));
            let _ = writeln!(rows, ".hidden \"{label}\"\n.quad \"{label}\", .Ltexts+{}", texts.len());
            texts.extend(calls::json(&function.name).bytes().chain([0]));
            reached += 1;
        }
    }
    for (order, counts) in orders.iter_mut().zip(counts) {
        order.slice.counts = Some(SliceCounts { reached, ..counts });
    }
    let mut asm = String::from(".section .rodata.pcce,\"a\",@progbits\n.Ltexts:\n");
    tables::bytes(&mut asm, &texts);
    asm.push_str(".section .data.rel.ro,\"aw\",@progbits\n.p2align 3\n");
    tables::object(&mut asm, TARGET_NAMES, reached as usize * 16);
    asm + &rows
}

fn counted_function(program: &Program, id: FunctionId, number: usize) -> CountedFunction {
    let calls = counted(&program.functions, &program[id]);
    let calls = calls.map(|(call, callee)| (call as u32, callee.map(str::to_owned)));
    CountedFunction { function: number as u32, calls: calls.collect() }
}
