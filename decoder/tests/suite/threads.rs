//! Contexts across threads, by the built `pcce`.

use pcce::token::{BuildId, CodeAddress, Point, PointEnd, Token};

use crate::common::{app, site, token};
use crate::folder::{Folder, LEAF_TRACE, err, leaf, out};

#[test]
fn threads_of_a_report_that_are_not_in_the_program() {
    let folder = Folder::new("outside");
    let at = |address, exact| CodeAddress { image: 0, address, exact, distance: 0 };
    let point = Point {
        id: 0,
        addresses: vec![at(0x1000, true), at(0x2000, false)],
        left_out: None,
        end: PointEnd::Outermost,
    };
    let outside =
        Token { images: vec![BuildId::from_prefix(&[0xcc; 8])], point: Some(point), ..Token::default() };
    let outside = outside.encode();
    // By itself it may be of any program.
    assert!(folder.fails(&["decode", "app", &outside]).contains("of another build"));
    let report = |build_id: &str| {
        format!("pcce-crash-report: 1\nbuild-id: {build_id}\nthread: 1\ncontext: {outside}\nend: complete\n")
    };
    let own = report(&app().build_id);
    let output = folder.run_with_input(&["decode", "app"], own.as_bytes());
    let text = "thread: 1\n#0  <code, of a library that was not found, with build id cccccccccccccccc>\n\nend: complete\n";
    assert!(output.status.success() && out(&output).ends_with(text), "{}{}", out(&output), err(&output));
    for other in [report(&"cc".repeat(20)), report("none"), own.clone() + &report("")] {
        let output = folder.run_with_input(&["decode", "app"], other.as_bytes());
        assert!(output.status.code() == Some(2) && err(&output).contains("of another build"), "{other}");
    }
}

#[test]
fn across_threads() {
    let folder = Folder::new("across_threads");
    let thread = token(Some((site::LEAF_CAPTURE, 2)), &[]).encode();
    let older = token(Some((site::TAIL_CAPTURE, 0)), &[(site::LEAF_QSORT, 0)]).encode();
    let leaf = leaf();
    let folded = |args: &[&str]| folder.ok(&[&["decode", "app", "--format", "folded"], args].concat());
    let joined = format!("{leaf}+{thread}");
    let text = folder.ok(&["decode", "app", &joined]);
    assert_eq!(
        text,
        format!(
            "{LEAF_TRACE}#4  <thread created here>
#5  helper at /src/helper.h:7:9 [inlined]
#6  leaf at /src/main.c:35:5
#7  app::run(int) at /src/main.c:20:5
#8  main at /src/main.c:11:5
"
        )
    );
    let main = "main;app::run(int);leaf;helper 1\n";
    let across = "main;app::run(int);leaf;helper;<thread created here>;main;app::run(int);leaf;helper 1\n";
    assert_eq!(folded(&[&joined]), across);
    // Pairs, and threads whose creation is not known.
    assert_eq!(folded(&["--across-threads", &leaf, &thread]), across);
    assert_eq!(folded(&["--across-threads", &leaf, "", &leaf, &thread]), format!("{main}{across}"));
    assert_eq!(folded(&["--across-threads", &leaf]), main);
    assert_eq!(folded(&[&format!("{leaf}+")]), main);
    let input = format!("{leaf}\t{thread} \n\n {leaf}\n{leaf}+{thread}\n{leaf}\n");
    let output =
        folder.run_with_input(&["decode", "app", "--across-threads", "--format", "folded"], input.as_bytes());
    assert_eq!((out(&output), err(&output)), (format!("{across}{main}{across}{main}"), String::new()));
    let message = folder.fails(&["decode", "app", "--across-threads", &leaf, &thread, &leaf]);
    assert!(message.contains("the last of the 3 words has no partner"), "{message}");
    // Generations, the oldest left out, and a number with its thread.
    assert_eq!(
        folded(&[&format!("{leaf}+{older}+{thread}+~")]),
        "<the token was cut here, further calls are missing>;<thread created here>;main;app::run(int);leaf;helper;\
         <thread created here>;app::run(int);leaf;<qsort, not instrumented>;tail;<thread created here>;main;\
         app::run(int);leaf;helper 1\n"
    );
    assert_eq!(
        folded(&[&format!("1+{thread}")]),
        "main;app::run(int);leaf;helper;<thread created here>;main 1\n"
    );
    // Tasks, of which older ones were left out, and in pairs.
    let task = "main;app::run(int);leaf;helper;<task submitted here>;main;app::run(int);leaf;helper 1\n";
    assert_eq!(folded(&[&format!("{leaf}+@{thread}")]), task);
    assert_eq!(folded(&["--across-threads", &leaf, &format!("@{thread}")]), task);
    assert_eq!(
        folded(&[&format!("{leaf}+@{thread}+{thread}+@~")]),
        "<the token was cut here, further calls are missing>;<task submitted here>;main;app::run(int);leaf;helper;\
         <thread created here>;main;app::run(int);leaf;helper;<task submitted here>;main;app::run(int);leaf;helper \
         1\n"
    );
    let json = folder.ok(&["decode", "app", "--format", "json", &format!("{leaf}+@{thread}")]);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["frames"][4]["kind"], "task");
    let json = folder.ok(&["decode", "app", "--format", "json", &joined]);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["token"], joined);
    assert_eq!(value["frames"][4]["kind"], "thread");
    assert_eq!(value["frames"].as_array().unwrap().len(), 9);
    // Each part must be a token of this build.
    let altered = thread.replace("pcce1.", "pcce1.A");
    for (word, expected) in [
        (format!("{leaf}+{altered}"), "the token"),
        (format!("{leaf}+~+{thread}"), "not a context token"),
        (format!("{leaf}++{thread}"), "not a context token"),
        (format!("{leaf}+@"), "not a context token"),
        (format!("{leaf}+@@{thread}"), "not a context token"),
        (format!("@{thread}"), "not a context token"),
        (format!("+{thread}"), "not a context token"),
        ("+".to_owned(), "not a context token"),
        (format!("{leaf}+{}", token(Some((site::MALLOC_CAPTURE, 0)), &[]).encode()), "another build"),
    ] {
        let message = folder.fails(&["decode", "app", &word]);
        assert!(message.contains(expected), "{word}: {message}");
    }
}

/// Two parts of a word may need different libraries that were not given.
#[test]
fn across_threads_of_unknown_libraries() {
    let folder = Folder::new("across_threads_libraries");
    let crossing = token(Some((site::MALLOC_CAPTURE, 0)), &[(site::LEAF_LIB_RUN, 1)]).encode();
    let output = folder.run(&["decode", "app", "--format", "json", &format!("{crossing}+{crossing}")]);
    let value: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    for frame in [0, 5] {
        assert_eq!(value["frames"][frame]["build_id"], "b001020304050607", "{value}");
    }
    assert_eq!(err(&output).lines().count(), 1);
    assert_eq!(output.status.code(), Some(2));
}
