//! Context numbers: what makes them of ids, in the words that the objects have for it.

use pcce_model::ranges::takes_numbers;

use crate::Error;
use crate::bind::Bound;
use crate::image::Image;
use crate::modules::Modules;

/// Fills the words of all functions that take numbers.
///
/// # Errors
/// A module has not as many words.
pub fn fill(image: &mut Image, modules: &Modules, bound: &Bound) -> Result<(), Error> {
    for (module, &first) in modules.list.iter().zip(&bound.bases) {
        let functions = module.facts.functions.iter().enumerate();
        let takes = functions.filter(|(_, function)| takes_numbers(function)).map(|(f, _)| f);
        let bases: Vec<u8> = takes.flat_map(|f| bound.number_bases[first + f].to_le_bytes()).collect();
        if bases.is_empty() {
            continue;
        }
        let at = module.number_bases.ok_or(Error::NoNumberBases)?;
        if image.at(at).len() < bases.len() {
            return Err(Error::NoNumberBases);
        }
        image.overwrite(at, &bases);
    }
    Ok(())
}
