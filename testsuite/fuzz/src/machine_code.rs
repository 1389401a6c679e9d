//! Programs with machine code for its readers: instructions, unwind tables, symbols, relocations and debug information.
//! The seeds are `machine.c` as a program and as a shared library, compiled when they are first needed.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use pcce::token::{BuildId, CodeAddress, Point, PointEnd, Token};
use pcce::{Context, Decoder, load, program};
use pcce_dictionary::code::{Role, to_text};
use pcce_dictionary::{Dictionary, fragment};

use crate::{Target, common};

pub(crate) const TARGET: Target = Target { name: "machine", seeds, check };

/// Points of each function that are decoded.
const POINTS: u64 = 16;

/// The files, with the dictionaries that they have.
fn programs() -> &'static [(Vec<u8>, Dictionary); 2] {
    static PROGRAMS: OnceLock<[(Vec<u8>, Dictionary); 2]> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let folder = env::temp_dir().join(format!("pcce-fuzz-machine-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder can be made");
        let program = compile(&folder, &["-static", "-no-pie", "-fno-pie", "-Wl,-estart"]);
        let library = compile(
            &folder,
            &["-shared", "-fPIC", "-DSHARED", "-ftls-model=initial-exec", "-Wl,-Bsymbolic-functions"],
        );
        let _ = fs::remove_dir_all(&folder);
        [program, library]
    })
}

fn compile(folder: &Path, kind: &[&str]) -> (Vec<u8>, Dictionary) {
    let [content, file] = ["fragment", "file"].map(|name| folder.join(name));
    let program = common::app();
    let fragment = fragment::to_bytes(&program.modules[0], &program.encodings[..1]);
    fs::write(&content, fragment).expect("a temporary file can be written");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/machine.c");
    let status = Command::new("cc")
        .args([
            "-O1",
            "-g1",
            "-fexceptions",
            "-fasynchronous-unwind-tables",
            "-fno-stack-protector",
            "-nostdlib",
        ])
        .args(["-Wl,--build-id=0xa0010203040506070809", "-Wl,-z,noseparate-code", "-Wl,-z,norelro"])
        .args(kind)
        .arg(format!("-DFRAGMENT=\"{}\"", content.display()))
        .arg(source)
        .arg("-o")
        .arg(&file)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "cc does not compile {source}");
    let bytes = fs::read(&file).expect("it was just made");
    let dictionary = load::from_bytes(&bytes, "machine").expect("it has a dictionary");
    (bytes, dictionary)
}

fn seeds() -> Vec<Vec<u8>> {
    let with_number = |(number, program): (usize, &(Vec<u8>, _))| [&[number as u8], &program.0[..]].concat();
    programs().iter().enumerate().map(with_number).collect()
}

/// The first byte selects the program whose dictionary is used: most changes of the file's own one would only damage
/// it.
fn check(input: &[u8]) {
    let Some((&number, bytes)) = input.split_first() else { return };
    let Some((_, dictionary)) = programs().get(usize::from(number)) else { return };
    let code = match program::code(bytes, None, dictionary) {
        Ok(Some(code)) => code,
        Ok(None) => return,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let ends = code.functions.windows(2).all(|pair| pair[0].start + pair[0].len <= pair[1].start);
    assert!(ends, "functions overlap: {:?}", code.functions);
    let dictionary = Dictionary { code: Some(to_text(&code)), ..dictionary.clone() };
    let decoder = Decoder::new(&[dictionary]).expect("the dictionary is good");
    let mut context = Context::default();
    for function in code.functions.iter().filter(|function| function.role != Role::Plain) {
        for number in 0..POINTS {
            let address = function.start + function.len * number / POINTS;
            let at = CodeAddress { image: 0, address, exact: true, distance: 0 };
            let point = Point { id: number, addresses: vec![at], left_out: None, end: PointEnd::Outermost };
            let images = vec![BuildId::from_prefix(&common::APP)];
            let token = Token { images, point: Some(point), ..Token::default() };
            match decoder.decode(&token, &mut context) {
                Ok(()) => assert!(decoder.frames(&context).count() > 0),
                // A table that was just made is good.
                Err(error) => assert!(!error.to_string().contains("table"), "{error}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pcce_dictionary::code::State;

    use super::*;

    /// Mutations of a refused file would test little.
    #[test]
    fn seeds_have_machine_code() {
        for (bytes, dictionary) in programs() {
            assert!(bytes.len() < 16_000, "{} bytes", bytes.len());
            let code = program::code(bytes, None, dictionary).unwrap().unwrap();
            let found = |role| code.functions.iter().find(|function| function.role == role).unwrap();
            let functions: Vec<_> = (0..4).map(|number| found(Role::Instrumented(0, number))).collect();
            let states = |number: usize| functions[number].states.iter().map(|state| state.1);
            assert!(states(0).any(|state| state == State::Added(1)), "{:?}", functions[0]);
            assert!(states(2).any(|state| state == State::Pushed), "{:?}", functions[2]);
            assert!(functions.iter().all(|function| !function.lines.is_empty()));
        }
    }

    /// Sections follow each other up to the last address.
    #[test]
    fn sections_at_the_end_of_the_address_space() {
        for seed in seeds() {
            let word = |at: usize, len: usize| {
                seed[1 + at..][..len].iter().rev().fold(0, |w, b| w << 8 | usize::from(*b))
            };
            let (table, count) = (word(0x28, 8), word(0x3c, 2));
            for section in 0..count {
                let mut input = seed.clone();
                input[1 + table + 64 * section + 16..][..8].copy_from_slice(&(u64::MAX - 20).to_le_bytes());
                check(&input);
            }
        }
    }
}
