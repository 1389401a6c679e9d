//! Dictionaries from ELF files.

use pcce::load::{self, LoadCause};
use pcce::program::{ProgramError, dictionary};
use pcce_dictionary::Encoding;

use crate::common::elf;
use crate::common::elf::{Compression, Kind};
use crate::common::{APP, app};

#[test]
fn every_form_of_the_section_is_read() {
    let section = elf::section(&app());
    for compression in [Compression::None, Compression::Zlib, Compression::Zstd] {
        for kind in [Kind::Executable, Kind::Shared] {
            let file = elf::elf(Some(&section), Some(&APP), compression, kind);
            assert_eq!(dictionary(&file, "app").unwrap(), app(), "{compression:?} {kind:?}");
        }
    }
}

#[test]
fn discarded_modules_are_left_out() {
    let mut program = app();
    program.modules[0].sites_address = 0;
    let found = dictionary(&elf::program(&program, &APP), "app").unwrap();
    assert_eq!(found.modules, app().modules[1..]);
    assert_eq!(found.encodings, [Encoding { first_module: 0, ..app().encodings[1].clone() }]);
    program.modules[1].sites_address = 0;
    let error = dictionary(&elf::program(&program, &APP), "app").unwrap_err();
    assert!(matches!(error, ProgramError::NoModule), "{error}");
}

#[test]
fn unfit_programs_are_refused_by_name() {
    let section = elf::section(&app());
    let error = |section: Option<&[u8]>, build_id: Option<&[u8]>, kind| {
        dictionary(&elf::elf(section, build_id, Compression::None, kind), "app").unwrap_err()
    };
    let whole = Some(&section[..]);
    assert!(matches!(error(None, Some(&APP), Kind::Executable), ProgramError::NoSection));
    assert!(matches!(error(Some(&[]), Some(&APP), Kind::Executable), ProgramError::NoSection));
    assert!(matches!(error(whole, None, Kind::Shared), ProgramError::NoBuildId));
    assert!(matches!(error(whole, Some(&APP), Kind::Relocatable), ProgramError::NotLinked(_)));
    let cut = Some(&section[..section.len() - 1]);
    assert!(matches!(error(cut, Some(&APP), Kind::Executable), ProgramError::Record(_)));
}

#[test]
fn damaged_files_never_panic() {
    let section = elf::section(&app());
    for compression in [Compression::None, Compression::Zlib, Compression::Zstd] {
        let file = elf::elf(Some(&section), Some(&APP), compression, Kind::Executable);
        for length in 0..file.len() {
            // The tail of the file may be padding.
            if let Ok(dictionary) = load::from_bytes(&file[..length], "app") {
                assert_eq!(dictionary, app());
            }
        }
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 1 << (at % 8);
            if let Ok(dictionary) = load::from_bytes(&changed, "app") {
                let _ = pcce::Decoder::new(&[dictionary]);
            }
        }
    }
}

#[test]
fn the_form_is_told_by_the_first_bytes() {
    let json = pcce_dictionary::to_json(&app());
    assert_eq!(load::from_bytes(&json, "").unwrap(), app());
    assert_eq!(load::from_bytes(&[b" \n", &json[..]].concat(), "").unwrap(), app());
    assert!(matches!(load::from_bytes(b"", ""), Err(LoadCause::Empty)));
    for bytes in [&[0; 100][..], b"PCCE", b"   ", b"[1]", b"\x7fEL"] {
        assert!(matches!(load::from_bytes(bytes, ""), Err(LoadCause::Unknown { .. })), "{bytes:?}");
    }
}

/// What a damaged header claims must not be allocated.
#[test]
fn sections_that_claim_too_much_are_refused() {
    use object::{Object, ObjectSection};
    for compression in [Compression::Zlib, Compression::Zstd] {
        let mut file = elf::elf(Some(&elf::section(&app())), Some(&APP), compression, Kind::Executable);
        let parsed = object::File::parse(&*file).unwrap();
        let section = parsed.section_by_name(".debug_pcce").unwrap();
        let size = section.compressed_file_range().unwrap().offset as usize - 16;
        file[size..size + 8].copy_from_slice(&(1_u64 << 36).to_le_bytes());
        let error = dictionary(&file, "app").unwrap_err().to_string();
        assert!(error.contains(&format!("it claims to have {} bytes", 1_u64 << 36)), "{error}");
    }
}
