//! A link in link mode: the linker, and then the step that encodes what it wrote.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use pcce_link::{Cause, link_file};

use crate::Error;

use crate::plan::BehindLink;
use crate::strip::Strip;

/// Runs both.
///
/// # Errors
/// One of them cannot run, or the step failed; then there is no executable.
pub fn run(
    mut linker: Command,
    output: &Path,
    behind: &BehindLink,
    asked_for: &[String],
) -> Result<ExitCode, Error> {
    let system = |what: String| move |source| Error::System { what, source };
    let name = linker.get_program().to_string_lossy().into_owned();
    let status = linker.status().map_err(system(format!("cannot run `{name}`")))?;
    if !status.success() {
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        return Ok(u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from));
    }
    // Nothing was linked (`-###`, `-Wl,--version`), or it went to /dev/null: questions of configure scripts.
    if !fs::metadata(output).is_ok_and(|data| data.is_file()) {
        return Ok(ExitCode::SUCCESS);
    }
    match link_file(output, asked_for) {
        Ok(_) => {}
        // Nothing in it was compiled for this.
        Err(error) if matches!(error.cause, Cause::Link(pcce_link::Error::Nothing)) => {}
        Err(error) => {
            let _ = fs::remove_file(output);
            return Err(error.into());
        }
    }
    if let Some(strip) = behind.strip {
        let flag = match strip {
            Strip::All => "--strip-all",
            Strip::Debug => "--strip-debug",
        };
        let status = Command::new("strip").arg(flag).arg(output).status();
        let status =
            status.map_err(system("cannot run `strip`, which link mode strips programs with".into()))?;
        if !status.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
