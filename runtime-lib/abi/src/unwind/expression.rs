//! Expressions of the unwind tables.
use gimli::constants as dw;
use gimli::{EndianSlice, NativeEndian, Reader};

#[cfg(test)]
use super::Tables;
use super::{Process, Registers, Unwind};

/// The value of an expression of the unwind tables. Stubs, realigned frames, and the kernel's call of a handler have
/// such expressions. An expression with other operations (branches, division, types, pieces) has no value: gimli's own
/// evaluation, which covers all of debug information, would be a quarter of the runtime library.
pub(super) fn evaluate<'p, M: Unwind>(
    mut code: EndianSlice<'p, NativeEndian>,
    initial: Option<u64>,
    registers: &Registers<M>,
    process: &mut impl Process<'p>,
) -> Option<u64> {
    let mut stack = Stack { values: [0; 8], len: 0 };
    if let Some(initial) = initial {
        stack.push(initial)?;
    }
    while !code.is_empty() {
        let operation = dw::DwOp(code.read_u8().ok()?);
        let value = match operation {
            dw::DW_OP_nop => continue,
            dw::DW_OP_drop => {
                stack.pop()?;
                continue;
            }
            dw::DW_OP_swap => {
                let (top, next) = (stack.pop()?, stack.pop()?);
                stack.push(top)?;
                next
            }
            dw::DW_OP_dup => stack.at(0)?,
            dw::DW_OP_over => stack.at(1)?,
            dw::DwOp(lit) if (dw::DW_OP_lit0.0..=dw::DW_OP_lit31.0).contains(&lit) => {
                (lit - dw::DW_OP_lit0.0).into()
            }
            dw::DW_OP_const1u => code.read_u8().ok()?.into(),
            dw::DW_OP_const1s => code.read_i8().ok()? as u64,
            dw::DW_OP_const2u => code.read_u16().ok()?.into(),
            dw::DW_OP_const2s => code.read_i16().ok()? as u64,
            dw::DW_OP_const4u => code.read_u32().ok()?.into(),
            dw::DW_OP_const4s => code.read_i32().ok()? as u64,
            dw::DW_OP_const8u | dw::DW_OP_const8s => code.read_u64().ok()?,
            dw::DW_OP_constu => code.read_uleb128().ok()?,
            dw::DW_OP_consts => code.read_sleb128().ok()? as u64,
            dw::DwOp(breg) if (dw::DW_OP_breg0.0..=dw::DW_OP_breg31.0).contains(&breg) => {
                let value = registers.get((breg - dw::DW_OP_breg0.0).into())?;
                value.wrapping_add_signed(code.read_sleb128().ok()?)
            }
            dw::DW_OP_deref => process.word(stack.pop()? as usize)?,
            dw::DW_OP_plus_uconst => stack.pop()?.wrapping_add(code.read_uleb128().ok()?),
            dw::DW_OP_neg => stack.pop()?.wrapping_neg(),
            dw::DW_OP_not => !stack.pop()?,
            _ => {
                let (b, a) = (stack.pop()?, stack.pop()?);
                let signed = (a as i64).cmp(&(b as i64));
                // A shift by too many bits leaves nothing, or the sign alone.
                let digits = u32::try_from(b).unwrap_or(u32::MAX);
                match operation {
                    dw::DW_OP_and => a & b,
                    dw::DW_OP_or => a | b,
                    dw::DW_OP_xor => a ^ b,
                    dw::DW_OP_plus => a.wrapping_add(b),
                    dw::DW_OP_minus => a.wrapping_sub(b),
                    dw::DW_OP_mul => a.wrapping_mul(b),
                    dw::DW_OP_shl => a.checked_shl(digits).unwrap_or(0),
                    dw::DW_OP_shr => a.checked_shr(digits).unwrap_or(0),
                    dw::DW_OP_shra => ((a as i64) >> digits.min(63)) as u64,
                    dw::DW_OP_eq => signed.is_eq().into(),
                    dw::DW_OP_ne => signed.is_ne().into(),
                    dw::DW_OP_ge => signed.is_ge().into(),
                    dw::DW_OP_gt => signed.is_gt().into(),
                    dw::DW_OP_le => signed.is_le().into(),
                    dw::DW_OP_lt => signed.is_lt().into(),
                    _ => return None,
                }
            }
        };
        stack.push(value)?;
    }
    stack.pop()
}

/// The stack of an expression.
struct Stack {
    values: [u64; 8],
    len: usize,
}

impl Stack {
    /// None if the stack is full.
    fn push(&mut self, value: u64) -> Option<()> {
        *self.values.get_mut(self.len)? = value;
        self.len += 1;
        Some(())
    }

    /// The value that has `above` values above it.
    fn at(&self, above: usize) -> Option<u64> {
        self.values.get(self.len.checked_sub(1 + above)?).copied()
    }

    fn pop(&mut self) -> Option<u64> {
        self.len = self.len.checked_sub(1)?;
        self.values.get(self.len).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::x86_64::X86_64;
    use std::vec::Vec;

    /// Words of memory whose values are their addresses plus one.
    struct Memory;

    impl Process<'static> for Memory {
        fn word(&mut self, address: usize) -> Option<u64> {
            address.is_multiple_of(8).then_some(address as u64 + 1)
        }
        fn image(&mut self, _: usize) -> Option<Tables<'static>> {
            None
        }
    }

    fn value(code: &[u8], initial: Option<u64>) -> Option<u64> {
        let code: &'static [u8] = Vec::leak(code.to_vec());
        let registers = Registers::<X86_64>::at(0x10_000b, 0x7000);
        evaluate(EndianSlice::new(code, NativeEndian), initial, &registers, &mut Memory)
    }

    #[test]
    fn expressions_of_unwind_tables_have_values() {
        let [rsp, rip] = [dw::DW_OP_breg7.0, dw::DW_OP_breg16.0];
        // The canonical frame address in a stub: 8 bytes more from the eleventh byte of 16 on.
        let stub = [rsp, 8, rip, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        assert_eq!(value(&stub, None), Some(0x7010));
        assert_eq!(value(&[rsp, 0xa0, 1, dw::DW_OP_deref.0], None), Some(0x70a1));
        assert_eq!(value(&[rsp, 0x78, dw::DW_OP_deref.0], None), Some(0x6ff9));
        assert_eq!(value(&[rsp, 1, dw::DW_OP_deref.0], None), None, "memory that is not readable");
        assert_eq!(value(&[dw::DW_OP_plus_uconst.0, 0x90, 1], Some(16)), Some(160));
        assert_eq!(value(&[dw::DW_OP_breg0.0, 0], None), None, "a register that is not known");
    }

    #[test]
    fn expressions_agree_with_gimli() {
        let constants = [0, 1, 3, 8, 63, 64, 65, u64::MAX, 1 << 63, 0x8000_0000];
        let operations = [
            dw::DW_OP_and,
            dw::DW_OP_or,
            dw::DW_OP_xor,
            dw::DW_OP_plus,
            dw::DW_OP_minus,
            dw::DW_OP_mul,
            dw::DW_OP_shl,
            dw::DW_OP_shr,
            dw::DW_OP_shra,
            dw::DW_OP_eq,
            dw::DW_OP_ne,
            dw::DW_OP_ge,
            dw::DW_OP_gt,
            dw::DW_OP_le,
            dw::DW_OP_lt,
            dw::DW_OP_swap,
            dw::DW_OP_over,
            dw::DW_OP_dup,
            dw::DW_OP_drop,
            dw::DW_OP_neg,
            dw::DW_OP_not,
            dw::DW_OP_nop,
        ];
        let encoding = gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };
        for (a, b) in constants.iter().flat_map(|a| constants.map(|b| (*a, b))) {
            for operation in operations {
                let mut code = std::vec![dw::DW_OP_const8u.0];
                code.extend(a.to_le_bytes());
                code.push(dw::DW_OP_const8u.0);
                code.extend(b.to_le_bytes());
                code.push(operation.0);
                let mut theirs = gimli::Evaluation::new(EndianSlice::new(&code, NativeEndian), encoding);
                assert_eq!(theirs.evaluate(), Ok(gimli::EvaluationResult::Complete));
                let theirs = theirs.result();
                let [gimli::Piece { location: gimli::Location::Address { address }, .. }] = theirs[..] else {
                    panic!("{theirs:?}");
                };
                assert_eq!(value(&code, None), Some(address), "{a:#x} {operation} {b:#x}");
            }
        }
    }

    #[test]
    fn constants_are_read_as_gimli_reads_them() {
        for operation in 0x08..=0x11 {
            for byte in [0x00, 0x7f, 0x80, 0xff, 0x5a] {
                let code =
                    [&[operation, byte, byte ^ 0x91, 3, byte, byte, 0x80, 0x80, byte & 0x7f][..], &[0; 3]]
                        .concat();
                let mut rest = EndianSlice::new(&code, NativeEndian);
                let encoding =
                    gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };
                let theirs = gimli::Operation::parse(&mut rest, encoding).expect("a constant");
                let theirs = match theirs {
                    gimli::Operation::UnsignedConstant { value } => value,
                    gimli::Operation::SignedConstant { value } => value as u64,
                    other => panic!("{other:?}"),
                };
                assert_eq!(value(&code[..code.len() - rest.len()], None), Some(theirs), "{code:x?}");
            }
        }
    }

    #[test]
    fn other_expressions_have_no_value() {
        let lit = dw::DW_OP_lit1.0;
        for code in [
            &[][..],
            &[lit; 9],
            &[dw::DW_OP_plus.0],
            &[lit, dw::DW_OP_plus.0],
            &[lit, dw::DW_OP_over.0],
            &[lit, lit, dw::DW_OP_div.0],
            &[lit, dw::DW_OP_piece.0, 8],
            &[dw::DW_OP_skip.0, 0, 0],
            &[0xff],
            &[dw::DW_OP_const8u.0, 1],
            &[lit, dw::DW_OP_pick.0, 255],
        ] {
            assert_eq!(value(code, None), None, "{code:x?}");
        }
    }
}
