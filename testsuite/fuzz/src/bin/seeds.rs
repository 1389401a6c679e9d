//! Writes the inputs that fuzzing starts from: `seeds FOLDER` makes a folder of files for each target, and prints the
//! targets' names.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args_os().nth(1).expect("the folder is an argument"));
    for target in pcce_fuzz::TARGETS {
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(format!("seed{number}")), seed)?;
        }
        println!("{}", target.name);
    }
    Ok(())
}
