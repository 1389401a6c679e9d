//! Addresses of activations and their frames: the decoder's, from machine code, against those of an independent
//! unwinder (libgcc's) in a running program.

use std::collections::BTreeMap;
use std::fs;

use pcce_dictionary::code::{self, FunctionCode, Role};
use pcce_testsuite::{artifact, command, run, source, work_folder};

#[derive(Debug, Default)]
struct Counts {
    /// Activations of instrumented functions.
    activations: usize,
    /// Those whose function has a known frame offset.
    offsets: usize,
    /// Frames on the chain that instrumented functions have pushed.
    frames: usize,
    /// Those whose function has a known frame position.
    positions: usize,
}

fn check(name: &str, flags: &[&str]) -> Counts {
    let work = work_folder(&format!("frames/{name}"));
    let (source, program, json) = (work.join("main.cpp"), work.join("program"), work.join("program.json"));
    fs::write(&source, source!("stepping/frames.cpp")).expect("the folder is ours");
    let bias =
        if flags.contains(&"-no-pie") { "-DBIAS=0" } else { "-DBIAS=(unsigned long)&__executable_start" };
    let mut compile = command(artifact("pcce-clang++"), flags);
    run(compile.args(["-Wall", "-Werror", bias]).arg(source).arg("-o").arg(&program)).expect_success();
    run(command(artifact("pcce"), &["dict"]).arg(&program).arg("-o").arg(&json)).expect_success();
    let dictionary =
        pcce_dictionary::from_json(&fs::read(json).expect("it was written")).expect("it is good");
    let code = code::from_text(&dictionary.code.expect("programs have code")).expect("it is good");
    let functions: BTreeMap<u64, &FunctionCode> = code.functions.iter().map(|f| (f.start, f)).collect();

    let number = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal digits");
    let mut counts = Counts::default();
    let output = run(&mut command(&program, &[])).expect_success();
    for line in output.stdout.lines() {
        let (activations, frames) = line.split_once('|').expect("lines have two parts");
        let activations: Vec<(u64, u64)> = activations
            .split_whitespace()
            .map(|text| text.split_once(':').map(|(ip, sp)| (number(ip), number(sp))).expect("two numbers"))
            .collect();
        let frames: Vec<u64> = frames.split_whitespace().map(number).collect();
        for pair in activations.windows(2) {
            let [(ip, sp), (_, cfa)] = *pair else { continue };
            let function = functions.range(..ip).next_back().map(|(_, f)| *f);
            let Some(function) = function.filter(|f| ip <= f.start + f.len) else { continue };
            let Role::Instrumented(..) = function.role else { continue };
            let called = &code.names[function.name as usize];
            counts.activations += 1;
            if let Some(offset) = function.frame_offset {
                counts.offsets += 1;
                assert_eq!(cfa - sp, u64::from(offset), "{name}: {called} calls at {ip:x}\n{line}");
            }
            for frame in frames.iter().filter(|frame| (sp..cfa).contains(frame)) {
                counts.frames += 1;
                if let Some(position) = function.frame_position {
                    counts.positions += 1;
                    assert_eq!(cfa - frame, u64::from(position), "{name}: {called} pushes\n{line}");
                }
            }
        }
    }
    println!("{name}: {counts:?}");
    counts
}

#[test]
fn machine_code_tells_where_frames_are() {
    for (name, flags) in [
        ("executable", &["-O2", "--pcce-mode=lto", "-no-pie"][..]),
        ("pie", &["-O2", "--pcce-mode=lto", "-fPIE", "-pie", "-fstack-protector-strong", "-fcf-protection"]),
        ("module", &["-O1", "--pcce-mode=module"]),
        ("frame-pointers", &["-O2", "--pcce-mode=lto", "-fno-omit-frame-pointer"]),
        ("plain", &["-O0", "--pcce-mode=module"]),
    ] {
        let counts = check(name, flags);
        assert!(counts.activations > 500 && counts.frames > 100, "{name}: {counts:?}");
        // One function allocates on the stack, and one aligns it.
        assert!(counts.offsets * 100 > counts.activations * 95, "{name}: {counts:?}");
        assert!(counts.positions * 100 > counts.frames * 95, "{name}: {counts:?}");
        assert!(counts.offsets < counts.activations, "{name}: {counts:?}");
    }
}
