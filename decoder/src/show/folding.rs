//! Folding: several unimportant frames in a row become one line.

use std::io::{self, Write};

use glob::Pattern;

use crate::context::{Frame, FrameKind};
use crate::printable::printable;
use crate::show::style::short;

/// Patterns that hide without an option: the insides of the standard libraries of C++ and Rust, of loggers, and of the
/// runtime.
pub const DEFAULT: [&str; 10] = [
    "std::*",
    "__gnu_cxx::*",
    "core::ops::function::*",
    "<* as core::ops::function::*",
    "<* as std::*",
    "spdlog::*",
    "fmt::*",
    "pcce::adapters::*",
    "pcce_runtime::*",
    "__pcce_*",
];

/// The place of a pattern in [`Hidden`].
pub(crate) type Number = u16;

/// Patterns of calls that are hidden.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hidden(Vec<Pattern>);

/// A pattern that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "the pattern `{pattern}` cannot be read: {cause}; it has `*`, `?` and `[…]`, as file names have in a shell"
)]
pub struct BadPattern {
    pattern: String,
    cause: glob::PatternError,
}

impl Hidden {
    /// Hides calls by these patterns: of short names of functions, or, with a `/`, of paths of source files. The first
    /// pattern that fits counts.
    ///
    /// # Errors
    /// A pattern cannot be read.
    pub fn new<'p>(patterns: impl IntoIterator<Item = &'p str>) -> Result<Self, BadPattern> {
        let pattern = |pattern: &str| {
            Pattern::new(pattern).map_err(|cause| BadPattern { pattern: pattern.to_owned(), cause })
        };
        patterns.into_iter().map(pattern).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether a frame is hidden.
    pub fn hides(&self, frame: &Frame<'_>) -> bool {
        self.by(frame).is_some()
    }

    /// The pattern that hides a frame. Boundaries are never hidden, except for functions of the runtime, which are
    /// between the program and the library that it called.
    pub(crate) fn by(&self, frame: &Frame<'_>) -> Option<Number> {
        let name = || frame.function.map(short).unwrap_or_default();
        let is_call = match frame.kind {
            FrameKind::Call => true,
            FrameKind::Uninstrumented => {
                ["pcce_runtime::", "__pcce_"].iter().any(|of_runtime| name().starts_with(of_runtime))
            }
            _ => false,
        };
        if !is_call || self.0.is_empty() {
            return None;
        }
        let name = name();
        let fits = |pattern: &Pattern| match pattern.as_str().contains('/') {
            true => frame.file.is_some_and(|file| pattern.matches(file)),
            false => pattern.matches(&name),
        };
        self.0.iter().position(fits).and_then(|number| Number::try_from(number).ok())
    }
}

/// Writes the lines of a context. Several hidden ones that follow one another are one line, which says how many.
#[derive(Debug, Default)]
pub(crate) struct Folding {
    /// The number of the last lines that are hidden.
    count: u64,
    /// The patterns that hide them, each once.
    by: Vec<Number>,
    /// The first of these lines.
    line: Vec<u8>,
}

impl Folding {
    /// Writes a line of a context, in parts; `by` says what hides it.
    pub(crate) fn line(
        &mut self,
        hidden: &Hidden,
        by: Option<Number>,
        parts: [&[u8]; 3],
        out: &mut impl Write,
    ) -> io::Result<()> {
        let Some(number) = by else {
            self.end(hidden, parts[0], out)?;
            return parts.iter().try_for_each(|part| out.write_all(part));
        };
        if self.count == 0 {
            self.line.clear();
            parts.iter().for_each(|part| self.line.extend_from_slice(part));
        }
        self.count += 1;
        if !self.by.contains(&number) {
            self.by.push(number);
        }
        Ok(())
    }

    /// Writes the hidden lines before a shown line, or at the end of a context. A single line is shown: folded, it
    /// would be a line, too.
    pub(crate) fn end(&mut self, hidden: &Hidden, indent: &[u8], out: &mut impl Write) -> io::Result<()> {
        let count = std::mem::take(&mut self.count);
        let patterns = self.by.drain(..).map(|number| hidden.0[usize::from(number)].as_str());
        let names = patterns
            .map(|pattern| printable(pattern.strip_suffix('*').filter(|s| !s.is_empty()).unwrap_or(pattern)));
        let names: Vec<_> = names.collect();
        match count {
            0 => Ok(()),
            1 => out.write_all(&self.line),
            _ => {
                out.write_all(indent)?;
                writeln!(out, "    … {count} frames of {}", names.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(function: &'static str) -> Frame<'static> {
        Frame {
            kind: FrameKind::Call,
            function: Some(function),
            linkage_name: None,
            file: Some("/usr/include/c++/12/bits/x.h"),
            line: None,
            column: None,
            inlined: false,
            certain: false,
            build_id: None,
        }
    }

    fn folded(hidden: &Hidden, frames: &[Frame<'_>]) -> String {
        let (mut folding, mut out) = (Folding::default(), Vec::new());
        for frame in frames {
            let name = frame.function.unwrap_or("<boundary>");
            folding
                .line(hidden, hidden.by(frame), [b"  ", name.as_bytes(), b"\n"], &mut out)
                .expect("memory");
        }
        folding.end(hidden, b"  ", &mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn runs_are_one_line_and_single_frames_stay() {
        let hidden = Hidden::new(DEFAULT).expect("patterns");
        let boundary = Frame { kind: FrameKind::Tail, function: None, ..call("") };
        let frames = [
            call("void std::sort<int*>(int*, int*)"),
            call("std::__invoke<app::F>(app::F&&)"),
            boundary,
            call("app::sort(std::vector<int>&)"),
            call("std::function<void ()>::operator()() const"),
            call("app::run()"),
            call("spdlog::logger::log(int)"),
            call("std::forward<int>(int&)"),
            call("spdlog::info(int)"),
        ];
        assert_eq!(
            folded(&hidden, &frames),
            "      … 2 frames of std::\n  <boundary>\n  app::sort(std::vector<int>&)\n  std::function<void \
             ()>::operator()() const\n  app::run()\n      … 3 frames of spdlog::, std::\n"
        );
        assert_eq!(folded(&Hidden::default(), &frames[..1]), "  void std::sort<int*>(int*, int*)\n");
    }

    #[test]
    fn the_runtime_is_hidden_though_it_is_not_instrumented() {
        let hidden = Hidden::new(DEFAULT).expect("patterns");
        let of = |function| Frame { kind: FrameKind::Uninstrumented, ..call(function) };
        let frames = [
            of("std::thread::join()"),
            of("std::thread::detach()"),
            of("pcce_runtime::thread::create"),
            of("pcce_runtime::thread::create_pthread"),
            call("app::run()"),
        ];
        assert_eq!(
            folded(&hidden, &frames),
            "  std::thread::join()\n  std::thread::detach()\n      … 2 frames of pcce_runtime::\n  app::run()\n"
        );
    }

    #[test]
    fn files_are_patterns_with_a_slash() {
        let hidden = Hidden::new(["/usr/include/*"]).expect("a pattern");
        assert_eq!(folded(&hidden, &[call("f"), call("g")]), "      … 2 frames of /usr/include/\n");
        assert!(Hidden::new(["a[b"]).is_err_and(|e| e.to_string().contains("`a[b`")));
    }
}
