//! The tracer by itself: programs that play what emitted code does, and the words in the file.
//!
//! `testsuite/tracer/program.c` plays events of seeds. The same are generated here, and compared with each stream.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use pcce_abi::trace::{
    BEGIN_FORKED, BEGIN_LOST, BEGIN_MIDDLE, BEGIN_ROOT, CONTINUED, FIRST, Gap, KIND_IMAGE, OPEN, Special,
    position,
};
use pcce_testsuite::trace_words::{
    Chunk, End, Reader, build, check_plain, chunks, half, next, read, streams, streams_of, traced, word,
};
use pcce_testsuite::{artifact, command, include, llvm, repository, run, work_folder};

#[test]
fn streams_of_threads_are_whole() {
    let work = work_folder("tracer/threads");
    let program = build(&work, "program.c");
    let file = work.join("trace");
    let _ = traced(&program, &file, &["threads", "300000", "4"]).expect_success();
    let chunks = read(&file);
    let streams = streams(&chunks);
    let seeds: Vec<u64> =
        streams.values().map(|s| check_plain(s, |seed| if seed == 1 { 600_000 } else { 300_000 })).collect();
    assert_eq!(
        {
            let mut seeds = seeds.clone();
            seeds.sort_unstable();
            seeds
        },
        [1, 2, 3, 4, 5]
    );
    // The first chunk is small, so that threads are cheap, and later ones are large.
    let main = &streams[&1];
    assert!(main.len() > 2 && main[0].body.len() < main[1].body.len(), "{}", main.len());
    assert!(main.iter().all(|chunk| chunk.begin == BEGIN_ROOT && chunk.thread == chunk.process));
    // Each thread records where it was created: between the two parts of the main thread.
    for stream in streams.values().skip(1) {
        assert_eq!(stream[0].parent, 1);
        let place = stream[0].parent_position;
        let sequence = place >> 40;
        let half: Vec<Chunk> = main[..=sequence as usize].to_vec();
        let words = (place >> 8 & 0xffff_ffff) as usize;
        let mut half = half;
        half.last_mut().expect("a chunk").words.truncate(words);
        let mut reader = Reader::new(&half);
        let (mut state, functions) = reader.begin().expect("marks");
        let end = reader.play(&mut state, functions, 300_000);
        // The pending bits are missing.
        assert!(end == Ok(()) && place & 0xff == 0 || reader.items.len() - reader.at < 9);
    }
    // One image has all functions.
    let images: Vec<&Chunk> = chunks.iter().filter(|chunk| chunk.kind == KIND_IMAGE).collect();
    assert_eq!(images.len(), 1);
    let body = &images[0].body;
    let (_, functions) = Reader::new(main).begin().expect("marks");
    assert!(word(body, 0) <= functions && functions < word(body, 8));
    let path = &body[64..64 + half(body, 28) as usize];
    assert_eq!(path, program.as_os_str().as_encoded_bytes());
}

#[test]
fn many_threads_share_the_file() {
    let work = work_folder("tracer/many");
    let program = build(&work, "program.c");
    let file = work.join("trace");
    let _ = traced(&program, &file, &["many", "300", "2000"]).expect_success();
    let streams = streams(&read(&file));
    let mut seeds: Vec<u64> = streams.values().map(|stream| check_plain(stream, |_| 300)).collect();
    seeds.sort_unstable();
    assert!(seeds.into_iter().eq(2..2002));
    // The unused rest was given back.
    assert!(fs::metadata(&file).expect("a file").blocks() * 512 < 2000 * 8192);
}

#[test]
fn children_have_streams_of_their_own() {
    let work = work_folder("tracer/forks");
    let program = build(&work, "program.c");
    let file = work.join("trace");
    let _ = traced(&program, &file, &["forks", "20000"]).expect_success();
    let chunks = read(&file);
    let streams = streams(&chunks);
    // The child of vfork writes into its parent's stream.
    assert_eq!(streams.len(), 4);
    let main = &streams[&1];
    assert_eq!(check_plain(main, |_| 6 * 20_000), 1);
    for (stream, begin) in streams.values().skip(1).zip([BEGIN_FORKED, BEGIN_FORKED, BEGIN_MIDDLE]) {
        assert_eq!(stream[0].begin, begin);
        assert_ne!(stream[0].process, main[0].process);
        if begin == BEGIN_FORKED {
            let seed = check_plain(stream, |_| 20_000);
            assert_eq!(stream[0].parent, 1);
            // The parent's position at the fork.
            let place = stream[0].parent_position;
            let mut before = main[..=(place >> 40) as usize].to_vec();
            before.last_mut().expect("a chunk").words.truncate((place >> 8 & 0xffff_ffff) as usize);
            assert_eq!(place & 0xff, 0, "the parent has written its bits");
            let mut reader = Reader::new(&before);
            let (mut state, functions) = reader.begin().expect("marks");
            assert_eq!(reader.play(&mut state, functions, (seed - 1) * 20_000), Ok(()));
            reader.expect_end();
        } else {
            // The tracer does not see this end: the pending events are lost, and perhaps the first marks.
            assert_eq!(stream[0].parent, 0);
        }
    }
    let processes = |kind: &dyn Fn(&Chunk) -> bool| {
        let mut found: Vec<u32> = chunks.iter().filter(|c| kind(c)).map(|c| c.process).collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    let images = processes(&|chunk| chunk.kind == KIND_IMAGE);
    assert_eq!(images, processes(&|chunk| chunk.kind != KIND_IMAGE), "each process has its images");
}

#[test]
fn what_was_written_before_a_kill_is_exact() {
    let work = work_folder("tracer/killed");
    let program = build(&work, "program.c");
    let file = work.join("trace");
    let mut state = 99;
    let mut words = 0;
    for _ in 0..40 {
        let _ = fs::remove_file(&file);
        let mut child =
            command(&program, &["forever", "0", "3"]).env("PCCE_TRACE", &file).spawn().expect("it starts");
        std::thread::sleep(Duration::from_micros(1000 + next(&mut state) % 15_000));
        child.kill().expect("it runs");
        let _ = child.wait().expect("it ends");
        let Ok(bytes) = fs::read(&file) else { continue };
        if bytes.len() < FIRST as usize || bytes[..8] == [0; 8] {
            continue;
        }
        for stream in streams(&chunks(&bytes)).values() {
            // Or on the way to the next chunk.
            assert!([OPEN, CONTINUED].contains(&stream.last().expect("a chunk").end));
            let mut reader = Reader::new(stream);
            let Ok((mut state, functions)) = reader.begin() else { continue };
            assert_eq!(reader.play(&mut state, functions, u64::MAX), Err(End));
            words += stream.iter().map(|chunk| chunk.words.len()).sum::<usize>();
        }
    }
    assert!(words > 100_000, "{words}");
}

#[test]
fn handlers_have_streams_of_their_own() {
    check_handlers("signals", &["1000000"]);
}

/// Many handlers, which others interrupt at their beginnings and ends.
#[test]
fn handlers_are_interrupted_where_they_begin_and_end() {
    check_handlers("interrupted", &["1000000", "50"]);
}

/// Ways of the program's handlers, and the number of interrupted events.
fn check_handlers(name: &str, arguments: &[&str]) {
    let work = work_folder(&format!("tracer/{name}"));
    let program = build(&work, "program.c");
    let file = work.join("trace");
    let output = traced(&program, &file, &[&["signals"], arguments].concat()).expect_success();
    let handled: u64 = output.stdout.trim().parse().expect("a number");
    let streams = streams(&read(&file));
    assert_eq!(check_plain(&streams[&1], |_| 1_000_000), 1);
    let mut seen = Vec::new();
    let mut levels = [0; 4];
    let mut known = 0;
    for stream in streams.values().skip(1) {
        let mut reader = Reader::new(stream);
        levels[stream[0].level as usize] += 1;
        let mut before = 0;
        while reader.peek().is_ok() {
            let (_, [number, place]) = reader.special(Special::Handler).expect("a handler");
            // The signal may have come while the tracer itself changed to another level.
            if number != 0 {
                assert_eq!(streams[&number][0].level, stream[0].level - 1);
                assert!(place >= before && place < position(100, 0, 0), "in order");
                before = place;
                // The stream has this place.
                let outer = &streams[&number][(place >> 40) as usize];
                assert!((place >> 8 & 0xffff_ffff) as usize <= outer.words.len() && place & 0xff < 64);
                known += 1;
            }
            let (seed, functions) = reader.begin().expect("marks");
            let mut state = seed;
            reader.play(&mut state, functions, 20).expect("all events");
            reader.special(Special::HandlerEnd).expect("its end");
            seen.push(seed - 0x100_0000);
        }
    }
    seen.sort_unstable();
    assert!(seen.into_iter().eq(1..=handled), "{handled}");
    assert!(known > handled / 2 && levels[1] == 1 && levels[2] == 1, "{known} of {handled}, {levels:?}");
}

#[test]
fn handlers_that_are_left_by_jumps_leave_the_rest_as_it_is() {
    let work = work_folder("tracer/jumps");
    let program = build(&work, "program.c");
    // Events after a jump out of the tracer itself are not compared: the first jump may be such a one.
    let jumps = (0..10).map(|_| checked_jumps(&program, &work.join("trace"))).find(|&jumps| jumps > 0);
    assert!(jumps.is_some(), "ten runs");
}

/// The number of compared jumps out of handlers.
fn checked_jumps(program: &Path, file: &Path) -> u64 {
    let output = traced(program, file, &["jumps", "200000"]).expect_success();
    let handled: u64 = output.stdout.trim().parse().expect("a number");
    let streams = streams(&read(file));
    let [mut jumps, mut handlers] = [0, 0];
    for stream in streams.values() {
        let mut reader = Reader::new(stream);
        if stream[0].level > 0 {
            while reader.peek().is_ok() {
                let _ = reader.special(Special::Handler).expect("a handler");
                let (seed, functions) = reader.begin().expect("marks");
                let mut state = seed;
                reader.play(&mut state, functions, 20).expect("all events");
                handlers += 1;
                if (seed - 0x100_0000) % 3 == 0 {
                    let left = reader.special(Special::Gap).expect("a gap").0;
                    assert_eq!(left, Gap::Left as u64);
                } else {
                    reader.special(Special::HandlerEnd).expect("its end");
                }
            }
            continue;
        }
        // If the beginning is not known, the jump left the tracer itself: the rest is not compared.
        if stream[0].begin == BEGIN_LOST {
            continue;
        }
        let (_, functions) = reader.begin().expect("marks");
        let mut states = BTreeMap::from([(0, 1)]);
        assert_eq!(reader.mark(), Ok(0));
        let mut done = 0;
        let mut is_whole = true;
        while is_whole && done < 200_000 {
            // A part, or the beginning of a part that a jump has left.
            let mut state = states[&done];
            let mut part = 0;
            while part < 100 {
                if reader.is_special(Special::Again) || reader.peek() == Err(End) {
                    break;
                }
                reader.play(&mut state, functions, 1).expect("an event");
                part += 1;
            }
            if reader.is_special(Special::Again) {
                let (node, [function, number]) = reader.special(Special::Again).expect("it is");
                assert_eq!((node, function, number), (7, functions, 1));
                jumps += 1;
            } else {
                states.insert(done + 100, state);
                done += 100;
            }
            match reader.mark() {
                Ok(mark) => assert_eq!(mark, done),
                Err(End) => is_whole = false,
            }
        }
        if is_whole {
            reader.expect_end();
        }
    }
    assert_eq!(handlers, handled);
    jumps
}

#[test]
fn recording_stops_and_starts_and_follows_stacks() {
    let work = work_folder("tracer/stops");
    let program = build(&work, "program.c");
    let file = work.join("trace");
    let _ = traced(&program, &file, &["stops", "20000"]).expect_success();
    let streams = streams(&read(&file));
    let stream = &streams[&1];
    let second = stream.iter().position(|chunk| chunk.begin == BEGIN_MIDDLE).expect("it has started again");
    let mut reader = Reader::new(&stream[..second]);
    let (mut state, functions) = reader.begin().expect("marks");
    assert_eq!(reader.play(&mut state, functions, 20_000), Ok(()));
    assert_eq!(reader.special(Special::Gap), Ok((Gap::Stopped as u64, [0; 2])));
    reader.expect_end();
    assert_eq!(check_plain(&stream[second..], |_| 20_000), 2);

    let _ = traced(&program, &file, &["switches", "20000"]).expect_success();
    let mut reader = Reader::new(&streams_of(&file)[&1]);
    let (mut state, functions) = reader.begin().expect("marks");
    assert_eq!(reader.play(&mut state, functions, 20_000), Ok(()));
    assert_eq!(reader.special(Special::Left), Ok((3, [functions, 1])));
    assert!(reader.is_special(Special::Entered), "not found by what was there before");
    assert_eq!(reader.entered(), Ok(functions));
    assert_eq!(reader.bits(3), Ok(5));
    assert_eq!(reader.special(Special::Back), Ok((3, [functions, 1])));
    assert_eq!(reader.bits(4), Ok(9));
    assert_eq!(reader.special(Special::Left), Ok((4, [functions, 2])));
    assert_eq!(reader.special(Special::Back), Ok((5, [functions, 2])));
    assert_eq!(reader.bits(2), Ok(2));
    assert_eq!(reader.bits(9), Ok(99));
    assert_eq!(reader.special(Special::Left), Ok((3, [functions, 4])));
    assert_eq!(reader.special(Special::Back), Ok((3, [functions, 4])));
    assert_eq!((reader.bits(2), reader.bits(2)), (Ok(1), Ok(3)));
    reader.expect_end();

    let _ = traced(&program, &file, &["flushed", "20000"]);
    let stream = &streams_of(&file)[&1];
    assert_eq!(stream.last().expect("a chunk").end, OPEN);
    let mut reader = Reader::new(stream);
    let (mut state, functions) = reader.begin().expect("marks");
    assert_eq!(reader.play(&mut state, functions, 20_000), Ok(()));
    assert_eq!(reader.special(Special::Flushed), Ok((0, [0; 2])));
    reader.expect_end();
}

/// The cache of entered functions must not confuse functions of two libraries that are loaded at one address.
#[test]
fn libraries_at_one_address_are_distinguished() {
    let work = work_folder("tracer/reload");
    let folder = artifact("libpcce_trace.so").parent().expect("a folder").to_owned();
    let program = work.join("reload");
    let source = repository().join("testsuite/tracer/reload.c");
    let mut clang = command(llvm("clang"), &["-O2", "-Wl,--export-dynamic-symbol=__pcce_*", "-o"]);
    let archives = ["libpcce_trace.a", "libpcce_rt.a"].map(artifact);
    run(clang.arg(&program).arg(source).args(archives)).expect_success();
    let library = |name: &str| {
        let source = work.join(format!("{name}.c"));
        let text = format!("#include \"emitted.h\"\nENTERED(entered);\nconst char name[] = \"{name}\";\n");
        fs::write(&source, text).expect("room");
        let library = work.join(format!("{name}.so"));
        let include = include("testsuite/tracer");
        let mut clang = command(llvm("clang"), &["-shared", "-fPIC", "-Wl,--build-id", &include, "-o"]);
        clang.arg(&library).arg(source).arg(artifact("pcce_trace_module.o"));
        run(clang.arg("-L").arg(&folder).arg("-lpcce_trace")).expect_success();
        library
    };
    let libraries = ["one", "two"].map(library);
    let [one, two] = libraries.each_ref().map(|path| path.to_str().expect("letters"));
    let file = work.join("trace");
    let mut reload = command(&program, &[one, two, one]);
    let output = run(reload.env("PCCE_TRACE", &file).env("LD_LIBRARY_PATH", &folder)).expect_success();
    let places: Vec<u64> = output.stdout.lines().map(address).collect();
    assert!(places.windows(2).all(|two| two[0] == two[1]), "they come to the same place: {places:x?}");
    let chunks = read(&file);
    let images = chunks.iter().filter(|chunk| chunk.kind == KIND_IMAGE);
    let names: Vec<String> = images
        .map(|chunk| {
            String::from_utf8_lossy(&chunk.body[64..64 + half(&chunk.body, 28) as usize]).into_owned()
        })
        .collect();
    assert_eq!(names, [one, two, one]);
    let mut reader = Reader::new(&streams(&chunks)[&1]);
    for (loads, place) in (1..).zip(places) {
        // The first library was loaded when the chunk began.
        if loads > 1 {
            assert_eq!(reader.special(Special::Loaded), Ok((loads, [0; 2])));
        }
        assert!(reader.is_special(Special::Entered), "each is described anew");
        for _ in 0..100 {
            assert_eq!(reader.entered(), Ok(place));
        }
    }
}

fn address(line: &str) -> u64 {
    u64::from_str_radix(line.trim_start_matches("0x"), 16).expect("an address")
}

#[test]
fn all_registers_are_kept() {
    let work = work_folder("tracer/registers");
    let program = build(&work, "registers.c");
    let file = work.join("trace");
    let plain = run(command(&program, &[]).env_remove("PCCE_TRACE")).expect_success();
    let recorded = traced(&program, &file, &[]).expect_success();
    for output in [plain, recorded] {
        assert!(
            output.stdout.contains("00 calls, ") && output.stdout.lines().count() == 1,
            "{}",
            output.stdout
        );
    }
    assert!(fs::metadata(&file).expect("a trace").len() > 3 << 20, "several chunks");
}
