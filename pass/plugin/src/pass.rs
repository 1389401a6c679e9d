//! One run over a module, from the options to the instrumented code.

mod read;
mod trace;

use pcce_encoding::{CallGraph, Encoding};
use pcce_model::hybrid::{self, Frames};
use pcce_model::slice;
use pcce_model::{Mode, NoCallback, Profile, Program, Targets, Wanted, missing_target, plan, thunks};
use pcce_options::PassOptions;

use crate::contexts::{count, emit, frame_offsets, rewrite};
use crate::error::Error;
use crate::facts::Entered;
use crate::facts::eligible::Eligibility;
use crate::handles::{Code, SecondBodies};
use crate::llvm::{self, CodeGeneration, Module, Run};
use crate::prepare::Elsewhere;
use crate::{capture, generate, prepare, tracing};

pub use read::Read;

/// Named metadata of instrumented modules.
const MARKER: &str = "pcce.instrumented";

/// The point in the compilation at which the pass runs. The values are those of the shim.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Last in the pipeline of a module.
    Module = 0,
    /// Last in the pipeline of a whole program, at link time.
    LinkTime = 1,
    /// Named in a pipeline (`opt -passes=pcce`).
    Explicit = 2,
    /// As `print<pcce-frames>` in a pipeline: prints the frame offsets of the module, which stays as it is.
    Print = 3,
    /// After the pipeline of a module, before code generation.
    End = 4,
    /// Before code generation from the bitcode that [`crate::capture`] has kept.
    Slice = 5,
}

/// The inputs that all runs over a module and its copies share.
pub struct Job<'a> {
    /// The module's identifier.
    pub identifier: String,
    /// The options of the user.
    pub options: &'a PassOptions,
    /// Names that options give.
    pub wanted: Wanted,
    no_callback: NoCallback,
    /// How code outside the module's calls enters its functions.
    pub entered: Entered,
    targets: Option<Targets>,
    profile: Option<Profile>,
    /// The module is the whole program after link-time resolution.
    whole_program: bool,
    /// The graph has an open node: the module belongs to an executable, or the link step encodes it.
    open: bool,
    /// The link step encodes the module, together with the other modules of its image.
    linked: bool,
    /// The link step encodes the module, and the image may be a shared library.
    for_library: bool,
    /// How the module's code will be generated.
    code: CodeGeneration,
    encoding: pcce_encoding::Options,
}

/// Returns whether the compiler only generates code from kept bitcode. Wrong options are reported when the
/// pass runs.
pub fn generates() -> bool {
    let list = std::env::var_os(pcce_options::VARIABLE).unwrap_or_default();
    PassOptions::read([&*list.to_string_lossy()])
        .is_ok_and(|options| options.slice.is_some() && !options.capture)
}

/// Runs the pass on a module. Returns whether it was changed.
///
/// # Errors
/// The module cannot be instrumented. It may have been changed.
pub fn run(run: &mut Run, phase: Phase, opt_level: u32, parameters: &str) -> Result<bool, Error> {
    if phase == Phase::Print {
        let code = CodeGeneration { level: opt_level, no_pie: false };
        return frame_offsets::print(run, code).map(|()| false);
    }
    let of_environment = std::env::var_os(pcce_options::VARIABLE).unwrap_or_default();
    let options = PassOptions::read([parameters, &of_environment.to_string_lossy()])?;
    options.check_used()?;
    let module = run.module();
    let identifier = module.identifier();
    let wanted = || Wanted::read(&options.common);
    match phase {
        Phase::Module | Phase::LinkTime if options.capture => return Ok(false),
        Phase::End if !options.capture => return Ok(false),
        Phase::End if options.slice.is_none() => {
            let job = Job::new(module, identifier, phase, opt_level, &options, wanted()?)?;
            return capture::capture(&job, run).map(|()| true);
        }
        Phase::End | Phase::Slice => {
            let Some(folder) = &options.slice else { return Ok(false) };
            // A linker that compiles made the same module in the first link.
            let name = match phase {
                Phase::End => format!("{:016x}", capture::kept(module).id),
                _ => identifier.clone(),
            };
            let order = generate::Order::read(folder, &name)?;
            let job = Job::new(module, identifier, phase, opt_level, &options, order.wanted.clone())?;
            return generate::generate(&job, run, &order).map(|()| true);
        }
        _ => {}
    }
    if module.has_named_metadata(MARKER) {
        return Err(Error::Instrumented { module: identifier });
    }
    if phase == Phase::Module && module.has_flag("ThinLTO") {
        return Err(Error::BeforeLink { module: identifier });
    }
    let inserted = prepare::insert_late_calls(run);
    let job = Job::new(run.module(), identifier, phase, opt_level, &options, wanted()?)?;
    let mut warnings = job.missing_targets(run.module());
    let missing = options.without_effect(job.whole_program, job.open);
    warnings.extend(missing.into_iter().map(|what| format!("{}: {what}", job.identifier)));
    // Programs that count calls need not be fast, and their frames differ.
    let frames = if options.common.hybrid && job.open && options.common.profile_generate.is_none() {
        job.find_frames(run, &mut warnings)?
    } else {
        Frames::default()
    };
    let changed = job.instrument(run, &frames, &mut warnings)?.is_some();
    for warning in warnings {
        eprintln!("warning: pcce: {warning}");
    }
    Ok(inserted || changed)
}

impl<'a> Job<'a> {
    fn new(
        module: Module<'_>,
        identifier: String,
        phase: Phase,
        opt_level: u32,
        options: &'a PassOptions,
        wanted: Wanted,
    ) -> Result<Self, Error> {
        let whole_program = phase == Phase::LinkTime || options.whole_program;
        // The wrapper passes on the kind of the output. Without it, -fPIC marks code for shared libraries.
        // Such code gets no open node, since nothing would tell the library's numbers and open calls from the
        // executable's.
        let for_library = module.has_flag("PIC Level") && !module.has_flag("PIE Level");
        let open = whole_program && options.makes_executable().unwrap_or(!for_library);
        let linked = matches!(phase, Phase::End | Phase::Slice);
        // Other modules of the program are unknown here, unless the link step encodes all of them.
        let entered = Entered::new(module, open || linked && !for_library);
        let open = open || linked;
        let common = &options.common;
        let trusts_streams = open && !linked && !entered.makes_streams();
        let mut no_callback = NoCallback::new(trusts_streams, &wanted, options.publish);
        // Another image of a traced program may define a function of the C++ library (`operator new`), and be
        // traced, too.
        if !entered.sets_handlers() && common.trace.is_none() {
            no_callback = no_callback.trusting_cxx();
        }
        let mut job = Self {
            identifier,
            no_callback,
            entered,
            targets: Targets::new(&wanted, options.publish),
            wanted,
            profile: common.profile_use.as_deref().filter(|_| !linked).map(Profile::load).transpose()?,
            whole_program,
            open,
            linked,
            for_library: linked && for_library,
            code: CodeGeneration {
                // The level that lld uses.
                level: if phase == Phase::LinkTime { opt_level.max(2) } else { opt_level },
                no_pie: options.no_pie,
            },
            // The sign of an id tells the executable's ids from those of other modules. In a sub-path that is
            // told apart by its start alone, a function of another module could find either sign.
            encoding: pcce_encoding::Options {
                id_bits: common.id_bits,
                known_starts: open && !options.basic,
            },
            options,
        };
        if job.no_callback.trusts_strings() && job.looks_within_strings(module) {
            job.no_callback = job.no_callback.without_strings();
        }
        Ok(job)
    }

    /// Returns warnings about targets that the program lacks.
    fn missing_targets(&self, module: Module<'_>) -> Vec<String> {
        // Libraries often share the program's command line, so they do not report missing targets.
        let Some(targets) = self.targets.as_ref().filter(|_| self.open) else { return Vec::new() };
        let functions = module.functions().into_iter();
        let functions = functions.flat_map(|f| [Some(f.name()), f.source_name()].into_iter().flatten());
        let names = functions.chain(module.aliases().into_iter().map(|alias| alias.name()));
        // This is no error: the function may have been inlined wherever it was called.
        targets.missing(names).into_iter().map(missing_target).collect()
    }

    /// Finds the frame offsets of the code. If code cannot be generated here, there is a warning, and no
    /// frame offset is known.
    fn find_frames(&self, run: &Run, warnings: &mut Vec<String>) -> Result<Frames, Error> {
        let found = frame_offsets::find(run, self.code, |copy, frames| {
            // Warnings about a copy are repeated for the module itself.
            self.instrument(copy, frames, &mut Vec::new())
        });
        match found {
            Err(Error::NoCode { said }) => {
                warnings.push(format!(
                    "{}: the option hybrid has no effect, since the code cannot be generated ahead of time to see its \
                     frames: {said}",
                    self.identifier
                ));
                Ok(Frames::default())
            }
            found => found,
        }
    }

    /// Prepares the module. `elsewhere` returns, for the number of a function, the facts of the rest of the
    /// program about it.
    pub fn prepare<'e>(&self, run: &mut Run, elsewhere: impl Fn(usize) -> Elsewhere<'e>) {
        prepare::control_flow(run, &self.no_callback, &self.entered, self.in_executable(), elsewhere);
    }

    /// Instruments the module, or a copy. `frames` is the knowledge about its code. Returns the frames that
    /// the encoding relies on; none if there is no function to instrument, and nothing was changed.
    fn instrument(
        &self,
        run: &mut Run,
        frames: &Frames,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Frames>, Error> {
        self.prepare(run, |_| Elsewhere { escapes: true, kept_tails: &[] });
        let relied_on = self.instrument_prepared(run.module(), frames, warnings)?;
        if cfg!(debug_assertions) || self.options.check {
            run.verify()?;
        }
        Ok(relied_on)
    }

    /// Instruments a module that is prepared.
    fn instrument_prepared(
        &self,
        module: Module<'_>,
        frames: &Frames,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Frames>, Error> {
        let Some(Read { mut program, mut code, mut encoding, .. }) = self.read(module, warnings)? else {
            return Ok(None);
        };
        let names = (&*self.identifier, fnv1a(self.identifier.as_bytes(), b"trace"));
        let left_out = vec![false; program.functions.len()];
        let trace = |_| {
            self.trace(module, &program, &code, names, (left_out, tracing::Elsewhere::default()), warnings)
        };
        let mut traced = self.options.common.trace.map(trace).transpose()?;
        let thunks = match self.changes_calls() {
            true => thunks::outline(&mut program, &mut encoding, &code),
            false => Vec::new(),
        };
        let used = hybrid::apply(&program, &mut encoding, frames, &program);
        let basis = plan::Basis {
            program: &program,
            encoding: &encoding,
            used: used.as_ref(),
            source: &code,
            options: self.options,
        };
        let mut plan = plan::plan(&basis, self.identifier.clone(), producer());
        plan.symbols.skipped = Eligibility::new(module, self.in_executable()).counts(module);
        let mut bodies = traced.as_mut().and_then(tracing::Before::bodies);
        rewrite::make_thunks(&mut code, bodies.as_deref_mut(), &thunks);
        let sites = self.rewrite(module, &program, &plan, (&code, bodies.as_deref()));
        if let Some(traced) = traced {
            tracing::finish(module, traced, &plan.functions, &sites);
        }
        Ok(Some(used.map(|used| used.relied_on(&program)).unwrap_or_default()))
    }

    /// Returns whether the code certainly belongs to an executable that is encoded as a whole.
    pub fn in_executable(&self) -> bool {
        self.open && !self.for_library
    }

    /// The properties of the program that shape its call graph.
    fn mode(&self) -> Mode<'_> {
        Mode {
            open: self.open,
            publishes: self.no_callback.publishes(),
            silent: self.options.silent(),
            targets: self.targets.as_ref(),
            closed: self.open && !self.linked && !self.no_callback.publishes(),
        }
    }

    /// The options that must be the same in all modules of an image.
    pub fn link_options(&self) -> slice::Options {
        slice::Options {
            id_bits: self.encoding.id_bits,
            silent: self.options.silent(),
            publishes: self.no_callback.publishes(),
            verify: self.options.common.verify,
            number_lines: self.options.common.number_lines,
            // Programs that count their calls keep them as they are.
            hybrid: self.options.common.hybrid && self.options.common.profile_generate.is_none(),
        }
    }

    fn encode(&self, graph: &CallGraph) -> Encoding {
        let mut encoding = pcce_encoding::encode(graph, &self.encoding);
        if self.options.basic {
            encoding.drop_offsets();
        }
        encoding
    }

    /// Returns whether calls may be changed. Programs that count their calls keep them, so that the profile
    /// matches later.
    fn changes_calls(&self) -> bool {
        !self.options.basic && self.options.common.profile_generate.is_none()
    }

    /// Changes the code, and adds the dictionary. Returns the name of the site array.
    fn rewrite<'m>(
        &self,
        module: Module<'m>,
        program: &Program,
        plan: &plan::Plan,
        (code, bodies): (&Code<'m>, Option<&SecondBodies<'m>>),
    ) -> String {
        let options = self.options;
        let fragment =
            pcce_dictionary::fragment::to_bytes(&plan.symbols, std::slice::from_ref(&plan.encoding));
        let sites_name = format!("__pcce_sites.{:016x}", fnv1a(self.identifier.as_bytes(), &fragment));
        if let Some(file) = &options.common.profile_generate {
            count::count(module, program, code, file);
        }
        rewrite::rewrite(module, program, plan, (code, bodies), &sites_name, options);
        emit::emit(module, &fragment, &sites_name);
        emit::emit_addresses(module, (code, bodies), &sites_name, |_| true);
        self.emit_paths(module);
        module.add_named_metadata(MARKER);
        sites_name
    }

    /// Puts the paths that options give into the program.
    pub fn emit_paths(&self, module: Module<'_>) {
        let common = &self.options.common;
        for (symbol, path) in
            [(emit::CRASH_REPORT, &common.crash_report), (emit::VERIFY_REPORT, &common.verify_report)]
        {
            if let Some(path) = path {
                emit::emit_path(module, symbol, path);
            }
        }
    }
}

/// The producer in the dictionary, for people.
pub fn producer() -> String {
    format!("pcce {}, LLVM {}", env!("CARGO_PKG_VERSION"), llvm::version())
}

/// A hash that makes names of site arrays unique among modules that are merged later. FNV-1a, since names
/// must be the same in every build.
pub fn fnv1a(a: &[u8], b: &[u8]) -> u64 {
    a.iter().chain(b).fold(0xcbf2_9ce4_8422_2325, |h, &x| (h ^ u64::from(x)).wrapping_mul(0x0100_0000_01b3))
}
