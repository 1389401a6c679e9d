//! Paths of source files, as compilers write them.

use std::borrow::Cow;

/// The path without the folders that it leaves again, as those of system headers: `lib/gcc/…/12/../../..`. A folder
/// that is a link to another one may make this another file; compilers write such paths of headers only.
pub(crate) fn direct(path: &str) -> Cow<'_, str> {
    if path.contains("/../") {
        Cow::Owned(path_clean::clean(path).to_string_lossy().into_owned())
    } else {
        path.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_do_not_go_up_again() {
        for (path, expected) in [
            (
                "/usr/lib/gcc/x86_64-linux-gnu/12/../../../../include/c++/12/bits/vector",
                "/usr/include/c++/12/bits/vector",
            ),
            ("../src/a..b/c.c", "../src/a..b/c.c"),
            ("build/../src/c.c", "src/c.c"),
        ] {
            assert_eq!(direct(path), expected);
        }
    }
}
