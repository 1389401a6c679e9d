use super::*;

fn read(line: &str) -> Command {
    Command::read(line.split(' ').map(Into::into)).unwrap()
}

fn inputs(line: &str) -> Vec<String> {
    read(line).words.iter().filter_map(|word| word.input().map(|path| path.display().to_string())).collect()
}

#[test]
fn the_output_is_found_in_every_spelling() {
    for line in ["-o x a.o", "-ox a.o", "--output x a.o", "--output=x a.o", "-o y a.o -o x", "--outp x a.o"] {
        assert_eq!(read(line).output(), Path::new("x"), "{line}");
        assert_eq!(inputs(line), ["a.o"], "{line}");
    }
    assert_eq!(read("-omagic a.o").output(), Path::new("magic"));
    assert_eq!(read("a.o").output(), Path::new("a.out"));
}

#[test]
fn what_is_no_link_of_an_image_is_told() {
    for line in [
        "-r a.o",
        "-i a.o",
        "-Ur a.o",
        "--relocatable a.o",
        "-relocatable a.o",
        "-rs a.o",
        "-dr a.o",
        "a.o --reloc",
        "--version",
        "-v",
        "a.o --help",
        "--print-sysroot a.o",
        "--run make",
        "-o x",
    ] {
        assert!(!read(line).links_an_image(), "{line}");
    }
    for line in [
        "a.o",
        "-lx",
        "-l x",
        "-v a.o",
        "-relax a.o",
        "-rpath r a.o",
        "-init i a.o",
        "-export-dynamic a.o",
        "-no-undefined a.o",
        "--retain-symbols-file r a.o",
        "-melf_x86_64 a.o",
        "-z relro a.o",
        "--threads a.o",
    ] {
        assert!(read(line).links_an_image(), "{line}");
    }
}

#[test]
fn partial_links_are_told_in_every_spelling_of_each_linkers_help() {
    for linker in ["ld.bfd", "ld.gold", "ld.lld-19", "mold"] {
        let output = std::process::Command::new(linker).arg("--help").output().expect(linker);
        let help = String::from_utf8_lossy(&output.stdout).into_owned();
        let of_elf = help.split("i386pe").next().unwrap_or_default().lines();
        let says = |line: &&str| {
            let texts = ["elocatable output", "Create relocatable object", "Alias for --relocatable"];
            texts.iter().any(|text| line.contains(text)) || line.trim_start().starts_with("-Ur")
        };
        let lines: Vec<&str> = of_elf.filter(says).filter(|line| !line.contains("common")).collect();
        assert!(!lines.is_empty(), "{linker}");
        for line in lines {
            let spellings = line.trim_start().split("  ").next().unwrap_or_default();
            for spelling in spellings.split(", ") {
                for spelling in [spelling.to_owned(), format!("-{}", spelling.trim_start_matches('-'))] {
                    assert!(read(&format!("{spelling} a.o")).joins_objects(), "{linker}: {spelling}");
                }
            }
        }
    }
}

#[test]
fn files_are_told_from_values() {
    let line = "-pie -z now -zrelro --hash-style=gnu --build-id --eh-frame-hdr -m elf_x86_64 -dynamic-linker d -o x \
                crt1.o -L. -L dir -soname s -rpath r -T t.ld -Ttext 0x1000 -Tdata=0x2000 --defsym a=b -u sym \
                --export-dynamic --version-script v main.o --start-group -lc -l gcc ( l.a ) --threads 4 --threads \
                n.o -G 8 -plugin p -plugin-opt=x -mllvm -y --wrap w -e main @nowhere -EL -EB -Bsymbolic -dp \
                --unique end.o --icf all";
    assert_eq!(inputs(line), ["crt1.o", "main.o", "(", "l.a", ")", "n.o", "@nowhere", "end.o"]);
    let command = read(line);
    let libraries = command.words.iter().filter(|word| word.meaning() == Some(Meaning::Library));
    assert_eq!(libraries.filter_map(Word::value).collect::<Vec<_>>(), ["c", "gcc"]);
    let texts = command.words.iter().flat_map(|word| &word.texts);
    assert_eq!(texts.map(|text| text.to_str().unwrap()).collect::<Vec<_>>().join(" "), line);
}

#[test]
fn the_last_word_says_whether_it_is_a_library() {
    for (line, library) in [
        ("-shared a.o", true),
        ("-pie -Bshareable a.o", true),
        ("-G a.o", true),
        ("-G 8 a.o", false),
        ("-G8 a.o", false),
        ("-shared -no-pie a.o", false),
        ("a.o", false),
    ] {
        assert_eq!(read(line).is_library(), library, "{line}");
    }
}

#[test]
fn what_cannot_be_linked_twice_is_named() {
    assert!(read("--incremental a.o").refused().is_some());
    assert!(read("-C dir a.o").refused().is_some());
    assert!(read("--oformat binary a.o").refused().is_some());
    assert!(read("--oformat=elf64-x86-64 a.o").refused().is_none());
}

/// An option has one meaning under all names.
#[test]
fn options_have_names_for_plugins() {
    let refused = |line: &str| {
        let command = read(line);
        command.refused().map(|word| word.texts[0].to_str().unwrap().to_owned())
    };
    for word in ["--lto-obj-path=x", "--plugin-opt=obj-path=x", "-plugin-opt=obj-path=x"] {
        assert_eq!(refused(&format!("--load-pass-plugin=p {word} a.o")).as_deref(), Some(word));
        assert_eq!(refused(&format!("{word} a.o")), None);
    }
    assert_eq!(refused("--load-pass-plugin=p --plugin-opt=O2 --plugin-opt=jobs=2 --plugin-opt=-x a.o"), None);
    for (word, meaning) in [
        ("--plugin-opt=emit-asm", Meaning::CompilesOnly),
        ("-plugin-opt=emit-llvm", Meaning::CompilesOnly),
        ("--plugin-opt=thinlto-index-only=y", Meaning::CompilesOnly),
        ("--plugin-opt=save-temps", Meaning::SideFile),
        ("--plugin-opt=opt-remarks-filename=y", Meaning::SideFile),
        ("--plugin-opt=O2", Meaning::Other),
        ("--plugin-opt=dwo_dir=y", Meaning::Other),
    ] {
        assert_eq!(read(word).words[0].meaning(), Some(meaning), "{word}");
        assert_eq!(read(&format!("{word} a.o")).words.len(), 2, "{word}");
    }
}

/// Values are in capitals.
fn is_sentence(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(char::is_uppercase) && letters.next().is_some_and(char::is_lowercase)
}

/// The options of a help text, each spelling with its kind of value.
fn in_help(help: &str) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    for line in help.lines() {
        // Explanations are no options, and options for other formats of objects do not count.
        if line.starts_with("i386pe") {
            break;
        }
        let Some(text) = line.trim_start().strip_prefix('-').map(|_| line.trim_start()) else { continue };
        if line.len() - text.len() > 8 {
            continue;
        }
        let spellings = text.split("  ").next().unwrap_or_default().split('\t').next().unwrap_or_default();
        let mut group = Vec::new();
        for spelling in spellings.split(", ").filter(|s| s.starts_with('-')) {
            let mut end = spelling.find([' ', '=', '[', '<']).unwrap_or(spelling.len());
            if spelling.starts_with("--plugin-opt=") {
                end = "--plugin-opt".len();
            }
            let rest = spelling[end..].trim();
            let takes = match rest {
                "" => "",
                _ if rest.starts_with("[=") => "optional",
                // A long name, and then the explanation.
                _ if rest.starts_with('(') || rest.starts_with("turn on") || is_sentence(rest) => "",
                _ => "value",
            };
            group.push((spelling[..end].to_owned(), takes));
        }
        // `-o FILE, --output FILE` names the value twice, and `--default-script FILE, -dT` once.
        let said = group.iter().map(|(_, takes)| *takes).find(|takes| !takes.is_empty()).unwrap_or("");
        found.extend(
            group.into_iter().map(|(name, takes)| (name, if takes.is_empty() { said } else { takes })),
        );
    }
    found
}

#[test]
fn the_table_agrees_with_the_help_of_each_linker() {
    // Options that the help describes in another way, or that mean something else to another linker.
    let known = |linker: &str, name: &str| {
        matches!(
            (linker, name),
            // Explained in `Takes::Number`, or an optional value of one linker only.
            (_, "--threads" | "-G")
                | ("ld.bfd", "-O")
                // One dash and an `o`.
                | ("ld.gold", "-optimize")
                | ("mold", "--unique" | "--Tdata" | "--Ttext" | "--dynamic-list" | "--sort-section" | "--run")
                | ("mold", "--export-dynamic-symbol" | "--export-dynamic-symbol-list")
        )
    };
    let mut wrong = Vec::new();
    for linker in ["ld.bfd", "ld.gold", "ld.lld-19", "mold"] {
        let output = std::process::Command::new(linker).arg("--help").output().expect(linker);
        let options = in_help(&String::from_utf8_lossy(&output.stdout));
        assert!(options.len() > 150, "{linker}: {options:?}");
        for (name, says) in options {
            let (takes, _, joined) = option(name.as_bytes());
            let is = match takes {
                _ if joined.is_some() => "joined",
                Takes::Nothing => "",
                Takes::Value => "value",
                Takes::Joined | Takes::Number => "optional",
            };
            let fits = is == says || is == "optional" && matches!(says, "value" | "");
            if !fits && !known(linker, &name) {
                wrong.push(format!("{linker}: {name} takes `{says}`, and the table says `{is}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
