//! A table of machine code for the common dictionary's program, made by hand.

use pcce_dictionary::Dictionary;
use pcce_dictionary::code::{Code, FunctionCode, Place, Role, State};

/// Where it begins.
pub const MAIN_CODE: u64 = 0x10_0000;

/// The code of the common dictionary's program: function `i` of the first module from `MAIN_CODE + 0x100 * i` on,
/// behind it a plain one. Each calls at offset 0x10 (behind it 0x15); its id is known up to 0x20, has 3 added up to
/// 0x30, is not known up to 0x40, and is 0 behind.
pub fn code(dictionary: &Dictionary) -> Code {
    let module = &dictionary.modules[0];
    let count = module.functions.len() as u32;
    let function = |i: u32, name, role| FunctionCode {
        start: MAIN_CODE + 0x100 * u64::from(i),
        len: 0x80,
        part: false,
        second: false,
        name,
        role,
        states: vec![
            (0, State::Added(0)),
            (0x20, State::Added(3)),
            (0x30, State::Unknown),
            (0x40, State::Pushed),
        ],
        lines: vec![(0x10, 1), (0x16, 2)],
        calls: vec![(0x15, count + 1), (0x45, 0)],
        frame_offset: None,
        frame_position: None,
        stays: false,
    };
    let names: Vec<String> = module
        .functions
        .iter()
        .map(|f| module.names[f.name as usize].clone())
        .chain(["plain".to_owned()])
        .collect();
    Code {
        files: vec!["code.c".to_owned()],
        names,
        places: vec![
            Place { name: 0, file: 0, line: 7, column: 0, caller: 0 },
            Place { name: count, file: 0, line: 8, column: 1, caller: 1 },
        ],
        functions: (0..count)
            .map(|i| function(i, i, Role::Instrumented(0, i)))
            .chain([function(count, count, Role::Plain), function(count + 1, count, Role::Opaque)])
            .collect(),
    }
}
