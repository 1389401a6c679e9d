use std::collections::BTreeMap;

use super::*;

/// A kept file of one script and one object.
fn example(folder: &Path) -> PathBuf {
    let contents = folder.join("contents");
    fs::create_dir_all(contents.join("0/lib")).unwrap();
    fs::create_dir_all(contents.join("1")).unwrap();
    let object: Vec<u8> = (0..3000_u32).flat_map(|n| (n * n).to_le_bytes()).collect();
    fs::write(contents.join("0/lib/a.o"), &object).unwrap();
    let script = format!("INPUT(\"{}\")", contents.join("0/lib/a.o").display());
    fs::write(contents.join("1/x.so"), script).unwrap();
    let name = |text: &str| Name(text.into());
    let content =
        |at: &str, size: u64, is_script| Content { name: name(at), shown: name("a.o"), size, is_script };
    let manifest = Manifest {
        release: "1".into(),
        program: name("/work/program"),
        output: name("program"),
        build_id: Some("0123".into()),
        folder: name("/work"),
        linker: name("/usr/bin/ld"),
        variables: vec![
            ("LD_RUN_PATH".into(), Some(Name(OsString::from_vec(vec![255, 47])))),
            ("X".into(), None),
        ],
        root: name("/.pcce-kept-0"),
        words: vec![name("/.pcce-kept-0/0/lib/a.o"), name("-L/usr/lib")],
        modules: vec!["1f".into()],
        commands: String::new(),
        profile: None,
        plain: Vec::new(),
        files: vec![
            content("0/lib/a.o", object.len() as u64, false),
            content("1/x.so", "INPUT(\"/.pcce-kept-0/0/lib/a.o\")".len() as u64, true),
        ],
    };
    let path = folder.join("kept");
    write(&mut File::create(&path).unwrap(), &manifest, &contents).unwrap();
    let read = Kept::read(&path).unwrap();
    assert_eq!(read.manifest, manifest);
    path
}

/// A file with the right checksum.
fn signed(mut bytes: Vec<u8>) -> Vec<u8> {
    let start = HEADER as usize;
    if bytes.len() >= start {
        let hash = Sha256::digest(&bytes[start..]);
        bytes[start - HASH..start].copy_from_slice(&hash);
    }
    bytes
}

/// A file with a changed manifest.
fn with_manifest(bytes: &[u8], change: impl Fn(&mut Manifest)) -> Vec<u8> {
    let at = HEADER as usize;
    let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let mut manifest: Manifest = serde_json::from_slice(&bytes[at + 8..at + 8 + length]).unwrap();
    change(&mut manifest);
    let manifest = serde_json::to_vec(&manifest).unwrap();
    let length = (manifest.len() as u64).to_le_bytes();
    signed(
        [
            &bytes[..at],
            &length,
            &manifest,
            &bytes[at + 8 + u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize..],
        ]
        .concat(),
    )
}

/// All files below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            all.extend(files(&entry.path()));
        } else {
            all.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
    all
}

/// Reads and unpacks bytes. All written files must be below `root`.
fn open(folder: &Path, bytes: &[u8]) -> Result<BTreeMap<PathBuf, Vec<u8>>, Error> {
    let (path, root) = (folder.join("input/file"), folder.join("input/unpacked"));
    fs::create_dir_all(folder.join("input")).unwrap();
    fs::write(&path, bytes).unwrap();
    let result = Kept::read(&path).and_then(|kept| kept.unpack(&root));
    let all = files(folder);
    let outside = all.keys().filter(|file| !file.starts_with(&root) && **file != path);
    assert!(
        outside.clone().all(|file| file.starts_with(folder.join("contents")) || file.ends_with("kept")),
        "{all:?}"
    );
    let unpacked = files(&root);
    let _ = fs::remove_dir_all(&root);
    result.map(|()| unpacked)
}

#[test]
fn what_is_kept_is_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let bytes = fs::read(example(folder)).unwrap();
    let unpacked = open(folder, &bytes).unwrap();
    let root = folder.join("input/unpacked");
    assert_eq!(unpacked[&root.join("0/lib/a.o")], fs::read(folder.join("contents/0/lib/a.o")).unwrap());
    let script = String::from_utf8(unpacked[&root.join("1/x.so")].clone()).unwrap();
    assert_eq!(script, format!("INPUT(\"{}\")", root.join("0/lib/a.o").display()));
}

#[test]
fn files_that_are_no_kept_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let bytes = fs::read(example(folder)).unwrap();
    let said = |bytes: &[u8]| open(folder, bytes).unwrap_err().to_string();
    for foreign in [&b""[..], b"\x7fELF", b"!<arch>\n", &[0; 100]] {
        assert!(said(foreign).contains("is no file that a link has kept"), "{}", said(foreign));
    }
    for end in (MAGIC.len()..bytes.len()).step_by(7) {
        assert!(said(&bytes[..end]).contains("damaged"), "{}", said(&bytes[..end]));
    }
    for at in (0..bytes.len()).step_by(5) {
        let mut spoilt = bytes.clone();
        spoilt[at] ^= 4;
        assert!(open(folder, &spoilt).is_err(), "byte {at}");
    }
    let mut newer = bytes.clone();
    newer[8] = 2;
    assert!(said(&newer).contains("is of version 2, and this release reads version 1"), "{}", said(&newer));
    assert!(said(&signed([&bytes[..], b"more"].concat())).contains("damaged"));
}

/// Forged files, with the right checksum.
#[test]
fn names_and_sizes_are_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let bytes = fs::read(example(folder)).unwrap();
    for name in
        ["../../outside", "/outside", "", ".", "..", "0/..", "0/../../../x", "a/./b", "0", "0/lib", "1/x.so"]
    {
        let changed = with_manifest(&bytes, |manifest| manifest.files[0].name = Name(name.into()));
        let _ = open(folder, &changed);
        // One name for two files, and a file where a folder is.
        let changed = with_manifest(&bytes, |manifest| manifest.files[1].name = Name(name.into()));
        let _ = open(folder, &changed);
    }
    for root in ["", "/", "/tmp", "x", "/.pcce"] {
        let changed = with_manifest(&bytes, |manifest| manifest.root = Name(root.into()));
        assert!(open(folder, &changed).is_err(), "{root}");
    }
    for size in [0, 1, 11_999, 12_001, 1 << 40, u64::MAX, u64::MAX - 33] {
        let changed = with_manifest(&bytes, |manifest| manifest.files[0].size = size);
        assert!(open(folder, &changed).is_err(), "{size}");
    }
    // Contents that are compressed to very little are not unpacked.
    let manifest = |bytes: &[u8]| {
        with_manifest(bytes, |manifest| {
            manifest.files.truncate(1);
            manifest.files[0].size = 1 << 36;
        })
    };
    let at = HEADER as usize;
    let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let zeros = zstd::encode_all(io::repeat(0).take(1 << 26), 3).unwrap();
    let bomb = manifest(&[&bytes[..at + 8 + length], &zeros].concat());
    assert!(open(folder, &bomb).unwrap_err().to_string().contains("longer than can be"));
}

#[test]
fn changed_bytes_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let bytes = fs::read(example(folder)).unwrap();
    // A simple generator of numbers: the same ones in each run.
    let mut state = 1_u64;
    let mut random = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most.max(1)
    };
    for _ in 0..1000 {
        let mut changed = bytes.clone();
        for _ in 0..=random(3) {
            let at = HEADER as usize + random(changed.len() - HEADER as usize);
            match random(4) {
                0 => changed.truncate(at),
                1 => drop(changed.drain(at..(at + random(9)).min(bytes.len()).min(changed.len()))),
                2 => changed.insert(at.min(changed.len()), random(256) as u8),
                _ => changed.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << random(8)),
            }
            if changed.len() <= HEADER as usize {
                break;
            }
        }
        let _ = open(folder, &signed(changed));
    }
}
