//! `pcce verified`, for tests: contexts of verify mode, decoded from numbers and compared with the shadow stack.

use std::fs::File;
use std::io::BufReader;

use anyhow::Context as _;
use pcce::numbers::{Numbers, NumbersFile};
use pcce::verified;

use super::sources::Sources;
use super::{Status, VerifiedArgs};

/// Compares, and tells what came of it.
pub fn run(args: &VerifiedArgs) -> anyhow::Result<Status> {
    let sources = Sources::open(Some(&args.program), &args.more, &[], None)?;
    let file = NumbersFile::open(&args.numbers).with_context(|| args.numbers.display().to_string())?;
    let path = || args.contexts.display().to_string();
    let contexts = BufReader::with_capacity(1 << 20, File::open(&args.contexts).with_context(path)?);
    let numbers = Numbers::from(file);
    let found = verified::check(&sources.decoder, &numbers, contexts, args.step).with_context(path)?;
    println!(
        "{} contexts, {} of silent functions, {} decoded with {} calls, {} of them with calls missing behind a boundary, \
         {} wrong",
        found.contexts, found.silent, found.decoded, found.calls, found.partly, found.wrong
    );
    if let Some(first) = found.first {
        super::message(&first);
    }
    Ok(if found.wrong == 0 && found.decoded + found.silent > 0 { Status::Done } else { Status::Failed })
}
