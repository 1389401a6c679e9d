//! Arguments for how contexts look.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pcce::folding::{DEFAULT, Hidden};
use pcce::style::Style;

use super::project::Project;

/// How contexts look.
#[derive(Args)]
pub struct Appearance {
    /// Names of functions without parameters, template arguments and generic arguments
    #[arg(long)]
    pub short: bool,
    /// Leave this out where the path of a source file begins with it; may be given several times
    #[arg(long, value_name = "DIR")]
    pub strip_prefix: Vec<PathBuf>,
    /// Paths of source files as they lead from this folder
    #[arg(long, value_name = "DIR")]
    pub relative_to: Option<PathBuf>,
    /// Columns of a line: names and paths are cut to fit, where they say least; 0: any number [default: the
    /// terminal's]
    #[arg(long, value_name = "N")]
    pub width: Option<usize>,
    /// Colours; without the option, on terminals only, and not if NO_COLOR is set
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Colour::Auto, hide_default_value = true)]
    pub color: Colour,
}

/// When there are colours.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Appearance {
    /// The style for standard output, or for a file.
    ///
    /// # Errors
    /// The working directory is not known, and `--relative-to` needs it, or the project's settings cannot be read.
    pub fn style(&self, to_file: bool) -> anyhow::Result<Style> {
        self.in_project(&Project::find()?, to_file)
    }

    fn in_project(&self, project: &Project, to_file: bool) -> anyhow::Result<Style> {
        let terminal = !to_file && io::stdout().is_terminal();
        let refused = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        let columns = || console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
        Ok(Style {
            short: self.short,
            strip_prefixes: self.strip_prefix.iter().chain(&project.strip_prefix).cloned().collect(),
            relative_to: self.relative_to.as_ref().map(std::path::absolute).transpose()?,
            width: match self.width {
                Some(0) => None,
                Some(width) => Some(width),
                None => terminal.then(columns).flatten(),
            },
            colour: match self.color {
                Colour::Auto => terminal && !refused("NO_COLOR") && !dumb,
                Colour::Always => true,
                Colour::Never => false,
            },
            hidden: Hidden::default(),
        })
    }
}

/// How contexts look of which several calls can be one line.
#[derive(Args)]
pub struct Folded {
    #[command(flatten)]
    appearance: Appearance,
    /// In text, show several calls of these functions that follow one another as one line: a pattern of names
    /// (app::log*), or, with a slash, of paths of source files; may be given several times. The insides of std::, of
    /// spdlog and of fmt are shown so without the option
    #[arg(long, value_name = "PATTERN")]
    hide: Vec<String>,
    /// Show all calls, each with its line
    #[arg(long, conflicts_with = "hide")]
    all: bool,
}

impl Folded {
    /// As [`Appearance::style`], with the patterns of hidden calls: of the options, of the project's settings, and the
    /// default ones.
    ///
    /// # Errors
    /// The errors of [`Appearance::style`]; or a pattern cannot be read.
    pub fn style(&self, to_file: bool) -> anyhow::Result<Style> {
        let project = Project::find()?;
        let style = self.appearance.in_project(&project, to_file)?;
        if self.all {
            return Ok(style);
        }
        let patterns = self.hide.iter().chain(&project.hide).map(String::as_str).chain(DEFAULT);
        Ok(Style { hidden: Hidden::new(patterns)?, ..style })
    }
}
