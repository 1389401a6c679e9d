//! Frame offsets before there is code: what the hybrid encoding needs to know of the stack (pcce.txt, §6).
//!
//! How far the stack pointer is below a function's frame address when it calls is decided by code generation, which
//! comes last. So a copy of the module is instrumented and its code is generated, only to look at it. What the encoding
//! does with these offsets changes the code again, so it is done to the next copy, until one has the offsets on which
//! its own encoding relies. A function whose offset goes on changing is not relied upon any more, so this ends.
//!
//! The linker may be told to make other code than that (`--lto-partitions`, `--lto-CGO0`). Whoever decodes compares the
//! offsets with those of the program's machine code.

use std::collections::BTreeMap;

use pcce_model::hybrid::Frames;

use crate::error::Error;
use crate::llvm::{CodeGeneration, FrameOffset, Run};

/// After so many copies without an end, no offset is relied upon.
const MOST_ROUNDS: u32 = 8;
/// So many of them take the offsets of the copy before for what they are; from then on, those that have changed are not
/// relied upon.
const PATIENT_ROUNDS: u32 = 3;

/// Finds the frame offsets that the module will have when it is instrumented with them. `instrument` does that with a
/// copy, and returns what the encoding relies on; none if nothing was changed.
///
/// # Errors
/// Those of instrumenting the module, and that code cannot be generated here.
pub fn find(
    run: &Run,
    code: CodeGeneration,
    mut instrument: impl FnMut(&mut Run, &Frames) -> Result<Option<Frames>, Error>,
) -> Result<Frames, Error> {
    let bitcode = run.module().bitcode();
    let mut frames = Frames::default();
    for round in 0..=MOST_ROUNDS {
        frames.rounds = (round > 0).then_some(round);
        let mut copy = bitcode.copy(run)?;
        let Some(used) = instrument(copy.run(), &frames)? else { break };
        if round > 0 && used.offsets.is_empty() {
            return Ok(frames);
        }
        let measured = copy.measure(code)?;
        let offset = |name: &String| match measured.offsets.get(name) {
            Some(&FrameOffset::Fixed(offset)) => Some(offset),
            _ => None,
        };
        let unknown = measured.offsets.iter().filter(|(_, offset)| **offset == FrameOffset::Unknown);
        let before = frames.varying.len();
        frames.varying.extend(unknown.map(|(name, _)| name.clone()));
        if round == 0 {
            frames.offsets =
                measured.offsets.keys().filter_map(|name| Some((name.clone(), offset(name)?))).collect();
            frames.jumps = measured.jumps;
            continue;
        }
        let mut settled = frames.varying.len() == before;
        for (name, used) in &used.offsets {
            let found = offset(name);
            if found == Some(*used) {
                continue;
            }
            settled = false;
            // The encoding changes the frames itself, most of all at first.
            match found.filter(|_| round <= PATIENT_ROUNDS) {
                Some(offset) => frames.offsets.insert(name.clone(), offset),
                None => frames.offsets.remove(name),
            };
        }
        for jump in &used.jumps {
            if !measured.jumps.contains(jump) {
                settled = false;
                frames.jumps.remove(jump);
            }
        }
        if settled {
            return Ok(frames);
        }
    }
    frames.offsets.clear();
    frames.jumps.clear();
    Ok(frames)
}

/// Prints the frame offsets of the module's code, as tests ask for them.
///
/// # Errors
/// Its code cannot be generated.
pub fn print(run: &Run, code: CodeGeneration) -> Result<(), Error> {
    let measured = run.module().bitcode().copy(run)?.measure(code)?;
    let offsets: BTreeMap<_, _> = measured.offsets.into_iter().collect();
    for (name, offset) in offsets {
        println!("{name}: {offset:?}");
    }
    Ok(())
}
