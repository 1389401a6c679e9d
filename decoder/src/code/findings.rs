//! The effect of a function's instructions on the id, and the places of its calls and frames in its
//! activations, found in its machine code.
//!
//! The result of the data flow ([`Flow`]) is only used if it holds together: wherever the function returns,
//! the id must be what it was. States that cannot be followed are [`State::Unknown`].

use std::collections::BTreeMap;

use pcce_dictionary::code::State;

use super::effects::Place;
use super::flow::{Flow, LandingPad};
use super::function::{Function, Surroundings};
use super::machine::{Control, Effect, Instruction, Operand, Update};
use super::state::Value;

/// The findings about a function's machine code.
pub(super) struct Findings {
    /// The state before each instruction, in the order of the addresses.
    pub(super) states: Vec<State>,
    /// The distance from the canonical frame address down to the stack pointer at each call.
    pub(super) frame_offset: Common,
    /// The distance from the canonical frame address down to the pushed frame at each push.
    pub(super) frame_position: Common,
    /// No jump leaves the activation to another function.
    pub(super) stays: bool,
}

/// A distance that all of a function's instructions of a kind have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Common {
    /// There is no such instruction.
    #[default]
    Unseen,
    /// Each instruction has this distance.
    Same(u32),
    /// The instructions have different distances, or one of the distances is not known.
    Unknown,
}

impl Common {
    /// The common distance with one more instruction.
    fn and(self, distance: Option<u32>) -> Self {
        match (self, distance) {
            (Self::Unseen, Some(distance)) => Self::Same(distance),
            (Self::Same(before), Some(distance)) if before == distance => self,
            _ => Self::Unknown,
        }
    }

    /// The distance, if there is one.
    pub(super) fn known(self) -> Option<u32> {
        match self {
            Self::Same(distance) => Some(distance),
            Self::Unseen | Self::Unknown => None,
        }
    }
}

/// Finds what the machine code of a function does. `pads` are its landing pads. A jump to one of `own_targets`
/// stays in the function: its second body, the thunk that pushes for its caller and calls it again, and the
/// address after its first instructions at which calls by name enter it.
pub(super) fn findings(
    function: &Function,
    image: &dyn Surroundings,
    pads: &[LandingPad],
    own_targets: &[u64],
) -> Findings {
    let found = Flow::of(function, image, pads).and_then(|flow| flow.findings(own_targets));
    found.unwrap_or_else(|| Findings {
        states: vec![State::Unknown; function.instructions.len()],
        frame_offset: Common::Unknown,
        frame_position: Common::Unknown,
        stays: false,
    })
}

impl Flow<'_> {
    /// The findings. None if the function ends with another id than the one it found, or takes too many steps.
    fn findings(self, own_targets: &[u64]) -> Option<Findings> {
        let function = self.effects.function;
        let count = function.instructions.len();
        let mut states: Vec<Option<State>> = vec![None; count];
        let mut unknown: Vec<std::ops::RangeInclusive<usize>> = Vec::new();
        let (mut frame_offset, mut frame_position) = (Common::Unseen, Common::Unseen);
        // A jump to the function's end may be one to the next function.
        let is_own = |target: u64| own_targets.contains(&target);
        let inside = function.jumps().all(|target| function.contains(target) || is_own(target));
        let mut stays = inside && function.falls_through_to().is_none();
        // The id at the function's ends.
        let mut ends_with: BTreeMap<usize, State> = BTreeMap::new();
        let leaders: Vec<usize> = self.leaders.iter().copied().collect();
        for (n, &leader) in leaders.iter().enumerate() {
            for mut state in self.entries.get(&leader).cloned().unwrap_or_default() {
                // Since this instruction, control may have come from elsewhere: from `longjmp`.
                let mut since = leader;
                let end = leaders.get(n + 1).copied().unwrap_or(count);
                if !self.effects.image.spend((end - leader) as u64 + state.size()) {
                    return None;
                }
                for (i, seen) in states.iter_mut().enumerate().take(end).skip(leader) {
                    let seen = seen.get_or_insert(state.id);
                    if *seen != state.id {
                        *seen = State::Unknown;
                    }
                    let instruction = &function.instructions[i];
                    let leaves = self.effects.leaves(&state, instruction);
                    stays &= !leaves
                        || instruction.control == Control::Return
                        || instruction.jump_target().is_some_and(is_own);
                    if leaves {
                        let mut end = state.clone();
                        if let Control::Jump { .. } = instruction.control {
                            self.effects.call(&mut end, instruction, 0);
                        }
                        let seen = ends_with.entry(i).or_insert(end.id);
                        if *seen != end.id {
                            *seen = State::Unknown;
                        }
                    }
                    let stack = match state.stack_pointer() {
                        Value::Stack(0, at) => Some(at),
                        _ => None,
                    };
                    if instruction.is_call() {
                        let below_cfa = stack.and_then(|at| self.effects.below_cfa(at));
                        frame_offset = frame_offset.and(below_cfa);
                    }
                    if let Some(position) = self.effects.push(&state, instruction) {
                        frame_position = frame_position.and(position);
                    }
                    let exit = match instruction.control {
                        Control::Return => matches!(state.stack_pointer(), Value::Stack(..)),
                        Control::Jump { target, .. } => function.is_outside(target),
                        _ => false,
                    };
                    // The flow does not hold together, or the activation goes on elsewhere.
                    if exit && stack != Some(0) {
                        (frame_offset, frame_position) = (Common::Unknown, Common::Unknown);
                    }
                    let restores =
                        [instruction.effect, instruction.also].into_iter().any(|effect| match effect {
                            Effect::Store { to, update: Update::Set(Operand::Register(_)), .. } => {
                                self.effects.place(&state, to) == Place::Block(0)
                            }
                            _ => false,
                        });
                    let before = state.id;
                    self.effects.transfer(&mut state, instruction);
                    // A function that stores the id which is there already expects that control may have arrived
                    // with another one.
                    if restores && before == State::Added(0) && state.id == before {
                        unknown.push(since..=i);
                        since = i + 1;
                    }
                    if instruction.is_call() {
                        since = i + 1;
                    }
                    if instruction.ends_block() {
                        break;
                    }
                }
            }
        }
        if ends_with.values().any(|id| matches!(id, State::Pushed | State::Added(1..))) {
            return None;
        }
        // Code that nothing was seen to reach may belong to paths that were not followed, and a call to the
        // middle of the function has no return.
        let missed = |(i, state): (&Instruction, &Option<State>)| {
            let is_entry = |callee: u64| callee == function.start || is_own(callee);
            let inner = match i.control {
                Control::Call(callee) => !is_entry(callee) && function.contains(callee),
                _ => false,
            };
            inner || (state.is_none() && !i.is_padding)
        };
        if function.instructions.iter().zip(&states).any(missed) {
            (frame_offset, frame_position, stays) = (Common::Unknown, Common::Unknown, false);
        }
        let mut states: Vec<State> = states.into_iter().map(|s| s.unwrap_or(State::Unknown)).collect();
        for range in unknown {
            states[range].fill(State::Unknown);
        }
        Some(Findings { states, frame_offset, frame_position, stays })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::code::function::Callee;
    use crate::code::machine::{self, Machine};

    /// A program with its block 64 bytes below the thread pointer.
    #[derive(Default)]
    struct Image {
        /// Words of data, from [`DATA`] on.
        data: Vec<u8>,
        /// Addresses in data, ascending.
        taken: Vec<u64>,
        /// The code at the target of each call.
        outlined: Option<Function>,
        spent: Cell<u64>,
    }

    fn x86_64() -> &'static dyn Machine {
        machine::of(object::elf::EM_X86_64).expect("it is known")
    }

    const CODE: u64 = 0x1000;
    const DATA: u64 = 0x0100_0000;
    const MAX_STEPS: u64 = 1 << 24;

    impl Surroundings for Image {
        fn bytes(&self, address: u64) -> &[u8] {
            self.data.get(address.wrapping_sub(DATA) as usize..).unwrap_or_default()
        }

        fn tls_offset(&self) -> Option<i64> {
            Some(-64)
        }

        fn tls_slot(&self, _: u64) -> Option<i64> {
            None
        }

        fn address_taken(&self, _: u64, _: u64) -> &[u64] {
            &self.taken
        }

        fn callee(&self, _: u64) -> Callee<'_> {
            self.outlined.as_ref().map_or(Callee::Function, Callee::Outlined)
        }

        fn spend(&self, steps: u64) -> bool {
            self.spent.set(self.spent.get() + steps);
            self.spent.get() <= MAX_STEPS
        }
    }

    const ENTER: &[u8] = b"\x48\x83\xec\x38"; // sub rsp, 0x38
    const LEAVE: &[u8] = b"\x48\x83\xc4\x38\xc3"; // add rsp, 0x38; ret
    const CALL: &[u8] = b"\xe8\x00\x10\x00\x00";
    const TAIL_CALL: &[u8] = b"\xe9\x00\x10\x00\x00";
    /// `frame.prev = tls.top`, with the frame at `rsp + 0x10`.
    const BEGIN: &[u8] = b"\x64\x48\x8b\x04\x25\xc8\xff\xff\xff\x48\x89\x44\x24\x10";
    /// `tls.top = rax`
    const STORE: &[u8] = b"\x64\x48\x89\x04\x25\xc8\xff\xff\xff";
    /// `rax = frame.prev`
    const LOAD: &[u8] = b"\x48\x8b\x44\x24\x10";
    const FRAME: &[u8] = b"\x48\x8d\x44\x24\x10"; // lea rax, [rsp+0x10]
    const RELATIVE: &[u8] = b"\x48\x8d\x44\x24\x11"; // lea rax, [rsp+0x11]
    const OTHER_FRAME: &[u8] = b"\x48\x8d\x44\x24\x18"; // lea rax, [rsp+0x18]
    /// `je` over five bytes.
    const SKIP_5: &[u8] = b"\x74\x05";

    /// Code that no compiler writes causes no overflow.
    #[test]
    fn distances_may_be_as_large_as_they_like() {
        let huge: &[u8] = b"\x48\xb8\0\0\0\0\0\0\0\x80\x48\x01\xc4"; // mov rax, 1 << 63; add rsp, rax
        let push: &[u8] = b"\x50\xc3"; // push rax; ret
        assert_eq!(found(&[huge, CALL, push]).0, Common::Unknown);
        assert!(Function::new(x86_64(), &[(u64::MAX, push)]).is_some());
    }

    fn found(parts: &[&[u8]]) -> (Common, Common) {
        let function = Function::new(x86_64(), &[(CODE, &parts.concat())]).expect("it is code");
        let findings = findings(&function, &Image::default(), &[], &[]);
        assert_eq!(findings.states.len(), function.instructions.len());
        (findings.frame_offset, findings.frame_position)
    }

    const BOTH_UNKNOWN: (Common, Common) = (Common::Unknown, Common::Unknown);

    #[test]
    fn distances_from_the_canonical_frame_address() {
        let known = (Common::Same(0x40), Common::Same(0x30));
        for push in [FRAME, RELATIVE] {
            assert_eq!(found(&[ENTER, BEGIN, push, STORE, CALL, LOAD, STORE, LEAVE]), known);
        }
        // mov rax, rsp; add rax, 0x10; or rax, 1
        let or: &[u8] = b"\x48\x89\xe0\x48\x83\xc0\x10\x48\x83\xc8\x01";
        assert_eq!(found(&[ENTER, BEGIN, or, STORE, CALL, LOAD, STORE, LEAVE]), known);
        assert_eq!(found(&[ENTER, CALL, LEAVE]), (Common::Same(0x40), Common::Unseen));
        assert_eq!(found(&[TAIL_CALL]), (Common::Unseen, Common::Unseen));
        let tail: &[u8] = b"\x48\x83\xc4\x38\xe9\x00\x10\x00\x00";
        assert_eq!(found(&[ENTER, CALL, tail]).0, Common::Same(0x40));
    }

    #[test]
    fn spilled_frames_are_pushes() {
        // The address is at rsp + 0x30 during the first call.
        let (spill, reload): (&[u8], &[u8]) = (b"\x48\x89\x44\x24\x30", b"\x48\x8b\x44\x24\x30");
        let first = [ENTER, BEGIN, FRAME, spill, CALL, reload, STORE, CALL, LOAD, STORE, LEAVE];
        assert_eq!(found(&first), (Common::Same(0x40), Common::Same(0x30)));
        // A word that the function was not seen to write.
        assert_eq!(found(&[ENTER, BEGIN, CALL, reload, STORE, CALL, LOAD, STORE, LEAVE]).1, Common::Unknown);
    }

    #[test]
    fn different_distances_are_unknown() {
        let pushes = [ENTER, BEGIN, FRAME, STORE, CALL, OTHER_FRAME, STORE, CALL, LOAD, STORE, LEAVE];
        assert_eq!(found(&pushes), (Common::Same(0x40), Common::Unknown));
        let either = [ENTER, BEGIN, FRAME, SKIP_5, OTHER_FRAME, STORE, CALL, LOAD, STORE, LEAVE];
        assert_eq!(found(&either), (Common::Same(0x40), Common::Unknown));
        assert_eq!(found(&[b"\x50", CALL, b"\x50", CALL, b"\x59\x59\xc3"]).0, Common::Unknown);
        let grows: &[u8] = b"\x48\x29\xc4"; // sub rsp, rax
        let leave: &[u8] = b"\x48\x89\xec\x5d\xc3"; // mov rsp, rbp; pop rbp; ret
        let enter: &[u8] = b"\x55\x48\x89\xe5\x48\x83\xec\x30";
        assert_eq!(found(&[enter, CALL, leave]).0, Common::Same(0x40));
        assert_eq!(found(&[enter, grows, CALL, leave]).0, Common::Unknown);
        let beside: &[u8] = b"\x48\x8d\x45\xe0"; // lea rax, [rbp-0x20]
        assert_eq!(found(&[enter, grows, beside, STORE, CALL, leave]), (Common::Unknown, Common::Same(0x30)));
        let align: &[u8] = b"\x48\x83\xe4\xc0"; // and rsp, -64
        assert_eq!(found(&[enter, align, FRAME, STORE, CALL, leave]), BOTH_UNKNOWN);
    }

    #[test]
    fn what_is_not_followed_is_unknown() {
        let body = [ENTER, BEGIN, FRAME, STORE, CALL, LOAD, STORE];
        let followed_by = |end: &[u8]| found(&[&body[..], &[end]].concat());
        assert_eq!(followed_by(LEAVE), (Common::Same(0x40), Common::Same(0x30)));
        // The stack pointer is not where it was at the entry.
        assert_eq!(followed_by(b"\xc3"), BOTH_UNKNOWN);
        // The activation goes on in another part.
        assert_eq!(followed_by(TAIL_CALL), BOTH_UNKNOWN);
        assert_eq!(followed_by(&[b"\x0f\x84\x00\x10\x00\x00", LEAVE].concat()), BOTH_UNKNOWN);
        // A jump to anywhere, code that nothing reaches, a call of the next instruction.
        assert_eq!(followed_by(b"\xff\xe1"), BOTH_UNKNOWN);
        assert_eq!(followed_by(&[LEAVE, b"\x90\xcc"].concat()), followed_by(LEAVE));
        assert_eq!(followed_by(&[LEAVE, b"\xc3"].concat()), BOTH_UNKNOWN);
        assert_eq!(followed_by(&[b"\xe8\x00\x00\x00\x00", LEAVE].concat()), BOTH_UNKNOWN);
        // Half of `top`: mov fs:[top], eax
        let half: &[u8] = b"\x64\x89\x04\x25\xc8\xff\xff\xff";
        assert_eq!(followed_by(&[half, LEAVE].concat()), (Common::Same(0x40), Common::Unknown));
    }

    /// The states before a function's instructions.
    fn states(parts: &[&[u8]], image: &Image, pads: &[LandingPad]) -> Vec<State> {
        let function = Function::new(x86_64(), &[(CODE, &parts.concat())]).expect("it is code");
        findings(&function, image, pads, &[]).states
    }

    #[test]
    fn only_what_was_saved_restores_the_id() {
        const LOAD_ID: &[u8] = b"\x64\x48\x8b\x04\x25\xc0\xff\xff\xff"; // mov rax, fs:[id]
        const STORE_ID: &[u8] = b"\x64\x48\x89\x04\x25\xc0\xff\xff\xff"; // mov fs:[id], rax
        const ADD_1: &[u8] = b"\x64\x48\x83\x04\x25\xc0\xff\xff\xff\x01"; // add qword fs:[id], 1
        const SUB_1: &[u8] = b"\x64\x48\x83\x2c\x25\xc0\xff\xff\xff\x01";
        const PUSH: &[u8] = b"\x64\x48\xc7\x04\x25\xc0\xff\xff\xff\0\0\0\0"; // mov qword fs:[id], 0
        const SAVE: &[u8] = b"\x48\x89\x44\x24\x10"; // mov [rsp+0x10], rax
        let after = |parts: &[&[u8]]| {
            let states = states(parts, &Image::default(), &[]);
            states[states.len() - 2]
        };
        let leave: &[u8] = b"\x90\xc3";
        for (value, expected) in [
            (&b"\x48\x8b\x04\xcd\0\x20\0\0"[..], State::Unknown), // mov rax, [rcx*8+0x2000]
            (b"\x48\x89\xf8", State::Unknown),                    // mov rax, rdi
            (b"\x48\x8b\x44\x24\x10", State::Added(0)),           // mov rax, [rsp+0x10]
            (b"\x48\x8b\x44\x24\x18", State::Unknown),            // mov rax, [rsp+0x18]
            (b"\x48\x01\xc8", State::Unknown),                    // add rax, rcx
        ] {
            let stored = [ENTER, LOAD_ID, SAVE, value, STORE_ID, b"\x48\x83\xc4\x38", leave];
            assert_eq!(after(&stored), expected, "{value:x?}");
            let pushed = [ENTER, LOAD_ID, SAVE, PUSH, CALL, value, STORE_ID, b"\x48\x83\xc4\x38", leave];
            // Nothing is known of `rax` after the call.
            assert_eq!(after(&pushed), expected, "{value:x?} behind a push");
        }
        // After the push at its entry, a function pushes for a call, and adds.
        let entry = [ENTER, LOAD_ID, b"\x48\x89\x44\x24\x20", PUSH];
        let call = [LOAD_ID, SAVE, PUSH, CALL, LOAD, STORE_ID];
        let added = [&entry[..], &call, &[ADD_1, b"\x90", SUB_1, b"\x48\x83\xc4\x38\xc3"]].concat();
        let states = states(&added, &Image::default(), &[]);
        assert_eq!(
            states[states.len() - 5..states.len() - 2],
            [State::Added(0), State::Added(1), State::Added(1)]
        );
    }

    #[test]
    fn jumps_through_any_number_of_tables_are_followed() {
        const JUMPS: u64 = 200;
        let mut image = Image::default();
        let mut code: Vec<u8> = Vec::new();
        for jump in 0..JUMPS {
            code.extend(b"\xff\x24\xc5"); // jmp [rax*8+table]
            code.extend((DATA as u32 + 8 * jump as u32).to_le_bytes());
            image.data.extend((CODE + 7 * (jump + 1)).to_le_bytes());
        }
        assert_eq!(states(&[&code, b"\xc3"], &image, &[]), vec![State::Added(0); JUMPS as usize + 1]);
        assert!(image.spent.get() < 100 * JUMPS, "{} steps", image.spent.get());
    }

    /// Dense switches of AArch64: with a comparison or without, and the instructions that jump through a table at
    /// `DATA` with an index in w8. Six returns follow; the default is the last one. The returns that are reached.
    fn reached(compare: &[u32], jump: [u32; 3], table: &[u8]) -> Vec<usize> {
        // adrp x9, DATA; add x9, x9, #16
        const TABLE: [u32; 2] = [0xf000_7fe9, 0x9100_4129];
        const RETURNS: usize = 6;
        // The page is seen from the instruction's own.
        let code = compare.iter().chain(&TABLE).chain(&jump).chain(&[0xd61f_0140]).copied();
        let start = compare.len() + TABLE.len() + jump.len() + 1;
        let code = code.chain([0xd65f_03c0; RETURNS]).flat_map(u32::to_le_bytes);
        let code: Vec<u8> = code.collect();
        let machine = machine::of(object::elf::EM_AARCH64).expect("it is known");
        let function = Function::new(machine, &[(CODE, &code)]).expect("it is code");
        let image = Image { data: [&[0; 16], table].concat(), ..Image::default() };
        let states = findings(&function, &image, &[], &[]).states;
        assert!(states[start..].iter().all(|state| matches!(state, State::Unknown | State::Added(0))));
        (0..RETURNS).filter(|i| states[start + i] != State::Unknown).collect()
    }

    #[test]
    fn tables_of_distances_end_where_the_comparison_says() {
        // adr x10, the first return; then a load of the entry, and its addition.
        const ADR: u32 = 0x1000_008a;
        const BYTE: u32 = 0x3868_692b;
        const HALF: u32 = 0x7868_792b;
        const WORD: u32 = 0xb8a8_792b;
        const SHIFTED: u32 = 0x8b0b_094a;
        const PLAIN: u32 = 0x8b0b_014a;
        // sub w8, w0, #100; cmp w8, #2; b.hi to the last return
        let above = [0x5101_9008, 0x7100_091f, 0x5400_0188];
        let bytes = [ADR, BYTE, SHIFTED];
        let table = [0, 2, 3, 1, 1, 1];
        assert_eq!(reached(&above, bytes, &table), [0, 2, 3, 5]);
        // Without the comparison, or with flags that something else has written, nothing is known.
        assert_eq!(reached(&[], bytes, &table), [0; 0]);
        // cmp w8, w1 behind the comparison; w8 is another number behind it: add w8, w8, #1
        assert_eq!(reached(&[above[1], 0x6b01_011f, above[2]], bytes, &table), [0; 0]);
        assert_eq!(reached(&[above[1], 0x1100_0508, above[2]], bytes, &table), [0; 0]);
        // b.hs to the last return: one less; b.ls is the other way round.
        assert_eq!(reached(&[above[1], 0x5400_0182], bytes, &table), [0, 2, 5]);
        assert_eq!(reached(&[above[1], 0x5400_0189], bytes, &table), [0; 0]);
        // and w8, w0, #3: four entries; ubfx w8, w0, #3, #2; ldrb w8, [x0] of a table that is too short
        assert_eq!(reached(&[0x1200_0408], bytes, &table), [0, 1, 2, 3]);
        assert_eq!(reached(&[0x5303_1008], bytes, &table), [0, 1, 2, 3]);
        assert_eq!(reached(&[0x3940_0008], bytes, &table), [0; 0]);
        // An entry that leads out of the function.
        assert_eq!(reached(&above, bytes, &[0, 200, 3]), [0; 0]);
        let words = |entries: &[i32]| -> Vec<u8> { entries.iter().flat_map(|e| e.to_le_bytes()).collect() };
        let halves = words(&[0x0003_0001, 0x0000_0000]);
        assert_eq!(reached(&above, [ADR, HALF, SHIFTED], &halves), [0, 1, 3, 5]);
        let distances = words(&[4, 0, 12, 8, 16]);
        assert_eq!(reached(&above, [ADR, WORD, PLAIN], &distances), [0, 1, 3, 5]);
        assert_eq!(reached(&[], [ADR, WORD, PLAIN], &distances), [0; 0]);
        // mov w8, w0; cmp w0, #2
        assert_eq!(reached(&[0x2a00_03e8, 0x7100_081f, above[2]], bytes, &table), [0, 2, 3, 5]);
        // adr x9, itself; ldrb w8, [x9, w0, uxtw]: the index is out of a table of its own.
        let classes = [0x1000_0009, 0x3860_4928];
        assert_eq!(reached(&[&classes[..], &above[1..]].concat(), bytes, &table), [0, 2, 3, 5]);
        assert_eq!(reached(&classes, bytes, &table), [0; 0]);
        // The entries are added otherwise than tables' are: this may be a tail call.
        assert_eq!(reached(&above, [ADR, BYTE, PLAIN], &table), [5]);
    }

    /// Without optimisation the index is compared in one register, and loaded into another from the stack.
    #[test]
    fn what_was_compared_is_known_on_the_stack() {
        // mov w8, w8; str x8, [sp, #8]; subs x8, x8, #2; b.hi; ldr x8, [sp, #8]
        let spilled = [0x2a08_03e8, 0xf900_07e8, 0xf100_0908, 0x5400_0188, 0xf940_07e8];
        let jump = [0x1000_008a, 0x3868_692b, 0x8b0b_094a];
        let last =
            |code: &mut [u32], at: usize| code[at] = 0x5400_0008 | ((code.len() - at + 11) as u32) << 5;
        let mut code = spilled;
        last(&mut code, 3);
        assert_eq!(reached(&code, jump, &[0, 2, 3, 1]), [0, 2, 3, 5]);
        // ldr w8, [sp] in the place of the first one
        code[0] = 0xb940_03e8;
        assert_eq!(reached(&code, jump, &[0, 2, 3, 1]), [0, 2, 3, 5]);
        // The index is computed once more, behind what was stored: mov w8, w9
        let mut again = [spilled[0], spilled[1], 0x2a08_03e8, spilled[2], spilled[3], spilled[4]];
        again[2] = 0x2a09_03e8;
        last(&mut again, 4);
        assert_eq!(reached(&again, jump, &[0, 2, 3, 1]), [0; 0]);
    }

    /// All of these took time or memory that grows with the square of their size, or worse.
    #[test]
    fn huge_functions_take_bounded_work() {
        const MANY: u64 = 20_000;
        // Each of these jumps may lead to any of them.
        let anywhere = Image { taken: (0..MANY).map(|i| CODE + 2 * i).collect(), ..Image::default() };
        let jumps = b"\xff\xe1".repeat(MANY as usize);
        assert_eq!(states(&[&jumps], &anywhere, &[]), vec![State::Added(0); MANY as usize]);
        assert!(anywhere.spent.get() < 50 * MANY, "{} steps", anywhere.spent.get());

        // Calls that each go on at a landing pad of their own.
        let pads = (0..MANY).map(|i| {
            let (from, pad) = (CODE + 5 * i, CODE + 5 * MANY + i);
            LandingPad { from, to: from + 5, pad }
        });
        let pads: Vec<LandingPad> = pads.collect();
        let throwing = Image::default();
        let found = states(&[&CALL.repeat(MANY as usize), &b"\xc3".repeat(MANY as usize)], &throwing, &pads);
        assert_eq!(found[MANY as usize - 1..][..3], [State::Added(0), State::Unknown, State::Unknown]);
        assert!(throwing.spent.get() < 50 * MANY, "{} steps", throwing.spent.get());
        let overlapping = [pads[0], LandingPad { to: pads[1].to, ..pads[0] }];
        assert!(
            states(&[CALL, CALL, b"\xc3"], &Image::default(), &overlapping)
                .iter()
                .all(|s| *s == State::Unknown)
        );

        // Outlined code that calls itself, again and again.
        let code = Function::new(x86_64(), &[(CODE, &[&CALL.repeat(100)[..], b"\xc3"].concat())]);
        let outlined = Image { outlined: code, ..Image::default() };
        let found = states(&[CALL, b"\x90", b"\xc3"], &outlined, &[]);
        assert!(found.iter().all(|state| *state == State::Unknown));
        assert!(outlined.spent.get() < 2 * MAX_STEPS, "{} steps", outlined.spent.get());

        // A jump after each of many words that are kept on the stack: mov qword [rsp-8*i], 1; je 1f; 1:
        let words = (0..MANY as u32).flat_map(|i| {
            let store = b"\x48\xc7\x84\x24".iter().copied().chain((i * 8).wrapping_neg().to_le_bytes());
            store.chain(*b"\x01\0\0\0\x74\0")
        });
        let words: Vec<u8> = words.collect();
        let stack = Image::default();
        assert!(states(&[&words, b"\xc3"], &stack, &[]).iter().all(|state| *state == State::Unknown));
        assert!(stack.spent.get() < 2 * MAX_STEPS, "{} steps", stack.spent.get());
    }

    #[test]
    fn functions_that_would_fill_the_memory_are_not_read() {
        assert!(Function::new(x86_64(), &[(CODE, &vec![0x90; 1 << 22])]).is_none());
    }
}
