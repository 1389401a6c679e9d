//! Where activations and their frames are: what the decoder reads from machine code, against what an independent
//! unwinder (libgcc's) says of a running program.

use std::collections::BTreeMap;
use std::fs;

use pcce_dictionary::code::{self, FunctionCode, Role};
use pcce_testsuite::{artifact, command, run, work_folder};

const SOURCE: &str = r#"
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <unwind.h>
struct frame { unsigned long prev, id, site, handle; };
struct tls { unsigned long id, top; };
extern "C" __thread struct tls __pcce_tls __attribute__((tls_model("initial-exec")));
extern "C" char __executable_start;
#define NOINLINE __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")
volatile int sum;

// A line: the return addresses, each with the stack pointer in front of the call, and the frames.
static _Unwind_Reason_Code each(struct _Unwind_Context *context, void *) {
  printf("%lx:%lx ", _Unwind_GetIP(context) - BIAS, _Unwind_GetCFA(context));
  return _URC_NO_REASON;
}
NOINLINE static void show() {
  _Unwind_Backtrace(each, nullptr);
  printf("|");
  for (unsigned long at = __pcce_tls.top & ~1ul; at; at = ((struct frame *)at)->prev & ~1ul) printf(" %lx", at);
  printf("\n");
}

struct Guard {
  int n;
  NOINLINE ~Guard() { if (n > 2) { show(); KEEP; } sum += n; }
};

typedef void (*action)(int);
NOINLINE void leaf(int n) { if (n % 3 == 0) show(); KEEP; sum += n; }
NOINLINE void other(int n) { leaf(n); KEEP; leaf(n + 1); KEEP; }
action actions[] = {leaf, other, leaf};
NOINLINE void recursive(int n) {
  volatile char large[300];
  large[n] = 1;
  leaf(n); KEEP;
  if (n > 0) { recursive(n - 1); KEEP; actions[n % 3](n); KEEP; }
}
NOINLINE int many(int a, int b, int c, int d, int e, int f, int g, int h, int i) {
  recursive(a % 2); KEEP;
  return a + b + c + d + e + f + g + h + i;
}
NOINLINE void dynamic(int n) {
  volatile char *array = (volatile char *)alloca(n * 16);
  array[n] = 1;
  recursive(n % 3); KEEP;
  sum += many(n, 1, 2, 3, 4, 5, 6, 7, array[n]); KEEP;
}
NOINLINE void aligned(int n) {
  alignas(64) volatile char array[64];
  array[n] = 1;
  recursive(n % 3); KEEP;
  actions[n % 3](n); KEEP;
}
NOINLINE int early(int n, action f) {
  if (n == 0) return 1;
  Guard guard{n};
  f(n); KEEP;
  sum += many(n, 2, 3, 4, 5, 6, 7, 8, 9); KEEP;
  return n;
}
NOINLINE void throws(int n) {
  Guard guard{n};
  recursive(1); KEEP;
  if (n > 3) throw n;
}
NOINLINE void catches(int n) {
  try { throws(n); KEEP; } catch (int m) { recursive(m % 3); KEEP; actions[m % 3](m); KEEP; }
  switch (n) {
    case 0: leaf(0); KEEP; break;
    case 1: other(2); KEEP; break;
    case 2: recursive(3); KEEP; break;
    case 3: dynamic(n); KEEP; // and on
    case 4: aligned(n); KEEP; break;
    case 5: sum += early(n, other); KEEP; break;
    default: abort();
  }
}
NOINLINE static int compare(const void *x, const void *y) { recursive(1); KEEP; return *(const int *)x - *(const int *)y; }

int main() {
  int values[] = {3, 1, 2};
  for (int i = 0; i < 12; i++) { catches(i % 6); KEEP; recursive(i); KEEP; actions[i % 3](i); KEEP; }
  qsort(values, 3, sizeof values[0], compare);
  return early(0, leaf) - 1;
}
"#;

/// What was compared.
#[derive(Debug, Default)]
struct Counts {
    /// Activations of instrumented functions.
    activations: usize,
    /// Those whose function has a frame offset.
    offsets: usize,
    /// Frames on the chain, of instrumented functions.
    frames: usize,
    /// Those whose function has a frame position.
    positions: usize,
}

fn check(name: &str, flags: &[&str]) -> Counts {
    let work = work_folder(&format!("frames/{name}"));
    let (source, program, json) = (work.join("main.cpp"), work.join("program"), work.join("program.json"));
    fs::write(&source, SOURCE).expect("the folder is ours");
    let bias =
        if flags.contains(&"-no-pie") { "-DBIAS=0" } else { "-DBIAS=(unsigned long)&__executable_start" };
    let mut compile = command(artifact("pcce-clang++"), flags);
    let _ =
        run(compile.args(["-Wall", "-Werror", bias]).arg(source).arg("-o").arg(&program)).expect_success();
    let _ = run(command(artifact("pcce"), &["dict"]).arg(&program).arg("-o").arg(&json)).expect_success();
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
        // One function allocates, one aligns its stack.
        assert!(counts.offsets * 100 > counts.activations * 95, "{name}: {counts:?}");
        assert!(counts.positions * 100 > counts.frames * 95, "{name}: {counts:?}");
        assert!(counts.offsets < counts.activations, "{name}: {counts:?}");
    }
}
