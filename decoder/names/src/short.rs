//! Names of functions without parameters and template arguments.

use std::borrow::Cow;

/// Operators of C++. If one is the beginning of another, the longer one comes first.
const OPERATORS: [&str; 43] = [
    "<=>", "<<=", ">>=", "->*", "->", "<<", ">>", "<=", ">=", "()", "[]", "<", ">", "new[]", "delete[]",
    "new", "delete", "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "==", "!=", "&&", "||", "++", "--", "+",
    "-", "*", "/", "%", "^", "&", "|", "~", "!", "=", ",",
];

/// The name without the parameters, the template arguments and the return type of C++, and without the generic
/// arguments of Rust. A name that is not understood stays as it is.
pub fn short(name: &str) -> Cow<'_, str> {
    if !name.contains(['<', '(']) {
        return Cow::Borrowed(name);
    }
    match without_arguments(name) {
        Some(short) if !short.is_empty() => Cow::Owned(short),
        _ => Cow::Borrowed(name),
    }
}

fn without_arguments(name: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = name;
    // Where a return type may end: after the last blank outside of brackets that stay.
    let mut begin = 0;
    // Brackets that stay: `<T as Trait>` of Rust, `{lambda(int)#1}`.
    let mut kept = Vec::new();
    while let Some(c) = rest.chars().next() {
        if let Some(operator) = operator(&out, rest) {
            out.push_str(operator);
            rest = &rest[operator.len()..];
            // `operator< <int>`: a blank may separate the arguments from the name.
            if let Some(arguments) = Some(rest.trim_start_matches(' ')).filter(|rest| rest.starts_with('<')) {
                rest = &arguments[closing(arguments)?..];
            }
            continue;
        }
        match c {
            '<' if out.ends_with(|c: char| c.is_alphanumeric() || "_$:}".contains(c)) || conversion(&out) => {
                rest = &rest[closing(rest)?..];
                // Rust writes `f::<T>`.
                let length = out.trim_end_matches("::").len();
                out.truncate(length);
                continue;
            }
            '(' if rest.starts_with("(anonymous ") => {
                let end = rest.find(')')? + 1;
                out.push_str(&rest[..end]);
                rest = &rest[end..];
                continue;
            }
            // The name is that of a function that returns a function.
            '(' if out.is_empty() || out.ends_with(' ') => return None,
            '(' if kept.is_empty() => {
                rest = &rest[closing(rest)?..];
                let end = rest.find("::").unwrap_or(rest.len());
                let qualifiers = &rest[..end];
                let known = [" const", " volatile", " &", " &&", "&", "&&"];
                if qualifiers.is_empty() || known.iter().any(|known| qualifiers.starts_with(known)) {
                    rest = &rest[end..];
                }
                continue;
            }
            '<' | '{' | '[' | '(' => kept.push(c),
            '>' | '}' | ']' | ')' => drop(kept.pop()?),
            ' ' if kept.is_empty() && !conversion(&out) && !rest.starts_with(" [") => begin = out.len() + 1,
            _ => {}
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    kept.is_empty().then(|| out.split_off(begin))
}

/// The name without the parameters and the return type of C++. A name that is not understood stays as it is.
pub fn bare(name: &str) -> &str {
    let (mut at, mut begin, mut end) = (0, 0, None);
    while let Some(c) = name[at..].chars().next() {
        let rest = &name[at..];
        if let Some(operator) = operator(&name[..at], rest) {
            at += operator.len();
            // `operator< <int>`: this blank ends no return type.
            at += usize::from(name[at..].starts_with(" <"));
            continue;
        }
        match c {
            '(' if rest.starts_with("(anonymous ") => {
                let Some(length) = rest.find(')') else { return name };
                at += length + 1;
                continue;
            }
            // The name is that of a function that returns a function.
            '(' if at == 0 || name[..at].ends_with(' ') => return name,
            '<' | '{' | '[' | '(' => {
                let Some(length) = closing(rest) else { return name };
                if c == '(' {
                    // The parameters of an enclosing function belong to the name.
                    end = Some(at).filter(|_| !rest[length..].contains("::"));
                }
                at += length;
                continue;
            }
            ' ' if end.is_none() && !conversion(&name[..at]) && !rest.starts_with(" [") => begin = at + 1,
            _ => {}
        }
        at += c.len_utf8();
    }
    &name[begin..end.unwrap_or(name.len())]
}

/// Returns whether the text after `out` is the type of a conversion operator, or the rest of an operator's name.
fn conversion(out: &str) -> bool {
    out.rsplit("::").next().is_some_and(|last| last == "operator" || last.starts_with("operator "))
}

/// The operator at the start of `rest`, if `out` ends in the word `operator`.
pub(crate) fn operator(out: &str, rest: &str) -> Option<&'static str> {
    let word = out.trim_end_matches(' ').strip_suffix("operator")?;
    let begins = !word.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    OPERATORS.into_iter().find(|operator| begins && rest.starts_with(operator))
}

/// The length of the brackets at the start of `text`, with what is in them.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '{' | '[' => depth += 1,
            // An arrow is no bracket.
            '>' if before == '-' || before == '=' => {}
            '>' | ')' | '}' | ']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at + c.len_utf8());
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, expected) in [
            ("main", "main"),
            ("f(int)", "f"),
            ("app::Store<std::string, int>::find(std::string const&) const", "app::Store::find"),
            ("std::vector<int, std::allocator<int> >::push_back(int const&)", "std::vector::push_back"),
            (
                "void std::__invoke_impl<void, main::$_0&>(std::__invoke_other, main::$_0&)",
                "std::__invoke_impl",
            ),
            ("std::enable_if<true, int>::type g<int>(int)", "g"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("a::(anonymous namespace)::B<int>::f(int) const &", "a::(anonymous namespace)::B::f"),
            ("operator<(A const&, A const&)", "operator<"),
            ("bool operator< <int>(A<int> const&)", "operator<"),
            ("std::ostream& operator<< <char>(std::ostream&, char)", "operator<<"),
            ("A<int>::operator()(int) const", "A::operator()"),
            ("A::operator->() const", "A::operator->"),
            ("A::operator<=>(A const&) const", "A::operator<=>"),
            ("A::operator[](int)", "A::operator[]"),
            ("void S::operator()<int>(int)", "S::operator()"),
            (
                "void S::f(int)::{lambda(auto:1)#1}::operator()<double>(double) const",
                "S::f::{lambda(auto:1)#1}::operator()",
            ),
            ("bool S::operator><int>(int)", "S::operator>"),
            ("bool S::operator<=<int>(int)", "S::operator<="),
            ("int S::operator->*<int>(int)", "S::operator->*"),
            ("S S::operator+<A<int> >(A<int>)", "S::operator+"),
            ("S::operator long*<long>()", "S::operator long*"),
            ("S::operator&&<int>(int)", "S::operator&&"),
            ("S::operator new(unsigned long)", "S::operator new"),
            ("S::operator newest()", "S::operator newest"),
            ("operator new(unsigned long)", "operator new"),
            ("A::operator bool() const", "A::operator bool"),
            ("A::operator unsigned long() const", "A::operator unsigned long"),
            ("A::operator std::vector<int>()", "A::operator std::vector"),
            ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()"),
            ("f(int)::{lambda(A<int>)#2}::operator()(A<int>) const", "f::{lambda(A)#2}::operator()"),
            ("f<(Kind)1>(int)", "f"),
            ("f<(a > b)>(int)", "f<(a > b)>(int)"),
            ("f(int (*)(char))", "f"),
            ("void (*f<int>(int))(char)", "void (*f<int>(int))(char)"),
            ("f(int) [clone .cold]", "f [clone .cold]"),
            ("core::ptr::drop_in_place::<alloc::vec::Vec<u8>>", "core::ptr::drop_in_place"),
            ("<alloc::vec::Vec<T> as core::ops::Drop>::drop", "<alloc::vec::Vec as core::ops::Drop>::drop"),
            (
                "<fn(u8) -> u8 as core::ops::FnOnce<(u8,)>>::call_once",
                "<fn(u8) -> u8 as core::ops::FnOnce<(u8,)>>::call_once",
            ),
            ("alloc::vec::Vec<T>::push", "alloc::vec::Vec::push"),
            ("main::{{closure}}", "main::{{closure}}"),
            ("f<", "f<"),
            ("f(", "f("),
            ("f)", "f)"),
            ("<", "<"),
            ("", ""),
        ] {
            assert_eq!(short(name), expected, "{name}");
        }
    }
}
