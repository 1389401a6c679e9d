//! Options that do nothing in a mode, or with or without another option. Users must not believe that they had
//! an effect.

use crate::{Error, Mode, PREFIX, PassOptions, WrapperFlags};

/// When an option does nothing.
#[derive(Clone, Copy)]
enum When {
    /// In this mode.
    In(Mode),
    /// In a library that is encoded as a whole.
    InLibraries,
    /// With this option.
    With(&'static str),
    /// Without this option.
    Without(&'static str),
}

/// The one table: an option, as the pass's list names it, when it does nothing, and why.
const IGNORED: &[(&str, When, &str)] = &[
    ("hybrid", When::In(Mode::Module), FULL_LTO),
    (
        "hybrid",
        When::InLibraries,
        "only an executable's code is generated ahead of its link, to see its frames",
    ),
    ("hybrid", When::With("profile-generate"), "a program that counts its calls is not encoded to be fast"),
    ("trace-skip", When::Without("trace"), "it is about traces; give `--pcce-trace`, too"),
    ("trace-only", When::Without("trace"), "it is about traces; give `--pcce-trace`, too"),
    ("trace-baseline", When::Without("trace"), "it is about traces; give `trace`, too"),
    ("verify-report", When::Without("verify"), "it is about verify mode; give `--pcce-verify`, too"),
];

const FULL_LTO: &str = "it needs the code of a whole program; leave `--pcce-mode`, `-flto=thin` and \
                        `-fno-lto` out, or use `--pcce-mode=lto`";

/// The rows of the table that are about some options.
fn rows<'g>(
    given: &'g [String],
) -> impl Iterator<Item = &'static (&'static str, When, &'static str)> + use<'g> {
    IGNORED.iter().filter(|(option, _, _)| has(given, option))
}

fn has(given: &[String], option: &str) -> bool {
    given.iter().any(|given| given.split('=').next() == Some(option))
}

impl WrapperFlags {
    /// Refuses options that do nothing in this mode, or without other options. `list` are the user's own
    /// options for the pass.
    ///
    /// # Errors
    /// [`Error::Ignored`].
    pub fn check_used(&self, list: &PassOptions, mode: Mode) -> Result<(), Error> {
        if self.keep.is_some() && mode != Mode::Link {
            let why = "only link mode has objects of which code can be generated again; leave `--pcce-mode` and \
                       `-flto` out, or give `--pcce-mode=link`";
            return Err(Error::Ignored { option: format!("{PREFIX}keep"), why });
        }
        let given = [self.names(), list.describe()].concat();
        check(&given, mode, PREFIX)
    }
}

impl PassOptions {
    /// Refuses options that do nothing without other options.
    ///
    /// # Errors
    /// [`Error::Ignored`].
    pub fn check_used(&self) -> Result<(), Error> {
        // In lto mode files without bitcode are compiled as in module mode, with the options of the others.
        let mode = if self.capture || self.slice.is_some() { Mode::Link } else { Mode::Lto };
        check(&self.describe(), mode, "")
    }

    /// Messages about options that have no effect on a module: an executable or a library that is encoded as
    /// a whole, or a module by itself.
    pub fn without_effect(&self, whole_program: bool, executable: bool) -> Vec<String> {
        let given = self.describe();
        let fits = |when: When| match when {
            When::In(mode) => mode == Mode::Module && !whole_program,
            When::InLibraries => whole_program && !executable,
            When::With(other) => has(&given, other),
            When::Without(_) => false,
        };
        let rows = rows(&given).filter(|(_, when, _)| fits(*when));
        rows.map(|(option, _, why)| format!("the option {option} has no effect here: {why}")).collect()
    }
}

fn check(given: &[String], mode: Mode, prefix: &str) -> Result<(), Error> {
    let fits = |when: When| match when {
        When::In(ignoring) => ignoring == mode,
        When::Without(other) => !has(given, other),
        // Build systems give all programs and libraries the same options. So this is a message, not an error.
        When::InLibraries | When::With(_) => false,
    };
    match rows(given).find(|(_, when, _)| fits(*when)) {
        None => Ok(()),
        Some((option, _, why)) => Err(Error::Ignored { option: format!("{prefix}{option}"), why }),
    }
}
