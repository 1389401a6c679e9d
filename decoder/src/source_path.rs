//! Paths of source files, as compilers write them.

use std::borrow::Cow;

/// The path without the folders that it enters only to leave them by `..`, as paths of system headers do:
/// `lib/gcc/…/12/../../..`. If such a folder is a symbolic link, the result may be another file; but compilers write
/// such paths of headers only.
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
