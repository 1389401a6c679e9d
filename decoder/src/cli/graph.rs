//! `pcce graph`.

use anyhow::bail;
use pcce::graph::{GraphError, Selection, draw};
use pcce::load::load;
use pcce::names::Wanted;
use pcce::style::Style;

use super::Status;
use super::profile::{additive, output, read_profile};
use super::views::GraphArgs;

/// The number of functions above which a note says how to draw fewer: nobody can read such a graph.
const MAX_READABLE: usize = 200;

/// Draws the call graph.
pub fn run(args: &GraphArgs) -> anyhow::Result<Status> {
    let read = match &args.profile {
        Some(profile) => Some(read_profile(None, &args.program, profile, &args.more, &Style::default())?),
        None => None,
    };
    let dictionary = match &read {
        Some(read) => read.dictionary.clone(),
        None => {
            let dictionary = load(&args.program)?;
            pcce::Decoder::new(std::slice::from_ref(&dictionary))?;
            dictionary
        }
    };
    let heat = match (&read, &args.by) {
        (Some(read), by) => {
            let (number, metric) = additive(&read.profile, by.as_deref())?;
            Some((&read.stacks, number, metric))
        }
        (None, Some(_)) => bail!("--by needs a profile (--profile FILE)"),
        (None, None) => None,
    };
    let around = args.around.as_deref().map(Wanted::new);
    let selection =
        Selection { around, depth: args.depth, min_percent: args.min_percent, encoding: args.encoding };
    let drawing = draw(&dictionary, heat, &selection).map_err(|mut error| {
        // The program's machine code has more facts than its dictionary.
        if let (GraphError::NoFunction { standing, .. }, Some(around)) = (&mut error, &selection.around) {
            standing.add(&args.program, around);
        }
        error
    })?;
    if let Some(around) = args.around.as_deref().filter(|_| drawing.silent) {
        super::note(&format!(
            "{around} is silent: nothing that it reaches takes a context or calls back, so its calls are not encoded, \
             and no arrow leads to it"
        ));
    }
    if drawing.shown > MAX_READABLE {
        super::note(&format!(
            "{} functions are drawn, which is more than a picture can show; --around NAME --depth N draws a part",
            drawing.shown
        ));
    }
    output(args.output.as_deref(), |out| out.write_all(drawing.dot.as_bytes()))?;
    Ok(Status::Done)
}
