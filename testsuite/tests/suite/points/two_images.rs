//! Contexts at any instruction of a program and a library that call each other, each in each mode.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use pcce_abi::functions::OPEN_THUNK;
use pcce_testsuite::chain::{Frame, decoded, show, symbol_names, symbolise};
use pcce_testsuite::turns::in_turn;
use pcce_testsuite::{artifact, command, include, llvm, repository, run, run_with_input, work_folder};

fn calls(frames: &[Frame]) -> Vec<&Frame> {
    frames.iter().filter(|frame| matches!(frame, Frame::Call(..))).collect()
}

/// The images by their first addresses, with the names of addresses in them. An address in the thunk of a function is
/// in the function, and has no line.
type Images = BTreeMap<u64, (PathBuf, HashMap<u64, Vec<Frame>>)>;

fn images(lines: &[Vec<&str>], program: &Path, addresses: &BTreeSet<u64>) -> Images {
    let image = |line: &&Vec<&str>| {
        let path = line.get(2).filter(|path| !path.is_empty()).map_or(program, |path| Path::new(*path));
        let known = line[0] == "image" && path.parent() == program.parent();
        known.then(|| (hexadecimal(line[1]), path.to_owned()))
    };
    let bases: Vec<(u64, PathBuf)> = lines.iter().filter_map(|line| image(&line)).collect();
    let within =
        |base: u64| addresses.iter().filter_map(move |at| at.checked_sub(base)).filter(|at| *at < 1 << 24);
    bases
        .into_iter()
        .map(|(base, path)| {
            let addresses = within(base).collect();
            let mut names = symbolise(&path, &addresses);
            for (address, name) in symbol_names(&path, &addresses) {
                if let Some(opened) = name.strip_suffix(OPEN_THUNK) {
                    names.insert(address, vec![Frame::Call(opened.to_owned(), 0, false)]);
                }
            }
            (base, (path, names))
        })
        .collect()
}

fn hexadecimal(digits: &str) -> u64 {
    u64::from_str_radix(digits, 16).expect("hexadecimal digits")
}

/// The possible calls in `stepping/images.c`.
fn may_call(caller: &str, callee: &str) -> bool {
    const POINTED_TO: [&str; 4] = ["back", "own", "again", "jumped"];
    let (callees, pointer): (&[&str], bool) = match caller {
        "main" => (&["work"], false),
        "work" => (&["by_name", "through_pointer", "recursive", "variadic", "jumped", "jumped_from"], true),
        "by_name" => (&["middle", "leaf"], true),
        "middle" => (&["middle", "leaf"], true),
        "through_pointer" => (&["away", "middle", "leaf"], false),
        "away" => (&[], true),
        "variadic" => (&["middle", "leaf"], true),
        "back" => (&["own"], false),
        "recursive" => (&["recursive", "through_pointer", "by_name"], true),
        "again" => (&["recursive", "own"], false),
        "jumped" | "jumped_from" => (&["through_pointer"], false),
        _ => (&[], false),
    };
    callees.contains(&callee) || pointer && POINTED_TO.contains(&callee)
}

/// Returns whether each call of a chain is a possible one, where no boundary stands between.
fn may_be(found: &[Frame]) -> bool {
    found.windows(2).all(|pair| match pair {
        [Frame::Call(callee, ..), Frame::Call(caller, ..)] => may_call(caller, callee),
        _ => true,
    })
}

/// Returns whether the first calls are among the second, in their order.
fn are_among(calls: &[&Frame], others: &[&Frame]) -> bool {
    let mut rest = others.iter();
    calls.iter().all(|call| rest.any(|other| other == call))
}

/// Calls between images and within them: the contexts are those of the C library's unwinder.
#[test]
fn every_point_between_images() {
    for (program, library, level) in in_turn(
        0,
        [
            ("lto", "lto", "-O2"),
            ("lto", "lto", "-O0"),
            ("lto", "module", "-O1"),
            ("lto", "link", "-O2"),
            ("link", "link", "-O2"),
            ("link", "lto", "-O1"),
            ("link", "module", "-O0"),
            ("module", "lto", "-O2"),
            ("module", "link", "-O1"),
            ("module", "module", "-O2"),
        ],
    ) {
        every_point_of(program, library, level, "");
    }
}

/// Another library's function has the place of one that the library calls.
#[test]
fn every_point_where_a_function_is_replaced() {
    for (program, library, level) in in_turn(
        0,
        [
            ("link", "link", "-O2"),
            ("link", "module", "-O2"),
            ("module", "link", "-O0"),
            ("lto", "link", "-O1"),
        ],
    ) {
        every_point_of(program, library, level, "replaced");
    }
}

/// Calls in tail position are jumps. The unwinder does not see functions that have left. The frames that it sees must
/// be shown, and further ones must be calls of the program.
#[test]
fn every_point_between_images_with_jumps() {
    for (program, library) in
        in_turn(0, [("lto", "lto"), ("lto", "module"), ("link", "link"), ("link", "lto"), ("module", "link")])
    {
        every_point_of(program, library, "-O2", "jumps");
    }
}

/// `kind`: with calls in tail position that are jumps, with a function that is replaced, or neither.
fn every_point_of(program_mode: &str, library_mode: &str, level: &str, kind: &str) {
    let (jumps, replaced) = (kind == "jumps", kind == "replaced");
    let source = repository().join("testsuite/stepping/images.c").display().to_string();
    let include = include("runtime-lib/include");
    let name = format!("{program_mode}-{library_mode}{level}{kind}");
    let work = work_folder(&format!("anywhere/images-{name}"));
    let build = |mode: &str, flags: &[&str], output: &str| {
        let to = work.join(output);
        let mode = format!("--pcce-mode={mode}");
        let mut build = command(artifact("pcce-clang"), &[&mode, level, "-g", "-Wall", &include, &source]);
        build
            .arg(if jumps { "-DJUMPS" } else { "-fno-optimize-sibling-calls" })
            .args(flags)
            .arg("-o")
            .arg(&to);
        run(&mut build).expect_success();
        to
    };
    let library = build(library_mode, &["-shared", "-fPIC", "-DLIBRARY"], "libimages.so");
    let folder = work.display().to_string();
    let (path, found_at) = (format!("-L{folder}"), format!("-Wl,-rpath,{folder}"));
    // It has no line table, so it is plain code for the symboliser, too.
    let plain = ["-shared", "-fPIC", "-O1", "-fno-optimize-sibling-calls", "-DPLAIN", &source, "-o"];
    run(command(llvm("clang"), &plain).arg(work.join("libplain.so"))).expect_success();
    let replacing = build(library_mode, &["-shared", "-fPIC", "-DREPLACING"], "libreplacing.so");
    let first = if replaced { "-Wl,--no-as-needed,-lreplacing" } else { "-limages" };
    let program = build(program_mode, &[&path, first, "-limages", "-lplain", &found_at], "program");

    let output = run(&mut command(&program, &[])).expect_success();
    let lines: Vec<Vec<&str>> = output.stdout.lines().map(|line| line.split(' ').collect()).collect();
    let points: Vec<&Vec<&str>> = lines.iter().filter(|line| line[0] != "image").collect();
    // A return address may belong to the next line.
    let of_point = |point: &[&str]| -> Vec<u64> {
        point[2..].iter().enumerate().map(|(i, at)| hexadecimal(at) - u64::from(i > 0)).collect()
    };
    let addresses = points.iter().flat_map(|point| of_point(point)).collect();
    let images = images(&lines, &program, &addresses);
    assert_eq!(images.len(), if replaced { 4 } else { 3 }, "{name}");
    let tokens: String = points.iter().map(|point| format!("{}\n", point[0])).collect();
    let mut decode = command(artifact("pcce"), &["decode", "--format", "json", "--dict"]);
    let traces = run_with_input(decode.arg(&library).arg("--dict").arg(&replacing).arg(&program), &tokens)
        .expect_success()
        .stdout;
    assert_eq!(traces.lines().count(), points.len(), "{name}");
    // A tail call without a name: callees through a pointer to another image are not known.
    let is_jump = |frame: &Frame| matches!(frame, Frame::Tail(name) if !name.is_empty());
    let (mut unknown, mut lost, mut wrong) = (0, 0, Vec::new());
    for (point, json) in points.iter().zip(traces.lines()) {
        let mut expected = Vec::new();
        for (number, address) in of_point(point).into_iter().enumerate() {
            let image = images.range(..=address).next_back();
            let names = image.and_then(|(base, (_, names))| names.get(&(address - base)));
            // Further in there is the function that the thunk has called.
            let is_thunk = |frame: &&Frame| matches!(frame, Frame::Call(_, 0, _));
            let shown = names.into_iter().flatten().filter(|frame| number == 0 || !is_thunk(frame));
            expected.extend(shown);
        }
        let found = decoded(json);
        let expected: Vec<&Frame> = expected.into_iter().filter(|f| matches!(f, Frame::Call(..))).collect();
        let is_main = |frame: &&Frame| matches!(frame, Frame::Call(name, ..) if name == "main");
        if point[1] == "unwinder" || !expected.last().is_some_and(is_main) {
            // In the linker's stubs, which have no tables.
            lost += 1;
        } else if found.iter().any(|f| matches!(f, Frame::Boundary(_))) {
            unknown += 1;
            if std::env::var_os("STEP_SHOW").is_some() {
                eprintln!("{name}, {} {}: {}", point[2], point[0], show(&found));
            }
        } else if jumps && !(are_among(&expected, &calls(&found)) && may_be(&found))
            || !jumps && (calls(&found) != expected || found.iter().any(is_jump))
        {
            let expected: Vec<Frame> = expected.into_iter().cloned().collect();
            wrong.push(format!("{}\n  expected {}\n  found    {}", point[0], show(&expected), show(&found)));
        }
    }
    println!("{name}: {} points, {unknown} unknown, {lost} not seen, {} wrong", points.len(), wrong.len());
    assert!(wrong.is_empty(), "{name}: {} wrong\n{}", wrong.len(), wrong[..wrong.len().min(5)].join("\n"));
    assert!(points.len() > 3000 && unknown == 0 && lost < 100, "{name}: {} {unknown} {lost}", points.len());
}
