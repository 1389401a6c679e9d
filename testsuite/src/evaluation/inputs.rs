//! The inputs of the workloads: generated, the same on every machine.
//!
//! | file | what it is |
//! |---|---|
//! | `text`, `text-twice`, `text-small` | lines of words with a natural distribution: 10 MB, that twice, 600 kB |
//! | `old`, `new` | the first 60,000 lines of it, and the same with lines removed, added and changed |
//! | `old-small`, `new-small` | 4,000 lines |
//! | `tree/` | 20,000 small files in 1,000 folders |
//! | `tree.tar` | that tree four times |
//! | `Makefile`, `Makefile-small` | 9,000 and 500 rules made with `eval` and `call` |
//! | `statements.sql` | 9,000 queries of the tables that `workloads/sqlite3.sql` makes |
//! | `random-N.cnf`, `pigeons-N.cnf` | satisfiability: N variables at the hard ratio; N + 1 pigeons in N holes |
//! | `video.y4m`, `video-small.y4m` | 160 and 8 frames of moving shapes and noise, 176×144 |

use std::fmt::Write as _;
use std::fs::{self, File, FileTimes};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};

use super::store::fingerprint;
use crate::checked;

/// A fingerprint of the generator.
pub fn version() -> String {
    fingerprint([include_str!("inputs.rs")])
}

/// The folder with the inputs, generated if it is not there or was made by another version of this code.
pub fn folder(root: &Path) -> Result<PathBuf> {
    // Tests run as threads of one process.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    let folder = root.join("inputs");
    let stamp = folder.join("version");
    let version = version();
    if fs::read_to_string(&stamp).is_ok_and(|found| found == version) {
        return Ok(folder);
    }
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    generate(&folder).context("generating the inputs")?;
    fs::write(stamp, version)?;
    Ok(folder)
}

/// Knuth's linear congruential generator: its upper bits are random enough for inputs.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

struct Words {
    random: Random,
    words: Vec<String>,
}

impl Words {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let words = (0..4000)
            .map(|_| {
                let mut word = String::new();
                for _ in 0..=random.below(4) {
                    word.push(b"bcdfghjklmnprstvwz"[random.below(18)] as char);
                    word.push(b"aeiou"[random.below(5)] as char);
                }
                if random.one_in(2) {
                    word.push(b"bcdfghjklmnprstvwz"[random.below(18)] as char);
                }
                word
            })
            .collect();
        Words { random, words }
    }

    /// A word. A few words make up most of a text.
    fn word(&mut self) -> &str {
        let n = self.words.len();
        let (a, b, c) = (self.random.below(n), self.random.below(n), self.random.below(n));
        &self.words[a * b / n * c / n]
    }

    fn line(&mut self) -> String {
        let mut line = self.word().to_owned();
        for _ in 0..4 + self.random.below(10) {
            line.push(' ');
            line += self.word();
        }
        line
    }
}

fn generate(folder: &Path) -> Result<()> {
    let mut words = Words::new(2010);
    let mut lines = Vec::new();
    let mut size = 0;
    while size < 10_000_000 {
        let line = words.line();
        size += line.len() + 1;
        lines.push(line);
    }
    let text = |lines: &[String]| lines.join("\n") + "\n";
    let write = |name: &str, text: &str| fs::write(folder.join(name), text);
    write("text", &text(&lines))?;
    write("text-twice", &text(&lines).repeat(2))?;
    write("text-small", &text(&lines[..lines.len() / 16]))?;
    let changed = |words: &mut Words, lines: &[String]| {
        let mut out = Vec::new();
        for line in lines {
            match words.random.below(25) {
                0 => continue,
                1 => out.push(words.line()),
                2 => out.push(line.replacen('a', "e", 1)),
                _ => {}
            }
            out.push(line.clone());
        }
        text(&out)
    };
    write("old", &text(&lines[..60_000]))?;
    write("new", &changed(&mut words, &lines[..60_000]))?;
    write("old-small", &text(&lines[..4000]))?;
    write("new-small", &changed(&mut words, &lines[..4000]))?;
    tree(folder, &words.words, &lines)?;
    write("Makefile", &makefile(9000))?;
    write("Makefile-small", &makefile(500))?;
    write("statements.sql", &statements(&mut words))?;
    for variables in [120, 150, 200, 220, 240] {
        write(&format!("random-{variables}.cnf"), &random_clauses(&mut words.random, variables))?;
    }
    for holes in [6, 8, 9] {
        write(&format!("pigeons-{holes}.cnf"), &pigeons(holes))?;
    }
    video(&mut words.random, &folder.join("video.y4m"), 160)?;
    video(&mut words.random, &folder.join("video-small.y4m"), 8)?;
    Ok(())
}

/// All files with the same time and permissions, so that listings of them are the same.
fn tree(folder: &Path, words: &[String], lines: &[String]) -> Result<()> {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for i in 0..40 {
        for j in 0..25 {
            let inner = folder.join(format!("tree/{}{i}/{}{j}", words[i], words[100 + j]));
            fs::create_dir_all(&inner)?;
            for k in 0..20 {
                let name = format!("{}{k}.{}", words[200 + k * 7 + j], ["c", "h", "txt", "o"][k % 4]);
                let first = (i * j + k) % 1000;
                let file = File::create(inner.join(name))?;
                (&file).write_all(lines[first..=first + k].join("\n").as_bytes())?;
                file.set_permissions(fs::Permissions::from_mode(0o644))?;
                file.set_times(FileTimes::new().set_modified(time))?;
            }
        }
    }
    let mut tar = Command::new("tar");
    tar.current_dir(folder)
        .args(["-cf", "tree.tar", "--format=posix", "--sort=name", "--mtime=@1000000000"])
        .args(["--owner=0", "--group=0"])
        .args(["tree"; 4]);
    checked("tar", tar.output())?;
    Ok(())
}

fn makefile(rules: usize) -> String {
    format!(
        "\
NUMBERS := $(shell seq 1 {rules})
all: $(NUMBERS:%=rule%)
	@:
reversed = $(if $(1),$(call reversed,$(wordlist 2,$(words $(1)),$(1))) $(firstword $(1)))
member = $(findstring <$(1)>,$(patsubst %,<%>,$(wordlist 1,$(2),$(NUMBERS))))
define rule
rule$(1): $(foreach i,1 2 3 4 5 6 7 8,$(if $(call member,$(i),$(i)),part$(1)_$(i)))
	@echo $$@ $$(words $$^) $$(patsubst part%,p%,$$^) $$(call reversed,$$(sort $$^ $$(^:part%=x%) $$(^:part%=y%)))
endef
$(foreach n,$(NUMBERS),$(eval $(call rule,$(n))))
part%:
	@:
"
    )
}

fn statements(words: &mut Words) -> String {
    let mut sql = String::new();
    for i in 0..9000 {
        let word = words.word().to_owned();
        let _ = writeln!(
            sql,
            "SELECT count(*), max(b), min(name) FROM item WHERE a BETWEEN {i} AND {} AND name <> '{word}' OR id = {};",
            i + 3,
            i * 4
        );
    }
    sql
}

/// Three literals a clause, near the ratio at which such formulas are hard.
fn random_clauses(random: &mut Random, variables: usize) -> String {
    let clauses = variables * 43 / 10;
    let mut out = format!("p cnf {variables} {clauses}\n");
    for _ in 0..clauses {
        let mut clause = Vec::new();
        while clause.len() < 3 {
            let variable = 1 + random.below(variables);
            if !clause.contains(&variable) {
                clause.push(variable);
            }
        }
        for variable in clause {
            let _ = write!(out, "{}{variable} ", if random.one_in(2) { "-" } else { "" });
        }
        out += "0\n";
    }
    out
}

fn pigeons(holes: usize) -> String {
    let sits = |pigeon: usize, hole: usize| pigeon * holes + hole + 1;
    let mut clauses = Vec::new();
    for pigeon in 0..=holes {
        clauses.push((0..holes).map(|h| format!("{} ", sits(pigeon, h))).collect::<String>() + "0");
    }
    for hole in 0..holes {
        for one in 0..=holes {
            for other in 0..one {
                clauses.push(format!("-{} -{} 0", sits(one, hole), sits(other, hole)));
            }
        }
    }
    format!("p cnf {} {}\n{}\n", (holes + 1) * holes, clauses.len(), clauses.join("\n"))
}

fn video(random: &mut Random, path: &Path, frames: usize) -> Result<()> {
    const WIDTH: usize = 176;
    const HEIGHT: usize = 144;
    let noise: Vec<u8> = (0..1 << 16).map(|_| random.below(24) as u8).collect();
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(out, "YUV4MPEG2 W{WIDTH} H{HEIGHT} F25:1 Ip A1:1 C420")?;
    for t in 0..frames {
        writeln!(out, "FRAME")?;
        let mut luma = Vec::with_capacity(WIDTH * HEIGHT);
        for y in 0..HEIGHT {
            for x in 0..WIDTH {
                let (dx, dy) = (x.abs_diff((t * 3) % WIDTH), y.abs_diff(40 + t % 60));
                let shade = if dx * dx + dy * dy < 900 {
                    40 + 3 * dx
                } else if (x / 16 + (y + t) / 12) % 2 == 0 {
                    150 + (x + 2 * y + t) % 32
                } else {
                    100 + x * y / 400
                };
                luma.push((shade as u8).saturating_add(noise[(x * 131 + y * 17 + t * 4099) % noise.len()]));
            }
        }
        out.write_all(&luma)?;
        for plane in [90, 160] {
            let chroma: Vec<u8> =
                (0..WIDTH * HEIGHT / 4).map(|i| (plane + (i % (WIDTH / 2) + t) % 40) as u8).collect();
            out.write_all(&chroma)?;
        }
    }
    out.flush()?;
    Ok(())
}
