//! Pointers that are compared with functions which are local to another module.

use std::fs;

use pcce_testsuite::{artifact, command, llvm, run, run_with_input, work_folder};

const MAIN: &str = r#"#include <pcce.h>
#include <stdio.h>
typedef int (*op)(int);
extern op of_one[2], of_other[2];
int walk(int n) {
  char t[600];
  if (n <= 0) { pcce_token(t, sizeof t); puts(t); return 0; }
  return (n % 2 ? of_one : of_other)[n % 3 == 0](n) + 1;
}
int main(void) { int r = 0; for (int i = 3; i < 9; i++) r += walk(i); printf("sum # %d\n", r); return 0; }
"#;

/// Two of them have one name.
const ONE: &str = "int walk(int);
static int step(int n) { return walk(n - 1) + 2; }
static int jump(int n) { return walk(n - 2) + 3; }
int (*of_one[2])(int) = {step, jump};
";
const OTHER: &str = "int walk(int);
/* Another line. */
static int step(int n) { return walk(n - 1) + 2; }
int (*of_other[2])(int) = {step, step};
";

/// Contexts name the file and the line of the function that was called, whoever has its name as well.
#[test]
fn local_functions_of_one_name_are_told_apart() {
    let folder = work_folder("link_local");
    for (name, text) in [("main.c", MAIN), ("one.c", ONE), ("other.c", OTHER)] {
        fs::write(folder.join(name), text).unwrap();
    }
    let include = format!("-I{}", artifact("include").display());
    let frames = |flags: &str| {
        let fixed = ["-g", "-fno-inline", &include, "main.c", "one.c", "other.c", "-o", "program"];
        let mut build = command(artifact("pcce-clang"), &fixed);
        let _ = run(build.args(flags.split(' ')).current_dir(&folder)).expect_success();
        let printed = run(&mut command(folder.join("program"), &[])).expect_success().stdout;
        let program = folder.join("program").display().to_string();
        let decoded = run_with_input(&mut command(artifact("pcce"), &["filter", &program]), &printed);
        let decoded = decoded.expect_success().stdout;
        decoded.lines().filter(|line| line.contains('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = frames("-O1 --pcce-mode=module");
    assert!(["one.c:2:", "other.c:3:"].iter().all(|line| expected.iter().any(|frame| frame.contains(line))));
    for linker in ["bfd", "gold", "lld", "mold"] {
        for flags in [
            "-O1",
            "-O1 -no-pie",
            "-O1 --pcce-verify",
            "-O1 -ffunction-sections -Wl,--gc-sections",
            "-O1 --pcce-id-bits=8",
        ] {
            let flags = format!("--pcce-mode=link {flags} -fuse-ld={linker}");
            assert_eq!(frames(&flags), expected, "{flags}");
            let symbols = run(command(llvm("llvm-nm"), &["program"]).current_dir(&folder)).expect_success();
            let compared = symbols.stdout.lines().filter(|line| line.contains(" step.pcce_local."));
            assert_eq!(compared.count(), 2, "{flags}: {}", symbols.stdout);
        }
    }
}
