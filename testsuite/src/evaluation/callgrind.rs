//! Instruction counts, and exact counts of calls, id updates and pushes.
//!
//! callgrind counts the executions of each instruction of the program. The disassembly tells what the instructions do.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use object::{Object as _, ObjectSymbol as _};
use serde::{Deserialize, Serialize};

use super::workload::Runner;
use crate::checked;
use crate::machine::{self, Class, Transfer};

/// Executions in the processes of a workload.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions, with those of libraries.
    pub instructions: u64,
    /// Direct calls of the program's own functions.
    pub direct_calls: u64,
    pub indirect_calls: u64,
    /// Calls of functions in shared libraries.
    pub library_calls: u64,
    /// Stores to the thread's id. A push and its pop are two.
    pub id_updates: u64,
    pub pushes: u64,
    /// The functions of the program's own that ran.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, OfFunction>,
}

/// Executions in a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfFunction {
    /// Executions of its first instruction.
    pub entries: u64,
    /// Instructions, in the order of [`Class::ALL`].
    pub classes: [u64; Class::ALL.len()],
}

impl Counts {
    pub fn calls(&self) -> u64 {
        self.direct_calls + self.indirect_calls + self.library_calls
    }
}

/// Runs the commands with the program under callgrind.
pub fn count(runner: &Runner, commands: &str) -> Result<Counts> {
    classify(runner.executable, &profile(runner, commands)?)
}

/// Runs the commands with the program under callgrind, for its counts of instructions.
pub fn profile(runner: &Runner, commands: &str) -> Result<Profile> {
    let folder = runner.scratch.with_extension("callgrind");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    // The commands call $EXE: a script in its place starts the program under callgrind.
    let script = folder.join("run");
    let text = format!(
        "#!/bin/sh\nexec valgrind -q --tool=callgrind --dump-instr=yes --compress-strings=no --compress-pos=no \
         --callgrind-out-file='{}/out.%p' '{}' \"$@\"\n",
        folder.display(),
        runner.executable.display()
    );
    fs::write(&script, text)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Runner { executable: &script, ..runner.clone() }.run(commands)?;
    let mut profile = Profile::default();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("out.")) {
            profile
                .add(&fs::read(&path)?, &runner.executable.to_string_lossy())
                .with_context(|| path.display().to_string())?;
        }
    }
    ensure!(profile.instructions > 0, "callgrind counted nothing for {}", runner.program.name);
    fs::remove_dir_all(&folder)?;
    Ok(profile)
}

#[derive(Debug, Default)]
pub struct Profile {
    instructions: u64,
    /// Executions of each instruction of the program itself, by address.
    pub executed: HashMap<u64, u64>,
}

impl Profile {
    fn add(&mut self, dump: &[u8], executable: &str) -> Result<()> {
        let (mut ours, mut skip) = (false, false);
        for line in dump.split(|&b| b == b'\n') {
            if line.first() == Some(&b'0') {
                // The line behind a `calls=` holds the inclusive cost of the callee.
                if !std::mem::take(&mut skip) && ours {
                    let line = std::str::from_utf8(line)?;
                    let mut fields = line.split(' ');
                    let address = fields.next().and_then(|f| f.strip_prefix("0x")).context("an address")?;
                    if let Some(cost) = fields.nth(1) {
                        *self.executed.entry(u64::from_str_radix(address, 16)?).or_default() +=
                            cost.parse::<u64>()?;
                    }
                }
            } else if let Some(object) = line.strip_prefix(b"ob=") {
                ours = object == executable.as_bytes();
            } else if line.starts_with(b"calls=") {
                skip = true;
            } else if let Some(total) = line.strip_prefix(b"totals: ") {
                self.instructions += std::str::from_utf8(total)?.trim().parse::<u64>()?;
            }
        }
        Ok(())
    }
}

/// The fields of the thread's block as operands in a disassembly; `None` without the pass.
fn state_operands(data: &[u8]) -> Result<Option<[String; 2]>> {
    let file = object::File::parse(data)?;
    let Some(tls) = file.symbols().find(|s| s.name() == Ok("__pcce_tls")) else { return Ok(None) };
    let header = object::read::elf::ElfFile64::<object::Endianness>::parse(data)?;
    let little = object::Endianness::Little;
    let segment = header
        .elf_program_headers()
        .iter()
        .find(|h| h.p_type.get(little) == object::elf::PT_TLS)
        .context("the program has no thread-local storage")?;
    let start = machine::thread_local_start(segment.p_memsz.get(little), segment.p_align.get(little));
    let id = tls.address().wrapping_add(start);
    Ok(Some([id, id.wrapping_add(8)].map(machine::thread_local_operand)))
}

fn classify(executable: &Path, profile: &Profile) -> Result<Counts> {
    let data = fs::read(executable)?;
    let operands = state_operands(&data)?;
    let listing = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(executable).output();
    let listing = checked("objdump", listing)?.stdout;
    let mut counts = Counts { instructions: profile.instructions, ..Counts::default() };
    let (mut function, mut top_stores, mut is_first) = (String::new(), 0, false);
    for line in String::from_utf8_lossy(&listing).lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|l| l.split('<').nth(1)) {
            name.clone_into(&mut function);
            is_first = true;
        }
        let Some((address, text)) = line.trim_start().split_once(":\t") else { continue };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        let is_entry = std::mem::take(&mut is_first);
        let Some(&executed) = profile.executed.get(&address) else { continue };
        let (mnemonic, rest) = text.trim_end().split_once(' ').unwrap_or((text.trim_end(), ""));
        let of_function = counts.functions.entry(function.clone()).or_default();
        of_function.entries += if is_entry { executed } else { 0 };
        let class = machine::class(mnemonic, rest.trim());
        of_function.classes[Class::ALL.iter().position(|(known, _)| *known == class).expect("all")] +=
            executed;
        // The runtime's own calls and stores are not the program's.
        if function.starts_with("__pcce_") {
            continue;
        }
        let mut words = text.split_whitespace();
        let (mnemonic, operand) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        if machine::transfer(mnemonic) == Some(Transfer::Call) {
            if machine::is_through_pointer(operand) {
                counts.indirect_calls += executed;
            } else if text.ends_with("@plt>") {
                counts.library_calls += executed;
            } else {
                counts.direct_calls += executed;
            }
        }
        let Some([id, top]) = &operands else { continue };
        if machine::only_reads(mnemonic) {
            continue;
        }
        // The two words are neighbours, and one vector instruction can store both.
        let both = operand.ends_with(id.as_str()) && machine::stores_two_words(mnemonic, operand);
        if operand.ends_with(id.as_str()) {
            counts.id_updates += executed;
        }
        if both || operand.ends_with(top.as_str()) {
            top_stores += executed;
        }
    }
    // A push and its pop each store the innermost frame.
    counts.pushes = top_stores / 2;
    Ok(counts)
}
