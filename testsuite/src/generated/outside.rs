//! Random C++ programs whose calls and exceptions go through code that the pass has not seen.
//!
//! Functions of three modules call each other directly, through pointers, and through functions of a plain module: one
//! catches every exception and calls back, one calls back while it is unwound. They throw, catch, throw again, and have
//! objects to destroy. A counter ends them. Their output is the same in each build, and verify mode checks their
//! contexts.

use std::fmt::Write as _;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

const FUNCTIONS: u32 = 9;
/// The number of their modules.
const MODULES: usize = 3;
/// The depth of nested statements.
const DEPTH: u32 = 4;

/// The file that is compiled without the pass in each build.
pub const PLAIN_FILE: &str = "plain.cpp";

const PLAIN: &str = crate::source!("generated/outside/plain.cpp");

const HEAD: &str = crate::source!("generated/outside/head.h");

const LOCAL: &str = r#"static __attribute__((noinline)) int quiet(int n) { return n ^ zero; }
static __attribute__((noinline)) int loud(int n) { return n % 5 == 0 ? throws(n) + zero : n; }
"#;

const MAIN: &str = crate::source!("generated/outside/main.cpp");

/// The files of the program of a seed, by their names; the modules first, then `main`'s.
pub fn generate(seed: u64) -> Vec<(String, String)> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut head = HEAD.to_owned();
    let mut table = Vec::new();
    for i in 0..FUNCTIONS {
        let _ = writeln!(head, "int f{i}(int);");
        table.push(format!("f{i}"));
    }
    let mut modules = vec![format!("{head}{LOCAL}"); MODULES];
    for i in 0..FUNCTIONS {
        let module = &mut modules[random.random_range(0..MODULES)];
        let body = block(&mut random, DEPTH);
        let _ =
            writeln!(module, "int f{i}(int n) {{ int s = n; if (--fuel < 0) return n;\n{body}return s; }}");
    }
    let mut files: Vec<(String, String)> =
        modules.into_iter().enumerate().map(|(i, text)| (format!("module{i}.cpp"), text)).collect();
    let table = format!("#define FUNCTIONS {FUNCTIONS}\ncall *table[] = {{ {} }};\n", table.join(", "));
    files.push(("main.cpp".into(), format!("{head}{table}{MAIN}")));
    files.push((PLAIN_FILE.into(), PLAIN.into()));
    files
}

fn call(random: &mut StdRng) -> String {
    let function = random.random_range(0..FUNCTIONS);
    let argument = format!("n + {}", random.random_range(0..9));
    match random.random_range(0..10) {
        0 => format!("note({argument})"),
        1 => format!("throws({argument})"),
        2 => format!("swallow(f{function}, {argument})"),
        3 => format!("pass_on(f{function}, {argument})"),
        4 => format!("table[({argument}) % {FUNCTIONS}]({argument})"),
        5 => format!("quiet({argument})"),
        6 => format!("loud({argument})"),
        _ => format!("f{function}({argument})"),
    }
}

fn block(random: &mut StdRng, depth: u32) -> String {
    (0..random.random_range(1..4)).map(|_| statement(random, depth)).collect()
}

fn statement(random: &mut StdRng, depth: u32) -> String {
    if depth == 0 {
        return format!("s += {};\n", call(random));
    }
    let inner = depth - 1;
    match random.random_range(0..10) {
        0 => {
            let (of, rest) = (random.random_range(2..6), random.random_range(0..3));
            let body = block(random, inner);
            format!("if (__builtin_expect(n % {of} == {rest}, 0)) {{\n{body}}}\n")
        }
        1 => {
            let of = random.random_range(2..5);
            let (yes, no) = (block(random, inner), block(random, inner));
            format!("if (n % {of}) {{\n{yes}}} else {{\n{no}}}\n")
        }
        2 => {
            let times = random.random_range(1..4);
            format!("for (int i{depth} = 0; i{depth} < {times}; i{depth}++) {{\n{}}}\n", block(random, inner))
        }
        3 => {
            let (body, handler) = (block(random, inner), block(random, inner.saturating_sub(1)));
            let again = ["", "throw;\n", "if (s % 3 == 0) throw;\n"][random.random_range(0..3)];
            format!("try {{\n{body}}} catch (int thrown) {{\ns += thrown;\n{handler}{again}}}\n")
        }
        4 => {
            let (body, handler) = (block(random, inner), block(random, inner.saturating_sub(1)));
            format!("try {{\n{body}}} catch (...) {{\n{handler}}}\n")
        }
        5 => format!("{{ Guard guard(s);\n{}}}\n", block(random, inner)),
        6 => format!("if (s % {} == 0) return {};\n", random.random_range(3..7), call(random)),
        _ => format!("s += {};\n", call(random)),
    }
}
