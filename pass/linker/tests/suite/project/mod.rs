//! Small programs without libc, whose modules have no code until they are linked. Each module is compiled
//! twice: its object returns 77 where the generated code returns a number of its own.

#![allow(dead_code, reason = "each test uses some of it")]

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// All linkers.
pub const LINKERS: [&str; 4] = ["ld.bfd", "ld.gold", "ld.lld-19", "mold"];

const HEADER: &str = r#"
#define STRING(x) #x
#define RECORD(section, magic, id) __asm__(".pushsection " section ",\"\",@progbits\n.ascii \"" magic "\"\n.quad " \
    STRING(id) "\n.popsection");
#ifdef GENERATED
#define VALUE(x) (x)
#define MODULE(id) RECORD(".pcce.code", "PCCECOD1", id)
#else
#define VALUE(x) ({ __asm__ volatile(".hidden __pcce_encoded_by_pcce_ld\n" \
    "movq __pcce_encoded_by_pcce_ld@GOTPCREL(%%rip), %%rax" ::: "rax"); 77; })
#define MODULE(id) RECORD(".pcce.module", "PCCEMOD1", id)
#endif
#ifdef ID
MODULE(ID)
#endif
"#;

const START: &str = ".globl _start\n_start: call main\nmovl %eax, %edi\nmovl $60, %eax\nsyscall\n\
                     .section .note.GNU-stack,\"\",@progbits\n";

/// A folder with a program, and the linker that links it.
pub struct Project {
    folder: tempfile::TempDir,
    /// The real linker.
    pub linker: &'static str,
    /// The ids, with the objects that are generated for them.
    objects: RefCell<Vec<(u64, PathBuf)>>,
    /// Objects that are linked besides.
    pub extra: RefCell<Vec<PathBuf>>,
}

/// Runs a test with each linker.
pub fn each(test: impl Fn(Project)) {
    for linker in LINKERS {
        eprintln!("with {linker}:");
        test(Project::new(linker));
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

impl Project {
    pub fn new(linker: &'static str) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let project = Project { folder, linker, objects: RefCell::default(), extra: RefCell::default() };
        fs::write(project.path("header.h"), HEADER).unwrap();
        fs::write(project.path("start.s"), START).unwrap();
        fs::create_dir(project.path("generated")).unwrap();
        // Links make their scratch folders here, and nothing may be left.
        fs::create_dir(project.path("tmp")).unwrap();
        run(project.command("clang-19").args(["-c", "start.s", "-o", "start.o"]));
        let generator = "#!/bin/sh\ncat > request\ncat request >> requests\necho >> requests\n\
                         image=$(sed 's/.*\"output\":\"\\([^\"]*\\)\".*/\\1/' request)\n\
                         nm $image > symbols\nreadelf -SW $image > sections\ncat answer\n";
        fs::write(project.path("generate"), generator).unwrap();
        fs::set_permissions(project.path("generate"), fs::Permissions::from_mode(0o755)).unwrap();
        project
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("TMPDIR", self.path("tmp"));
        command
    }

    fn compile(&self, source: &str, to: &str, flags: &[&str]) {
        let folder = self.path(to);
        fs::create_dir_all(folder.parent().unwrap()).unwrap();
        fs::write(self.path("source.c"), source).unwrap();
        let usual =
            ["-O1", "-fPIC", "-ffunction-sections", "-include", "header.h", "-c", "source.c", "-o", to];
        let language = if source.starts_with("extern \"C\"") { "-xc++" } else { "-xc" };
        // Nothing is inlined, so that calls are linked.
        run(self.command("clang-19").args([language, "-fno-inline"]).args(usual).args(flags));
    }

    /// An object with code.
    pub fn plain(&self, name: &str, source: &str) {
        self.compile(source, name, &["-DGENERATED"]);
    }

    /// A module: an object without code, and, for the generator, one with code.
    pub fn module(&self, name: &str, source: &str) -> u64 {
        self.module_of_two(name, source, source)
    }

    /// A module whose code is not what its object says.
    pub fn module_of_two(&self, name: &str, source: &str, generated: &str) -> u64 {
        // Ids have all their bits.
        let id = 0xf0e1_d2c3_0000_0001 + self.objects.borrow().len() as u64;
        let define = format!("-DID={id:#x}");
        let object = format!("generated/{}.o", self.objects.borrow().len());
        self.compile(source, name, &[&define]);
        self.compile(generated, &object, &[&define, "-DGENERATED"]);
        self.objects.borrow_mut().push((id, self.path(&object)));
        id
    }

    pub fn archive(&self, flags: &str, name: &str, members: &[&str]) {
        run(self.command("ar").arg(flags).arg(name).args(members));
    }

    /// Links, as the driver of a compiler would.
    pub fn try_link(&self, arguments: &[&str]) -> Output {
        let objects = self.objects.borrow();
        let objects: Vec<_> =
            objects.iter().map(|(id, file)| format!("{{\"id\": {id}, \"file\": {file:?}}}")).collect();
        let answer =
            format!("{{\"objects\": [{}], \"extra\": {:?}}}", objects.join(", "), self.extra.borrow());
        fs::write(self.path("answer"), answer).unwrap();
        let _ = fs::remove_file(self.path("requests"));
        let output = self.linking().args(arguments).output().unwrap();
        let left: Vec<_> =
            fs::read_dir(self.path("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
        output
    }

    pub fn linking(&self) -> Command {
        let linker = format!("/usr/bin/{}", self.linker);
        let mut command = self.command(env!("CARGO_BIN_EXE_pcce-ld-command"));
        command.env("PCCE_LINKER", linker).env("PCCE_GENERATE", self.path("generate"));
        command
    }

    pub fn link(&self, arguments: &[&str]) -> String {
        let output = self.try_link(arguments);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{}: {arguments:?}: {said}", self.linker);
        assert!(!said.contains("pcce-ld"), "{}: {said}", self.linker);
        text(&output.stdout)
    }

    /// The messages of a link that fails.
    pub fn fails(&self, arguments: &[&str]) -> String {
        let output = self.try_link(arguments);
        assert!(!output.status.success(), "{}: {arguments:?}", self.linker);
        assert!(!self.path("program").exists(), "{}: {arguments:?}: there is an output", self.linker);
        let said = text(&output.stderr);
        assert!(!said.contains("/tmp/pcce-ld"), "{}: a scratch file is named: {said}", self.linker);
        said
    }

    /// The exit status of `program`.
    pub fn status(&self) -> i32 {
        self.command(self.path("program")).env("LD_LIBRARY_PATH", ".").status().unwrap().code().unwrap()
    }

    /// How often code was generated, and the sorted names, as in messages, of the modules of the last time.
    pub fn generated(&self) -> (usize, Vec<String>) {
        let requests = fs::read_to_string(self.path("requests")).unwrap_or_default();
        let last: serde_json::Value =
            requests.lines().last().map_or_else(Default::default, |line| serde_json::from_str(line).unwrap());
        let modules = last["modules"].as_array().cloned().unwrap_or_default();
        let mut names: Vec<String> =
            modules.iter().map(|module| module["shown"].as_str().unwrap().to_owned()).collect();
        names.sort();
        (requests.lines().count(), names)
    }

    /// A list of the last request.
    pub fn told(&self, list: &str) -> Vec<String> {
        let requests = fs::read_to_string(self.path("requests")).unwrap();
        let last: serde_json::Value = serde_json::from_str(requests.lines().last().unwrap()).unwrap();
        let shown = |item: &serde_json::Value| item.as_str().or(item["shown"].as_str()).unwrap().to_owned();
        last[list].as_array().unwrap().iter().map(shown).collect()
    }
}

/// The contents of the members of an archive, with their names.
pub fn members(archive: &Path) -> Vec<(String, Vec<u8>)> {
    let data = fs::read(archive).unwrap();
    let archive = object::read::archive::ArchiveFile::parse(&*data).unwrap();
    let member = |m: object::Result<object::read::archive::ArchiveMember<'_>>| {
        let member = m.unwrap();
        (text(member.name()), member.data(&*data).unwrap().to_vec())
    };
    archive.members().map(member).collect()
}
