//! The profile of calls: how often functions and call sites were executed (`docs/formats.md`).
//!
//! A program built with `--pcce-profile-generate` writes one, `pcce profile merge` makes one of several, and
//! the pass reads one. It is text, one JSON object a line: a heading for each module, then its functions.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Write;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The version of the format that this build writes, and the only one that it reads.
pub const VERSION: u32 = 1;
/// The `profile` of headings.
const KIND: &str = "calls";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Functions, with the module's identifier in LLVM. Equal ones may come more than once, one for each run.
    pub functions: Vec<(String, Function)>,
    /// True if each call site is listed once, as contexts tell them apart, and so are those whose callees need no
    /// context. Otherwise each copy that the compiler has made of a site is listed.
    pub by_site: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Heading {
    profile: String,
    version: u32,
    module: String,
    /// The number of lines that follow.
    functions: usize,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    by_site: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Its linkage name.
    pub function: String,
    /// The number of times that it was entered.
    pub count: u64,
    /// Its calls of instrumented functions and through pointers, in the order of the code.
    pub calls: Vec<Call>,
}

/// A call site: the linkage name of the function that it calls, none through a pointer, and how often it was
/// executed. Through a pointer, also the functions of the module that were called most, and about how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call(
    pub Option<String>,
    pub u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")] pub Vec<(String, u64)>,
);

impl Call {
    fn add(&mut self, other: Self) {
        self.1 = self.1.saturating_add(other.1);
        for (name, count) in other.2 {
            match self.2.iter_mut().find(|target| target.0 == name) {
                Some(target) => target.1 = target.1.saturating_add(count),
                None => self.2.push((name, count)),
            }
        }
    }
}

/// Errors of reading a profile.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CallsError {
    #[error("the profile is empty; the program writes it when it ends by exit()")]
    Empty,
    /// The text is no profile of calls, or was cut.
    #[error("line {line}: the profile is damaged: {what}; run the program again to write it")]
    Damaged {
        /// The line, from 1.
        line: usize,
        what: String,
    },
    /// The profile is of another kind.
    #[error(
        "line {line}: this is a profile of kind `{kind}`, not of calls; programs built with \
         --pcce-profile-generate write those"
    )]
    Kind {
        /// The line, from 1.
        line: usize,
        kind: String,
    },
    /// The profile was written by another release.
    #[error(
        "line {line}: the profile has version {found}, and this release reads version {VERSION}; build the \
         program with this release and run it again"
    )]
    Version {
        /// The line, from 1.
        line: usize,
        found: u32,
    },
}

impl Calls {
    /// Reads a profile.
    ///
    /// # Errors
    /// [`CallsError`]; never panics, whatever the bytes.
    pub fn read(text: &[u8]) -> Result<Self, CallsError> {
        let mut profile = Self::default();
        if text.is_empty() {
            return Err(CallsError::Empty);
        }
        let mut lines = text.split_inclusive(|&byte| byte == b'\n').zip(1..);
        while let Some((text, line)) = lines.next() {
            let damaged = |error: serde_json::Error| syntax(line, &error);
            #[derive(Deserialize)]
            struct Kind {
                profile: String,
                version: u32,
            }
            // Reads the members first that other versions have, too.
            let kind: Kind = serde_json::from_slice(text).map_err(damaged)?;
            if kind.profile != KIND {
                return Err(CallsError::Kind { line, kind: kind.profile });
            }
            if kind.version != VERSION {
                return Err(CallsError::Version { line, found: kind.version });
            }
            let heading: Heading = serde_json::from_slice(text).map_err(damaged)?;
            let is_first = profile.functions.is_empty();
            if !is_first && profile.by_site != heading.by_site {
                let what = "one module is listed by call sites, and another is not".to_owned();
                return Err(CallsError::Damaged { line, what });
            }
            profile.by_site = heading.by_site;
            for number in 0..heading.functions {
                let Some((text, line)) = lines.next() else {
                    let what =
                        format!("the module has {} functions, and {number} are there", heading.functions);
                    return Err(CallsError::Damaged { line, what });
                };
                let function = serde_json::from_slice(text).map_err(|error| syntax(line, &error))?;
                profile.functions.push((heading.module.clone(), function));
            }
        }
        Ok(profile)
    }

    /// Adds up the functions of equal modules, names and lists of calls. They stay in the order of their
    /// first occurrence.
    #[must_use]
    pub fn merged(self) -> Self {
        let mut place: HashMap<(String, String, Vec<Option<String>>), usize> = HashMap::new();
        let mut merged: Vec<(String, Function)> = Vec::new();
        for (module, function) in self.functions {
            let callees = function.calls.iter().map(|call| call.0.clone()).collect();
            match place.entry((module.clone(), function.function.clone(), callees)) {
                Entry::Vacant(entry) => {
                    entry.insert(merged.len());
                    merged.push((module, function));
                }
                Entry::Occupied(entry) => {
                    let sum = &mut merged[*entry.get()].1;
                    sum.count = sum.count.saturating_add(function.count);
                    for (sum, call) in sum.calls.iter_mut().zip(function.calls) {
                        sum.add(call);
                    }
                }
            }
        }
        Self { functions: merged, by_site: self.by_site }
    }

    /// Writes the profile. Even without functions it has a heading, since an empty file is no profile.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        if self.functions.is_empty() {
            writeln!(out, "{}", heading("", 0, self.by_site))?;
        }
        for functions in self.functions.chunk_by(|a, b| a.0 == b.0) {
            writeln!(out, "{}", heading(&functions[0].0, functions.len(), self.by_site))?;
            for (_, function) in functions {
                serde_json::to_writer(&mut *out, function)?;
                out.write_all(b"\n")?;
            }
        }
        Ok(())
    }
}

fn syntax(line: usize, error: &serde_json::Error) -> CallsError {
    // The parser sees one line only, so the number of the line in its message is always 1.
    CallsError::Damaged { line, what: error.to_string().replace(" at line 1 column", " at column") }
}

fn heading(module: &str, functions: usize, by_site: bool) -> String {
    let heading =
        Heading { profile: KIND.into(), version: VERSION, module: module.into(), functions, by_site };
    json(&heading)
}

/// A name as JSON.
pub fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("strings and integers always serialise")
}

/// Marks in a [`template`] the place of the next number. In JSON this byte is always escaped.
pub const HERE: u8 = 1;
/// Marks the place of the array of targets, after the number of a call through a pointer.
pub const TARGETS_HERE: u8 = 2;

/// The text that a program writes for a module, with [`HERE`] instead of the numbers: for each function ⟨its linkage
/// name, the callees of its calls⟩ one number for the function and one for each call.
pub fn template<'a>(
    module: &str,
    functions: impl ExactSizeIterator<Item = (&'a str, Vec<Option<&'a str>>)>,
) -> Vec<u8> {
    let mut text = heading(module, functions.len(), false) + "\n";
    let here = char::from(HERE);
    for (name, callees) in functions {
        text += &format!("{{\"function\":{},\"count\":{here},\"calls\":[", json(&name));
        for (i, callee) in callees.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            text += &format!("{comma}[{},{here}", json(callee));
            if callee.is_none() {
                text.extend([',', char::from(TARGETS_HERE)]);
            }
            text.push(']');
        }
        text += "]}\n";
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(counts: [u64; 4]) -> Calls {
        let call = |callee: Option<&str>, count| {
            let targets = callee.is_none().then(|| ("a\"b".to_owned(), count));
            Call(callee.map(str::to_owned), count, targets.into_iter().collect())
        };
        let main = Function {
            function: "main".into(),
            count: counts[0],
            calls: vec![call(Some("a\"b"), counts[1]), call(None, counts[2])],
        };
        let leaf = Function { function: "a\"b".into(), count: counts[3], calls: Vec::new() };
        Calls { functions: vec![("m.c".into(), main), ("m.c".into(), leaf)], by_site: false }
    }

    fn text(profile: &Calls) -> Vec<u8> {
        let mut text = Vec::new();
        profile.write(&mut text).unwrap();
        text
    }

    #[test]
    fn a_filled_template_is_a_profile() {
        let functions = [("main", vec![Some("a\"b"), None]), ("a\"b", Vec::new())];
        let template = template("m.c", functions.into_iter());
        let mut number = 0;
        let mut filled = Vec::new();
        for byte in template {
            if byte == HERE {
                filled.extend(number.to_string().bytes());
                number += 7;
            } else if byte == TARGETS_HERE {
                filled.extend(br#"[["a\"b",14]]"#);
            } else {
                filled.push(byte);
            }
        }
        assert_eq!(Calls::read(&filled).unwrap(), profile([0, 7, 14, 21]));
        assert_eq!(text(&profile([0, 7, 14, 21])), filled);
    }

    #[test]
    fn runs_are_added_up() {
        let two = [text(&profile([1, 2, 3, 4])), text(&profile([10, 20, 30, u64::MAX]))].concat();
        assert_eq!(Calls::read(&two).unwrap().merged(), profile([11, 22, 33, u64::MAX]));
        // Another version of a function is another one.
        let mut other = profile([1, 1, 1, 1]);
        other.functions[0].1.calls.pop();
        let both = [text(&profile([1, 2, 3, 4])), text(&other)].concat();
        let merged = Calls::read(&both).unwrap().merged();
        assert_eq!(merged.functions.len(), 3);
        assert_eq!(Calls::read(&text(&merged)).unwrap(), merged);
        // Programs that had nothing to count.
        let none = Calls::read(&template("m.c", std::iter::empty())).unwrap().merged();
        assert_eq!(Calls::read(&text(&none)).unwrap(), none);
    }

    #[test]
    fn damage_is_named_with_its_line() {
        let whole = String::from_utf8(text(&profile([1, 2, 3, 4]))).unwrap();
        for (text, message) in [
            (String::new(), "the profile is empty"),
            ("x".into(), "line 1: the profile is damaged"),
            (whole.replace(":1,\"module\"", ":2,\"module\""), "line 1: the profile has version 2"),
            (
                whole.replace("\"calls\",\"version\"", "\"cpu\",\"version\""),
                "line 1: this is a profile of kind `cpu`",
            ),
            (whole.replace("[null,3", "[null,-3"), "line 2: the profile is damaged"),
            (
                whole.lines().next().unwrap().to_owned() + "\n",
                "line 1: the profile is damaged: the module has 2 functions, and 0",
            ),
        ] {
            let error = Calls::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
        for end in 1..whole.len() - 1 {
            assert!(Calls::read(&whole.as_bytes()[..end]).is_err(), "{end}");
        }
    }
}
