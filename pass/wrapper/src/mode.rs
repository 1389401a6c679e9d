//! The mode of a command: the mode that it names, or that its other words require.
//!
//! The default is link mode. Programs that the link encodes in any case are in lto mode: those with the
//! user's own `-flto`, and bitcode. So are programs that no other mode supports.

use pcce_options::{Common, Mode, PassOptions, WrapperFlags};

use crate::command::{Command, UserLto};
use crate::inputs::Inputs;

/// The mode of `command`. `own` are its flags for the wrapper, `inputs` the contents of its link's inputs,
/// and `list` the user's own options for the pass, as in [`pcce_options::VARIABLE`].
pub fn of(command: &Command, own: &WrapperFlags, inputs: &Inputs, list: &str) -> Mode {
    match own.mode {
        // A program that is optimised as a whole is encoded as a whole.
        Some(Mode::Link) | None if command.lto == UserLto::Full => Mode::Lto,
        Some(mode) => mode,
        None => {
            // The pass reports wrong options.
            let list = PassOptions::read([list]).unwrap_or_default();
            let is_bitcode = command.emits_llvm || command.reads_llvm || !inputs.bitcode.is_empty();
            let of_lto = needs_lto(&own.common) || needs_lto(&list.common);
            // Only link mode keeps what programs can be made of again.
            let of_lto = of_lto && own.keep.is_none();
            match command.lto {
                UserLto::Thin => Mode::Link,
                _ if of_lto => Mode::Lto,
                _ if is_bitcode => Mode::Lto,
                _ => Mode::Link,
            }
        }
    }
}

/// Returns whether lto mode serves the options best: its traces are shorter.
fn needs_lto(options: &Common) -> bool {
    !options.targets.is_empty() || options.trace.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;
    use crate::inputs::Bitcode;

    fn mode(line: &str, inputs: &Inputs, list: &str) -> Mode {
        let arguments = args::parse(line.split(' ').map(Into::into), |_| None).unwrap();
        of(&Command::of(&arguments.words), &arguments.own, inputs, list)
    }

    #[test]
    fn what_is_not_said_follows_from_the_rest() {
        let bitcode =
            Inputs { bitcode: vec![Bitcode { file: "a.o".into(), llvm: None }], ..Inputs::default() };
        for (line, of_objects, of_bitcode) in [
            ("a.o", Mode::Link, Mode::Lto),
            ("-fno-lto a.o", Mode::Link, Mode::Lto),
            ("-flto=thin a.o", Mode::Link, Mode::Link),
            ("-flto a.o", Mode::Lto, Mode::Lto),
            ("-flto=thin --pcce-trace a.o", Mode::Link, Mode::Link),
            ("--pcce-hybrid a.o", Mode::Link, Mode::Lto),
            ("--pcce-targets=f a.o", Mode::Lto, Mode::Lto),
            ("--pcce-trace a.o", Mode::Lto, Mode::Lto),
            ("--pcce-trace --pcce-keep a.o", Mode::Link, Mode::Lto),
            ("--pcce-mode=link a.o", Mode::Link, Mode::Link),
            ("--pcce-mode=link -flto a.o", Mode::Lto, Mode::Lto),
            ("--pcce-mode=link -flto=thin a.o", Mode::Link, Mode::Link),
            ("--pcce-mode=module -flto a.o", Mode::Module, Mode::Module),
            ("--pcce-mode=lto -flto=thin a.o", Mode::Lto, Mode::Lto),
        ] {
            assert_eq!(mode(line, &Inputs::default(), ""), of_objects, "{line}");
            assert_eq!(mode(line, &bitcode, ""), of_bitcode, "{line}, with bitcode");
        }
        let none = Inputs::default();
        for (line, list, expected) in [
            ("-c a.c", "", Mode::Link),
            ("-c -gsplit-dwarf a.c", "", Mode::Link),
            ("-c --pcce-verify a.c", "verify", Mode::Link),
            ("-c a.c", "verify;target=f", Mode::Lto),
            ("-c a.c", "trace=blocks", Mode::Lto),
            ("-c -emit-llvm a.c", "", Mode::Lto),
            ("-c a.c b.ll", "", Mode::Lto),
            ("-c -o a.bc a.c", "", Mode::Link),
        ] {
            assert_eq!(mode(line, &none, list), expected, "{line}, {list}");
        }
    }
}
