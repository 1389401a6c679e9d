//! The functions, sites and names of the images whose dictionaries were given: checked, and flattened into
//! arrays over all modules.
//!
//! Indices here are dense numbers over all images and modules. Except for [`SiteKind`], only this module and
//! [`encodings`](crate::images::encodings) use the types of the files. No file is trusted: every index and
//! address is checked once, here, so that decoding only has to check the token.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use pcce_dictionary::{self as files, SiteKind};

use crate::images::invalid::{Cause, check, index};
use crate::names;
use crate::source_path::direct;
use crate::token::{BuildId, from_hex};

/// A program or shared library.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) id: BuildId,
    /// The whole build id, in hexadecimal digits.
    pub(crate) build_id: String,
    pub(crate) program: String,
    /// Site arrays, by ascending address.
    spans: Vec<Span>,
    pub(crate) first_module: u32,
    /// The image's modules: the first function of each, and the number of its functions.
    pub(crate) modules: Vec<(u32, u32)>,
}

#[derive(Debug)]
struct Span {
    start: u64,
    /// One past the last site's address.
    end: u64,
    first_site: u32,
}

#[derive(Debug)]
pub(crate) struct Module {
    /// The image, and the module's number in it.
    pub(crate) image: u32,
    pub(crate) number: u32,
    pub(crate) first_function: u32,
    pub(crate) first_site: u32,
    /// The address of its site array.
    sites_address: u64,
    /// True if its silent functions may have called other modules without a push.
    targeted: bool,
    /// True if its program writes traces, so that each of its calls is a site.
    traced: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    /// Its linkage name.
    pub(crate) name: u32,
    pub(crate) module: u32,
    pub(crate) external: bool,
    /// True if a tail call may enter it by a jump.
    pub(crate) jumped_to: bool,
    /// True if it is silent, and may have left its activation to others, and one of them to it again. No id
    /// shows this.
    pub(crate) comes_back: bool,
    /// True if it only pushes for its caller, and contexts do not show it.
    pub(crate) push_thunk: bool,
    /// True if it pushes at its own entry.
    pub(crate) enters: bool,
    /// True if its callers do nothing to the id, so that the id is the one of a caller further out.
    pub(crate) silent: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) function: u32,
    /// The kind of site, with functions and names numbered over all images.
    pub(crate) kind: SiteKind,
    /// The group of functions that it may reach and that make tail calls which leave no frame.
    pub(crate) tail_group: Option<u32>,
    first_location: u32,
    locations: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) name: u32,
    pub(crate) file: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

#[derive(Debug)]
struct Name {
    linkage: Box<str>,
    demangled: OnceLock<Box<str>>,
    /// True if an instrumented function that other modules can call has this name.
    defined: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Symbols {
    pub(crate) images: Vec<Image>,
    pub(crate) modules: Vec<Module>,
    pub(crate) functions: Vec<Function>,
    pub(crate) sites: Vec<Site>,
    locations: Vec<Location>,
    files: Vec<Box<str>>,
    names: Vec<Name>,
    /// Other names by which other modules can call a function, as ⟨name, function⟩.
    aliases: HashSet<(u32, u32)>,
    /// True if one of the modules was built in targeted mode.
    pub(crate) any_targeted: bool,
}

impl Symbols {
    /// Returns whether the caller of this function is unknown where its sub-path begins: an executable in
    /// targeted mode may have called a function of another module without a push, from functions that reach
    /// no target.
    pub(crate) fn called_unseen(&self, function: u32) -> bool {
        self.any_targeted && !self.modules[self.functions[function as usize].module as usize].targeted
    }

    pub(crate) fn add_image(&mut self, dictionary: &files::Dictionary) -> Result<(), Cause> {
        let bytes = from_hex(&dictionary.build_id)
            .filter(|id| !id.is_empty())
            .ok_or_else(|| Cause::BuildId(dictionary.build_id.clone()))?;
        let id = BuildId::from_prefix(&bytes);
        if self.images.iter().any(|image| image.id == id) {
            return Err(Cause::SameBuildId(id));
        }
        self.images.push(Image {
            id,
            build_id: dictionary.build_id.clone(),
            program: dictionary.program.clone(),
            spans: Vec::new(),
            first_module: index(self.modules.len(), "modules")?,
            modules: Vec::new(),
        });
        Ok(())
    }

    /// Adds a module to the last image. `known`: the names of the modules before.
    pub(crate) fn add_module<'d>(
        &mut self,
        module: &'d files::Module,
        known: &mut HashMap<&'d str, u32>,
    ) -> Result<(), Cause> {
        let number = index(self.modules.len(), "modules")?;
        let first_function = index(self.functions.len(), "functions")?;
        let first_site = index(self.sites.len(), "sites")?;
        // Checks the sums once, so that sums with indices in range do not overflow.
        index(self.functions.len() + module.functions.len(), "functions")?;
        index(self.sites.len() + module.sites.len(), "sites")?;
        index(self.files.len() + module.files.len(), "files")?;

        let names = self.add_names(module, known)?;
        self.add_functions(module, &names)?;
        self.add_sites(module, &names, first_function)?;
        self.any_targeted |= module.targeted;
        let image = self.images.len() - 1;
        self.modules.push(Module {
            image: image as u32,
            number: number - self.images[image].first_module,
            first_function,
            first_site,
            sites_address: module.sites_address,
            targeted: module.targeted,
            traced: module.options.iter().any(|option| option.starts_with("trace=")),
        });
        self.images[image].modules.push((first_function, module.functions.len() as u32));
        self.add_span(module, first_site)
    }

    /// Adds the module's names. Returns their numbers here.
    fn add_names<'d>(
        &mut self,
        module: &'d files::Module,
        known: &mut HashMap<&'d str, u32>,
    ) -> Result<Vec<u32>, Cause> {
        let mut names = Vec::with_capacity(module.names.len());
        for name in &module.names {
            let next = index(self.names.len(), "names")?;
            let number = *known.entry(name).or_insert(next);
            if number == next {
                let linkage = name.as_str().into();
                self.names.push(Name { linkage, demangled: OnceLock::new(), defined: false });
            }
            names.push(number);
        }
        Ok(names)
    }

    fn add_functions(&mut self, module: &files::Module, names: &[u32]) -> Result<(), Cause> {
        let number = self.modules.len() as u32;
        for (at, function) in module.functions.iter().enumerate() {
            let name = name_of("function", at, function.name, names)?;
            self.names[name as usize].defined |= function.external;
            let global = self.functions.len() as u32;
            for &alias in &function.aliases {
                let alias = name_of("an alias of function", at, alias, names)?;
                self.names[alias as usize].defined = true;
                self.aliases.insert((alias, global));
            }
            self.functions.push(Function {
                name,
                module: number,
                external: function.external,
                jumped_to: function.jumped_to,
                comes_back: function.silent && !function.tail_groups.is_empty(),
                push_thunk: function.push_thunk,
                enters: false,
                silent: function.silent,
            });
        }
        Ok(())
    }

    fn add_sites(&mut self, module: &files::Module, names: &[u32], first_function: u32) -> Result<(), Cause> {
        let first_file = self.files.len() as u32;
        self.files.extend(module.files.iter().map(|file| Box::from(direct(file))));
        for (at, site) in module.sites.iter().enumerate() {
            check("site", at, "function", site.function, module.functions.len())?;
            let function = first_function + site.function;
            let mut kind = site.kind;
            match &mut kind {
                SiteKind::Direct(Some(callee)) => {
                    check("site", at, "function", *callee, module.functions.len())?;
                    *callee += first_function;
                }
                SiteKind::External(name) | SiteKind::Replaced(name) => {
                    *name = name_of("site", at, *name, names)?
                }
                SiteKind::Entry => self.functions[function as usize].enters = true,
                SiteKind::Direct(None) | SiteKind::Indirect | SiteKind::Asm | SiteKind::Capture => {}
            }
            let first_location = index(self.locations.len(), "locations")?;
            for location in &site.locations {
                check("a location of site", at, "file", location.file, module.files.len())?;
                self.locations.push(Location {
                    name: name_of("a location of site", at, location.name, names)?,
                    file: first_file + location.file,
                    line: location.line,
                    column: location.column,
                });
            }
            let locations = index(self.locations.len(), "locations")? - first_location;
            self.sites.push(Site { function, kind, tail_group: site.tail_group, first_location, locations });
        }
        Ok(())
    }

    fn add_span(&mut self, module: &files::Module, first_site: u32) -> Result<(), Cause> {
        let sites = module.sites.len();
        if sites == 0 {
            return Ok(());
        }
        let start = module.sites_address;
        let invalid = Cause::SiteArray { address: start, sites };
        let Some(end) = start.checked_add(sites as u64) else { return Err(invalid) };
        let image = self.images.last_mut().expect("an image was added before its modules");
        let at = image.spans.partition_point(|span| span.start < start);
        let after_previous = at.checked_sub(1).is_none_or(|before| image.spans[before].end <= start);
        let before_next = image.spans.get(at).is_none_or(|next| end <= next.start);
        if !after_previous || !before_next {
            return Err(invalid);
        }
        image.spans.insert(at, Span { start, end, first_site });
        Ok(())
    }

    /// The site with an address in an image.
    #[inline]
    pub(crate) fn site_at(&self, image: u32, address: u64) -> Option<u32> {
        let spans = &self.images[image as usize].spans;
        let span = &spans[spans.partition_point(|span| span.start <= address).checked_sub(1)?];
        (address < span.end).then(|| span.first_site + (address - span.start) as u32)
    }

    /// Returns whether contexts leave out the function of a call site: it only makes a call for its caller.
    pub(crate) fn is_left_out(&self, site: u32) -> bool {
        let site = &self.sites[site as usize];
        matches!(site.kind, SiteKind::Replaced(_)) || self.functions[site.function as usize].push_thunk
    }

    /// The image and the address of a site.
    pub(crate) fn address_of_site(&self, site: u32) -> (u32, u64) {
        let module = self.module_of(self.sites[site as usize].function);
        (module.image, module.sites_address + u64::from(site - module.first_site))
    }

    /// The image of a site, and its number over all modules of the image.
    pub(crate) fn place_of_site(&self, site: u32) -> (u32, u32) {
        let image = self.module_of(self.sites[site as usize].function).image;
        (image, site - self.modules[self.images[image as usize].first_module as usize].first_site)
    }

    /// The image of a function, and its number over all modules of the image.
    pub(crate) fn place_of_function(&self, function: u32) -> (u32, u32) {
        let image = self.module_of(function).image;
        (image, function - self.modules[self.images[image as usize].first_module as usize].first_function)
    }

    /// The function with this number in this module of an image, both as in its dictionary.
    pub(crate) fn function_of(&self, image: u32, module: u32, function: u32) -> u32 {
        self.images[image as usize].modules[module as usize].0 + function
    }

    pub(crate) fn module_of(&self, function: u32) -> &Module {
        &self.modules[self.functions[function as usize].module as usize]
    }

    /// Returns whether only the site distinguishes a call from others: its location is unknown, or other calls have
    /// the same one, since programs that write traces have a site for each copy of a call.
    pub(crate) fn is_by_itself(&self, site: &Site) -> bool {
        site.locations == 0 || self.module_of(site.function).traced
    }

    #[inline]
    pub(crate) fn locations(&self, site: &Site) -> &[Location] {
        &self.locations[site.first_location as usize..][..site.locations as usize]
    }

    pub(crate) fn linkage_name(&self, name: u32) -> &str {
        &self.names[name as usize].linkage
    }

    /// The linkage name of a function.
    pub(crate) fn function_name(&self, function: u32) -> &str {
        self.linkage_name(self.functions[function as usize].name)
    }

    pub(crate) fn source_name(&self, name: u32) -> &str {
        let name = &self.names[name as usize];
        name.demangled.get_or_init(|| names::demangle(&name.linkage).into())
    }

    /// Returns whether other modules can call the function by this name.
    pub(crate) fn is_called(&self, function: u32, name: u32) -> bool {
        let Function { external, name: own, .. } = self.functions[function as usize];
        external && own == name || self.aliases.contains(&(name, function))
    }

    /// The names by which other modules can call functions, each with its function.
    pub(crate) fn called(&self) -> impl Iterator<Item = (u32, u32)> {
        let own = (0..).zip(&self.functions).filter(|(_, function)| function.external);
        own.map(|(number, function)| (function.name, number)).chain(self.aliases.iter().copied())
    }

    /// Returns whether an instrumented function that other modules can call has the name.
    pub(crate) fn is_defined(&self, name: u32) -> bool {
        self.names[name as usize].defined
    }

    pub(crate) fn file(&self, file: u32) -> &str {
        &self.files[file as usize]
    }
}

/// The number here of a name of a module.
fn name_of(what: &'static str, at: usize, index: u32, names: &[u32]) -> Result<u32, Cause> {
    let (target, len) = ("name", names.len());
    names.get(index as usize).copied().ok_or(Cause::Index { what, at, target, index, len })
}
