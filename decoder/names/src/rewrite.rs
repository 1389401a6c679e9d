//! Names that the demangler does not know, or gets wrong: names of C++20 modules (`W` of the Itanium ABI),
//! and the parameters of constructors that are templates.
//!
//! A module's name comes before the name that belongs to it, and is a substitution, as a scope's is. So the mangled
//! name is rewritten: each module becomes a scope with a name that no program has, and where a substitution stands
//! for a module, the name after it gets a mark. In the demangled name both become `@module`, as `c++filt` writes it.
//! The substitutions that stand for modules are found by trying, and checked: the demangler is asked what each of
//! them is.

use std::fmt::Write as _;

/// The beginning of all texts that are put into names.
const MARK: &str = "__pcce_";
/// The texts before the name of a module's part, as a scope, and those of a module after a name.
const SCOPE: &str = "__pcce_module_";
const PARTITION: &str = "__pcce_partition_";
const AT: &str = "__pcce_at_";
const DOT: &str = "__pcce_dot_";
const COLON: &str = "__pcce_colon_";

/// Bound on the tries to find the substitutions that are modules.
const MAX_TRIES: usize = 96;
/// Longer names, and those with more substitutions that may be modules, are left alone.
const MAX_LEN: usize = 1 << 11;
const MAX_SUBSTITUTIONS: usize = 12;

/// Demangles a name with modules, or with a template of a constructor. None if it has neither, or is not
/// understood. `demangle` is for names without these.
pub fn demangle(linkage: &str, demangle: impl Fn(&str) -> Option<String>) -> Option<String> {
    const CONSTRUCTORS: [&str; 4] = ["C1", "C2", "C3", "CI"];
    let rest = linkage.strip_prefix("_Z")?;
    let may_be = rest.contains('W') || CONSTRUCTORS.iter().any(|constructor| rest.contains(constructor));
    if !may_be || !linkage.is_ascii() || linkage.contains(MARK) {
        return None;
    }
    if let Some(rest) = rest.strip_prefix("GI") {
        return initializer(rest);
    }
    let found = read(rest, &[])?;
    if found.modules.is_empty() && found.has_constructor {
        return demangle(&format!("_Z{}", found.written));
    }
    if found.modules.is_empty() || found.substitutions.len() > MAX_SUBSTITUTIONS {
        return None;
    }
    // The substitutions that are modules, by number: at first none, then one, and so on.
    let mut waiting: Vec<Vec<(usize, String)>> = vec![Vec::new()];
    for tried in 0..MAX_TRIES {
        let known = waiting.get(tried)?.clone();
        let written = read(rest, &known).map(|read| read.written).unwrap_or_default();
        if let Some(text) = demangle(&format!("_Z{written}"))
            && is_right(&written, &found.substitutions, &known, &demangle)
        {
            return Some(shown(&text)).filter(|shown| !shown.contains(MARK));
        }
        let last = known.last().map_or(0, |(number, _)| number + 1);
        for &number in found.substitutions.iter().filter(|number| **number >= last) {
            let more = |module: &String| [&known[..], &[(number, module.clone())]].concat();
            waiting.extend(found.modules.iter().map(more));
        }
        waiting.truncate(MAX_TRIES);
    }
    None
}

/// Returns whether exactly the substitutions in `known` are modules. Each substitution is demangled as the type of a
/// further parameter.
fn is_right(
    written: &str,
    substitutions: &[usize],
    known: &[(usize, String)],
    demangle: &impl Fn(&str) -> Option<String>,
) -> bool {
    substitutions.iter().all(|&number| {
        let Some(text) = demangle(&format!("_Z{written}{}", spelled(number))) else {
            // The name has no parameters, so nothing can be checked. It is right only if nothing was tried.
            return known.is_empty();
        };
        // Qualifiers may follow the parameters.
        let text = text.rsplit_once(')').map_or(&*text, |(text, _)| text);
        let module = known.iter().find(|(known, _)| *known == number).map(|(_, module)| module);
        match module {
            Some(module) => text.ends_with(&scopes(module).join("::")),
            None => {
                let last = text.rsplit([':', ' ', ',', '(', '<']).next().unwrap_or_default();
                !last.starts_with(SCOPE) && !last.starts_with(PARTITION)
            }
        }
    })
}

/// A substitution as it is written.
fn spelled(number: usize) -> String {
    let Some(mut rest) = number.checked_sub(1) else { return "S_".to_owned() };
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit((rest % 36) as u32, 36).unwrap_or('0').to_ascii_uppercase());
        rest /= 36;
        if rest == 0 {
            break;
        }
    }
    format!("S{}_", digits.iter().rev().collect::<String>())
}

/// The scopes that stand for a module, whose name consists of its parts: `.foo.bar:part`.
fn scopes(module: &str) -> Vec<String> {
    let mut scopes = Vec::new();
    for (at, mark) in module.match_indices(['.', ':']) {
        let part = module[at + 1..].split(['.', ':']).next().unwrap_or_default();
        scopes.push(format!("{}{part}", if mark == "." { SCOPE } else { PARTITION }));
    }
    scopes
}

/// `_ZGI`: the initialiser of a module.
fn initializer(mut rest: &str) -> Option<String> {
    let mut module = String::new();
    while !rest.is_empty() {
        rest = part(rest, &mut module)?;
    }
    (!module.is_empty()).then(|| format!("initializer for module {}", &module[1..]))
}

/// Takes a part of a module's name, `W3foo` or `WP3foo`.
fn part<'r>(rest: &'r str, module: &mut String) -> Option<&'r str> {
    let rest = rest.strip_prefix('W')?;
    let (mark, rest) = rest.strip_prefix('P').map_or(('.', rest), |rest| (':', rest));
    let (name, rest) = source_name(rest)?;
    module.push(mark);
    module.push_str(name);
    Some(rest)
}

/// Takes a name that follows its length.
fn source_name(rest: &str) -> Option<(&str, &str)> {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let len: usize = rest[..digits].parse().ok()?;
    let name = rest.get(digits..digits.checked_add(len)?)?;
    (len > 0).then(|| (name, &rest[digits + len..]))
}

/// A name that was rewritten.
#[derive(Default)]
struct Rewritten {
    written: String,
    modules: Vec<String>,
    /// The substitutions in it that may be modules: names follow them.
    substitutions: Vec<usize>,
    /// True if there was a template of a constructor.
    has_constructor: bool,
}

/// The part of a name that an `E` ends.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    /// A nested name, and its last component.
    Nested(Last),
    /// A nested name that was made here of a module and a name. It ends after the name, or its template arguments.
    Made,
    /// A literal; whether its type was read.
    Literal(bool),
    /// Template arguments and others.
    Other,
}

/// The last component of a nested name.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    Constructor,
    Arguments,
    Other,
}

/// Rewrites the part after `_Z`. `known`: the substitutions that are modules.
fn read(mut rest: &str, known: &[(usize, String)]) -> Option<Rewritten> {
    let mut found = Rewritten::default();
    let mut open: Vec<Open> = Vec::new();
    // The module of the name that follows, where that is a substitution.
    let mut module = None;
    let first = rest;
    // The offsets of thunks.
    for kind in ["Th", "Tv"] {
        if rest.starts_with(kind) {
            let at = rest
                .find('_')
                .filter(|_| kind == "Th")
                .or_else(|| rest.match_indices('_').nth(1).map(|(at, _)| at))?;
            found.written.push_str(&rest[..=at]);
            rest = &rest[at + 1..];
        }
    }
    while let Some(c) = rest.chars().next() {
        let in_name = matches!(open.last(), None | Some(Open::Nested(_) | Open::Made));
        // A made name ends where no more of it follows.
        if open.last() == Some(&Open::Made) && !found.written.ends_with('N') && !ends_open(&found.written) {
            let goes_on = c == 'B' || c == 'I';
            if !goes_on {
                open.pop();
                found.written.push('E');
                continue;
            }
        }
        if let Some(Open::Nested(last)) = open.last_mut()
            && *last == Last::Constructor
            && c != 'I'
            && c != 'B'
        {
            *last = Last::Other;
        }
        let taken = match c {
            'W' => {
                if first.len() > MAX_LEN {
                    return None;
                }
                let mut name = String::new();
                let mut after = rest;
                while after.starts_with('W') {
                    after = part(after, &mut name)?;
                    if !found.modules.contains(&name) {
                        found.modules.push(name.clone());
                    }
                }
                if !matches!(open.last(), Some(Open::Nested(_))) {
                    open.push(Open::Made);
                    found.written.push('N');
                }
                for scope in scopes(&name) {
                    let _ = write!(found.written, "{}{scope}", scope.len());
                }
                rest = after;
                continue;
            }
            'S' => {
                let end = match rest.as_bytes().get(1)? {
                    b'a'..=b'z' => 2,
                    _ => rest.find('_')? + 1,
                };
                let number = number(&rest[..end]);
                let is_followed = rest[end..].starts_with(|c: char| c.is_ascii_digit());
                if let Some(number) = number.filter(|_| is_followed) {
                    if !found.substitutions.contains(&number) {
                        found.substitutions.push(number);
                    }
                    if let Some((_, name)) = known.iter().find(|(known, _)| *known == number) {
                        module = Some(name.clone());
                        rest = &rest[end..];
                        continue;
                    }
                }
                end
            }
            '0'..='9' if open.last() == Some(&Open::Literal(true)) => {
                rest.bytes().take_while(u8::is_ascii_digit).count()
            }
            '0'..='9' => {
                let (name, after) = source_name(rest)?;
                match module.take() {
                    None => found.written.push_str(&rest[..rest.len() - after.len()]),
                    Some(module) => {
                        let mark = module[1..].replace('.', DOT).replace(':', COLON);
                        let name = format!("{name}{AT}{mark}");
                        let _ = write!(found.written, "{}{name}", name.len());
                    }
                }
                if let Some(Open::Literal(is_typed)) = open.last_mut() {
                    *is_typed = true;
                }
                rest = after;
                continue;
            }
            'E' => {
                let closed = open.pop()?;
                match (closed, open.last_mut()) {
                    (Open::Nested(_) | Open::Other, Some(Open::Literal(is_typed))) => *is_typed = true,
                    (Open::Other, Some(Open::Nested(last))) => {
                        let is_constructor = *last == Last::Constructor;
                        *last = if is_constructor { Last::Arguments } else { Last::Other };
                    }
                    _ => {}
                }
                if closed == Open::Nested(Last::Arguments) {
                    // The demangler takes the first parameter of a constructor's template for the type that
                    // it returns.
                    found.written.push_str("Ev");
                    found.has_constructor = true;
                    rest = &rest[1..];
                    continue;
                }
                1
            }
            'N' => {
                open.push(Open::Nested(Last::Other));
                1
            }
            // A local function of a file; else a literal.
            'L' if in_name => 1,
            'L' => {
                open.push(Open::Literal(false));
                if rest[1..].starts_with("_Z") { 3 } else { 1 }
            }
            'I' | 'J' | 'F' | 'X' | 'Z' => {
                open.push(Open::Other);
                1
            }
            'T' if rest.len() != first.len() => rest.find('_')? + 1,
            'T' => 2,
            'A' => rest.find('_').filter(|at| rest[1..*at].bytes().all(|b| b.is_ascii_digit()))? + 1,
            '_' => 1 + rest[1..].bytes().take_while(|b| b.is_ascii_digit() || *b == b'_').count(),
            'U' if rest.starts_with("Ul") => {
                open.push(Open::Other);
                2
            }
            'U' if rest.starts_with("Ut") => 2 + rest[2..].bytes().take_while(u8::is_ascii_digit).count(),
            'D' if rest.starts_with("DT") || rest.starts_with("Dt") => {
                open.push(Open::Other);
                2
            }
            'C' if matches!(open.last(), Some(Open::Nested(_))) => {
                // `CI1`: the constructor of a base class, whose name follows.
                let is_inherited = rest[1..].starts_with('I');
                if let Some(Open::Nested(last)) = open.last_mut() {
                    *last = if is_inherited { Last::Other } else { Last::Constructor };
                }
                if is_inherited { 3 } else { 2 }
            }
            'D' if in_name => 2,
            'D' => 2 + rest.get(2..)?.bytes().take_while(|b| b.is_ascii_digit() || *b == b'_').count(),
            // An ABI tag.
            'B' if in_name => rest.len() - source_name(&rest[1..])?.1.len(),
            // Constraints.
            'Q' => return None,
            // An operator of a module, without a scope.
            'a'..='z' if open.last() == Some(&Open::Made) && ends_open(&found.written) => {
                if rest.starts_with("cv") {
                    return None;
                }
                2
            }
            'a'..='z' => {
                if let Some(Open::Literal(is_typed)) = open.last_mut() {
                    *is_typed = true;
                }
                let second = rest.as_bytes().get(1).copied().unwrap_or(b' ');
                let is_operator = in_name && !found.written.ends_with('N') && second.is_ascii_uppercase();
                if is_operator
                    && ["aN", "aS", "dV", "eO", "lS", "mI", "mL", "oR", "pL", "rM", "rS"]
                        .iter()
                        .any(|o| rest.starts_with(o))
                {
                    2
                } else {
                    1
                }
            }
            _ => 1,
        };
        if module.is_some() {
            // No plain name follows.
            return None;
        }
        found.written.push_str(rest.get(..taken)?);
        rest = &rest[taken..];
    }
    while open.pop_if(|open| *open == Open::Made).is_some() {
        found.written.push('E');
    }
    Some(found)
}

/// Returns whether the name of a module was written last, so that the name that belongs to it must follow.
fn ends_open(written: &str) -> bool {
    let last = |mark: &str| written.rfind(mark).map(|at| at + mark.len());
    let Some(at) = last(SCOPE).max(last(PARTITION)) else { return false };
    let begin = written[..at].rfind("__pcce_").unwrap_or(at);
    let digits = written[..begin].bytes().rev().take_while(u8::is_ascii_digit).count();
    let len: usize = written[begin - digits..begin].parse().unwrap_or(0);
    begin + len == written.len()
}

fn number(spelled: &str) -> Option<usize> {
    match spelled.strip_prefix('S')?.strip_suffix('_')? {
        "" => Some(0),
        digits => usize::from_str_radix(digits, 36).ok()?.checked_add(1),
    }
}

/// The text with modules as `c++filt` writes them.
fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut module = String::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    while !rest.is_empty() {
        let scope = [(SCOPE, '.'), (PARTITION, ':')].into_iter().find_map(|(start, mark)| {
            let (name, after) = rest.strip_prefix(start)?.split_once("::")?;
            Some((mark, name, after))
        });
        if let Some((mark, name, after)) = scope {
            if !module.is_empty() || mark == ':' {
                module.push(mark);
            }
            module.push_str(name);
            rest = after;
            continue;
        }
        let len = if !module.is_empty() && rest.starts_with("operator") {
            // Up to the parameters. The first parentheses of `operator()` belong to its name.
            let start = if rest.starts_with("operator()") { 10 } else { 8 };
            start + rest[start..].find('(').unwrap_or(rest.len() - start)
        } else {
            rest.find(|c| !is_word(c))
                .unwrap_or(rest.len())
                .max(rest.chars().next().map_or(1, char::len_utf8))
        };
        let word = &rest[..len];
        out.push_str(&word.replace(AT, "@").replace(DOT, ".").replace(COLON, ":"));
        if !module.is_empty() && word.starts_with(is_word) {
            let _ = write!(out, "@{}", std::mem::take(&mut module));
        }
        rest = &rest[len..];
    }
    out
}

#[cfg(test)]
mod tests;
