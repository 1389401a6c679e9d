//! `images TRACE…`: what an encoding of calls between images would bring to the runs that these traces are of, as JSON
//! (docs/images.md). The images must be where they were when they wrote them.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use pcce::trace::TraceFile;
use pcce_testsuite::images::compare::compare;
use pcce_testsuite::images::program::Process;

/// What an encoding of calls between images would bring to a run
#[derive(Parser)]
struct Arguments {
    /// Files that PCCE_TRACE has named
    #[arg(required = true)]
    traces: Vec<PathBuf>,
}

fn main() -> Result<()> {
    for path in Arguments::parse().traces {
        let context = || path.display().to_string();
        let trace = TraceFile::open(&path).with_context(context)?;
        let process = Process::load(&trace).with_context(context)?;
        let comparison = compare(&process, &trace).with_context(context)?;
        println!("{}", serde_json::to_string(&comparison)?);
    }
    Ok(())
}
