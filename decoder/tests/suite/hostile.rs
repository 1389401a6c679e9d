//! Files that are made to take the machine's memory, with `pcce` under a limit of 1 GiB.

use std::fs;
use std::io::Write;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use crate::limits::bounded;

/// A zlib stream of a text that is repeated.
fn packed(parts: &[(&str, usize)]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    for (text, count) in parts {
        let block = text.repeat(1 << 10);
        for _ in 0..count >> 10 {
            encoder.write_all(block.as_bytes()).expect("memory can be written");
        }
        encoder.write_all(text.repeat(count & 1023).as_bytes()).expect("memory can be written");
    }
    encoder.finish().expect("memory can be written")
}

fn dictionary(folder: &Path, name: &str, code: &[u8]) {
    let code = STANDARD_NO_PAD.encode(code);
    let text = format!(
        r#"{{"version":2,"build_id":"0123456789","program":"p","modules":[],"encodings":[],"code":"{code}"}}"#
    );
    assert!(text.len() < 10_000_000, "{name}: {} bytes", text.len());
    fs::write(folder.join(name), text).expect("the folder is ours");
}

#[test]
fn machine_code_tables_unpack_to_a_bounded_size() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile");
    fs::create_dir_all(&folder).expect("the folder is ours");
    let begin = (r#"{"files":[],"places":[],"functions":[],"names":["#, 1);
    let end = (r#"""]}"#, 1);
    dictionary(&folder, "blanks.json", &packed(&[begin, (" ", 500_000_000), end]));
    dictionary(&folder, "names.json", &packed(&[begin, ("\"\",", 100_000_000), end]));
    for name in ["blanks.json", "names.json"] {
        let table = pcce_dictionary::from_json(&fs::read(folder.join(name)).expect("it is there"))
            .expect("it is good");
        let error =
            pcce_dictionary::code::from_text(&table.code.expect("it has code")).expect_err("it is too much");
        assert!(error.to_string().contains("more than what a dictionary can hold"), "{error}");
        let (status, messages) = bounded(&folder, &format!("info {name}"));
        assert_eq!(status, Some(0), "{messages}");
    }
}
