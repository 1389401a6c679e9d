//! The linker front end with a command as generator, which `PCCE_GENERATE` names. The command reads what was
//! linked as JSON, and writes the names of the objects that it made.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use pcce_linker::{FirstLink, Generate, Generated};
use serde_json::{Value, json};

struct ByCommand;

impl Generate for ByCommand {
    fn generate(&self, first: &FirstLink) -> Result<Generated, Box<dyn Error + Send + Sync>> {
        let range =
            |range: &Option<std::ops::Range<u64>>| range.as_ref().map(|range| [range.start, range.end]);
        // For tests: names that are not UTF-8 are printed, but cannot be opened by the printed name.
        let name = |path: &std::path::Path| path.display().to_string();
        let names = |paths: &[PathBuf]| paths.iter().map(|path| name(path)).collect::<Vec<_>>();
        let request = json!({
            "output": name(first.output),
            "target": name(first.target),
            "is_library": first.is_library,
            "folder": name(first.folder),
            "modules": first.modules.iter().map(|module| json!({
                "id": module.id, "file": name(&module.file), "range": range(&module.range), "shown": module.shown,
            })).collect::<Vec<_>>(),
            "plain": first.plain.iter().map(|plain| json!({
                "file": name(&plain.file), "range": range(&plain.range), "shown": plain.shown,
            })).collect::<Vec<_>>(),
            "shared_libraries": names(first.shared_libraries),
            "others": names(first.others),
        });
        let program =
            std::env::var_os("PCCE_GENERATE").ok_or("PCCE_GENERATE names nobody who generates code")?;
        let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        child.stdin.take().ok_or("no input")?.write_all(request.to_string().as_bytes())?;
        let output = child.wait_with_output()?;
        if !output.status.success() {
            return Err(format!("{} has failed: {}", program.display(), output.status).into());
        }
        let answer: Value = serde_json::from_slice(&output.stdout)?;
        let list = |name: &str| answer[name].as_array().cloned().unwrap_or_default();
        let path = |value: &Value| value.as_str().map(PathBuf::from).ok_or("a path is no text");
        let mut generated = Generated::default();
        for object in list("objects") {
            let id = object["id"].as_u64().ok_or("an id is no number")?;
            generated.objects.push((id, path(&object["file"])?));
        }
        for extra in list("extra") {
            generated.extra.push(path(&extra)?);
        }
        Ok(generated)
    }
}

fn main() -> ExitCode {
    pcce_linker::main(&ByCommand, &[])
}
