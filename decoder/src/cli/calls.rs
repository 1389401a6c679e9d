//! `pcce profile`: profiles of calls, which the pass reads.

use anyhow::Context;
use pcce_dictionary::calls::Calls;

use super::Status;
use super::profile::write_to;
use super::views::ProfileAction;

/// Adds profiles up.
pub fn run(action: &ProfileAction) -> anyhow::Result<Status> {
    let ProfileAction::Merge { profiles, output: file } = action;
    let mut all = Calls::default();
    for path in profiles {
        let name = path.display();
        let text = pcce::load::read_file(path.as_ref()).with_context(|| format!("{name}: cannot be read"))?;
        all.functions.extend(Calls::read(&text).with_context(|| name.to_string())?.functions);
        // All in one call: a test suite can leave a profile for each of its many processes.
        all = all.merged();
    }
    // The output may be one of the profiles, which have been read.
    write_to(file.as_deref(), |out| all.write(out))?;
    Ok(Status::Done)
}
