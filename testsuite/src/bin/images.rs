//! `images TRACE…`: what an encoding of calls between images would bring to the runs that these traces are of, as JSON
//! (docs/images.md). The images must be where they were when they wrote them.
//!
//! `images --loads table LINK.ll`: writes the code of a link in lto mode with additions from a table. So perl was
//! counted, in the folder of an encoded build, with its compiler as `$CC`:
//!
//! ```text
//! $CC -no-pie -Wl,-E -Wl,--save-temps -o perl-link perlmain.o DynaLoader.o libperl.a $LIBS
//! llvm-dis-19 perl-link.0.5.precodegen.bc -o link.ll
//! images --loads table link.ll > table.ll
//! llc-19 -O2 -filetype=obj -relocation-model=static -function-sections -data-sections table.ll -o table.o
//! $CC -no-pie -Wl,-E -o perl-table table.o $LIBS
//! ```

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use pcce::trace::TraceFile;
use pcce_testsuite::images::compare::compare;
use pcce_testsuite::images::loads::{From, with_loads};
use pcce_testsuite::images::program::Process;

/// What an encoding of calls between images would bring to a run
#[derive(Parser)]
struct Arguments {
    /// Files that PCCE_TRACE has named; with --loads one file of LLVM's assembly
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write this code with its additions' values from a table
    #[arg(long, value_enum)]
    loads: Option<From>,
}

fn main() -> Result<()> {
    let Arguments { files, loads } = Arguments::parse();
    for path in files {
        let context = || path.display().to_string();
        if let Some(from) = loads {
            let code = fs::read_to_string(&path).with_context(context)?;
            print!("{}", with_loads(&code, from).with_context(context)?);
            continue;
        }
        let trace = TraceFile::open(&path).with_context(context)?;
        let process = Process::load(&trace).with_context(context)?;
        let comparison = compare(&process, &trace).with_context(context)?;
        println!("{}", serde_json::to_string(&comparison)?);
    }
    Ok(())
}
