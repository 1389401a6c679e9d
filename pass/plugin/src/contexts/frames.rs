//! Frame offsets before there is code: what the hybrid encoding needs to know of the stack (pcce.txt, §6).
//!
//! How far the stack pointer is below a function's frame address when it calls is decided by code generation, which
//! comes last. So a copy of the module is instrumented and its code is generated, only to look at it. What the encoding
//! does with these offsets changes the code again, so it is done to the next copy, until one has the offsets on which
//! its own encoding relies. A function whose offset goes on changing is not relied upon any more, so this ends.
//!
//! The linker may be told to make other code than that (`--lto-partitions`, `--lto-CGO0`). Whoever decodes compares the
//! offsets with those of the program's machine code.

use pcce_model::hybrid::{Frames, MOST_ROUNDS};

use crate::error::Error;
use crate::llvm::{CodeGeneration, Run};

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
        if frames.learn(&used, copy.measure(code)?) {
            return Ok(frames);
        }
    }
    frames.forget();
    Ok(frames)
}

/// Prints the frame offsets of the module's code, as tests ask for them.
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
