//! Linkage names as people write them.

use std::borrow::Cow;
use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

use crate::{constraints, rewrite};

/// Bound on the bytes of a demangled name. Instead of a longer one, the linkage name is shown: the substitutions of
/// a short C++ name can stand for gigabytes.
const MAX_LEN: usize = 1 << 16;

/// The name as in the source, if `linkage` is a mangled C++ or Rust name; else `linkage` itself.
pub fn demangle(linkage: &str) -> String {
    let linkage = without_digests(linkage);
    let demangled = demangle_rust(&linkage).or_else(|| demangle_cpp(&linkage));
    demangled.unwrap_or_else(|| linkage.into_owned())
}

fn demangle_rust(linkage: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(linkage).ok()?;
    // Legacy names look like C++ names, except for their last part, a hash.
    if !linkage.starts_with("_R") && !has_rust_hash(linkage) {
        return None;
    }
    let mut out = Bounded(String::new());
    write!(out, "{name:#}").ok().map(|()| out.0)
}

fn has_rust_hash(linkage: &str) -> bool {
    linkage.rmatch_indices("17h").any(|(at, _)| {
        let rest = &linkage.as_bytes()[at + 3..];
        rest.len() > 16 && rest[..16].iter().all(u8::is_ascii_hexdigit) && rest[16] == b'E'
    })
}

fn demangle_cpp(linkage: &str) -> Option<String> {
    if !linkage.starts_with("_Z") {
        return None;
    }
    let demangled = rewrite::demangle(linkage, demangle_symbol)
        .or_else(|| demangle_symbol(linkage))
        .or_else(|| constraints::demangle(linkage, demangle_symbol))?;
    Some(without_empty_packs(&with_literals(&demangled)))
}

fn demangle_symbol(linkage: &str) -> Option<String> {
    let symbol = Symbol::new_with_options(linkage, &ParseOptions::default().recursion_limit(160)).ok()?;
    let mut out = Bounded(String::new());
    symbol.structured_demangle(&mut out, &DemangleOptions::new().recursion_limit(160)).ok()?;
    Some(out.0)
}

/// The name without the digests of files that ThinLTO (`.llvm.`) and `-funique-internal-linkage-names` (`.__uniq.`)
/// append to names of local functions.
fn without_digests(linkage: &str) -> Cow<'_, str> {
    let mut name = Cow::Borrowed(linkage);
    for mark in [".llvm.", ".__uniq."] {
        let Some((front, rest)) = name.rsplit_once(mark) else { continue };
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        if after.len() < rest.len() && (after.is_empty() || after.starts_with('.')) {
            name = Cow::Owned(format!("{front}{after}"));
        }
    }
    name
}

/// Writes numbers among the arguments of templates as debuggers and `c++filt` do: `16ul`, where the crate has
/// `(unsigned long)16`; and the packs of them, `0ul, 1ul`, where it has `((unsigned long)0, (unsigned long)1)...`.
fn with_literals(name: &str) -> Cow<'_, str> {
    const TYPES: [(&str, &str); 5] = [
        ("(unsigned int)", "u"),
        ("(long)", "l"),
        ("(unsigned long)", "ul"),
        ("(long long)", "ll"),
        ("(unsigned long long)", "ull"),
    ];
    if !name.contains('(') {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    // The places in `out` of open brackets.
    let mut open = Vec::new();
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let literal = TYPES.iter().find_map(|(cast, suffix)| {
            let number = rest.strip_prefix(cast)?;
            let sign = usize::from(number.starts_with('-'));
            let digits = number[sign..].bytes().take_while(u8::is_ascii_digit).count();
            (digits > 0).then_some((cast.len(), cast.len() + sign + digits, suffix))
        });
        if let Some((start, end, suffix)) = literal {
            out.extend([&rest[start..end], suffix]);
            rest = &rest[end..];
            continue;
        }
        if c == '(' {
            open.push(out.len());
        }
        let start = if c == ')' { open.pop() } else { None };
        if let Some(start) = start
            && let Some(after) = rest.strip_prefix(")...")
            && out[start + 1..].split(", ").all(is_value)
        {
            out.remove(start);
            rest = after;
            continue;
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    Cow::Owned(out)
}

/// Returns whether this is a number or an enumerator as an argument of a template, or nothing.
fn is_value(text: &str) -> bool {
    let number = match text.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        Some((_, number)) => number,
        None => text.trim_end_matches(['u', 'l']),
    };
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number || matches!(text, "" | "true" | "false" | "nullptr")
}

/// Removes the traces of empty packs of parameters: the crate writes the commas around them, and the rest of the
/// pattern that expands them (`&&`). In C++, nothing else leads to a comma after an opening bracket, after a comma
/// or before a closing bracket, or to parameters without a type.
fn without_empty_packs(name: &str) -> String {
    const COMMA: &str = ", ";
    const EXPANDED: [&str; 4] = ["&&", "&", " const&", "const&"];
    let closes = |rest: &str| rest.is_empty() || rest.starts_with(')');
    let mut out = String::with_capacity(name.len());
    let mut items = name.split(COMMA).peekable();
    let mut first = true;
    while let Some(mut item) = items.next() {
        let expanded =
            EXPANDED.iter().find_map(|e| item.strip_prefix(e)).filter(|rest| !first && closes(rest));
        item = expanded.unwrap_or(item);
        // At the end of a list, the last comma is removed. The blank between two brackets is added, which was not
        // needed after the comma.
        if item.starts_with(['>', ')']) && out.ends_with(COMMA) {
            out.truncate(out.len() - COMMA.len());
            if item.starts_with('>') && out.ends_with('>') {
                out.push(' ');
            }
        }
        out.push_str(item);
        // A list that begins with such a parameter. After a blank, it is a reference to a function or an array.
        for expanded in EXPANDED {
            let list = out.strip_suffix(')').unwrap_or(&out).strip_suffix(expanded);
            if let Some(list) =
                list.and_then(|list| list.strip_suffix('(')).filter(|list| !list.ends_with(' '))
            {
                let closed = out.ends_with(')');
                out.truncate(list.len() + 1);
                out.push_str(if closed { ")" } else { "" });
                break;
            }
        }
        let opens = out.ends_with(['<', '(']) && !out.ends_with("operator<") && !out.ends_with("operator<<");
        if items.peek().is_some() && !opens && !out.ends_with(COMMA) {
            out.push_str(COMMA);
        }
        first = false;
    }
    out
}

struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if self.0.len() + s.len() > MAX_LEN {
            return Err(fmt::Error);
        }
        self.0.push_str(s);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (linkage, expected) in [
            ("main", "main"),
            ("_ZN3foo3barEv", "foo::bar()"),
            ("_ZN3foo3barE", "foo::bar"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backERKi",
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
            ),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_Znonsense", "_Znonsense"),
            ("_ZL7inlinedl.__uniq.295820006559539302271187155689724588161", "inlined(long)"),
            ("_ZL1fi.llvm.17422148575097893589", "f(int)"),
            ("helper.llvm.12345", "helper"),
            ("helper.__uniq.295820006559.llvm.12345.cold", "helper.cold"),
            ("helper.llvm.", "helper.llvm."),
            ("helper.llvm.12x", "helper.llvm.12x"),
            ("_R", "_R"),
            ("_Z1gIJ1PIJEEiEEvDpT_", "void g<P<>, int>(P<>, int)"),
            (
                "_ZSt13__invoke_implIvRZ4mainE3$_0JEET_St14__invoke_otherOT0_DpOT1_",
                "void std::__invoke_impl<void, main::$_0&>(std::__invoke_other, main::$_0&)",
            ),
            ("_Z1fIJEEvDpOT_", "void f<>()"),
            ("_Z1fIJEEvDpRKT_", "void f<>()"),
            ("_Z1fIiJEEvT_DpRKT0_", "void f<int>(int)"),
            ("_Z1fRA8_KcOFivE", "f(char const (&) [8], int (&&)())"),
            ("_ZN1AcmERKS_i", "A::operator,(A const&, int)"),
            ("", ""),
        ] {
            assert_eq!(demangle(linkage), expected);
        }
    }

    /// As `c++filt` and gdb write them.
    #[test]
    fn arguments_of_templates_are_literals() {
        for (linkage, expected) in [
            ("_ZN3BufILm16EE1fEv", "Buf<16ul>::f()"),
            ("_Z3valILj3EEiv", "int val<3u>()"),
            ("_Z3valILi3EEiv", "int val<3>()"),
            ("_Z3valILxn3EEiv", "int val<-3ll>()"),
            ("_Z3valIL5Color1ELc97EEiv", "int val<(Color)1, (char)97>()"),
            (
                "_Z3seqIJLm0ELm1ELm2EEEiSt16integer_sequenceImJXspT_EEE",
                "int seq<0ul, 1ul, 2ul>(std::integer_sequence<unsigned long, 0ul, 1ul, 2ul>)",
            ),
            (
                "_Z3seqIJLb1ELb0EEEiSt16integer_sequenceIbJXspT_EEE",
                "int seq<true, false>(std::integer_sequence<bool, true, false>)",
            ),
            ("_Z3seqIJEEiSt16integer_sequenceIiJXspT_EEE", "int seq<>(std::integer_sequence<int>)"),
            ("_Z3runPFvlEl", "run(void (*)(long), long)"),
        ] {
            assert_eq!(demangle(linkage), expected, "{linkage}");
        }
    }

    #[test]
    fn substitution_bombs_are_given_up() {
        // Each parameter is a template with two arguments that are the one before: 2^n characters.
        let mut name = String::from("_Z1fI1aE");
        name.push_str("1bIS_S_E");
        for i in 0..30 {
            let back = char::from_digit(i, 36).unwrap().to_ascii_uppercase();
            name.push_str(&format!("1bIS{back}_S{back}_E"));
        }
        assert!(demangle(&name).len() <= MAX_LEN);
    }
}
