//! The built `pcce` and programs of link mode.

use std::fs;

use pcce_dictionary::{section, unlinked};

use crate::common::elf;
use crate::common::elf::{Compression, Kind};
use crate::common::linked::{LINKED, linked, site, token};
use crate::folder::{Folder, out};

/// A context that leads from module to module, with a push between them.
fn visit() -> String {
    token(Some((site::LEAF_CAPTURE, 0)), &[(site::VISIT_WALK, 3)]).encode()
}

/// Its frames.
const TRACE: &str = "#0  leaf at /src/b.c:12
#1  visit at /src/b.c:11
#2  walk at /src/a.c:13
#3  visit at /src/b.c:10
#4  main at /src/a.c:10
";

fn folder(test: &str) -> Folder {
    let folder = Folder::new(test);
    folder.write("linked", &elf::program(&linked(), &LINKED));
    folder
}

#[test]
fn linked_programs_are_decoded() {
    let folder = folder("linked_decode");
    assert_eq!(folder.ok(&["decode", "linked", &visit()]), TRACE);
    assert_eq!(folder.ok(&["dict", "linked", "-o", "linked.json"]), "");
    let written = fs::read(folder.0.join("linked.json")).unwrap();
    assert_eq!(pcce_dictionary::from_json(&written).unwrap(), linked());
    assert_eq!(folder.ok(&["decode", "linked.json", &visit()]), TRACE);
    assert_eq!(
        folder.ok(&["decode", "linked", "5"]),
        "#0  visit\n#1  walk at /src/a.c:13\n#2  main at /src/a.c:12\n"
    );
    let text = format!("here: {}\n", visit());
    let filtered = out(&folder.run_with_input(&["filter", "linked"], text.as_bytes()));
    assert!(filtered.contains("visit at /src/b.c:10"), "{filtered}");
}

#[test]
fn linked_programs_are_described() {
    let folder = folder("linked_info");
    let text = folder.ok(&["info", "linked"]);
    for line in [
        "functions   5",
        "sites       2 direct, 6 external, 1 indirect, 0 asm, 4 capture, 0 signal, 0 entry",
        // The first one would add nothing, were it not for its callee's offset.
        "edges       0 add nothing, 5 add, 1 open, 1 back, 1 cut, 0 required",
        "max numCC   5 (leaf)",
        "modules     3, 2 of which were encoded as a whole at the link (link mode)",
        "  a.c: 2 functions, 6 sites, 5 edges",
        "  b.c: 2 functions, 6 sites, 3 edges",
        "  apart.c: 1 functions, 1 sites, 0 edges",
        "    by pcce 0.1.0, LLVM 19, options: mode=link",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    let value: serde_json::Value =
        serde_json::from_str(&folder.ok(&["info", "linked", "--format", "json"])).unwrap();
    assert_eq!(value["dictionary"]["linked_modules"], 2);
    let app: serde_json::Value =
        serde_json::from_str(&folder.ok(&["info", "app", "--format", "json"])).unwrap();
    assert_eq!(app["dictionary"]["linked_modules"], 0);
    let dot = folder.ok(&["graph", "linked", "--around", "walk", "--depth", "1", "--encoding"]);
    assert!(dot.contains("f1_0 -> f0_1 [label=\"push\""), "{dot}");
}

#[test]
fn modules_that_are_not_encoded_are_refused_by_all_commands() {
    let folder = folder("unlinked");
    let mut record = unlinked::to_bytes(&linked().modules[0], &());
    record[section::SITES_ADDRESS_OFFSET] = 1;
    let program = elf::elf(Some(&record), Some(&LINKED), Compression::None, Kind::Executable);
    folder.write("unlinked", &program);
    let token = visit();
    let heading = r#"{"profile":"cpu","version":1,"build_id":"a001020304050607","process":7}"#;
    folder.write("profile", format!("{heading}\n{{\"end\":true,\"contexts\":0}}\n").as_bytes());
    for args in [
        &["decode", "unlinked", &token][..],
        &["decode", "app", &token, "--dict", "unlinked"],
        &["filter", "unlinked"],
        &["dict", "unlinked"],
        &["info", "unlinked"],
        &["graph", "unlinked"],
        &["cpu", "report", "unlinked", "profile"],
    ] {
        let message = folder.fails(args);
        assert!(
            message.contains(
                "unlinked: parts of the program were compiled by an earlier release, and are not encoded; compile \
                 them again"
            ),
            "{args:?}: {message}"
        );
    }
}
