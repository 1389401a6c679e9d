//! Instruction counts, and exact counts of calls, id updates and pushes.
//!
//! callgrind counts the executions of each instruction of the program. The disassembly tells what the instructions do.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
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
    /// The functions that ran, of the program and of the libraries that are built with it.
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

/// Runs the commands with the program under callgrind. `libraries`: those that are built with it.
pub fn count(runner: &Runner, libraries: &[PathBuf], commands: &str) -> Result<Counts> {
    let profile = profile(runner, libraries, commands)?;
    let mut counts = classify(runner.executable, &profile)?;
    for (library, executed) in libraries.iter().zip(&profile.libraries) {
        each_executed(library, executed, |instruction| {
            count_in_function(&mut counts.functions, instruction)
        })?;
    }
    Ok(counts)
}

/// Runs the commands with the program under callgrind, for its counts of instructions.
pub fn profile(runner: &Runner, libraries: &[PathBuf], commands: &str) -> Result<Profile> {
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
    let name = |path: &Path| path.to_string_lossy().into_owned();
    let libraries: Vec<String> = libraries.iter().map(|library| name(library)).collect();
    let none = vec![HashMap::new(); libraries.len()];
    let mut profile = Profile { libraries: none, ..Profile::default() };
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("out.")) {
            profile
                .add(&fs::read(&path)?, &name(runner.executable), &libraries)
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
    /// The same of each library that is built with it.
    libraries: Vec<HashMap<u64, u64>>,
}

impl Profile {
    fn add(&mut self, dump: &[u8], executable: &str, libraries: &[String]) -> Result<()> {
        let mut unknown = HashMap::new();
        let (mut executed, mut skip) = (&mut unknown, false);
        for line in dump.split(|&b| b == b'\n') {
            if line.first() == Some(&b'0') {
                // The line behind a `calls=` holds the inclusive cost of the callee.
                if !std::mem::take(&mut skip) {
                    let line = std::str::from_utf8(line)?;
                    let mut fields = line.split(' ');
                    let address = fields.next().and_then(|f| f.strip_prefix("0x")).context("an address")?;
                    if let Some(cost) = fields.nth(1) {
                        *executed.entry(u64::from_str_radix(address, 16)?).or_default() +=
                            cost.parse::<u64>()?;
                    }
                }
            } else if let Some(object) = line.strip_prefix(b"ob=") {
                executed = match libraries.iter().position(|library| object == library.as_bytes()) {
                    Some(library) => &mut self.libraries[library],
                    None if object == executable.as_bytes() => &mut self.executed,
                    None => &mut unknown,
                };
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

/// An instruction that was executed.
struct Executed<'l> {
    function: &'l str,
    is_entry: bool,
    /// Mnemonic and operands.
    text: &'l str,
    times: u64,
}

/// Calls a function with each instruction of an image that was executed.
fn each_executed(
    image: &Path,
    executed: &HashMap<u64, u64>,
    mut see: impl FnMut(&Executed<'_>),
) -> Result<()> {
    let listing = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(image).output();
    let listing = checked("objdump", listing)?.stdout;
    let (mut function, mut is_entry) = (String::new(), false);
    for line in String::from_utf8_lossy(&listing).lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|l| l.split('<').nth(1)) {
            name.clone_into(&mut function);
            is_entry = true;
        }
        let Some((address, text)) = line.trim_start().split_once(":\t") else { continue };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        let is_entry = std::mem::take(&mut is_entry);
        if let Some(&times) = executed.get(&address) {
            see(&Executed { function: &function, is_entry, text: text.trim_end(), times });
        }
    }
    Ok(())
}

fn count_in_function(functions: &mut BTreeMap<String, OfFunction>, executed: &Executed<'_>) {
    let (mnemonic, operands) = executed.text.split_once(' ').unwrap_or((executed.text, ""));
    let class = machine::class(mnemonic, operands.trim());
    let of_function = functions.entry(executed.function.to_owned()).or_default();
    of_function.entries += if executed.is_entry { executed.times } else { 0 };
    of_function.classes[Class::ALL.iter().position(|(known, _)| *known == class).expect("all are there")] +=
        executed.times;
}

fn classify(executable: &Path, profile: &Profile) -> Result<Counts> {
    let data = fs::read(executable)?;
    let operands = state_operands(&data)?;
    let mut counts = Counts { instructions: profile.instructions, ..Counts::default() };
    let mut top_stores = 0;
    each_executed(executable, &profile.executed, |instruction| {
        count_in_function(&mut counts.functions, instruction);
        let &Executed { function, text, times: executed, .. } = instruction;
        // The runtime's own calls and stores are not the program's.
        if function.starts_with("__pcce_") {
            return;
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
        let Some([id, top]) = &operands else { return };
        if machine::only_reads(mnemonic) {
            return;
        }
        // The two words are neighbours, and one vector instruction can store both.
        let both = operand.ends_with(id.as_str()) && machine::stores_two_words(mnemonic, operand);
        if operand.ends_with(id.as_str()) {
            counts.id_updates += executed;
        }
        if both || operand.ends_with(top.as_str()) {
            top_stores += executed;
        }
    })?;
    // A push and its pop each store the innermost frame.
    counts.pushes = top_stores / 2;
    Ok(counts)
}
