//! The style of frames: short names, short paths, a width that lines keep to, colours.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::context::{Frame, FrameKind};
use crate::printable::printable;
use crate::show::folding::Hidden;

pub use pcce_names::{short, written};

/// A style of frames. The default leaves names and paths as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Names of functions without their parameters and template arguments.
    pub short: bool,
    /// Prefixes that are left out of paths of source files; the first one that fits counts.
    pub strip_prefixes: Vec<PathBuf>,
    /// The folder, absolute, to which paths of source files are relative; those outside stay absolute.
    pub relative_to: Option<PathBuf>,
    /// The width of a line in columns. Lines that cannot be cut that far are longer.
    pub width: Option<usize>,
    /// True if names, paths and boundaries have colours of the terminal.
    pub colour: bool,
    /// Patterns of calls of which several in a row become one line.
    pub hidden: Hidden,
}

/// The columns that the number of a frame takes before its text, in most cases.
const NUMBER: usize = 4;
/// The width below which names and paths are not cut.
const MIN_WIDTH: usize = 12;

const NAME: &str = "\u{1b}[1m";
const PATH: &str = "\u{1b}[36m";
const BOUNDARY: &str = "\u{1b}[33m";
const PLAIN: &str = "\u{1b}[0m";

impl Style {
    /// The name of a function as it is shown, if there is room for it.
    pub fn name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        if self.short { shortened(name) } else { written(name) }
    }

    /// A function's name, or a boundary, at the end of a line after `columns` other columns. Names are cut to fit.
    pub(crate) fn fitted<'n>(&self, name: &'n str, columns: usize) -> Cow<'n, str> {
        let is_boundary = name.starts_with('<') && name.ends_with('>');
        let Some(width) = self.width.map(|width| width.saturating_sub(columns)).filter(|_| !is_boundary)
        else {
            return name.into();
        };
        let mut shown = printable(name).into_owned();
        fit(name, &mut shown, None, width);
        Cow::Owned(shown)
    }

    /// The path of a source file as it is shown.
    pub fn path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        let whole = Path::new(path);
        if let Some(rest) = self.strip_prefixes.iter().find_map(|prefix| whole.strip_prefix(prefix).ok())
            && rest.components().next().is_some()
        {
            return rest.to_string_lossy();
        }
        if let Some(folder) = &self.relative_to
            && let Some(relative) = relative(whole, folder)
        {
            return Cow::Owned(relative.to_string_lossy().into_owned());
        }
        Cow::Borrowed(path)
    }

    /// A frame without its number, as a line of its own.
    pub fn line(&self, frame: &Frame<'_>) -> String {
        let mut line = String::new();
        self.frame(frame, 0, &mut line);
        line
    }

    /// Writes a frame without its number, which begins at column `indent`.
    pub(crate) fn frame(&self, frame: &Frame<'_>, indent: usize, line: &mut String) {
        let width = self.width.map(|width| width.saturating_sub(indent + NUMBER));
        if frame.kind != FrameKind::Call {
            let function = frame.function.map(|name| self.name(name));
            let text = boundary(&Frame { function: function.as_deref(), ..*frame });
            let text = match width {
                Some(width) if text.width() > width => {
                    let shortened = frame.function.map(shortened);
                    Cow::Owned(boundary(&Frame { function: shortened.as_deref(), ..*frame }))
                }
                _ => Cow::Borrowed(&*text),
            };
            return self.coloured(BOUNDARY, &text, line);
        }
        let name = frame.function.unwrap_or("??");
        let mut shown = printable(&self.name(name)).into_owned();
        let mut file = frame.file.map(|file| printable(&self.path(file)).into_owned());
        let mut rest = String::new();
        for number in [frame.line, frame.line.and(frame.column)].into_iter().flatten() {
            let _ = write!(rest, ":{number}");
        }
        let inlined = if frame.inlined { " [inlined]" } else { "" };
        if let Some(width) = width {
            let fixed = inlined.len() + file.as_ref().map_or(0, |_| AT.len() + rest.len());
            fit(name, &mut shown, file.as_mut(), width.saturating_sub(fixed));
        }
        self.coloured(NAME, &shown, line);
        if let Some(file) = file {
            line.push_str(AT);
            self.coloured(PATH, &(file + &rest), line);
        }
        line.push_str(inlined);
    }

    fn coloured(&self, colour: &str, text: &str, line: &mut String) {
        if self.colour {
            line.extend([colour, text, PLAIN]);
        } else {
            line.push_str(text);
        }
    }
}

/// The text of a frame that is no call.
pub(crate) fn boundary(frame: &Frame<'_>) -> String {
    let mut name = String::new();
    name.push_str(&printable(frame.function.unwrap_or("code")));
    match (frame.kind, frame.function) {
        (FrameKind::Call, _) => name,
        (FrameKind::Uninstrumented, _) => match frame.build_id {
            Some(id) => format!("<{name}, of a library that was not found, with build id {id}>"),
            None => format!("<{name}, not instrumented>"),
        },
        (FrameKind::Tail, Some(_)) => format!("<{name}, left by a tail call>"),
        (FrameKind::Tail, None) if frame.certain => "<calls left by a tail call>".to_owned(),
        (FrameKind::Tail, None) => "<calls left by a tail call, if any>".to_owned(),
        (FrameKind::Signal, _) => "<signal handler called>".to_owned(),
        (FrameKind::Thread, _) => "<thread created here>".to_owned(),
        (FrameKind::Task, _) => "<task submitted here>".to_owned(),
        (FrameKind::Unknown, Some(_)) => format!("<unknown calls, up to {name}>"),
        (FrameKind::Unknown, None) => "<unknown calls>".to_owned(),
        (FrameKind::UnknownModule, _) => match frame.build_id {
            Some(id) => format!("<module with build id {id}, no dictionary given>"),
            None => "<module, no dictionary given>".to_owned(),
        },
        (FrameKind::Truncated, _) => "<the token was cut here, further calls are missing>".to_owned(),
        (FrameKind::Damaged, _) => {
            "<the stack was damaged or switched here, further calls are missing>".to_owned()
        }
    }
}

/// A name without parameters and arguments of templates. Types of the standard library have their common names.
pub fn shortened(name: &str) -> Cow<'_, str> {
    match written(name) {
        Cow::Borrowed(name) => short(name),
        Cow::Owned(name) => Cow::Owned(short(&name).into_owned()),
    }
}

const AT: &str = " at ";

/// Makes name and path fit into `width` columns: first by the name's short form, then by cutting the front of the
/// path, then by cutting the front of the name. The ends of both are most important.
fn fit(name: &str, shown: &mut String, file: Option<&mut String>, width: usize) {
    let (mut none, file) = (String::new(), file);
    let file = file.unwrap_or(&mut none);
    if shown.width() + file.width() > width {
        *shown = printable(&shortened(name)).into_owned();
    }
    if shown.width() + file.width() > width {
        cut_front(file, width.saturating_sub(shown.width()).max(MIN_WIDTH), '/');
    }
    if shown.width() + file.width() > width {
        cut_front(shown, width.saturating_sub(file.width()).max(MIN_WIDTH), ':');
    }
}

/// Cuts the front of a text, to `width` columns with the ellipsis. Cuts up to a separator where one follows soon.
fn cut_front(text: &mut String, width: usize, separator: char) {
    if text.width() <= width {
        return;
    }
    let mut columns = 1;
    let mut start = text.len();
    for (at, c) in text.char_indices().rev() {
        columns += c.width().unwrap_or(0);
        if columns > width {
            break;
        }
        start = at;
    }
    // Begins with a whole part, if that leaves more than half of the columns.
    let whole =
        text[start..].find(separator).map(|at| start + at).filter(|at| text[*at..].width() * 2 > width);
    *text = format!("…{}", &text[whole.unwrap_or(start)..]);
}

/// The path relative to the folder. None if they have nothing in common except the root.
fn relative(path: &Path, folder: &Path) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let (mut ours, mut theirs) = (path.components().peekable(), folder.components().peekable());
    let mut common = 0;
    while let (Some(one), Some(other)) = (ours.peek(), theirs.peek())
        && one == other
    {
        ours.next();
        theirs.next();
        common += 1;
    }
    let up = theirs.filter(|part| matches!(part, Component::Normal(_))).map(|_| Component::ParentDir);
    (common > 1).then(|| up.chain(ours).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call<'n>(function: &'n str, file: &'n str) -> Frame<'n> {
        Frame {
            kind: FrameKind::Call,
            function: Some(function),
            linkage_name: None,
            file: Some(file),
            line: Some(12),
            column: Some(3),
            inlined: true,
            certain: false,
            build_id: None,
        }
    }

    fn written(style: &Style, frame: &Frame<'_>) -> String {
        let mut line = String::new();
        style.frame(frame, 0, &mut line);
        line
    }

    const LONG: &str = "app::Store<std::string, app::Order>::find(std::string const&)";

    #[test]
    fn lines_keep_to_the_width_and_lose_what_says_least() {
        let frame = call(LONG, "/home/me/project/src/store/find.h");
        let plain = format!("{LONG} at /home/me/project/src/store/find.h:12:3 [inlined]");
        for (width, expected) in [
            (None, plain.as_str()),
            (Some(200), &plain),
            (Some(90), "app::Store::find at /home/me/project/src/store/find.h:12:3 [inlined]"),
            (Some(60), "app::Store::find at …/src/store/find.h:12:3 [inlined]"),
            (Some(53), "app::Store::find at …/store/find.h:12:3 [inlined]"),
            (Some(45), "…::Store::find at …/find.h:12:3 [inlined]"),
        ] {
            let line = written(&Style { width, ..Style::default() }, &frame);
            assert_eq!(line, expected, "{width:?}");
            assert!(line.width() + NUMBER <= width.unwrap_or(usize::MAX), "{line}");
        }
        let boundary = Frame { kind: FrameKind::Uninstrumented, file: None, ..frame };
        let narrow = Style { width: Some(50), ..Style::default() };
        assert_eq!(written(&narrow, &boundary), "<app::Store::find, not instrumented>");
    }

    #[test]
    fn paths_lose_prefixes_and_become_relative() {
        let style = |prefixes: &[&str], folder: Option<&str>| Style {
            strip_prefixes: prefixes.iter().map(PathBuf::from).collect(),
            relative_to: folder.map(PathBuf::from),
            ..Style::default()
        };
        for (style, path, expected) in [
            (style(&["/home/me"], None), "/home/me/a.c", "a.c"),
            (style(&["/home/me/"], None), "/home/me/src/a.c", "src/a.c"),
            (style(&["/home/me"], None), "/home/melanie/a.c", "/home/melanie/a.c"),
            (style(&["/x", "/home"], None), "/home/me/a.c", "me/a.c"),
            (style(&["src"], None), "src/a.c", "a.c"),
            (style(&["/home/a.c"], None), "/home/a.c", "/home/a.c"),
            (style(&[], Some("/home/me/src")), "/home/me/src/lib/a.c", "lib/a.c"),
            (style(&[], Some("/home/me/src/")), "/home/me/include/a.h", "../include/a.h"),
            (style(&[], Some("/home/me")), "/usr/include/a.h", "/usr/include/a.h"),
            (style(&[], Some("/home/me")), "a.c", "a.c"),
        ] {
            assert_eq!(style.path(path), expected, "{style:?}");
        }
    }

    #[test]
    fn colours_are_ended() {
        let line = written(&Style { colour: true, ..Style::default() }, &call("f", "a.c"));
        assert_eq!(line, "\u{1b}[1mf\u{1b}[0m at \u{1b}[36ma.c:12:3\u{1b}[0m [inlined]");
    }
}
