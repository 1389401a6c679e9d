//! Split DWARF (`-gsplit-dwarf`): the debug information of modules goes into files that the linked file
//! names.
//!
//! Debug information describes code (ranges of inlined functions, places of variables), and each link makes
//! its own code of a module. So the file is not beside the object, where thirty programs that share an
//! archive would write the same file, but in the folder `OUTPUT_dwo`, where clang puts it for links that
//! generate code (`-flto`).

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::recorded::Recorded;

/// A file of debug information.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Its name in the program: absolute, or relative to the folder of the compilation.
    pub name: PathBuf,
    /// Its final path.
    pub place: PathBuf,
}

/// The files of one link.
pub struct Files {
    /// The folder, absolute and without links in its name.
    folder: PathBuf,
    taken: HashSet<OsString>,
}

impl Files {
    /// The files of a link with this output.
    ///
    /// # Errors
    /// The final path is unknown.
    pub fn of(output: &Path) -> io::Result<Self> {
        let output = std::path::absolute(output)?;
        let mut name = output.file_name().unwrap_or_default().to_owned();
        name.push("_dwo");
        let parent = output.parent().unwrap_or(Path::new("/"));
        let parent = fs::canonicalize(parent).unwrap_or_else(|_| parent.to_owned());
        Ok(Self { folder: parent.join(name), taken: HashSet::new() })
    }

    /// The file of a module that was compiled by this command from the source `source`. Each name is used for
    /// one module only, and for the same one in each link.
    pub fn add(&mut self, source: &str, recorded: &Recorded) -> Split {
        let stem = Path::new(source).file_stem().unwrap_or("module".as_ref());
        let mut number = 0;
        let file = loop {
            let mut file = stem.to_owned();
            file.push(if number == 0 { ".dwo".to_owned() } else { format!(".{number}.dwo") });
            if self.taken.insert(file.clone()) {
                break file;
            }
            number += 1;
        };
        let place = self.folder.join(file);
        // As ordinary compilation does: a file with a relative name may be moved together with the folder.
        let is_whole = Path::new(&recorded.output).is_absolute();
        let folder = fs::canonicalize(&recorded.folder).ok().filter(|_| !is_whole);
        let name = folder.and_then(|folder| from(&folder, &place)).unwrap_or_else(|| place.clone());
        Split { name, place }
    }
}

/// The path relative to a folder; none if they have no folder in common. Both are absolute, without links.
fn from(folder: &Path, file: &Path) -> Option<PathBuf> {
    let same = folder.components().zip(file.components()).take_while(|(a, b)| a == b).count();
    // The first component is the root.
    if same < 2 {
        return None;
    }
    let up = folder.components().skip(same).map(|_| Component::ParentDir);
    Some(up.chain(file.components().skip(same)).collect())
}

/// Moves the generated files to their final paths.
///
/// # Errors
/// A file cannot be written.
pub fn keep(made: &[(PathBuf, Split)]) -> Result<(), super::Failure> {
    for (file, Split { place, .. }) in made {
        let folder = place.parent().unwrap_or(Path::new("/"));
        let written = fs::create_dir_all(folder).and_then(|()| {
            // A debugger may have the old file open, so it is not overwritten.
            let new = tempfile::NamedTempFile::new_in(folder)?;
            fs::copy(file, new.path())?;
            new.persist(place)?;
            Ok(())
        });
        written.map_err(|error| {
            format!("debug information cannot be written to {}: {error}", place.display())
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_has_a_file_that_is_named_as_its_object() {
        let base = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(base.path()).unwrap();
        fs::create_dir_all(base.join("lib/deep")).unwrap();
        let mut files = Files::of(&base.join("lib/../program")).unwrap();
        let recorded = |folder: &Path, output: &str| Recorded {
            compiler: "clang".into(),
            llvm: pcce_options::llvm(),
            words: vec![],
            options: String::new(),
            folder: folder.display().to_string(),
            output: output.into(),
        };
        let at = |name: &str| base.join("program_dwo").join(name);
        for (source, folder, output, name, place) in [
            ("a.c", base.clone(), "a.o", PathBuf::from("program_dwo/a.dwo"), at("a.dwo")),
            ("x/a.cpp", base.join("lib/deep"), "a.o", "../../program_dwo/a.1.dwo".into(), at("a.1.dwo")),
            ("a.1.c", base.clone(), "a.o", "program_dwo/a.1.1.dwo".into(), at("a.1.1.dwo")),
            ("b.c", base.clone(), "/x/b.o", at("b.dwo"), at("b.dwo")),
            ("", base.join("gone"), "b.o", at("module.dwo"), at("module.dwo")),
            ("c.c", PathBuf::from("/usr"), "c.o", at("c.dwo"), at("c.dwo")),
        ] {
            let split = files.add(source, &recorded(&folder, output));
            assert_eq!(split, Split { name, place }, "{source} in {}", folder.display());
        }
    }
}
