//! `pcce link`.

use super::{LinkArgs, Status};

/// Encodes an executable or shared library as a whole.
pub fn run(args: &LinkArgs) -> anyhow::Result<Status> {
    let summary = pcce_link::link_file(&args.program, &[])?;
    if args.verbose {
        eprintln!(
            "{} functions in {} modules, {} edges; {} places change the id, {} stubs push, {} calls are direct",
            summary.functions,
            summary.modules,
            summary.edges,
            summary.updates,
            summary.pushing_stubs,
            summary.direct
        );
    }
    Ok(Status::Done)
}
