//! Captures of programs in verify mode (`PCCE_VERIFY_CAPTURES`), compared with the shadow stack.

use std::path::{Path, PathBuf};

use crate::{Output, artifact, command, run};

/// The file of an executable's captures.
pub fn file(executable: &Path) -> PathBuf {
    executable.with_extension("captures")
}

/// The file of numbers beside that of captures.
pub fn numbers(captures: &Path) -> PathBuf {
    captures.with_extension("numbers")
}

/// Compares the captures in a file, with the file of numbers beside it. `images` are the program and its instrumented
/// libraries.
pub fn verified(images: &[&Path], captures: &Path) -> Output {
    let mut verified = command(artifact("pcce"), &["verified", "--captures"]);
    verified.arg(captures);
    let numbers = numbers(captures);
    if numbers.exists() {
        verified.arg("--numbers").arg(numbers);
    }
    for (i, image) in images.iter().enumerate() {
        if i > 0 {
            verified.arg("--dict");
        }
        verified.arg(image);
    }
    run(&mut verified)
}

/// Returns the number of compared captures, and how many of them say that calls are not known. There may be none.
///
/// # Errors
/// The output of `pcce verified`, if a capture is wrong.
pub fn compare(images: &[&Path], captures: &Path) -> Result<(u64, u64), String> {
    if !captures.exists() {
        return Ok((0, 0));
    }
    let output = verified(images, captures);
    let words: Vec<&str> = output.stdout.trim_end().split(' ').collect();
    let number = |word: &str| word.parse::<u64>().map_err(|_| output.describe());
    match words[..] {
        [_, "captures,", equal, "equal,", partly, .., "0", "wrong"] if !output.stderr.contains("damaged") => {
            Ok((number(equal)?, number(partly)?))
        }
        _ => Err(output.describe()),
    }
}
