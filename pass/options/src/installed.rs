//! The LLVM of the pass that is installed.

use std::path::Path;
use std::sync::OnceLock;
use std::{env, fs};

/// The file with the major version of the LLVM that the pass beside it is built for. `make build` writes it.
const FILE: &str = "llvm-version";

/// The LLVM that `make build` takes by default.
const DEFAULT: u32 = 19;

/// Returns the major version of the LLVM that the pass of this installation is built for: no other LLVM loads it. The
/// file that says so is beside the running executable, or in `../lib/pcce` where this is installed.
pub fn llvm() -> u32 {
    static LLVM: OnceLock<u32> = OnceLock::new();
    *LLVM.get_or_init(|| {
        let executable = env::current_exe().and_then(fs::canonicalize).unwrap_or_default();
        let here = executable.parent().unwrap_or(Path::new("/"));
        let files = [here.join(FILE), here.join("../lib/pcce").join(FILE)];
        files.iter().find_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).unwrap_or(DEFAULT)
    })
}
