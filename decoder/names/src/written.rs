//! Names of C++ as people write them: `std::vector<std::string>`, not
//! `std::vector<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, std::allocator<…> >`.

use std::borrow::Cow;

use crate::short::operator;

/// Templates of the standard library, and the defaults of their arguments from the second one on. `T` stands for the
/// first argument, `U` for the second one. An argument with an empty text has no default.
const TEMPLATES: &[(&str, &[&str])] = &[
    ("basic_string", &["std::char_traits<T>", ALLOCATOR]),
    ("basic_string_view", &["std::char_traits<T>"]),
    ("basic_ios", &["std::char_traits<T>"]),
    ("basic_istream", &["std::char_traits<T>"]),
    ("basic_ostream", &["std::char_traits<T>"]),
    ("basic_iostream", &["std::char_traits<T>"]),
    ("basic_streambuf", &["std::char_traits<T>"]),
    ("basic_filebuf", &["std::char_traits<T>"]),
    ("basic_ifstream", &["std::char_traits<T>"]),
    ("basic_ofstream", &["std::char_traits<T>"]),
    ("basic_fstream", &["std::char_traits<T>"]),
    ("basic_stringbuf", &["std::char_traits<T>", ALLOCATOR]),
    ("basic_istringstream", &["std::char_traits<T>", ALLOCATOR]),
    ("basic_ostringstream", &["std::char_traits<T>", ALLOCATOR]),
    ("basic_stringstream", &["std::char_traits<T>", ALLOCATOR]),
    ("basic_regex", &["std::regex_traits<T>"]),
    ("vector", &[ALLOCATOR]),
    ("deque", &[ALLOCATOR]),
    ("list", &[ALLOCATOR]),
    ("forward_list", &[ALLOCATOR]),
    ("set", &["std::less<T>", ALLOCATOR]),
    ("multiset", &["std::less<T>", ALLOCATOR]),
    ("map", &["", "std::less<T>", PAIRS]),
    ("multimap", &["", "std::less<T>", PAIRS]),
    ("unordered_set", &["std::hash<T>", "std::equal_to<T>", ALLOCATOR]),
    ("unordered_multiset", &["std::hash<T>", "std::equal_to<T>", ALLOCATOR]),
    ("unordered_map", &["", "std::hash<T>", "std::equal_to<T>", PAIRS]),
    ("unordered_multimap", &["", "std::hash<T>", "std::equal_to<T>", PAIRS]),
    ("stack", &["std::deque<T>"]),
    ("queue", &["std::deque<T>"]),
    ("priority_queue", &["std::vector<T>", "std::less<T>"]),
    ("unique_ptr", &["std::default_delete<T>"]),
];
const ALLOCATOR: &str = "std::allocator<T>";
const PAIRS: &str = "std::allocator<std::pair<T const, U>>";

/// The beginning of the names of templates that have other names for `char` and `wchar_t`.
const OF_CHARACTERS: &str = "basic_";

/// Longer names, and those that nest deeper, stay as they are.
const MAX_LEN: usize = 1 << 14;
const MAX_DEPTH: usize = 64;

/// The name with types of the standard library as they are written: without arguments of templates that are the
/// defaults, without inline namespaces, `std::string` instead of `std::basic_string<char>`. A name that is not
/// understood stays as it is.
pub fn written(name: &str) -> Cow<'_, str> {
    if !name.contains("std::") || name.len() > MAX_LEN {
        return Cow::Borrowed(name);
    }
    let mut reader = Reader { rest: name, depth: 0 };
    match reader.text(None) {
        Some(text) if reader.rest.is_empty() => Cow::Owned(text),
        _ => Cow::Borrowed(name),
    }
}

struct Reader<'n> {
    rest: &'n str,
    depth: usize,
}

impl Reader<'_> {
    /// Takes a text up to the bracket `end`. If that is `>`, a comma before another argument ends the text, too. The
    /// bracket or the comma is not taken.
    fn text(&mut self, end: Option<char>) -> Option<String> {
        self.depth += 1;
        let mut out = String::new();
        while let Some(c) = self.rest.chars().next() {
            if Some(c) == end && !(c == '>' && out.ends_with('-')) || c == ',' && end == Some('>') {
                break;
            }
            let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            if let Some(operator) = operator(&out, self.rest) {
                self.take(&mut out, operator.len());
                continue;
            }
            match c {
                '<' if out.ends_with(|c: char| is_name(c) || "}] ".contains(c)) || out.is_empty() => {
                    self.arguments(&mut out)?;
                }
                '(' | '[' | '{' => {
                    self.take(&mut out, 1);
                    let close = match c {
                        '(' => ')',
                        '[' => ']',
                        _ => '}',
                    };
                    if self.depth > MAX_DEPTH {
                        return None;
                    }
                    out += &self.text(Some(close))?;
                    self.rest = self.rest.strip_prefix(close)?;
                    out.push(close);
                }
                ')' | ']' | '}' => return None,
                _ => self.take(&mut out, c.len_utf8()),
            }
        }
        self.depth -= 1;
        Some(without_inline_namespaces(out))
    }

    fn take(&mut self, out: &mut String, len: usize) {
        let (taken, rest) = self.rest.split_at(len);
        out.push_str(taken);
        self.rest = rest;
    }

    /// The arguments of a template, whose name is the end of `out`.
    fn arguments(&mut self, out: &mut String) -> Option<()> {
        let mut arguments = Vec::new();
        loop {
            self.rest = &self.rest[1..];
            if self.depth > MAX_DEPTH {
                return None;
            }
            arguments.push(self.text(Some('>'))?.trim().to_owned());
            if self.rest.starts_with('>') {
                break;
            }
            if !self.rest.starts_with(',') {
                return None;
            }
        }
        self.rest = &self.rest[1..];
        *out = without_inline_namespaces(std::mem::take(out));
        let start = out.rfind(|c: char| !(c.is_alphanumeric() || "_:".contains(c))).map_or(0, |at| at + 1);
        // A character before may be longer than one byte.
        let start = (start..=out.len()).find(|&at| out.is_char_boundary(at))?;
        if let Some(template) = out[start..].strip_prefix("std::") {
            let defaults = TEMPLATES.iter().find(|(name, _)| *name == template).map_or(&[][..], |row| row.1);
            while arguments.len() > 1
                && let (Some(default), Some(last)) = (defaults.get(arguments.len() - 2), arguments.last())
                && *last == with_arguments(default, &arguments)
            {
                arguments.pop();
            }
            if let Some(of) = template.strip_prefix(OF_CHARACTERS)
                && !defaults.is_empty()
                && let [character @ ("char" | "wchar_t")] =
                    &arguments.iter().map(|a| &**a).collect::<Vec<_>>()[..]
            {
                let name = format!("std::{}{of}", if *character == "char" { "" } else { "w" });
                out.truncate(start);
                out.push_str(&name);
                return Some(());
            }
        }
        out.push('<');
        out.push_str(&arguments.join(", "));
        out.push('>');
        Some(())
    }
}

/// A default argument, with the first arguments instead of `T` and `U`.
fn with_arguments(default: &str, arguments: &[String]) -> String {
    let mut text = String::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = default;
    while let Some(c) = rest.chars().next() {
        let alone = !text.ends_with(is_word) && !rest[1..].starts_with(is_word);
        match c {
            'T' if alone => text.push_str(&arguments[0]),
            'U' if alone => text.push_str(arguments.get(1).map_or("", |argument| argument)),
            _ => text.push(c),
        }
        rest = &rest[1..];
    }
    text
}

fn without_inline_namespaces(mut text: String) -> String {
    for name in ["std::__cxx11::", "std::__1::"] {
        while let Some(at) = text.find(name) {
            text.replace_range(at..at + name.len(), "std::");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::written;

    #[test]
    fn types_of_the_standard_library_are_written_as_in_the_source() {
        const STRING: &str =
            "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
        let of = |name: &str| written(&name.replace("STRING", STRING)).into_owned();
        for (name, expected) in [
            ("STRING::compare(STRING const&) const", "std::string::compare(std::string const&) const"),
            (
                "std::vector<STRING, std::allocator<STRING > >::push_back(STRING&&)",
                "std::vector<std::string>::push_back(std::string&&)",
            ),
            (
                "f(std::map<STRING, int, std::less<STRING >, std::allocator<std::pair<STRING const, int> > >)",
                "f(std::map<std::string, int>)",
            ),
            (
                "f(std::map<int, char, std::less<void>, std::allocator<std::pair<int const, char> > >)",
                "f(std::map<int, char, std::less<void>>)",
            ),
            ("f(std::vector<int, Pool<int> >)", "f(std::vector<int, Pool<int>>)"),
            (
                "std::unique_ptr<Node, std::default_delete<Node> >::~unique_ptr()",
                "std::unique_ptr<Node>::~unique_ptr()",
            ),
            (
                "std::basic_ostream<char, std::char_traits<char> >& std::operator<< <std::char_traits<char> >(std::basic_ostream<char, std::char_traits<char> >&, char const*)",
                "std::ostream& std::operator<< <std::char_traits<char>>(std::ostream&, char const*)",
            ),
            (
                "std::function<void (STRING const&)>::operator()(STRING const&) const",
                "std::function<void (std::string const&)>::operator()(std::string const&) const",
            ),
            ("std::pair<int, std::allocator<int> >", "std::pair<int, std::allocator<int>>"),
            ("my::std::vector<int, std::allocator<int> >", "my::std::vector<int, std::allocator<int>>"),
            (
                "f<(E)1, (5 > 3), std::vector<int, std::allocator<int> > >()",
                "f<(E)1, (5 > 3), std::vector<int>>()",
            ),
            (
                "g(std::vector<T>)::{lambda(STRING)#1}::operator()(STRING) const",
                "g(std::vector<T>)::{lambda(std::string)#1}::operator()(std::string) const",
            ),
            (
                "std::operator->*<int>(std::vector<int, std::allocator<int> >)",
                "std::operator->*<int>(std::vector<int>)",
            ),
            ("operator std::vector<int, std::allocator<int> >()", "operator std::vector<int>()"),
            (
                "decltype (a->b) f<std::deque<int, std::allocator<int> > >()",
                "decltype (a->b) f<std::deque<int>>()",
            ),
            (
                "<alloc::vec::Vec<std::fs::File> as core::ops::Drop>::drop",
                "<alloc::vec::Vec<std::fs::File> as core::ops::Drop>::drop",
            ),
            ("<Box<dyn Fn(std::A) -> B> as Call>::call", "<Box<dyn Fn(std::A) -> B> as Call>::call"),
            ("std::queue<int, std::deque<int, std::allocator<int> > >::pop()", "std::queue<int>::pop()"),
            (
                "std::unordered_map<int, long, std::hash<int>, std::equal_to<int>, std::allocator<std::pair<int const, long> > >::at(int const&)",
                "std::unordered_map<int, long>::at(int const&)",
            ),
        ] {
            assert_eq!(of(name), expected);
        }
        for wrong in
            ["std::vector<int", "std::vector>", "(std::x", "std::a)b", "operator<std::", "std::operator"]
        {
            let _ = written(wrong);
        }
        let deep = format!("std::{}{}", "vector<".repeat(1000), ">".repeat(1000));
        assert_eq!(written(&deep), deep);
    }
}
