//! The settings of a project: the file `.pcce.toml` in the working directory, or in the nearest folder above it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use pcce::folding::Hidden;
use serde::Deserialize;

/// The file's name.
pub const NAME: &str = ".pcce.toml";

/// Settings instead of options. Paths are relative to the file's folder.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Project {
    /// As `--hide`.
    pub hide: Vec<String>,
    /// As `--strip-prefix`.
    pub strip_prefix: Vec<PathBuf>,
    /// As `--dicts`.
    pub dicts: Vec<PathBuf>,
}

impl Project {
    /// Reads the file; without one, there are no settings.
    ///
    /// # Errors
    /// The file cannot be read, or has settings or patterns that do not exist.
    pub fn find() -> anyhow::Result<Self> {
        let Ok(folder) = std::env::current_dir() else { return Ok(Self::default()) };
        for folder in folder.ancestors() {
            let file = folder.join(NAME);
            match fs::read_to_string(&file) {
                Ok(text) => return Self::of(&text, folder).with_context(|| file.display().to_string()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(|| file.display().to_string()),
            }
        }
        Ok(Self::default())
    }

    fn of(text: &str, folder: &Path) -> anyhow::Result<Self> {
        let line =
            |error: &toml::de::Error| error.span().map_or(1, |at| 1 + text[..at.start].matches('\n').count());
        let mut project: Self =
            toml::from_str(text).map_err(|error| anyhow!("line {}: {}", line(&error), error.message()))?;
        Hidden::new(project.hide.iter().map(String::as_str))?;
        for path in project.strip_prefix.iter_mut().chain(&mut project.dicts) {
            *path = path_clean::clean(folder.join(&*path));
        }
        Ok(project)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_from_the_folder() {
        let text = "hide = ['app::log*']\nstrip-prefix = ['.', '/build']\ndicts = ['out/dicts']\n";
        let expected = Project {
            hide: vec!["app::log*".to_owned()],
            strip_prefix: vec!["/home/app".into(), "/build".into()],
            dicts: vec!["/home/app/out/dicts".into()],
        };
        assert_eq!(Project::of(text, Path::new("/home/app")).expect("it reads"), expected);
        assert_eq!(Project::of("", Path::new("/")).expect("it reads"), Project::default());
        let unknown = Project::of("hidden = []", Path::new("/")).expect_err("no such setting").to_string();
        assert!(unknown.contains("hidden") && unknown.contains("`hide`"), "{unknown}");
        let of_type = Project::of("dicts = []\nhide = 'x'", Path::new("/")).expect_err("no list").to_string();
        assert!(of_type.starts_with("line 2: ") && !of_type.contains('\n'), "{of_type}");
        Project::of("hide = ['[']", Path::new("/")).expect_err("no pattern");
    }
}
