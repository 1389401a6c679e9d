//! The common part of the programs in `bin/`: lists from make variables, a progress bar, checks on all cores, a
//! summary, and the exit status.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use rayon::iter::{ParallelBridge as _, ParallelIterator as _};

/// The exit status: success if all is well. An error is printed after the program's name.
pub fn exit(program: &str, result: Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{program}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The names in an argument for a list, as a make variable holds them.
pub fn names(list: &[String]) -> Vec<String> {
    list.iter().flat_map(|names| names.split_whitespace()).map(str::to_owned).collect()
}

/// Writes `summary.json` into a folder, and prints it.
pub fn summarise(folder: &Path, summary: &serde_json::Value) -> Result<()> {
    let text = serde_json::to_string_pretty(summary)?;
    fs::create_dir_all(folder)?;
    fs::write(folder.join("summary.json"), &text)?;
    println!("{text}");
    Ok(())
}

/// A progress bar on a terminal. Lines are printed without a terminal, too.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub fn new(count: usize, things: &str) -> Progress {
        let bar = ProgressBar::new(count as u64);
        let template = format!("{{bar:30}} {{pos}}/{{len}} {things}, {{elapsed}} ({{eta}} left): {{msg}}");
        bar.set_style(ProgressStyle::with_template(&template).expect("the template is correct"));
        bar.enable_steady_tick(Duration::from_millis(500));
        Progress { bar }
    }

    pub fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    pub fn line(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    /// Counts one more.
    pub fn done(&self) {
        self.bar.inc(1);
    }

    pub fn set(&self, done: usize) {
        self.bar.set_position(done as u64);
    }

    /// Returns whether there is no terminal for the bar.
    pub fn is_hidden(&self) -> bool {
        self.bar.is_hidden()
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Checks items on all cores, in their order. `wrong` describes a result that is an error.
    pub fn check_all<T: Send, R: Send>(
        &self,
        items: impl Iterator<Item = T> + Send,
        check: impl Fn(&T) -> R + Sync,
        wrong: impl Fn(&T, &R) -> Option<String> + Sync,
    ) -> Vec<(T, R)> {
        // A bridge takes the items in their order.
        let checked = items.par_bridge().map(|item| {
            let result = check(&item);
            if let Some(text) = wrong(&item, &result) {
                self.line(&text);
            }
            self.done();
            (item, result)
        });
        let all = checked.collect();
        self.end();
        all
    }
}
