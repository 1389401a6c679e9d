//! The configuration for SPEC CPU 2017 (`testsuite/evaluation/spec/pcce.cfg`), with a stand-in for SPEC's tools: it
//! reads the file as "Using SPEC CPU 2017: config files" describes it, and carries out the commands that "Make
//! Variables" describes, on two programs of the evaluation in the places of two of SPEC's.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use pcce_testsuite::evaluation::build::Workshop;
use pcce_testsuite::evaluation::declarations::{Program, Variant, workloads};
use pcce_testsuite::evaluation::spec::tables;
use pcce_testsuite::{artifact, checked, command, repository, run, target, work_folder};

/// All programs of intrate, and their languages.
const INTRATE: [(&str, &str); 10] = [
    ("500.perlbench_r", "C"),
    ("502.gcc_r", "C"),
    ("505.mcf_r", "C"),
    ("520.omnetpp_r", "CXX"),
    ("523.xalancbmk_r", "CXX"),
    ("525.x264_r", "C"),
    ("531.deepsjeng_r", "CXX"),
    ("541.leela_r", "CXX"),
    ("548.exchange2_r", "F"),
    ("557.xz_r", "C"),
];

/// A section: the benchmarks or sets that it is about, its tuning, and its options.
type Section = (Vec<String>, Option<String>, Vec<(String, String)>);

struct Config(Vec<Section>);

/// A text with the values of its macros.
fn expanded(text: &str, macros: &BTreeMap<String, String>) -> String {
    let mut out = text.to_owned();
    while let Some((before, rest)) = out.split_once("%{") {
        let (name, after) = rest.split_once('}').expect("a macro ends");
        let value = macros.get(name).unwrap_or_else(|| panic!("{text}: the macro {name} has no value"));
        out = format!("{before}{value}{after}");
    }
    out
}

/// The value of a condition: comparisons, joined by `&&` and `||`.
fn holds(condition: &str, macros: &BTreeMap<String, String>) -> bool {
    let compare = |text: &str| {
        let words: Vec<String> = text
            .split_whitespace()
            .map(|word| expanded(word, macros).trim_matches('\'').to_owned())
            .collect();
        match &words[..] {
            [a, operator, b] if ["eq", "=="].contains(&operator.as_str()) => a == b,
            [a, operator, b] if ["ne", "!="].contains(&operator.as_str()) => a != b,
            _ => panic!("what is `{text}`?"),
        }
    };
    condition.split("||").any(|any| any.split("&&").all(compare))
}

impl Config {
    /// Reads the configuration, with macros as `--define` gives them; or the text of an `%error`.
    fn read(defined: &[(&str, &str)]) -> Result<Self, String> {
        let text =
            fs::read_to_string(repository().join("testsuite/evaluation/spec/pcce.cfg")).expect("is there");
        let mut macros: BTreeMap<String, String> =
            defined.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut sections: Vec<Section> = vec![(vec!["default".to_owned()], None, Vec::new())];
        // For each condition that is open: whether its lines count, and whether one of its branches did.
        let mut open: Vec<(bool, bool)> = Vec::new();
        for line in text.lines() {
            let active = |open: &[(bool, bool)]| open.iter().all(|(active, _)| *active);
            if let Some(directive) = line.strip_prefix('%') {
                let directive = directive.trim();
                let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
                let outer = open.len().checked_sub(1).map_or(&open[..0], |last| &open[..last]);
                let outer_active = active(outer);
                match word {
                    "if" | "ifdef" | "ifndef" => {
                        let is = active(&open) && {
                            let name = rest.trim().trim_start_matches("%{").trim_end_matches('}');
                            match word {
                                "if" => holds(rest, &macros),
                                "ifdef" => macros.contains_key(name),
                                _ => !macros.contains_key(name),
                            }
                        };
                        open.push((is, is));
                    }
                    "elif" | "else" => {
                        let taken = open.last().expect("an %if").1;
                        let is = outer_active && !taken && (word == "else" || holds(rest, &macros));
                        *open.last_mut().expect("an %if") = (is, taken || is);
                    }
                    "endif" => _ = open.pop().expect("an %if"),
                    "define" if active(&open) => {
                        let (name, value) = rest.trim().split_once(' ').expect("a value");
                        macros.insert(name.to_owned(), expanded(value.trim(), &macros));
                    }
                    "error" if active(&open) => return Err(rest.to_owned()),
                    "define" | "error" => {}
                    other => panic!("%{other}"),
                }
                continue;
            }
            let line = expanded(if active(&open) { line } else { "" }, &macros);
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            if let Some(marker) = line.strip_suffix(':').filter(|_| !line.starts_with(' ')) {
                let (of, tune) = marker.split_once('=').map_or((marker, None), |(of, tune)| (of, Some(tune)));
                let of = of.split(',').map(str::to_owned).collect();
                sections.push((of, tune.map(str::to_owned), Vec::new()));
                continue;
            }
            let (name, value) = line.split_once('=').unwrap_or_else(|| panic!("what is `{line}`?"));
            let option = (name.trim().to_owned(), value.trim().to_owned());
            sections.last_mut().expect("the first one").2.push(option);
        }
        assert!(open.is_empty(), "an %if has no %endif");
        Ok(Self(sections))
    }

    /// The value of an option for a benchmark: that of the section which is most about it, by its name, then by its
    /// tuning; of equal ones the last.
    fn option(&self, name: &str, benchmark: &str, tune: &str) -> &str {
        let rank = |(of, of_tune, _): &Section| {
            let is = |what: &str| of.iter().any(|name| name == what);
            let set = if benchmark.ends_with("_s") { "intspeed" } else { "intrate" };
            let by_name = [is("default"), is(set), is(benchmark)].iter().rposition(|is| *is)?;
            let by_tune = match of_tune.as_deref() {
                None | Some("default") => 0,
                Some(of_tune) if of_tune == tune => 1,
                Some(_) => return None,
            };
            Some((by_name, by_tune))
        };
        let mut found: Vec<_> = Vec::new();
        for (place, section) in self.0.iter().enumerate() {
            let Some(rank) = rank(section) else { continue };
            found.extend(
                section.2.iter().filter(|option| option.0 == name).map(|option| (rank, place, &option.1)),
            );
        }
        found.into_iter().max_by_key(|(rank, place, _)| (*rank, *place)).map_or("", |(.., value)| value)
    }

    fn tune(&self) -> &str {
        self.option("tune", "", "")
    }

    /// The values of make variables, in this order. In their names `{}` is the language, and `n` the pass.
    fn flags(&self, names: &[&str], benchmark: &str, language: &str, pass: Option<u32>) -> String {
        let mut flags = Vec::new();
        for name in names {
            let name = match (name.contains("PASSn"), pass) {
                (true, None) => continue,
                (true, Some(pass)) => name.replace("PASSn", &format!("PASS{pass}")),
                (false, _) => (*name).to_owned(),
            };
            flags.push(self.option(&name.replace("{}", language), benchmark, self.tune()));
        }
        flags.join(" ")
    }

    fn compiler(&self, benchmark: &str, language: &str) -> &str {
        let name = match language {
            "C" => "CC",
            "CXX" => "CXX",
            _ => "FC",
        };
        self.option(name, benchmark, self.tune())
    }

    fn compile(&self, benchmark: &str, language: &str, pass: Option<u32>) -> String {
        let names = [
            "PASSn_FLAGS",
            "PASSn_{}FLAGS",
            "OPTIMIZE",
            "{}OPTIMIZE",
            "PASSn_OPTIMIZE",
            "PASSn_{}OPTIMIZE",
            "PORTABILITY",
            "{}PORTABILITY",
            "EXTRA_{}FLAGS",
            "EXTRA_OPTIMIZE",
            "EXTRA_{}OPTIMIZE",
            "EXTRA_PORTABILITY",
            "EXTRA_{}PORTABILITY",
        ];
        let compiler = self.compiler(benchmark, language);
        format!("{compiler} -c -DSPEC -DNDEBUG {}", self.flags(&names, benchmark, language, pass))
    }

    fn link(&self, benchmark: &str, language: &str, pass: Option<u32>) -> String {
        let names = [
            "LDFLAGS",
            "LD{}FLAGS",
            "PASSn_FLAGS",
            "PASSn_LDFLAGS",
            "PASSn_LD{}FLAGS",
            "OPTIMIZE",
            "{}OPTIMIZE",
            "PASSn_OPTIMIZE",
            "PASSn_{}OPTIMIZE",
            "PORTABILITY",
            "{}PORTABILITY",
            "EXTRA_LDFLAGS",
            "EXTRA_OPTIMIZE",
            "EXTRA_{}OPTIMIZE",
        ];
        let compiler = self.compiler(benchmark, language);
        format!("{compiler} {}", self.flags(&names, benchmark, language, pass))
    }

    /// The variables of the environment that the configuration asks for.
    fn environment(&self) -> Vec<(String, String)> {
        let options = self.0.iter().flat_map(|section| &section.2);
        let variables = options.filter_map(|(name, value)| Some((name.strip_prefix("preENV_")?, value)));
        variables.map(|(name, value)| (name.to_owned(), value.clone())).collect()
    }

    /// Whether a benchmark is built with feedback: SPEC decides by the options that there are.
    fn has_feedback(&self, benchmark: &str, language: &str) -> bool {
        let value = |name: &str| self.option(name, benchmark, self.tune());
        let names =
            [format!("PASS1_{language}FLAGS"), format!("PASS1_{language}OPTIMIZE"), "fdo_post1".to_owned()];
        let is = value("feedback") != "0" && names.iter().any(|name| !value(name).is_empty());
        assert!(!is || self.tune() == "peak", "SPEC refuses feedback in base");
        is
    }
}

/// A program of the evaluation that stands for one of SPEC's.
struct StandIn {
    benchmark: &'static str,
    language: &'static str,
    program: Program,
    sources: Vec<PathBuf>,
    /// Flags of its own, for compiling and for linking.
    flags: [&'static str; 2],
}

impl StandIn {
    fn new(name: &str, benchmark: &'static str, language: &'static str, flags: [&'static str; 2]) -> Self {
        let program = Program::named(name).expect("is declared");
        let plain = Variant::named("plain", &target().join("release")).expect("is declared");
        let workshop = Workshop::new(target().join("real")).expect("can be made");
        let folder = workshop.sources(&program, &plain).expect("can be fetched");
        let folder = if name == "lua" { folder.join("src") } else { folder };
        let files = fs::read_dir(folder).expect("sources").map(|entry| entry.expect("a file").path());
        let is_source = |path: &PathBuf| {
            path.extension().is_some_and(|e| e == "c" || e == "cpp") && !path.ends_with("luac.c")
        };
        let sources: Vec<PathBuf> = files.filter(is_source).collect();
        Self { benchmark, language, program, sources, flags }
    }

    /// Runs a shell's command, in the environment of the configuration. Returns its output.
    fn shell(config: &Config, folder: &Path, text: &str) -> String {
        let mut shell = Command::new("sh");
        // `run` takes the variables of PCCE away.
        shell.args(["-ec", text]).current_dir(folder).env("PCCE_CACHE", "").envs(config.environment());
        let output = checked(text, shell.output()).unwrap_or_else(|e| panic!("{e:#}"));
        String::from_utf8(output.stdout).expect("text")
    }

    fn make(&self, config: &Config, folder: &Path, pass: Option<u32>) {
        let (compile, link) = (
            config.compile(self.benchmark, self.language, pass),
            config.link(self.benchmark, self.language, pass),
        );
        let mut script = String::new();
        for (number, source) in self.sources.iter().enumerate() {
            let _ = writeln!(script, "{compile} {} -o {number}.o '{}' &", self.flags[0], source.display());
            script += if number % 2 == 1 { "wait\n" } else { "" };
        }
        let _ = writeln!(script, "wait\n{link} *.o {} -o program", self.flags[1]);
        Self::shell(config, folder, &script);
    }

    /// Runs the small workload, and returns what it printed.
    fn run(&self, config: &Config, folder: &Path, executable: &Path) -> String {
        let workload = &self.program.workload.small;
        let text =
            format!("EXE='{}'; WORKLOADS='{}'\n{workload}", executable.display(), workloads().display());
        Self::shell(config, folder, &text)
    }

    /// Builds it as SPEC does, with its training. Returns the executable.
    fn build(&self, config: &Config, folder: &Path) -> PathBuf {
        fs::create_dir_all(folder).expect("can be made");
        let executable = folder.join("program");
        if !config.has_feedback(self.benchmark, self.language) {
            self.make(config, folder, None);
            return executable;
        }
        self.make(config, folder, Some(1));
        self.run(config, folder, &executable);
        let after = config.option("fdo_post1", self.benchmark, config.tune());
        Self::shell(config, folder, after);
        Self::shell(config, folder, "rm *.o program");
        self.make(config, folder, Some(2));
        executable
    }
}

/// What SPEC writes of runs: seconds of each run of a benchmark.
fn result(tune: &str, runs: &[(&str, Vec<f64>)]) -> String {
    let mut text = "\"Full Results Table\"\n\nBenchmark,\"Base # Copies\",\"Est. Base Run Time\",\"Est. Base Rate\",\
        \"Base Selected\",\"Base Status\",\"Peak # Copies\",\"Est. Peak Run Time\",\"Est. Peak Rate\",\"Peak Selected\",\
        \"Peak Status\",Description\n"
        .to_owned();
    for (benchmark, seconds) in runs {
        for (number, seconds) in seconds.iter().enumerate() {
            let run = format!("1,{seconds:.6},1.0,0,S");
            let none = ",,,,NR".to_owned();
            let (base, peak) = if tune == "base" { (run, none) } else { (none, run) };
            let _ = writeln!(text, "{benchmark},{base},{peak},\"iteration #{}\"", number + 1);
        }
    }
    text + "\n\"Selected Results Table\"\n"
}

/// Flags of each language, for all programs of the suite, without their sources.
#[test]
fn each_language_has_its_own_flags() {
    let release = target().join("release");
    let bin = ("bin", release.to_str().expect("text"));
    for variant in ["plain", "lto", "basic", "hybrid", "trace", "verify", "plain-module", "module", "link"] {
        for trained in ["0", "1"] {
            let config =
                Config::read(&[("variant", variant), ("trained", trained), bin]).expect("a configuration");
            for (benchmark, language) in INTRATE {
                let speed = benchmark.replacen('5', "6", 1).replace("_r", "_s");
                for benchmark in [benchmark, &speed] {
                    let pass = config.has_feedback(benchmark, language).then_some(2);
                    assert_eq!(pass.is_some(), trained == "1" && language != "F", "{variant} {benchmark}");
                    let commands =
                        [config.compile(benchmark, language, pass), config.link(benchmark, language, pass)];
                    for command in &commands {
                        let ours = command.contains("pcce");
                        let is_plain = language == "F" || variant.starts_with("plain") && trained == "0";
                        assert_eq!(ours, !is_plain, "{variant} {benchmark}: {command}");
                    }
                    let [compile, link] = commands;
                    assert!(compile.contains("-DSPEC_LP64") && !link.contains("-Wno-"), "{compile}\n{link}");
                    assert_eq!(compile.contains("-Wno-implicit-int"), language == "C", "{compile}");
                    assert_eq!(link.contains("-z muldefs"), language == "C", "{link}");
                    let portable = |flag: &str, of: &str| {
                        assert_eq!(
                            compile.contains(flag),
                            benchmark[1..].starts_with(of),
                            "{benchmark}: {compile}"
                        );
                    };
                    portable("-DSPEC_LINUX_X64", "00.");
                    portable("-fgnu89-inline", "02.");
                    portable("-DSPEC_LINUX ", "23.");
                    portable("-fcommon", "25.");
                }
            }
        }
    }
    let wrong = Config::read(&[("variant", "ltoo")]).err().expect("an error");
    assert!(wrong.contains("plain-module, module and link"), "{wrong}");
}

/// Two programs in all variants, trained and not; the results make a table.
#[test]
fn the_configuration_builds_and_runs_two_programs() {
    let folder = work_folder("spec");
    let release = target().join("release");
    let bin = ("bin", release.to_str().expect("text"));
    let lua = StandIn::new("lua", "500.perlbench_r", "C", ["-DLUA_USE_POSIX -DLUA_COMPAT_5_3", "-lm"]);
    let tree = StandIn::new("tree", "541.leela_r", "CXX", ["-std=c++14", ""]);
    let (mut expected, mut given) = (BTreeMap::new(), Vec::new());
    for (variant, trained, name) in [
        ("plain", "0", "plain"),
        ("plain-module", "0", "plain-module"),
        ("hybrid", "1", "hybrid-trained"),
        ("lto", "0", "lto"),
        ("lto", "1", "trained"),
        ("basic", "0", "basic"),
        ("hybrid", "0", "hybrid"),
        ("trace", "0", "trace"),
        ("module", "0", "module"),
        ("link", "0", "link"),
        ("verify", "0", "verify"),
    ] {
        let config =
            Config::read(&[("variant", variant), ("trained", trained), bin]).expect("a configuration");
        let mut runs = Vec::new();
        // Lua takes long to build.
        let both = ["plain", "hybrid-trained"].contains(&name);
        for stand_in in [Some(&tree), both.then_some(&lua)].into_iter().flatten() {
            let place = folder.join(name).join(stand_in.benchmark);
            let executable = stand_in.build(&config, &place.join("build"));
            let run_folder = place.join("run");
            fs::create_dir_all(&run_folder).expect("can be made");
            let mut seconds = Vec::new();
            for _ in
                0..config.option("iterations", stand_in.benchmark, config.tune()).parse().expect("a number")
            {
                let start = Instant::now();
                let printed = stand_in.run(&config, &run_folder, &executable);
                seconds.push(start.elapsed().as_secs_f64());
                let plain = expected.entry(stand_in.benchmark).or_insert_with(|| printed.clone());
                assert_eq!(printed, *plain, "{name} {}", stand_in.benchmark);
            }
            runs.push((stand_in.benchmark, seconds));
            check_build(name, &executable, &run_folder);
        }
        let file = folder.join(format!("{name}.csv"));
        fs::write(&file, result(config.tune(), &runs)).expect("room on the disk");
        if name != "verify" {
            given.push(format!("{name}={}", file.display()));
        }
    }
    let table = tables(&given, &release).expect("a table");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| 5")).collect();
    assert_eq!(rows.len(), 3, "{table}");
    assert!(table.contains("| | hybrid-trained | lto | trained | basic | hybrid | trace |\n"), "{table}");
    assert!(table.contains("| | module | link |\n"), "{table}");
    assert!(
        rows[0].starts_with("| 500.perlbench_r | ") && rows[0].ends_with(" | – | – | – | – | – |"),
        "{table}"
    );
    assert!(!rows[1].contains('–') && !rows[2].contains('–'), "{table}");
    let error = tables(&given[2..3], &release).expect_err("its baseline is missing").to_string();
    assert!(error.contains("--spec plain=FILE"), "{error}");
}

/// The program is what its variant promises.
fn check_build(name: &str, executable: &Path, run_folder: &Path) {
    let pcce = |words: &[&str]| {
        let mut pcce: Command = command(artifact("pcce"), words);
        run(pcce.arg(executable).current_dir(run_folder))
    };
    let options = pcce(&["info"]).stdout;
    let options =
        options.lines().find_map(|line| line.split_once("options: ")).map_or("", |(_, options)| options);
    let has = |option: &str| options.split_whitespace().any(|word| word.starts_with(option));
    assert_eq!(has("hybrid"), name.starts_with("hybrid"), "{name}: {options}");
    assert_eq!(has("basic"), name == "basic", "{name}: {options}");
    assert_eq!(has("profile-use"), name.ends_with("trained"), "{name}: {options}");
    assert_eq!(has("verify"), name == "verify", "{name}: {options}");
    if name == "verify" {
        let report = fs::read_to_string(run_folder.join("pcce.verify")).expect("it reports");
        assert!(report.ends_with(" 0 mismatches\n"), "{report}");
    }
    assert_eq!(run_folder.join("pcce.trace").exists(), name == "trace", "{name}");
    if name == "trace" {
        let mut report = command(artifact("pcce"), &["trace", "report"]);
        run(report.arg(executable).arg(run_folder.join("pcce.trace"))).expect_success();
    }
}
