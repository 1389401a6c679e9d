//! Debian's source packages, built by the wrapper in verify mode: do their own tests end as with plain clang?
//!
//! A package is a file of `testsuite/packages`. Each is built by clang and by the wrapper in each mode, in a folder of
//! its own below `target/packages`, and its tests run. Every process of build and tests reports what it compared: the
//! report's path is in the programs, for tests start some with an environment of their own.

pub mod record;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::evaluation::build::{Workshop, tarball, unpack};
use crate::evaluation::declarations::{Compiler, Variant};
use crate::evaluation::store::{Store, fingerprint};
use crate::evaluation::verify::{Verified, read_report};
use crate::evaluation::workload::{Shell, Usage};
use crate::{declaration, files, repository};

/// Flags of every build. The sources are older than some errors of clang.
const FLAGS: &str = "-O2 -w -Wno-error -Wno-return-mismatch -Wno-return-type -Wno-implicit-function-declaration \
    -Wno-implicit-int -Wno-int-conversion -Wno-incompatible-function-pointer-types";

/// Time limit of a build, or of a package's tests, in minutes.
const LIMIT: u32 = 120;

/// A package: a file of `testsuite/packages`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Its name: the file's, without the ending.
    #[serde(skip)]
    pub name: String,
    /// Debian's source package.
    pub package: String,
    /// The time for everything on two cores, roughly. Quick packages come first.
    pub minutes: u32,
    /// Packages that it is built with. They come before it.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The names of the modes that it can be built in. Empty for all.
    #[serde(default)]
    pub modes: Vec<String>,
    /// Shell commands that build it from its unpacked sources, and install what others need into `$PREFIX`.
    ///
    /// Here and in `test`, `$CC` and `$CXX` are compilers with all flags, `$INSTALLED` is the folder of the packages'
    /// `$PREFIX`es, each with the package's name.
    pub build: String,
    /// Shell commands that run its tests and print one line for each result. What they print must be the same in
    /// every run; other output goes to standard error. They fail where tests cannot run at all.
    pub test: String,
}

impl Package {
    /// All packages. Packages that others need come before these; otherwise the quick ones come first.
    ///
    /// # Errors
    /// If a declaration cannot be read, naming it, or needs a package that does not exist.
    pub fn all() -> Result<Vec<Package>> {
        let folder = repository().join("testsuite/packages");
        let mut packages = Vec::new();
        for path in files(&folder)? {
            let (name, package) = declaration(&path)?;
            packages.push(Package { name, ..package });
        }
        packages.sort_by(|a, b| (a.minutes, &a.name).cmp(&(b.minutes, &b.name)));
        let mut ordered: Vec<Package> = Vec::new();
        while !packages.is_empty() {
            let ready = |package: &Package| {
                package.needs.iter().all(|name| ordered.iter().any(|before| before.name == *name))
            };
            let Some(next) = packages.iter().position(ready) else {
                bail!("testsuite/packages: what `{}` needs is not there, or needs it", packages[0].name);
            };
            ordered.push(packages.remove(next));
        }
        Ok(ordered)
    }

    /// Returns whether it can be built in a mode of the wrapper.
    pub fn takes(&self, build: Build) -> bool {
        self.modes.is_empty() || self.modes.iter().any(|mode| mode == build.name())
    }

    /// The packages of these names and those that they need; all packages without names.
    pub fn named(names: &[String]) -> Result<Vec<Package>> {
        let all = Self::all()?;
        let mut wanted: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut next = 0;
        while next < wanted.len() {
            let Some(package) = all.iter().find(|package| package.name == wanted[next]) else {
                let all = all.iter().map(|package| package.name.as_str()).collect::<Vec<_>>();
                bail!("there is no package `{}`; there are: {}", wanted[next], all.join(", "));
            };
            wanted.extend(package.needs.iter().map(String::as_str));
            next += 1;
        }
        let chosen = |package: &Package| wanted.is_empty() || wanted.contains(&package.name.as_str());
        let chosen = all.iter().filter(|package| chosen(package)).cloned().collect();
        Ok(chosen)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Build {
    Plain,
    /// By the wrapper, encoded as a whole.
    Lto,
    /// By the wrapper, each module by itself.
    Module,
    /// By the wrapper, encoded between two links.
    Link,
}

impl Build {
    pub const INSTRUMENTED: [Build; 3] = [Build::Link, Build::Lto, Build::Module];

    /// The name in folders and tables.
    pub fn name(self) -> &'static str {
        match self {
            Build::Plain => "plain",
            Build::Lto => "lto",
            Build::Module => "module",
            Build::Link => "link",
        }
    }
}

/// The results of a build and its tests.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub build: Usage,
    pub test: Usage,
    pub results: Vec<String>,
    pub verified: Verified,
    /// The described mismatches, each with its count.
    pub described: BTreeMap<String, u64>,
    /// Compared contexts that were truncated, on unknown stacks: of fibers.
    #[serde(default)]
    pub cut: u64,
}

/// Builds packages and runs their tests.
pub struct Packages {
    root: PathBuf,
    tools: PathBuf,
    workshop: Workshop,
    store: Store,
}

impl Packages {
    /// Uses the folder `root`, with the wrapper in the folder `tools`.
    pub fn new(root: PathBuf, tools: PathBuf) -> Result<Packages> {
        let workshop = Workshop::new(root.clone())?;
        let store = Store::new(root.join("results"));
        Ok(Packages { root, tools, workshop, store })
    }

    fn folder(&self, package: &Package, build: Build, what: &str) -> PathBuf {
        self.root.join(what).join(build.name()).join(&package.name)
    }

    /// The compilers of a package, whose programs report to the file.
    fn variant(&self, package: &Package, build: Build, report: &Path) -> Variant {
        let flags = match build {
            Build::Plain => FLAGS.to_owned(),
            _ => format!(
                "{FLAGS} --pcce-mode={} --pcce-verify --pcce-verify-report={}",
                build.name(),
                report.display()
            ),
        };
        Variant {
            name: format!("{}-{}", package.name, build.name()),
            compiler: if build == Build::Plain { Compiler::Clang } else { Compiler::Pcce },
            flags,
            baseline: None,
            trained: false,
            adapted: None,
            part: None,
            records: false,
            through: String::new(),
            environment: BTreeMap::new(),
            note: String::new(),
            tools: self.tools.clone(),
        }
    }

    /// A fingerprint of everything that the outcome depends on. `needs` are the fingerprints of the packages that it
    /// needs.
    pub fn fingerprint(&self, package: &Package, build: Build, needs: &[String]) -> Result<String> {
        let variant = self.variant(package, build, Path::new("report"));
        let own = [&package.package, &package.build, &package.test].map(String::clone);
        let compiler = self.workshop.compiler_fingerprint(&variant)?;
        Ok(fingerprint(own.iter().chain(needs).chain([&compiler])))
    }

    /// Builds the package and runs its tests, or returns the stored outcome of the same `fingerprint`.
    ///
    /// # Errors
    /// If a command fails, with the end of its output.
    pub fn outcome(
        &self,
        package: &Package,
        build: Build,
        fingerprint: &str,
        say: &dyn Fn(&str),
    ) -> Result<Outcome> {
        self.store.step(&package.name, build.name(), "outcome", fingerprint, || {
            self.build_and_test(package, build, say)
        })
    }

    fn build_and_test(&self, package: &Package, build: Build, say: &dyn Fn(&str)) -> Result<Outcome> {
        say("sources");
        let sources = tarball(&package.package)?;
        let folder = self.folder(package, build, "build");
        let prefix = self.folder(package, build, "installed");
        let logs = self.folder(package, build, "logs");
        for old in [&folder, &prefix, &logs] {
            let _ = fs::remove_dir_all(old);
        }
        for new in [&folder, &logs] {
            fs::create_dir_all(new).with_context(|| new.display().to_string())?;
        }
        unpack(&sources, &folder)?;

        // Some tests run as another user.
        let report = logs.join("report");
        fs::write(&report, "")?;
        fs::set_permissions(&report, Permissions::from_mode(0o666))?;
        let compilers = self.workshop.compilers(&self.variant(package, build, &report), false)?;
        let environment: Vec<(String, OsString)> = vec![
            ("CC".into(), compilers.join("cc").into()),
            ("CXX".into(), compilers.join("c++").into()),
            ("PREFIX".into(), prefix.clone().into()),
            ("INSTALLED".into(), prefix.parent().context("has a parent")?.into()),
        ];
        let step = |name: &str, commands: &str| -> Result<(Usage, PathBuf)> {
            say(name);
            let script = logs.join(name).with_extension("sh");
            fs::write(&script, commands)?;
            let (output, errors) = (logs.join(name), logs.join(name).with_extension("errors"));
            let commands = format!("exec timeout --kill-after=10 {LIMIT}m sh -ex '{}'", script.display());
            let environment = environment.clone();
            let shell =
                Shell { commands: &commands, folder: &folder, environment, output: &output, errors: &errors };
            let usage = shell.run().with_context(|| {
                format!("{name} of {} ({}); see {}", package.name, build.name(), logs.display())
            })?;
            Ok((usage, output))
        };
        let (built, _) = step("build", &package.build)?;
        let (tested, output) = step("test", &package.test)?;
        let results = fs::read(&output).with_context(|| output.display().to_string())?;
        let results: Vec<String> = String::from_utf8_lossy(&results).lines().map(str::to_owned).collect();
        ensure!(!results.is_empty(), "the tests of {} print no results", package.name);
        let (verified, described, cut) = match build {
            Build::Plain => Default::default(),
            _ => read(&fs::read_to_string(&report).with_context(|| report.display().to_string())?)?,
        };
        Ok(Outcome { build: built, test: tested, results, verified, described, cut })
    }
}

/// Reads the reports of all processes, with the descriptions of mismatches, and the number of truncated contexts.
fn read(text: &str) -> Result<(Verified, BTreeMap<String, u64>, u64)> {
    let is_description = |line: &&str| line.starts_with("pcce verify: mismatch in ");
    let cut = |line: &str| -> Option<u64> {
        line.strip_prefix("pcce verify: ")?.split_once(" of them cut, not compared: ")?.0.parse().ok()
    };
    let is_count = |line: &&str| !is_description(line) && cut(line).is_none();
    let reports: String = text.lines().filter(is_count).flat_map(|l| [l, "\n"]).collect();
    let mut verified = read_report(&reports)?;
    let mut described = BTreeMap::new();
    for line in text.lines().filter(is_description) {
        // Numbers of contexts differ between processes.
        let what = line.trim_start_matches("pcce verify: ").split(" (id ").next().unwrap_or(line);
        *described.entry(what.to_owned()).or_default() += 1;
    }
    // A process that was killed has no other report.
    verified.mismatches = verified.mismatches.max(described.values().sum());
    Ok((verified, described, text.lines().filter_map(cut).sum()))
}

/// The results that only one of the two has: with `-` those of `plain`, with `+` the others.
pub fn differences(plain: &[String], other: &[String]) -> Vec<String> {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for (results, by) in [(plain, -1), (other, 1)] {
        for result in results {
            *counts.entry(result).or_default() += by;
        }
    }
    let sign = |n: i64| if n < 0 { '-' } else { '+' };
    let repeated = |(result, n): (&str, i64)| {
        std::iter::repeat_n(format!("{} {result}", sign(n)), n.unsigned_abs() as usize).collect::<Vec<_>>()
    };
    counts.into_iter().flat_map(repeated).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_come_behind_what_they_need() {
        let all = Package::all().unwrap();
        for (i, package) in all.iter().enumerate() {
            for name in &package.needs {
                assert!(all[..i].iter().any(|before| before.name == *name), "{name} before {}", package.name);
            }
        }
        let last = all.iter().find(|package| !package.needs.is_empty()).unwrap();
        let chosen = Package::named(std::slice::from_ref(&last.name)).unwrap();
        assert_eq!(chosen.len(), 1 + last.needs.len());
        assert_eq!(chosen.last().unwrap().name, last.name);
        assert!(Package::named(&["none".into()]).unwrap_err().to_string().contains("there are: "));
    }

    #[test]
    fn mismatches_of_killed_processes_count() {
        let right = "pcce verify: 12 contexts compared, 3 distinct, 0 mismatches\n";
        let wrong = "pcce verify: mismatch in f: returns with another context (id 1 at entry, 2 now)\n";
        let cut = "pcce verify: 5 of them cut, not compared: their frames are on a stack that is not known\n";
        let (verified, described, cut) = read(&[cut, right, wrong, cut, wrong].concat()).unwrap();
        assert_eq!((verified.compared, verified.mismatches, cut), (12, 2, 10));
        assert_eq!(described["mismatch in f: returns with another context"], 2);
        assert!(read(wrong).is_err(), "no process ended");
    }

    #[test]
    fn differences_count_each_result() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(differences(&lines("a b b"), &lines("b a b")), [""; 0]);
        assert_eq!(differences(&lines("a b b c"), &lines("b a d d")), ["- b", "- c", "+ d", "+ d"]);
    }
}
