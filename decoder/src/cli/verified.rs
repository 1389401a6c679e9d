//! `pcce verified`, for tests: contexts of verify mode, decoded and compared with the shadow stack.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::Context as _;
use pcce::Decoder;
use pcce::verified::{self, captures};

use super::sources::{Sources, open_numbers};
use super::{Status, VerifiedArgs};

/// Compares, and prints the result.
pub fn run(args: &VerifiedArgs) -> anyhow::Result<Status> {
    let mut sources = Sources::open(Some(&args.program), &args.more, &[], None)?;
    if let (Some(_), Some(numbers)) = (&args.captures, &args.numbers) {
        sources.decoder.set_numbers(open_numbers(numbers)?);
    }
    match (&args.captures, &args.contexts, &args.numbers) {
        (Some(captures), ..) => compare_captures(&sources.decoder, captures),
        (None, Some(contexts), Some(numbers)) => {
            compare_contexts(&sources.decoder, contexts, numbers, args.step)
        }
        _ => anyhow::bail!("give the contexts and --numbers, or --captures"),
    }
}

fn open(path: &Path) -> anyhow::Result<BufReader<File>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    Ok(BufReader::with_capacity(1 << 20, file))
}

fn compare_contexts(decoder: &Decoder, contexts: &Path, numbers: &Path, step: u64) -> anyhow::Result<Status> {
    let found = verified::check(decoder, &open_numbers(numbers)?, open(contexts)?, step);
    let found = found.with_context(|| contexts.display().to_string())?;
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

fn compare_captures(decoder: &Decoder, path: &Path) -> anyhow::Result<Status> {
    let found = captures::check(decoder, open(path)?).with_context(|| path.display().to_string())?;
    println!(
        "{} captures, {} equal, {} equal but for calls missing behind a boundary, {} wrong",
        found.captures, found.equal, found.partly, found.wrong
    );
    found.shown.iter().for_each(|shown| super::message(shown));
    let notes = [
        (
            found.without_list,
            "not compared: control had just come back to an activation, and the list was not known",
        ),
        (found.ambiguous, "numbers that have several contexts, or share one"),
        (found.interned, "not compared: numbers from 2^63 on need the file of numbers (`--numbers`)"),
        (found.of_others, "not compared: they are of other programs"),
        (found.mixed, "not compared: they have calls of an image that is not in verify mode"),
        (found.damaged, "damaged lines, which are no captures"),
    ];
    for (count, what) in notes.into_iter().filter(|(count, _)| *count > 0) {
        super::note(&format!("{count} {what}"));
    }
    Ok(match () {
        () if found.wrong > 0 => Status::Mismatch,
        () if found.damaged > 0 || found.equal + found.partly == 0 => Status::Failed,
        () => Status::Done,
    })
}
