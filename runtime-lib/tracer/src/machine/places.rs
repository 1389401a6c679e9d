//! Places in the stubs of each machine that flush and enter (its `stubs`), by the symbols that they define.

/// Returns whether a thread at this instruction has stored its pending word, and
/// [`Block::next`](crate::abi::trace::Block) says so, but [`Block::pending`](crate::abi::trace::Block) does not yet.
pub fn stored(instruction: usize) -> bool {
    unsafe extern "C" {
        static __pcce_trace_stored_flush: u8;
        static __pcce_trace_stored_enter: u8;
    }
    [&raw const __pcce_trace_stored_flush, &raw const __pcce_trace_stored_enter]
        .iter()
        .any(|at| at.addr() == instruction)
}

/// Returns whether an instruction is one of those that flush or enter, which have read something of the block.
pub fn flushes_or_enters(instruction: usize) -> bool {
    unsafe extern "C" {
        static __pcce_trace_flush: u8;
        static __pcce_trace_end_flush: u8;
        static __pcce_trace_enter: u8;
        static __pcce_trace_end_enter: u8;
    }
    let stubs = [
        (&raw const __pcce_trace_flush, &raw const __pcce_trace_end_flush),
        (&raw const __pcce_trace_enter, &raw const __pcce_trace_end_enter),
    ];
    stubs.iter().any(|(from, to)| (from.addr()..to.addr()).contains(&instruction))
}
