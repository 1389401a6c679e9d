//! How far a long command is.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on a terminal; lines for what is finished everywhere.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for this many things.
    ///
    /// # Panics
    /// Never: the template is correct.
    #[must_use]
    pub fn new(count: usize, things: &str) -> Progress {
        let bar = ProgressBar::new(count as u64);
        let template = format!("{{bar:30}} {{pos}}/{{len}} {things}, {{elapsed}}: {{msg}}");
        bar.set_style(ProgressStyle::with_template(&template).expect("the template is correct"));
        bar.enable_steady_tick(Duration::from_millis(500));
        Progress { bar }
    }

    /// What is being done.
    pub fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// A line that stays.
    pub fn line(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    /// One of them is done.
    pub fn done(&self) {
        self.bar.inc(1);
    }

    /// Takes the bar away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
