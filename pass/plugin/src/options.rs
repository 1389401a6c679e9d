//! The options of the pass: parsed once, here.
//!
//! They come from `-passes='pcce<…>'` or from the environment variable [`VARIABLE`], which the wrapper
//! compilers set: the linker parses its own options before it loads plugins, so command-line options cannot
//! reach the pass there. Both hold a list separated by `;`.

/// The environment variable.
pub const VARIABLE: &str = "PCCE_OPTIONS";

/// What the pass was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `verify`: keep a shadow stack and compare at every function entry.
    pub verify: bool,
    /// `whole-program`: as if at link time, for `opt`.
    pub whole_program: bool,
    /// `shared` or `relocatable`: the output is not an executable, so that context numbers of
    /// this module need a process to tell them from those of other modules.
    pub partial: bool,
    /// `check`: verify the module after instrumentation, in release builds of the plugin too.
    pub check: bool,
    /// `no-callback=FILE`: further functions that do not call back.
    pub no_callback: Vec<String>,
    /// `crash-report=PATH`: the program reports its crashes there, or to `stderr`.
    pub crash_report: Option<String>,
}

/// An option that was not understood.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownOption(String);

impl std::fmt::Display for UnknownOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "unknown pass option '{}' (in -passes='pcce<…>' or {VARIABLE}); there are: verify, \
             whole-program, shared, relocatable, check, no-callback=FILE, crash-report=PATH",
            self.0
        )
    }
}

impl Options {
    /// Reads a list of options separated by `;` (blanks around them are ignored).
    ///
    /// # Errors
    /// [`UnknownOption`] names the first one that does not exist.
    pub fn add(&mut self, list: &str) -> Result<(), UnknownOption> {
        for option in list.split(';').map(str::trim).filter(|o| !o.is_empty()) {
            match option.split_once('=') {
                None if option == "verify" => self.verify = true,
                None if option == "whole-program" => self.whole_program = true,
                None if option == "shared" || option == "relocatable" => self.partial = true,
                None if option == "check" => self.check = true,
                Some(("no-callback", file)) if !file.is_empty() => self.no_callback.push(file.to_owned()),
                Some(("crash-report", path)) if !path.is_empty() => self.crash_report = Some(path.to_owned()),
                _ => return Err(UnknownOption(option.to_owned())),
            }
        }
        Ok(())
    }

    /// The options as they go into the dictionary.
    pub fn describe(&self) -> Vec<String> {
        let flags = [
            (self.verify, "verify"),
            (self.whole_program, "whole-program"),
            (self.partial, "partial"),
            (self.check, "check"),
        ];
        let mut out: Vec<String> = flags.iter().filter(|f| f.0).map(|f| f.1.to_owned()).collect();
        out.extend(self.crash_report.iter().map(|path| format!("crash-report={path}")));
        out.extend(self.no_callback.iter().map(|f| format!("no-callback={f}")));
        out
    }
}
