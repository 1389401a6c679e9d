//! `pcce pages`: manual pages and completions of shells, and the keywords of `pcce_instrument` for CMake, where an
//! installation has them in its `share`.

use std::fs;

use anyhow::Context;
use clap_complete::{Shell, generate_to};

use super::{PagesArgs, Status};

/// Writes all of them.
pub fn run(args: &PagesArgs) -> anyhow::Result<Status> {
    let folder = |name: &str| {
        let folder = args.folder.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
        anyhow::Ok(folder)
    };
    let manual = folder("man/man1")?;
    let command = super::description().disable_help_subcommand(true);
    let wrappers = || ["pcce-clang", "pcce-clang++"].map(pcce_options::wrapper_description);
    for command in [command].into_iter().chain(wrappers()) {
        clap_mangen::generate_to(command, &manual).with_context(|| manual.display().to_string())?;
    }
    for page in fs::read_dir(&manual).with_context(|| manual.display().to_string())? {
        // What stands behind the options is set in columns.
        let page = page.with_context(|| manual.display().to_string())?.path();
        let text = fs::read_to_string(&page)
            .and_then(|text| fs::write(&page, text.replace(".SH EXTRA\n", ".SH NOTES\n.nf\n")));
        text.with_context(|| page.display().to_string())?;
    }
    for (shell, name) in [
        (Shell::Bash, "bash-completion/completions"),
        (Shell::Zsh, "zsh/site-functions"),
        (Shell::Fish, "fish/vendor_completions.d"),
    ] {
        let folder = folder(name)?;
        for mut command in [super::description()].into_iter().chain(wrappers()) {
            let name = command.get_name().to_owned();
            generate_to(shell, &mut command, name, &folder).with_context(|| folder.display().to_string())?;
        }
    }
    let keywords = folder("pcce")?.join("keywords.cmake");
    fs::write(&keywords, pcce_options::cmake_keywords()).with_context(|| keywords.display().to_string())?;
    Ok(Status::Done)
}
