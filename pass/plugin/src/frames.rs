//! Frame offsets before there is code: what the hybrid encoding needs to know of the stack (pcce.txt, §6).
//!
//! How far the stack pointer is below a function's frame address when it calls is decided by code generation, which comes last. So
//! a copy of the module is instrumented and its code is generated, only to look at it. What the encoding does with these offsets changes the code
//! again, so it is done to the next copy, until one has the offsets on which its own encoding relies. A function whose offset has
//! changed on the way is not relied upon any more, so this ends.
//!
//! The linker may be told to make other code than that (`--lto-partitions`, `--lto-CGO0`). Whoever decodes compares the offsets
//! with the program's unwind tables.

use std::collections::{BTreeMap, HashMap};

use crate::llvm::{Analyses, CodeGeneration, FrameOffset, Module};
use crate::{Job, instrument};

/// After so many copies without an end, no offset is relied upon.
const MOST_ROUNDS: u32 = 8;

/// What is known of the stack at calls.
#[derive(Default)]
pub struct Frames {
    /// Frame offsets in bytes, of functions by name. Nothing is known of others.
    pub offsets: HashMap<String, u32>,
    /// How many copies were instrumented with offsets until they were found; none if nobody asked for them.
    pub rounds: Option<u32>,
}

/// Finds the frame offsets that the module will have when it is instrumented with them.
///
/// That code cannot be generated here is a warning, and nothing is known then.
///
/// # Errors
/// Those of instrumenting the module.
pub fn find(
    job: &Job,
    module: Module,
    analyses: Analyses,
    warnings: &mut Vec<String>,
) -> Result<Frames, String> {
    let mut unknown = |why: String| {
        warnings.push(format!(
            "{}: the option hybrid has no effect, since the code cannot be generated ahead of time to see its frames: {why}",
            job.identifier
        ));
        Ok(Frames::default())
    };
    let bitcode = module.bitcode();
    let mut frames = Frames::default();
    for round in 0..=MOST_ROUNDS {
        let copy = match bitcode.copy(analyses) {
            Ok(copy) => copy,
            Err(why) => return unknown(why),
        };
        let outcome = instrument(job, copy.module(), analyses, &frames)?;
        if !outcome.changed {
            break;
        }
        if round > 0 {
            frames.rounds = Some(round);
            if outcome.used.is_empty() {
                return Ok(frames);
            }
        }
        let measured = match copy.frame_offsets(job.code) {
            Ok(measured) => measured,
            Err(why) => return unknown(why),
        };
        if round == 0 {
            let fixed = |(name, offset)| match offset {
                FrameOffset::Fixed(offset) => Some((name, offset)),
                FrameOffset::Varying => None,
            };
            frames.offsets = measured.into_iter().filter_map(fixed).collect();
            continue;
        }
        let differs = |name: &String, offset: u32| measured.get(name) != Some(&FrameOffset::Fixed(offset));
        let differing: Vec<String> = outcome
            .used
            .into_iter()
            .filter(|(name, offset)| differs(name, *offset))
            .map(|used| used.0)
            .collect();
        if differing.is_empty() {
            return Ok(frames);
        }
        for name in differing {
            frames.offsets.remove(&name);
        }
    }
    frames.offsets.clear();
    Ok(frames)
}

/// Prints the frame offsets of the module's code, as tests ask for them.
///
/// # Errors
/// Its code cannot be generated.
pub fn print(module: Module, analyses: Analyses, code: CodeGeneration) -> Result<(), String> {
    let offsets: BTreeMap<_, _> = module.bitcode().copy(analyses)?.frame_offsets(code)?.into_iter().collect();
    for (name, offset) in offsets {
        println!("{name}: {offset:?}");
    }
    Ok(())
}
