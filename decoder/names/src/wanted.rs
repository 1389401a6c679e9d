//! Names of functions as users write them: the functions that a name means, and the names that are similar to it.

use std::borrow::Cow;

use crate::{bare, short, written};

/// The name of a function that a user has given: as the linker knows it, or as in the source, with or without
/// parameters, return type, template arguments, and what the compiler adds to names.
#[derive(Clone, Debug)]
pub struct Wanted {
    text: String,
    plain: String,
}

impl Wanted {
    /// Takes a name as the user has written it.
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), plain: plain(text) }
    }

    /// The name as the user has written it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether it means the function of this linkage name, which is `source` in the source.
    pub fn fits(&self, linkage: &str, source: &str) -> bool {
        let is_source = |source: &str| {
            source == self.text || plain(source) == self.plain || forms(source).contains(&self.plain)
        };
        // Users see the form of `written`, so it fits, too.
        linkage == self.text
            || is_source(source)
            || matches!(written(source), Cow::Owned(written) if is_source(&written))
    }

    /// The most similar names, at most five: those with further scopes, such as inline namespaces, then those that
    /// contain the name, then those with a similar spelling.
    pub fn similar<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<String> {
        let wanted = plain(bare(&self.text)).to_lowercase();
        let wanted_short = plain(&short(&self.text)).to_lowercase();
        let likeness = |candidate: &str| {
            if has_in_order(&plain(&short(candidate)).to_lowercase(), &wanted_short) {
                return 3.0;
            }
            let candidate = plain(bare(candidate)).to_lowercase();
            let last = candidate.rsplit("::").next().unwrap_or(&candidate);
            // With `-gline-tables-only`, names have no scopes.
            if !wanted.is_empty()
                && (candidate.contains(&wanted) || wanted.ends_with(&format!("::{candidate}")))
            {
                return 2.0;
            }
            strsim::jaro_winkler(&wanted, &candidate).max(strsim::jaro_winkler(&wanted, last))
        };
        let mut rated: Vec<_> =
            names.map(|name| (likeness(name), name)).filter(|(rate, _)| *rate > 0.8).collect();
        rated.sort_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.cmp(other)));
        rated.dedup();
        rated.into_iter().take(5).map(|(_, name)| name.to_owned()).collect()
    }
}

/// Returns whether `name` ends in the last part of `wanted`, and has its scopes in their order.
fn has_in_order(name: &str, wanted: &str) -> bool {
    let (mut parts, mut wanted) = (name.rsplit("::"), wanted.rsplit("::"));
    parts.next() == wanted.next() && wanted.all(|scope| parts.any(|part| part == scope))
}

/// The hint of an error about a name that no function has.
pub fn hint(similar: &[String]) -> String {
    match similar {
        [] => "; names are those of the source, or of the object file".to_owned(),
        _ => format!("; there are {}", similar.join(", ")),
    }
}

/// The name without the return type of C++, with its parameters.
pub fn without_type(name: &str) -> &str {
    // Both are parts of one text.
    &name[bare(name).as_ptr() as usize - name.as_ptr() as usize..]
}

/// The name without the parameters of C++, with its return type.
fn without_parameters(name: &str) -> &str {
    let bare = bare(name);
    &name[..bare.as_ptr() as usize - name.as_ptr() as usize + bare.len()]
}

/// A name in the source without parameters, without return type, and without template arguments, each as
/// [`plain`] leaves it.
pub fn forms(source: &str) -> [String; 3] {
    [plain(without_parameters(source)), plain(bare(source)), plain(&short(source))]
}

/// The part of a name that counts in comparisons: without ABI tags (`[abi:cxx11]`), marks of copies of a
/// function (`[clone …]`, `.llvm.123`), and blanks that separate nothing.
pub fn plain(name: &str) -> String {
    let name = without_tags(name);
    let name = [".llvm.", ".__uniq."].iter().fold(&*name, |name, mark| match name.rsplit_once(mark) {
        Some((front, digits)) if digits.bytes().all(|digit| digit.is_ascii_digit()) => front,
        _ => name,
    });
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let mut plain = String::with_capacity(name.len());
    let mut chars = name.trim().chars().peekable();
    while let Some(c) = chars.next() {
        let separates = plain.ends_with(is_word) && chars.peek().copied().is_some_and(is_word);
        if c != ' ' || separates {
            plain.push(c);
        }
    }
    plain
}

/// The name without `[abi:…]` and ` [clone …]`.
fn without_tags(name: &str) -> Cow<'_, str> {
    if !name.contains('[') {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('[') {
        let (front, tag) = rest.split_at(at);
        let is_tag = tag.starts_with("[abi:") || front.ends_with(' ') && tag.starts_with("[clone ");
        let len = tag.find(']').map_or(tag.len(), |end| end + 1);
        out.push_str(if is_tag { front.trim_end_matches(' ') } else { front });
        if !is_tag {
            out.push_str(&tag[..len]);
        }
        rest = &tag[len..];
    }
    Cow::Owned(out + rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demangle;

    #[test]
    fn names_are_written_in_many_ways() {
        for (linkage, written) in [
            ("main", &["main"][..]),
            ("_ZN3app4workEi", &["_ZN3app4workEi", "app::work(int)", "app::work", "app::work( int )"]),
            ("_ZN3app4nameB5cxx11Ei", &["app::name[abi:cxx11](int)", "app::name", "app::name(int)"]),
            ("_ZN3app5Store4nameB5cxx11Ev", &["app::Store::name", "app::Store::name[abi:cxx11]"]),
            ("_ZN3AppIiE3runEv", &["App<int>::run", "App::run", "App<int>::run()"]),
            ("_Z3getIiET_v", &["get", "get<int>", "int get<int>", "int get<int>()"]),
            (
                "_ZNSt6vectorIiSaIiEE9push_backERKi",
                &[
                    "std::vector<int, std::allocator<int>>::push_back",
                    "std::vector<int,std::allocator<int> >::push_back(int const&)",
                    "std::vector<int>::push_back(int const&)",
                    "std::vector<int>::push_back",
                    "std::vector::push_back",
                ],
            ),
            ("_ZN12_GLOBAL__N_11fEi", &["(anonymous namespace)::f", "(anonymous namespace)::f(int)"]),
            ("_ZNK1AclEi", &["A::operator()", "A::operator()(int) const"]),
            ("_ZNK1AcvbEv", &["A::operator bool"]),
            ("_ZlsRSoRK1A", &["operator<<"]),
            ("_ZN1A1fEPFvvE", &["A::f", "A::f(void (*)())"]),
            ("helper.llvm.12345", &["helper", "helper.llvm.12345"]),
            ("_ZL1fi.llvm.12345", &["f", "f(int)"]),
            ("_ZL1fl.__uniq.29582000", &["f", "f(long)"]),
            ("_RNvC6_123foo3bar", &["123foo::bar"]),
        ] {
            let source = demangle(linkage);
            for name in written {
                assert!(Wanted::new(name).fits(linkage, &source), "{name}: {source}");
            }
        }
        for (linkage, other) in [
            ("_ZN3app4workEi", "work"),
            ("_ZN3app4workEi", "app::work(long)"),
            ("_ZN3app4workEi", "app"),
            ("_ZNK1AclEi", "A::operator"),
            ("_ZN3AppIiE3runEv", "App<long>::run"),
            ("main", "mai"),
            ("main", ""),
        ] {
            let source = demangle(linkage);
            assert!(!Wanted::new(other).fits(linkage, &source), "{other}: {source}");
        }
    }

    #[test]
    fn names_that_are_alike_are_found() {
        let names = ["app::parse(int)", "app::parse_all()", "handle", "main"];
        let similar = |name: &str| Wanted::new(name).similar(names.into_iter());
        assert_eq!(similar("parse"), ["app::parse(int)", "app::parse_all()"]);
        assert_eq!(similar("handel"), ["handle"]);
        let names = ["A::C::f()", "A::f2()", "f(char const*, ...)", "void A::v1::B::f<int>(int)", "B::f()"];
        assert_eq!(Wanted::new("A::B::f").similar(names.into_iter())[0], "void A::v1::B::f<int>(int)");
        assert_eq!(similar("app::handle")[0], "handle");
        assert_eq!(similar("xyz"), [""; 0]);
        assert_eq!(similar(""), [""; 0]);
    }
}
