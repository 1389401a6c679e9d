//! `pcce pages`: manual pages and completions of shells, and the keywords of `pcce_instrument` for CMake,
//! where an installation has them in its `share`.

use std::fmt::Write;
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
        let page = page.with_context(|| manual.display().to_string())?.path();
        let of_wrapper =
            page.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"pcce-clang"));
        let finished =
            |text: String| finish(&text, if of_wrapper { pcce_options::ENVIRONMENT } else { ENVIRONMENT });
        let text = fs::read_to_string(&page).and_then(|text| fs::write(&page, finished(text)));
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

/// The environment variables that `pcce` reads.
const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "DEBUGINFOD_URLS",
        "Servers that are asked for dictionaries, by elfutils' debuginfod-find, which keeps what it gets.",
    ),
    ("NO_COLOR", "Not empty: no colours on a terminal, but with --color=always."),
];

/// A manual page, with the sections that the generator lacks.
fn finish(page: &str, variables: &[(&str, &str)]) -> String {
    // The text after the options is set in columns.
    let mut page = page.replace(".SH EXTRA\n", ".SH NOTES\n.nf\n");
    if !variables.is_empty() {
        page += ".fi\n.SH ENVIRONMENT\n";
        for (name, meaning) in variables {
            let _ =
                writeln!(page, ".TP\n\\fB{name}\\fR\n{}", meaning.replace('\\', "\\\\").replace('-', "\\-"));
        }
    }
    page
}
