//! Prints the lists of `pcce_abi::exports` for `scripts/build-runtime`: lines of a list's name, a symbol, and the
//! name that the symbol gets.

use pcce_abi::exports::{ALLOCATION, INTERPOSED, RUNTIME, TRACE, TRACE_WITHIN, VERIFY};

fn main() {
    for symbol in RUNTIME {
        println!("runtime {symbol} {symbol}");
    }
    for symbol in VERIFY {
        println!("verify {symbol} {symbol}");
    }
    for symbol in TRACE.iter().chain(&TRACE_WITHIN) {
        println!("trace {symbol} {symbol}");
    }
    for (name, leads_to) in INTERPOSED {
        println!("interposed {name} {leads_to}");
    }
    for (name, own) in ALLOCATION {
        println!("allocation {own} {name}");
    }
}
