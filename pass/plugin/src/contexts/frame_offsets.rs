//! Frame offsets before there is code: the knowledge about the stack that the hybrid encoding needs
//! (pcce.txt, §6).
//!
//! Code generation, which comes last, decides how far the stack pointer is below a function's frame address
//! at calls. So a copy of the module is instrumented, and its code is generated to be measured. The encoding
//! that uses these offsets changes the code again. So further copies are made, until one has the offsets that
//! its own encoding relies on. The process ends, since a function whose offset keeps changing is no longer
//! relied on.
//!
//! Options may make the linker generate other code (`--lto-partitions`, `--lto-CGO0`). The decoder compares
//! the offsets with the program's machine code.

use pcce_model::hybrid::{Frames, MOST_ROUNDS};

use crate::error::Error;
use crate::llvm::{CodeGeneration, Run};

/// Finds the frame offsets that the module will have when it is instrumented with them. `instrument`
/// instruments a copy, and returns the frames that its encoding relies on; none if nothing was changed.
///
/// # Errors
/// The module cannot be instrumented, or its code cannot be generated here.
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
        if frames.learn(&used, copy.measure(code)?) {
            return Ok(frames);
        }
    }
    frames.forget();
    Ok(frames)
}

/// Prints the frame offsets of the module's code, for tests.
///
/// # Errors
/// Its code cannot be generated.
pub fn print(run: &Run, code: CodeGeneration) -> Result<(), Error> {
    let measured = run.module().bitcode().copy(run)?.measure(code)?;
    for (name, offset) in measured.offsets {
        println!("{name}: {offset:?}");
    }
    Ok(())
}
