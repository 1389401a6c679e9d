//! The options of the pass: parsed once, here.
//!
//! They come from `-passes='pcce<…>'` or from the environment variable [`VARIABLE`], which the wrapper
//! compilers set: the linker parses its own options before it loads plugins, so command-line options cannot
//! reach the pass there. Both hold a list separated by `;`.

/// The environment variable.
pub const VARIABLE: &str = "PCCE_OPTIONS";

/// How far above the leaves functions are silent if nothing else is asked for. More saves less and less, and makes the
/// return addresses that tell an interrupted point in them more. What it saves: Lua's benchmark changes the id 7.35
/// million times with it, 8.58 million times without; SQLite's speed test executes 1.0404 times the plain program's
/// instructions with it and the open node, 1.0723 times with neither.
pub const LEAF_DEPTH: u32 = 4;

/// Width of ids if nothing else is asked for. The sign tells the executable's from those of other modules.
pub const ID_BITS: u32 = 63;
/// The narrowest ids that can be asked for.
const MIN_ID_BITS: u32 = 8;

/// What the pass was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `verify`: keep a shadow stack and compare at every function entry.
    pub verify: bool,
    /// `publish`: tell the runtime the sites of calls that may allocate, for heap profiles.
    pub publish: bool,
    /// `whole-program`: as if at link time, for `opt`.
    pub whole_program: bool,
    /// `executable`, or `shared` or `relocatable`: whether a link makes an executable, whose graph has an open node and
    /// whose context numbers need no process to tell them from those of other modules. Without these options the
    /// module's flags say for which one it was compiled.
    pub executable: Option<bool>,
    /// `leaf-depth=N`: functions at most this many calls above the leaves are silent ([`LEAF_DEPTH`]).
    pub leaf_depth: u32,
    /// `id-bits=N`: no function has more than 2 to this power sub-paths, and no id is larger ([`ID_BITS`]).
    pub id_bits: u32,
    /// `hybrid`: the stack pointer tells contexts apart where it can, in place of the id (pcce.txt §6), in an executable built as a whole.
    pub hybrid: bool,
    /// `basic`: the paper's Algorithms 1 and 3 alone (pcce.txt §4, §5), to compare with: no silent functions, offsets of ids, known
    /// starts of sub-paths, compared targets, or push thunks. Calls through pointers are edges to the open node, as ever.
    pub basic: bool,
    /// `no-pie`: the link makes an executable that is not position-independent, whatever its modules were compiled for. For `hybrid`.
    pub no_pie: bool,
    /// `check`: verify the module after instrumentation, in release builds of the plugin too.
    pub check: bool,
    /// `target=NAME` or `target=@FILE`: only contexts of these functions are wanted, and those of captures.
    pub targets: Vec<String>,
    /// `no-callback=FILE`: further functions that do not call back.
    pub no_callback: Vec<String>,
    /// `profile-generate=PATH`: the program counts its calls and writes them there.
    pub profile_generate: Option<String>,
    /// `profile-use=FILE`: such counts.
    pub profile_use: Option<String>,
    /// `crash-report=PATH`: the program reports its crashes there, or to `stderr`.
    pub crash_report: Option<String>,
}

/// An option that was not understood.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownOption(String);

impl std::fmt::Display for UnknownOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "unknown pass option '{}' (in -passes='pcce<…>' or {VARIABLE}); there are: verify, publish, \
             whole-program, executable, shared, relocatable, hybrid, basic, no-pie, check, leaf-depth=N, id-bits=N (8 to 63), target=NAME, no-callback=FILE, \
             profile-generate=PATH, profile-use=FILE, crash-report=PATH",
            self.0
        )
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            verify: false,
            publish: false,
            whole_program: false,
            executable: None,
            leaf_depth: LEAF_DEPTH,
            id_bits: ID_BITS,
            hybrid: false,
            basic: false,
            no_pie: false,
            check: false,
            targets: Vec::new(),
            no_callback: Vec::new(),
            profile_generate: None,
            profile_use: None,
            crash_report: None,
        }
    }
}

impl Options {
    /// Reads a list of options separated by `;` (blanks around them are ignored).
    ///
    /// # Errors
    /// [`UnknownOption`] names the first one that does not exist.
    pub fn add(&mut self, list: &str) -> Result<(), UnknownOption> {
        for option in list.split(';').map(str::trim).filter(|o| !o.is_empty()) {
            match option.split_once('=') {
                None if option == "verify" => self.verify = true,
                None if option == "publish" => self.publish = true,
                None if option == "whole-program" => self.whole_program = true,
                None if option == "executable" => self.executable = Some(true),
                None if option == "shared" || option == "relocatable" => self.executable = Some(false),
                None if option == "hybrid" => self.hybrid = true,
                None if option == "basic" => (self.basic, self.leaf_depth) = (true, 0),
                None if option == "no-pie" => self.no_pie = true,
                None if option == "check" => self.check = true,
                Some(("leaf-depth", depth)) => match depth.parse() {
                    Ok(depth) => self.leaf_depth = depth,
                    Err(_) => return Err(UnknownOption(option.to_owned())),
                },
                Some(("id-bits", bits)) => match bits.parse() {
                    Ok(bits) if (MIN_ID_BITS..=ID_BITS).contains(&bits) => self.id_bits = bits,
                    _ => return Err(UnknownOption(option.to_owned())),
                },
                Some(("target", name)) if !name.is_empty() => self.targets.push(name.to_owned()),
                Some(("no-callback", file)) if !file.is_empty() => self.no_callback.push(file.to_owned()),
                Some(("profile-generate", path)) if !path.is_empty() => {
                    self.profile_generate = Some(path.to_owned());
                }
                Some(("profile-use", file)) if !file.is_empty() => self.profile_use = Some(file.to_owned()),
                Some(("crash-report", path)) if !path.is_empty() => self.crash_report = Some(path.to_owned()),
                _ => return Err(UnknownOption(option.to_owned())),
            }
        }
        Ok(())
    }

    /// The options as they go into the dictionary.
    pub fn describe(&self) -> Vec<String> {
        let flags = [
            (self.verify, "verify"),
            (self.publish, "publish"),
            (self.whole_program, "whole-program"),
            (self.executable == Some(true), "executable"),
            (self.executable == Some(false), "partial"),
            (self.hybrid, "hybrid"),
            (self.basic, "basic"),
            (self.no_pie, "no-pie"),
            (self.check, "check"),
        ];
        let mut out: Vec<String> = flags.iter().filter(|f| f.0).map(|f| f.1.to_owned()).collect();
        if self.leaf_depth != LEAF_DEPTH {
            out.push(format!("leaf-depth={}", self.leaf_depth));
        }
        if self.id_bits != ID_BITS {
            out.push(format!("id-bits={}", self.id_bits));
        }
        out.extend(self.targets.iter().map(|name| format!("target={name}")));
        out.extend(self.profile_generate.iter().map(|path| format!("profile-generate={path}")));
        out.extend(self.profile_use.iter().map(|file| format!("profile-use={file}")));
        out.extend(self.crash_report.iter().map(|path| format!("crash-report={path}")));
        out.extend(self.no_callback.iter().map(|f| format!("no-callback={f}")));
        out
    }
}
