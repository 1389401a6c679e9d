//! Strings of the C++ library: which of their calls are known to call nothing back, and what the library calls by name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;

use gimli::UnwindSection as _;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use pcce_testsuite::{artifact, command, llvm, machine, repository, run, source, work_folder};

const STRINGS: &str = "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE";

/// A copy of a constructor that the library does not have, and copies of those that it has, change nothing. A copy that
/// may look at the object does, if others can reach it.
#[test]
fn strings_are_trusted_where_nothing_looks() {
    let folder = work_folder("strings/trusted");
    let program = source!("cxx_strings/strings.cpp");
    let own = |before: &str, after: &str| {
        format!(
            "#include <cstdlib>\n#include <string>\nextern \"C\" void unknown(const void *);\n{before} char *make(\
             std::string *, size_t &n, size_t) __asm__(\"{STRINGS}9_M_createERmm\");\n{before} char *make(\
             std::string *, size_t &n, size_t) {{ {after} return (char *)std::malloc(n + 1); }}\n\
             extern \"C\" __attribute__((no_instrument_function, noinline)) void unknown(const void *) {{}}\n"
        )
    };
    let looks = "void (*volatile pointer)(const void *) = unknown; pointer(&n);";
    let trusted = |own: &str, mode: &str, level: &str| {
        fs::write(folder.join("own.cpp"), own).unwrap();
        fs::write(folder.join("program.cpp"), program).unwrap();
        let words = ["-std=c++17", level, mode, "program.cpp", "own.cpp", "-o", "program"];
        run(command(artifact("pcce-clang++"), &words).current_dir(&folder)).expect_success();
        run(command(folder.join("program"), &[]).current_dir(&folder)).expect_success();
        let words = ["-d", "--no-show-raw-insn", "--disassemble-symbols=grow", "program"];
        let code = run(command(llvm("llvm-objdump"), &words).current_dir(&folder)).expect_success().stdout;
        assert!(code.contains("call"), "{code}");
        !code.contains(machine::THREAD_LOCAL)
    };
    for mode in ["--pcce-mode=link", "--pcce-mode=lto"] {
        for level in ["-O1", "-O2"] {
            let case = format!("{mode} {level}");
            assert!(trusted("", mode, level), "{case}");
            assert!(trusted(&own("", ""), mode, level), "{case}: it looks nowhere");
            assert!(!trusted(&own("", looks), mode, level), "{case}");
            let hidden = own("__attribute__((visibility(\"hidden\")))", looks);
            assert!(trusted(&hidden, mode, level), "{case}: nobody reaches it");
        }
    }
}

/// The calls of the library: names called through its procedure linkage table, by the beginning of the calling
/// function, and all other calls and jumps.
struct Calls {
    functions: HashMap<String, u64>,
    named: BTreeMap<u64, BTreeSet<String>>,
    others: BTreeMap<u64, BTreeSet<u64>>,
}

impl Calls {
    fn of(path: &str) -> Self {
        let bytes = fs::read(path).expect("a library");
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let section = |name| file.section_by_name(name).expect("unwinding tables");
        let frames = section(".eh_frame");
        let bases = gimli::BaseAddresses::default().set_eh_frame(frames.address());
        let tables = gimli::EhFrame::new(frames.data().expect("bytes"), gimli::LittleEndian);
        let (mut begins, mut entries) = (BTreeSet::new(), tables.entries(&bases));
        while let Some(entry) = entries.next().expect("good tables") {
            if let gimli::CieOrFde::Fde(partial) = entry {
                let fde = partial.parse(gimli::EhFrame::cie_from_offset).expect("good tables");
                begins.insert(fde.initial_address());
            }
        }
        let function = |at: u64| begins.range(..=at).next_back().copied().unwrap_or_default();
        let defined =
            file.dynamic_symbols().filter(|s| s.is_definition() && s.kind() == object::SymbolKind::Text);
        let name = |name: &str| name.split('@').next().unwrap_or_default().to_owned();
        let functions = defined.map(|s| (name(s.name().expect("a name")), s.address())).collect();
        let (mut named, mut others) = (BTreeMap::<_, BTreeSet<_>>::new(), BTreeMap::<_, BTreeSet<_>>::new());
        let code =
            run(&mut command(llvm("llvm-objdump"), &["-d", "--no-show-raw-insn", path])).expect_success();
        for line in code.stdout.lines() {
            // `  1234: callq 0x5678 <name@plt>`
            let Some((at, instruction)) = line.trim().split_once(':') else { continue };
            let Ok(at) = u64::from_str_radix(at, 16) else { continue };
            let mut words = instruction.split_whitespace();
            let jumps = words.next().is_some_and(|word| machine::transfer(word).is_some());
            let (Some(target), Some(symbol)) = (words.next().filter(|_| jumps), words.next()) else {
                continue;
            };
            let Ok(target) = u64::from_str_radix(target.trim_start_matches("0x"), 16) else { continue };
            match symbol.trim_matches(['<', '>']).strip_suffix("@plt") {
                Some(callee) => _ = named.entry(function(at)).or_default().insert(name(callee)),
                None => _ = others.entry(function(at)).or_default().insert(function(target)),
            }
        }
        Self { functions, named, others }
    }

    /// The names that these functions call, by themselves or through other functions.
    fn reached(&self, names: impl Iterator<Item = String>) -> BTreeSet<String> {
        let mut todo: Vec<u64> = names.filter_map(|name| self.functions.get(&name).copied()).collect();
        let (mut seen, mut reached) = (BTreeSet::new(), BTreeSet::new());
        while let Some(function) = todo.pop() {
            if !seen.insert(function) {
                continue;
            }
            todo.extend(self.others.get(&function).into_iter().flatten());
            for name in self.named.get(&function).into_iter().flatten() {
                todo.extend(self.functions.get(name));
                reached.insert(name.clone());
            }
        }
        reached
    }
}

/// The list of names that libstdc++ calls within trusted functions has all that the library here calls.
#[test]
fn what_the_library_calls_is_listed() {
    let found = run(&mut command("gcc", &["-print-file-name=libstdc++.so.6"])).expect_success();
    let calls = Calls::of(found.stdout.trim());
    let list = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(repository().join("pass/model/data").join(name)).expect("a list");
        let lines = text.lines().filter_map(|line| line.split('#').next().map(str::to_owned));
        lines.flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    let listed = [list("called-within-cxx.txt"), list("no-callback.txt")].concat();
    let wide = STRINGS.replace("IcSt11char_traitsIcESaIcE", "IwSt11char_traitsIwESaIwE");
    let is_of_string = |name: &str| {
        let name = name.replacen("_ZNK", "_ZN", 1);
        name.starts_with(STRINGS) || name.starts_with(&wide)
    };
    let strings = calls.functions.keys().filter(|name| is_of_string(name)).cloned();
    let reached = calls.reached(strings.chain(list("cxx.txt")).chain(list("no-callback.txt")));
    let missing: Vec<&String> =
        reached.iter().filter(|name| !is_of_string(name) && !listed.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(
        reached.contains("__cxa_throw") && reached.contains("_Znwm") && reached.len() > 50,
        "{reached:?}"
    );
}
