//! What the encoding costs on bzip2, Lua and sqlite3: `make benchmark`.
//!
//! Whole programs under LTO at -O2, each built plain and with the pass, everything else equal. Reported per program:
//!
//! - the ratio of user times, median over interleaved pairs, with the quartiles;
//! - the ratio of instructions executed (callgrind, which repeats);
//! - exact dynamic counts from the same run: executed call instructions, and per call the stores to the thread's id
//!   and the pushes. They are counted by address in the disassembly of the program itself.
//!
//! And what the pass adds to compiling sqlite3. Results go to `target/benchmark/results.json` and, as a table,
//! to standard output. `benchmark [PAIRS]`: 15 pairs without the argument.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::resource::{UsageWho, getrusage};
use object::{Object as _, ObjectSymbol as _};
use pcce_testsuite::real::{PROGRAMS, Program, checked};
use pcce_testsuite::{LLVM, llvm, repository, target};
use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Flags of both builds. Fixed addresses, so that callgrind's are those of the disassembly; DWARF 4, since
/// valgrind 3.19 cannot read the newer one of these clangs.
const FLAGS: &str = "-O2 -gdwarf-4 -no-pie";

fn main() -> Result<()> {
    let pairs: usize = std::env::args().nth(1).map_or(Ok(15), |a| a.parse())?;
    let mut rows = Vec::new();
    for (name, scale) in [("bzip2", 1), ("lua", 8), ("sqlite3", 6)] {
        let program = PROGRAMS.iter().find(|p| p.name == name).ok_or("unknown program")?;
        rows.push(measure(program, scale, pairs)?);
    }
    let decode = decode_rate()?;
    eprintln!("{decode}");
    let compile = compile_time(3)?;
    let results = json!({
        "machine": machine(),
        "flags": format!("{FLAGS} -flto"),
        "pairs": pairs,
        "programs": rows,
        "compile_sqlite3": compile,
        "decode": decode,
    });
    let file = target().join("benchmark/results.json");
    fs::create_dir_all(file.parent().ok_or("no folder")?)?;
    fs::write(&file, serde_json::to_string_pretty(&results)?)?;
    print(&results);
    eprintln!("wrote {}", file.display());
    Ok(())
}

fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or("unknown");
    let clang = Command::new(llvm("clang")).arg("--version").output().map(|o| o.stdout).unwrap_or_default();
    let clang = String::from_utf8_lossy(&clang).lines().next().unwrap_or("").to_owned();
    format!("{}, {clang}", model.trim_start_matches([' ', '\t', ':']))
}

fn print(results: &serde_json::Value) {
    println!("{}", results["machine"].as_str().unwrap_or(""));
    println!("{}, {} interleaved pairs\n", results["flags"].as_str().unwrap_or(""), results["pairs"]);
    println!(
        "| program | user time, pcce / plain (quartiles) | instructions, pcce / plain | calls (millions) | id stores per call | pushes per call |"
    );
    println!("|---|---|---|---|---|---|");
    for row in results["programs"].as_array().into_iter().flatten() {
        println!(
            "| {} | {:.3} ({:.3} to {:.3}) | {:.4} | {:.1} | {:.3} | {:.3} |",
            row["name"].as_str().unwrap_or(""),
            row["user_time_ratio"]["median"].as_f64().unwrap_or(f64::NAN),
            row["user_time_ratio"]["quartiles"][0].as_f64().unwrap_or(f64::NAN),
            row["user_time_ratio"]["quartiles"][1].as_f64().unwrap_or(f64::NAN),
            row["instruction_ratio"].as_f64().unwrap_or(f64::NAN),
            row["calls"].as_f64().unwrap_or(f64::NAN) / 1e6,
            row["id_stores_per_call"].as_f64().unwrap_or(f64::NAN),
            row["pushes_per_call"].as_f64().unwrap_or(f64::NAN),
        );
    }
    let decode = &results["decode"];
    println!(
        "\n`pcce decode`, {} contexts of Lua, {} different, {:.1} frames each; millions a second of user time:",
        decode["tokens"],
        decode["distinct"],
        decode["frames_per_token"].as_f64().unwrap_or(f64::NAN)
    );
    for (format, rate) in decode["tokens_per_second"].as_object().into_iter().flatten() {
        println!("- {format}: {:.2}", rate.as_f64().unwrap_or(f64::NAN) / 1e6);
    }
    println!("\n| compiling sqlite3 | user time, with the pass / without (quartiles) |");
    println!("|---|---|");
    for (what, ratio) in results["compile_sqlite3"].as_object().into_iter().flatten() {
        println!(
            "| {what} | {:.3} ({:.3} to {:.3}) |",
            ratio["median"].as_f64().unwrap_or(f64::NAN),
            ratio["quartiles"][0].as_f64().unwrap_or(f64::NAN),
            ratio["quartiles"][1].as_f64().unwrap_or(f64::NAN),
        );
    }
}

/// How fast `pcce decode` decodes a stream of a million contexts of Lua: one for each of its allocations.
fn decode_rate() -> Result<serde_json::Value> {
    let program = PROGRAMS.iter().find(|p| p.name == "lua").ok_or("unknown program")?;
    let header = repository().join("testsuite/demo/allocations.h");
    eprintln!("decode rate: a million contexts of Lua");
    let lua =
        program.build("benchmark-decode", &format!("pcce-clang -include {}", header.display()), "-O2 -g")?;
    let log = lua.with_extension("log");
    let _ = fs::remove_file(&log);
    checked("lua", program.workload(&lua, 8).env("ALLOCATIONS", &log).output())?;
    let text = fs::read_to_string(&log)?;
    let tokens: Vec<&str> = text.lines().filter_map(|l| l.split(' ').nth(1)).take(1_000_000).collect();
    let distinct = tokens.iter().collect::<std::collections::HashSet<_>>().len();
    let file = lua.with_extension("tokens");
    fs::write(&file, tokens.join("\n") + "\n")?;
    let pcce = target().join("release/pcce");
    let mut rates = serde_json::Map::new();
    for format in ["text", "json", "folded"] {
        let mut times = Vec::new();
        for _ in 0..5 {
            let mut command = Command::new(&pcce);
            command.args(["decode", "--format", format]).arg(&lua).stdin(fs::File::open(&file)?);
            times.push(user_time(&mut command)?);
        }
        times.sort_by(f64::total_cmp);
        rates.insert(format.to_owned(), json!(tokens.len() as f64 / times[2]));
    }
    let output = Command::new(&pcce).args(["decode"]).arg(&lua).stdin(fs::File::open(&file)?).output();
    let frames =
        checked("pcce decode", output)?.stdout.split(|&b| b == b'\n').filter(|l| l.starts_with(b"#")).count();
    Ok(json!({
        "tokens": tokens.len(),
        "distinct": distinct,
        "frames_per_token": frames as f64 / tokens.len() as f64,
        "tokens_per_second": rates,
    }))
}

/// User time of all children so far, in seconds.
fn children_user_time() -> Result<f64> {
    let time = getrusage(UsageWho::RUSAGE_CHILDREN)?.user_time();
    Ok(time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
}

/// User time of a command and its children, in seconds.
fn user_time(command: &mut Command) -> Result<f64> {
    let before = children_user_time()?;
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if !status.success() {
        return Err(format!("{command:?}: {status}").into());
    }
    Ok(children_user_time()? - before)
}

/// Median and quartiles of second / first over interleaved pairs; which goes first alternates.
fn interleaved(pairs: usize, mut run: impl FnMut(usize) -> Result<f64>) -> Result<serde_json::Value> {
    let mut ratios = Vec::new();
    for i in 0..pairs {
        let first = run(i % 2)?;
        let second = run(1 - i % 2)?;
        ratios.push(if i % 2 == 0 { second / first } else { first / second });
    }
    ratios.sort_by(f64::total_cmp);
    let at = |q: f64| ratios[((ratios.len() - 1) as f64 * q).round() as usize];
    Ok(json!({ "median": at(0.5), "quartiles": [at(0.25), at(0.75)], "all": ratios }))
}

fn measure(program: &Program, scale: u32, pairs: usize) -> Result<serde_json::Value> {
    eprintln!("{}: building", program.name);
    // The flags are part of the compiler's name, for the link lines of builds that do not repeat them.
    let plain =
        program.build("benchmark-plain", &format!("clang-{LLVM} -flto -fuse-ld=lld {FLAGS}"), FLAGS)?;
    let wrapper = format!("pcce-clang -fno-fat-lto-objects {FLAGS}");
    let pcce = program.build("benchmark-pcce", &wrapper, FLAGS)?;
    let both = [&plain, &pcce];
    let outputs = both.map(|exe| checked(program.name, program.workload(exe, 1).output()));
    let [expected, printed] = outputs;
    if expected?.stdout != printed?.stdout {
        return Err(format!("{} prints something else when it is instrumented", program.name).into());
    }
    eprintln!("{}: {pairs} interleaved pairs", program.name);
    let time = interleaved(pairs, |which| user_time(&mut program.workload(both[which], scale)))?;
    eprintln!("{}: callgrind", program.name);
    let [base, with] = both.map(|exe| callgrind(program, exe));
    let (base, with) = (base?, with?);
    let counts = dynamic_counts(&pcce, &with)?;
    let row = json!({
        "name": program.name,
        "user_time_ratio": time,
        "instructions": [base.instructions, with.instructions],
        "instruction_ratio": with.instructions as f64 / base.instructions as f64,
        "calls": counts.calls,
        "id_stores": counts.id_stores,
        "id_stores_per_call": counts.id_stores as f64 / counts.calls as f64,
        "pushes": counts.pushes,
        "pushes_per_call": counts.pushes as f64 / counts.calls as f64,
    });
    eprintln!("{row}");
    Ok(row)
}

/// What callgrind counted over the processes of a workload.
struct Profile {
    instructions: u64,
    /// Executions of each instruction of the program itself, by address.
    executed: HashMap<u64, u64>,
}

/// Runs the workload with the program under callgrind.
fn callgrind(program: &Program, executable: &Path) -> Result<Profile> {
    let folder = executable.with_extension("callgrind");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    // The workload calls $EXE: a script in its place starts the program under callgrind.
    let script = folder.join("run");
    fs::write(
        &script,
        format!(
            "#!/bin/sh\nexec valgrind -q --tool=callgrind --dump-instr=yes --compress-strings=no --compress-pos=no \
             --callgrind-out-file='{}/out.%p' '{}' \"$@\"\n",
            folder.display(),
            executable.display()
        ),
    )?;
    checked("chmod", Command::new("chmod").arg("+x").arg(&script).output())?;
    checked(program.name, program.workload(&script, 1).stdout(Stdio::null()).output())?;
    let mut profile = Profile { instructions: 0, executed: HashMap::new() };
    let name = executable.to_string_lossy();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if !path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("out.")) {
            continue;
        }
        let (mut ours, mut skip) = (false, false);
        for line in String::from_utf8_lossy(&fs::read(&path)?).lines() {
            if let Some(object) = line.strip_prefix("ob=") {
                ours = object == name;
            } else if line.starts_with("calls=") {
                // The next line holds the inclusive cost of the callee.
                skip = true;
            } else if let Some(total) =
                line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: "))
            {
                if line.starts_with("totals") {
                    profile.instructions += total.trim().parse::<u64>()?;
                }
            } else if let Some(rest) = line.strip_prefix("0x") {
                let fields: Vec<&str> = rest.split(' ').collect();
                if !std::mem::take(&mut skip) && ours && fields.len() == 3 {
                    let address = u64::from_str_radix(fields[0], 16)?;
                    *profile.executed.entry(address).or_default() += fields[2].parse::<u64>()?;
                }
            }
        }
    }
    Ok(profile)
}

struct Counts {
    calls: u64,
    id_stores: u64,
    pushes: u64,
}

/// Counts executed calls, stores to the thread's id and pushes, by what the instructions are.
fn dynamic_counts(executable: &Path, profile: &Profile) -> Result<Counts> {
    let data = fs::read(executable)?;
    let file = object::File::parse(&*data)?;
    let tls = file.symbols().find(|s| s.name() == Ok("__pcce_tls")).ok_or("the program has no __pcce_tls")?;
    // The block's offset from the thread pointer, by the x86-64 psABI (variant II).
    let header = object::read::elf::ElfFile64::<object::Endianness>::parse(&*data)?;
    let tls_size = header
        .elf_program_headers()
        .iter()
        .find(|h| h.p_type.get(object::Endianness::Little) == object::elf::PT_TLS)
        .map(|h| {
            let (size, align) =
                (h.p_memsz.get(object::Endianness::Little), h.p_align.get(object::Endianness::Little));
            size.next_multiple_of(align.max(1))
        })
        .ok_or("the program has no thread-local storage")?;
    let id = tls.address().wrapping_sub(tls_size);
    let (id, top) = (format!("%fs:{id:#x}"), format!("%fs:{:#x}", id.wrapping_add(8)));
    let listing = checked(
        "objdump",
        Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(executable).output(),
    )?;
    let mut counts = Counts { calls: 0, id_stores: 0, pushes: 0 };
    let (mut top_stores, mut function) = (0u64, String::new());
    for line in String::from_utf8_lossy(&listing.stdout).lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|l| l.split('<').nth(1)) {
            name.clone_into(&mut function);
        }
        let Some((address, text)) = line.trim_start().split_once(":\t") else { continue };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        let Some(&executed) = profile.executed.get(&address) else { continue };
        let operands = text.split_whitespace().nth(1).unwrap_or("");
        if text.starts_with("call") && !function.starts_with("__pcce_") {
            counts.calls += executed;
        }
        let stores = !text.starts_with("cmp") && !text.starts_with("test");
        if stores && operands.ends_with(id.as_str()) {
            counts.id_stores += executed;
        }
        if stores && operands.ends_with(top.as_str()) {
            top_stores += executed;
        }
    }
    // A push and its pop each store the innermost frame.
    counts.pushes = top_stores / 2;
    Ok(counts)
}

/// What the pass adds to compiling sqlite3, in both modes.
fn compile_time(pairs: usize) -> Result<serde_json::Value> {
    let program = PROGRAMS.iter().find(|p| p.name == "sqlite3").ok_or("unknown program")?;
    let mut out = serde_json::Map::new();
    let release = target().join("release");
    let plugin = release.join("libpcce_pass.so");
    let runtime = release.join("libpcce_rt.a");
    let lto = format!("clang-{LLVM} -flto -fuse-ld=lld");
    let with_lto = format!("{lto} -Wl,--load-pass-plugin={} {}", plugin.display(), runtime.display());
    // lld here too: it does not mind that the archive stands before the objects.
    let module = format!("clang-{LLVM} -fuse-ld=lld");
    let with_module = format!("{module} -fpass-plugin={} {}", plugin.display(), runtime.display());
    for (what, compilers) in
        [("LTO, compile and link", [lto, with_lto]), ("module, compile and link", [module, with_module])]
    {
        eprintln!("compile time: {what}, {pairs} interleaved pairs");
        let ratio = interleaved(pairs, |which| {
            let before = children_user_time()?;
            program.build("compile-time", &compilers[which], "-O2 -g")?;
            Ok(children_user_time()? - before)
        })?;
        eprintln!("{ratio}");
        out.insert(what.to_owned(), ratio);
    }
    Ok(out.into())
}
