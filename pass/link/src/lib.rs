//! The step of link mode: encodes the modules of a linked executable or shared library together, and binds what they
//! left open.
//!
//! Its objects carry what the pass knows of them ([`pcce_model::link`]), and no-ops that name themselves where the id
//! may have to change. The step runs behind any linker, on the executable as it is:
//!
//! 1. [`image`], [`modules`], [`no_ops`]: what is in the file: modules, where their functions and no-ops are, and whom
//!    each stub calls;
//! 2. [`references`]: which functions anything reaches that is not encoded;
//! 3. [`bind`]: one program of all modules, its encoding, and what is done at each call;
//! 4. [`patch`], [`code`]: the machine code;
//! 5. [`verify`]: verify mode's tables;
//! 6. [`result`]: the dictionary of the whole, and another build id.
//!
//! Nothing is believed that the file does not show.

#![forbid(unsafe_code)]

mod bind;
mod code;
mod error;
mod file;
mod image;
mod modules;
mod no_ops;
mod numbers;
mod patch;
mod references;
pub mod relink;
mod result;
mod verify;

pub use error::Error;
pub use file::{Cause, FileError, link_file};

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Modules that were encoded.
    pub modules: usize,
    /// Their functions that are in the program.
    pub functions: usize,
    /// Calls that have an addition value, or push because of the numbering.
    pub edges: usize,
    /// Calls whose stub pushes.
    pub pushing_stubs: usize,
    /// Calls that are made directly instead of through their stub.
    pub direct: usize,
    /// Updates that change the id.
    pub updates: usize,
}

/// Encodes the executable or shared library in `file`. Returns it as it is to be. `asked_for`: names of options of the
/// pass with which each module must have been compiled.
///
/// # Errors
/// Why it cannot be encoded. Never panics, whatever the bytes.
pub fn link(file: Vec<u8>, asked_for: &[String]) -> Result<(Vec<u8>, Summary), Error> {
    let mut image = image::Image::new(file)?;
    let modules = modules::read(&image)?;
    modules.have(asked_for)?;
    let references = references::find(&image, &modules)?;
    let bound = bind::bind(&image, &modules, &references)?;
    let mut summary = patch::apply(&mut image, &modules, &bound)?;
    summary.modules = modules.list.len();
    summary.functions = modules.owners.len();
    summary.edges = bound.encoding_rows.edges.len();
    verify::fill(&mut image, &modules, &bound)?;
    numbers::fill(&mut image, &modules, &bound)?;
    result::write(&mut image, &modules, bound)?;
    Ok((image.bytes, summary))
}
