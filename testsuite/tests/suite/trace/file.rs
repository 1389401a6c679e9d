//! The tracer's file: processes that share it, and programs whose file cannot be written.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::time::Duration;

use pcce_abi::trace::{
    CHUNK, CHUNK_HEAD, CONTEXT_WORDS, CONTINUED, ENDED, FULL, Gap, KIND_SHIFT, KIND_STREAM, Special, UNIT,
    VERSION,
};
use pcce_testsuite::trace_words::{
    Chunk, Item, Reader, build, check_plain, read, streams, streams_of, traced,
};
use pcce_testsuite::{artifact, command, repository, run, work_folder};

#[test]
fn programs_that_a_process_becomes_go_on_with_the_file() {
    let work = work_folder("tracer/execs");
    let program = build(&work, "program.c");
    let file = work.join("trace");
    for _ in 0..2 {
        // The second time the file exists, and no process owns it.
        run(command(&program, &["execs", "10000", "1"]).env("PCCE_TRACE", &file)).expect_success();
        let streams = streams(&read(&file));
        let seeds: Vec<u64> = streams.values().map(|stream| check_plain(stream, |_| 10_000)).collect();
        assert_eq!(seeds, [1, 2, 3, 4, 5]);
    }
}

#[test]
fn a_ring_has_the_last_words_and_their_context() {
    let work = work_folder("tracer/ring");
    let program = work.join("ring");
    let source = repository().join("testsuite/tracer/ring.c");
    let mut clang =
        command(artifact("pcce-clang"), &["--pcce-mode=module", "--pcce-trace", "-g", "-O1", "-o"]);
    run(clang.arg(&program).arg(source)).expect_success();
    for (ring, events) in [("256K", 3_000_000), ("64K", 3_000_000), ("1M", 1000), ("16M", 3_000_000)] {
        let file = work.join("trace");
        let _ = fs::remove_file(&file);
        let mut killed = command(&program, &[&events.to_string()]);
        let _ = run(killed.env("PCCE_TRACE", &file).env("PCCE_TRACE_RING", ring));
        let size = fs::metadata(&file).expect("a file").len();
        let mut stream = read(&file);
        stream.retain(|chunk| chunk.kind == KIND_STREAM);
        stream.sort_by_key(|chunk| chunk.sequence);
        assert!(
            stream.windows(2).all(|two| two[1].sequence == two[0].sequence + 1 && two[0].end == CONTINUED)
        );
        let kept: usize = stream.iter().map(|chunk| 8 * chunk.words.len()).sum();
        // 6 events fill a word.
        let written = events / 6 * 8;
        match ring {
            "256K" => assert!((250 << 10..330 << 10).contains(&kept) && size < 512 << 10, "{kept} of {size}"),
            "64K" => assert!((250 << 10..330 << 10).contains(&kept) && size < 512 << 10, "{kept} of {size}"),
            _ => assert!(kept.abs_diff(written) < 100_000, "{kept} of {written}"),
        }
        // The last bits are those of the last events, except for pending ones.
        let mut bits = Vec::new();
        let words = stream.iter().flat_map(|chunk| &chunk.words[context_len(chunk)..]);
        for &word in words.filter(|word| **word >= FULL) {
            // The last words record the call that writes them.
            bits.extend((1..=54).rev().map(|bit| word >> bit & 1));
        }
        let found: Vec<u64> =
            bits.chunks(9).map(|bits| bits.iter().fold(0, |all, bit| all << 1 | bit)).collect();
        let last = *found.last().unwrap_or(&0);
        assert!((events as u64 - 1 - last) % 512 <= 7, "{last} of {events}");
        assert!(found.windows(2).all(|two| two[1] == (two[0] + 1) % 512), "{ring}");
        for chunk in stream.iter().skip(usize::from(stream[0].sequence == 0)) {
            let len = (chunk.words[0] & 0xffff) as usize;
            let from = 8 * (1 + CONTEXT_WORDS);
            let token = String::from_utf8(chunk.body[from..from + len].to_vec()).expect("text");
            let decoded =
                run(command(artifact("pcce"), &["decode"]).arg(&program).arg(&token)).expect_success();
            // The folder may have such a name, too.
            let places = ["inner at ", "outer at ", "main at "].map(|name| decoded.stdout.find(name));
            assert!(places.is_sorted() && places[0].is_some(), "{token}: {}", decoded.stdout);
        }
    }
}

/// The number of words of the context at a chunk's beginning.
fn context_len(chunk: &Chunk) -> usize {
    let first = chunk.words.first().copied().unwrap_or(0);
    if first >> KIND_SHIFT != Special::Context as u64 {
        return 0;
    }
    1 + CONTEXT_WORDS + (first as usize & 0xffff).div_ceil(8)
}

#[test]
fn a_full_disk_ends_recording_and_not_the_program() {
    let work = work_folder("tracer/full");
    let program = build(&work, "program.c");
    let script = "mount -t tmpfs -o size=700k none \"$1\" && PCCE_TRACE=\"$1/trace\" \"$0\" threads 300000 3; \
                  status=$?; cp \"$1/trace\" \"$2\"; exit $status";
    let (disk, copy) = (work.join("disk"), work.join("copy"));
    fs::create_dir(&disk).expect("a new one");
    let limited = "ulimit -f 1000; PCCE_TRACE=\"$2\" exec \"$0\" threads 300000 3";
    // The beginning of a ring does not fit.
    let ring = "ulimit -f 200; PCCE_TRACE_RING=1M PCCE_TRACE=\"$2\" exec \"$0\" threads 3000 3";
    let output =
        run(command("sh", &["-c", ring]).arg(&program).arg(&work).arg(work.join("ring"))).expect_success();
    let grows = |why: &str| format!("pcce: the trace: it cannot grow: {why}");
    assert!(output.stderr.starts_with(&grows("File too large (error 27)")), "{}", output.stderr);
    let mounted = command("unshare", &["-rm", "sh", "-c", script]);
    for (what, mut sh) in [("disk", mounted), ("limit", command("sh", &["-c", limited]))] {
        let _ = fs::remove_file(&copy);
        let output = run(sh.arg(&program).arg(&disk).arg(&copy)).expect_success();
        let lines: Vec<&str> = output.stderr.lines().collect();
        let [line] = lines[..] else { panic!("{what}: {lines:?}") };
        let why =
            if what == "disk" { "No space left on device (error 28)" } else { "File too large (error 27)" };
        assert!(line.starts_with(&grows(why)), "{line}");
        let mut full = 0;
        for stream in streams(&read(&copy)).values() {
            let mut reader = Reader::new(stream);
            let gap = |reader: &mut Reader| reader.is_special(Special::Gap);
            // A thread may find no room for its first chunk, or be stopped between its marks.
            let marks: Vec<u64> =
                (0..2).map_while(|_| (!gap(&mut reader)).then(|| reader.mark().expect("a mark"))).collect();
            if let [mut state, functions] = marks[..] {
                while !gap(&mut reader) && reader.peek().is_ok() {
                    reader.play(&mut state, functions, 1).expect("an event");
                }
            }
            if let Some(Item::Special(8, reason, _)) = reader.items.last() {
                assert!([Gap::Full as u64, Gap::Stopped as u64].contains(reason));
                full += 1;
            }
        }
        assert!(full > 0, "{what}");
    }
}

#[test]
fn without_a_place_for_the_file_the_program_runs_on() {
    let work = work_folder("tracer/nowhere");
    let program = build(&work, "program.c");
    let other = work.join("other");
    fs::write(&other, "something else, of more than sixteen bytes").expect("room");
    fs::create_dir(work.join("folder")).expect("a new one");
    for (name, message) in [
        (work.join("missing/trace"), "pcce: cannot write to "),
        ("/proc/trace".into(), "pcce: cannot write to "),
        (work.join("folder"), "pcce: cannot write to "),
        (other.clone(), "pcce: the file that PCCE_TRACE names is there, and no trace of this version"),
        ("/dev/null".into(), "pcce: the file that PCCE_TRACE names is there, and no trace of this version"),
    ] {
        let output =
            run(command(&program, &["threads", "10000", "2"]).env("PCCE_TRACE", &name)).expect_success();
        let lines: Vec<&str> = output.stderr.lines().collect();
        assert!(lines.len() == 1 && lines[0].starts_with(message), "{}: {lines:?}", name.display());
    }
    assert_eq!(fs::read(&other).expect("it is there"), b"something else, of more than sixteen bytes");
    // There is one descriptor, and two are needed.
    let script = "ulimit -n 4; exec \"$0\" threads 10000 2";
    let mut limited = command("sh", &["-c", script]);
    let output = run(limited.arg(&program).env("PCCE_TRACE", work.join("limited"))).expect_success();
    let message = "pcce: the file that PCCE_TRACE names cannot be used: Too many open files (error 24)";
    assert!(output.stderr.starts_with(message), "{}", output.describe());
    // No trace was asked for.
    for value in [None, Some("")] {
        let mut run_without = command(&program, &["threads", "10000", "2"]);
        run_without.current_dir(&work).env_remove("PCCE_TRACE");
        let output = run(run_without.envs(value.map(|value| ("PCCE_TRACE", value)))).expect_success();
        assert_eq!((output.stderr.as_str(), output.stdout.as_str()), ("", ""));
    }
}

#[test]
fn a_live_file_of_another_version_is_left_alone() {
    let work = work_folder("tracer/version");
    let program = build(&work, "program.c");
    let newer = work.join("newer");
    let _ = traced(&program, &newer, &["threads", "1000", "1"]).expect_success();
    let file = fs::File::options().write(true).open(&newer).expect("a trace");
    file.write_all_at(&(VERSION + 1).to_le_bytes(), 8).expect("room");
    let before = fs::read(&newer).expect("a trace");
    // `flock` holds it as another process would.
    let script = "exec flock --shared \"$PCCE_TRACE\" \"$0\" threads 10000 2";
    let output = run(command("sh", &["-c", script]).arg(&program).env("PCCE_TRACE", &newer)).expect_success();
    assert!(output.stderr.contains("no trace of this version"), "{}", output.stderr);
    assert_eq!(fs::read(&newer).expect("a trace"), before);
    // No process owns it now.
    run(command(&program, &["threads", "10000", "2"]).env("PCCE_TRACE", &newer)).expect_success();
    assert_eq!(streams_of(&newer).len(), 3);
}

#[test]
fn programs_with_more_rights_write_no_file() {
    if fs::metadata("/proc/self").expect("Linux").uid() != 0 {
        eprintln!("NOT RUN: only the superuser can make a program that runs as the superuser for others");
        return;
    }
    // A folder that other users can enter, unlike perhaps the target folder.
    let work = std::env::temp_dir().join(format!("pcce-tracer-{}", std::process::id()));
    let _ = fs::remove_dir_all(&work);
    fs::create_dir(&work).expect("a new one");
    fs::set_permissions(&work, Permissions::from_mode(0o755)).expect("ours");
    let program = build(&work, "program.c");
    let folder = work.join("folder");
    fs::create_dir(&folder).expect("a new one");
    chown(&folder, Some(65534), Some(65534)).expect("the superuser may");
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    for (mode, files) in [(0o755, 1), (0o4755, 0)] {
        fs::set_permissions(&program, Permissions::from_mode(mode)).expect("ours");
        let mut as_nobody = command("setpriv", &nobody);
        as_nobody.arg(&program).args(["privileged", "10000"]).env("PCCE_TRACE", "asked").current_dir(&folder);
        let output = run(&mut as_nobody).expect_success();
        if mode == 0o4755 && output.stdout == "0\n" {
            eprintln!("NOT RUN: programs of the temporary folder do not get the rights of their owners");
            break;
        }
        assert_eq!(output.stderr, "");
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), files);
        let _ = fs::remove_file(folder.join("asked"));
    }
    fs::remove_dir_all(&work).expect("ours");
}

#[test]
fn a_live_file_is_shared_and_another_is_begun_anew() {
    let work = work_folder("tracer/shared");
    let program = build(&work, "program.c");
    let file = work.join("trace");
    let mut first = command(&program, &["forever", "0"]).env("PCCE_TRACE", &file).spawn().expect("it starts");
    while !fs::read(&file).is_ok_and(|bytes| bytes.len() > 2 * UNIT as usize) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let others: Vec<_> = (0..4)
        .map(|_| {
            command(&program, &["threads", "10000", "1"]).env("PCCE_TRACE", &file).spawn().expect("it starts")
        })
        .collect();
    for mut other in others {
        assert!(other.wait().expect("it ends").success());
    }
    first.kill().expect("it runs");
    let _ = first.wait().expect("it ends");
    let streams = streams_of(&file);
    assert_eq!(streams.len(), 1 + 4 * 2);
    let whole = streams.values().filter(|stream| stream.last().is_some_and(|chunk| chunk.end == ENDED));
    let seeds: Vec<u64> =
        whole.map(|s| check_plain(s, |seed| if seed == 1 { 20_000 } else { 10_000 })).collect();
    assert_eq!(seeds.len(), 8);
    // No process owns it now. Several programs that start at the same time begin it anew together.
    let others: Vec<_> = (0..8)
        .map(|_| {
            command(&program, &["threads", "10000", "1"]).env("PCCE_TRACE", &file).spawn().expect("it starts")
        })
        .collect();
    for mut other in others {
        assert!(other.wait().expect("it ends").success());
    }
    for stream in streams_of(&file).values() {
        check_plain(stream, |seed| if seed == 1 { 20_000 } else { 10_000 });
    }
}

/// A chunk without its head does not tell its stream. The loss is noticed.
#[test]
fn chunks_of_a_ring_without_a_head_are_missed() {
    let folder = work_folder("tracer/headless");
    let text = "#include <pthread.h>\n__attribute__((noinline)) static void step(void) { __asm__ volatile(\"\"); }\n\
        static void *runs(void *p) { for (int i = 0; i < 100; i++) step(); return p; }\n\
        int main(void) { pthread_t threads[3]; for (int i = 0; i < 3; i++) pthread_create(threads + i, 0, runs, 0);\n  \
          for (int i = 0; i < 3; i++) pthread_join(threads[i], 0); return 0; }\n";
    fs::write(folder.join("main.c"), text).unwrap();
    let mut clang = command(artifact("pcce-clang"), &["--pcce-trace", "-g", "-O1", "-pthread", "main.c"]);
    run(clang.args(["-o", "program"]).current_dir(&folder)).expect_success();
    let mut program = command(folder.join("program"), &[]);
    program.env("PCCE_TRACE", folder.join("trace")).env("PCCE_TRACE_RING", "128K");
    run(&mut program).expect_success();
    let show = || run(command(artifact("pcce"), &["trace", "show", "program", "trace"]).current_dir(&folder));
    let whole = show();
    let threads = |text: &str| text.lines().filter(|line| line.starts_with("thread ")).count();
    assert_eq!((whole.status, threads(&whole.stdout)), (0, 4), "{}", whole.describe());
    let bytes = fs::read(folder.join("trace")).unwrap();
    let chunk = u64::to_le_bytes(pcce_abi::trace::CHUNK);
    let chunks =
        (0..bytes.len()).step_by(1 << 16).filter(|&at| bytes[at..].starts_with(&chunk)).collect::<Vec<_>>();
    assert!(chunks.len() > 4, "{chunks:?}");
    for &at in &chunks {
        let mut damaged = bytes.clone();
        damaged[at..at + 512].fill(0);
        fs::write(folder.join("trace"), &damaged).unwrap();
        let shown = show();
        assert_ne!(shown.status, 0, "{at:#x}: {}", shown.describe());
        // Images without events miss nothing.
        let is_stream = |at: usize| bytes[at + 16..at + 20] == u32::to_le_bytes(pcce_abi::trace::KIND_STREAM);
        let Some(other) = chunks.iter().copied().find(|&other| other != at && is_stream(other)) else {
            continue;
        };
        let mut damaged = bytes.clone();
        damaged.copy_within(other..other + (1 << 16), at);
        fs::write(folder.join("trace"), &damaged).unwrap();
        let shown = show();
        assert_ne!(shown.status, 0, "{other:#x} over {at:#x}: {}", shown.describe());
    }
}

/// Any changed bit in the head of a chunk is noticed.
#[test]
fn heads_of_chunks_are_checked() {
    let folder = work_folder("tracer/heads");
    let text = "#include <pthread.h>\n__attribute__((noinline)) static void step(void) { __asm__ volatile(\"\"); }\n\
        static void *runs(void *p) { for (int i = 0; i < 100; i++) step(); return p; }\n\
        int main(void) { pthread_t thread; pthread_create(&thread, 0, runs, 0); return pthread_join(thread, 0); }\n";
    fs::write(folder.join("main.c"), text).unwrap();
    let mut clang = command(artifact("pcce-clang"), &["--pcce-trace", "-g", "-O1", "-pthread", "main.c"]);
    run(clang.args(["-o", "program"]).current_dir(&folder)).expect_success();
    run(command(folder.join("program"), &[]).env("PCCE_TRACE", folder.join("trace"))).expect_success();
    let show = || run(command(artifact("pcce"), &["trace", "show", "program", "trace"]).current_dir(&folder));
    let _ = show().expect_success();
    let bytes = fs::read(folder.join("trace")).unwrap();
    let magic = u64::to_le_bytes(CHUNK);
    let heads: Vec<usize> =
        (0..bytes.len()).step_by(UNIT as usize).filter(|&at| bytes[at..].starts_with(&magic)).collect();
    assert!(heads.len() > 2, "{heads:?}");
    for head in heads {
        for at in (0..CHUNK_HEAD as usize).step_by(4) {
            let mut damaged = bytes.clone();
            damaged[head + at] ^= 1;
            fs::write(folder.join("trace"), &damaged).unwrap();
            let shown = show();
            assert_ne!(shown.status, 0, "{head:#x} {at}: {}", shown.describe());
            let said = shown.stderr.contains("damaged") || shown.stderr.contains("missing");
            assert!(said, "{head:#x} {at}: {}", shown.describe());
        }
    }
}

#[test]
fn inputs_are_not_written_over() {
    let work = work_folder("tracer/spared");
    let source = repository().join("testsuite/traces/bodies.c");
    let (program, trace) = (work.join("program"), work.join("trace"));
    run(command(artifact("pcce-clang"), &["--pcce-trace", "-g"]).arg(source).arg("-o").arg(&program))
        .expect_success();
    run(command(&program, &[]).env("PCCE_TRACE", &trace)).expect_success();
    let before = [&program, &trace].map(|file| fs::read(file).unwrap());
    for words in
        ["report P T -o T", "show P T --output=T", "diff P T T -oT", "export --format json P T -o ./T"]
    {
        let words = words.split(' ').map(|word| word.replace('P', "program").replace('T', "trace"));
        let mut pcce = command(artifact("pcce"), &["trace"]);
        let ran = run(pcce.args(words).current_dir(&work));
        assert_eq!(ran.status, 2, "{}", ran.describe());
        assert!(ran.stderr.contains("would be lost; write to another file"), "{}", ran.stderr);
    }
    assert!(before == [&program, &trace].map(|file| fs::read(file).unwrap()));
}
