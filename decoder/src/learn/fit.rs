//! How well an encoding fits what was learnt: what the executed edges do.

use std::collections::HashMap;

use pcce_dictionary::{EdgeCode, SiteKind};
use serde::{Deserialize, Serialize};

use super::{Edge, Learnt, Sites};

/// Shares of the weight of an image's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The weight of the calls that are in the image, of all that were learnt of it.
    pub found: f64,
    /// Of these, the calls that push.
    pub push: f64,
    /// Of these, the calls that add something other than 0.
    pub add: f64,
}

/// What a call does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Nothing,
    Add,
    Push,
}

/// A call by the names that hold in each version of an image: module, function, declared callee, the number among the
/// calls with these, and the function that was called.
type Call<'a> = (&'a str, &'a str, Option<&'a str>, usize, &'a str);

/// What the calls of an image do.
struct Calls<'d> {
    /// By module, function, and declared callee: the sites.
    sites: HashMap<(&'d str, &'d str, Option<&'d str>), Vec<u32>>,
    /// By site: what the call does.
    does: Vec<Does>,
    /// By a site through a pointer, and a function that it is compared with: the site of the direct call.
    compared: HashMap<(u32, &'d str), u32>,
}

/// The names of the edge's site in an image.
fn names<'d>(
    image: &Sites<'d>,
    numbers: &[usize],
    site: u32,
) -> Option<(&'d str, &'d str, Option<&'d str>, usize)> {
    let site = image.sites[site as usize].1.unwrap_or(site) as usize;
    let (module, function) = image.functions[image.sites[site].0 as usize];
    Some((&module.name, function, image.callees[site]?, numbers[site]))
}

/// For each site, its number among the calls of its function with the same declared callee.
fn numbers(image: &Sites<'_>) -> Vec<usize> {
    let mut next: HashMap<(u32, Option<&str>), usize> = HashMap::new();
    let sites = image.sites.iter().zip(&image.callees);
    let number = sites.map(|(&(function, compared), callee)| match (callee, compared) {
        (Some(callee), None) => {
            let next = next.entry((function, *callee)).or_default();
            *next += 1;
            *next - 1
        }
        _ => 0,
    });
    number.collect()
}

impl<'d> Calls<'d> {
    fn new(image: &Sites<'d>) -> Self {
        let mut does = vec![Does::Nothing; image.sites.len()];
        // Calls without an edge push if they may lead to contexts.
        let all = image.dictionary.modules.iter().flat_map(|module| &module.sites);
        for (does, site) in does.iter_mut().zip(all) {
            if matches!(site.kind, SiteKind::External(_) | SiteKind::Indirect) {
                *does = Does::Push;
            }
        }
        let (mut first_site, mut first_function) = (0, 0);
        for encoding in &image.dictionary.encodings {
            let modules =
                &image.dictionary.modules[encoding.first_module as usize..][..encoding.module_count as usize];
            for edge in &encoding.edges {
                let site = (first_site + edge.site) as usize;
                let offset = |function: u32| encoding.functions[function as usize].id_offset as u64;
                let caller = image.sites[site].0 - first_function;
                let kind = image.kinds[site];
                let callee = edge.callee.or(match kind {
                    SiteKind::Direct(Some(callee)) => Some(callee - first_function),
                    _ => None,
                });
                let difference = callee.map_or(0, |callee| offset(callee).wrapping_sub(offset(caller)));
                does[site] = match edge.code {
                    EdgeCode::Add(value) if value.wrapping_add(difference) == 0 => Does::Nothing,
                    EdgeCode::Add(_) | EdgeCode::Open(_) => Does::Add,
                    EdgeCode::Back | EdgeCode::Cut | EdgeCode::Required => Does::Push,
                };
            }
            first_function += modules.iter().map(|module| module.functions.len() as u32).sum::<u32>();
            first_site += modules.iter().map(|module| module.sites.len() as u32).sum::<u32>();
        }
        let mut sites: HashMap<_, Vec<u32>> = HashMap::new();
        let mut compared = HashMap::new();
        let all = (0..).zip(image.sites.iter().zip(&image.callees));
        for (site, (&(function, of), callee)) in all {
            let (module, name) = image.functions[function as usize];
            match (callee, of) {
                (Some(Some(callee)), Some(of)) => drop(compared.insert((of, *callee), site)),
                (Some(callee), _) => {
                    sites.entry((module.name.as_str(), name, *callee)).or_default().push(site)
                }
                (None, _) => {}
            }
            // The caller of a thunk does nothing itself.
            if let SiteKind::Direct(Some(callee)) = image.kinds[site as usize]
                && image.thunks[callee as usize]
            {
                does[site as usize] = Does::Push;
            }
        }
        Self { sites, does, compared }
    }

    fn does(&self, (module, function, declared, number, callee): Call<'_>) -> Option<Does> {
        let site = *self.sites.get(&(module, function, declared))?.get(number)?;
        let direct = self.compared.get(&(site, callee)).filter(|_| declared.is_none());
        Some(self.does[*direct.unwrap_or(&site) as usize])
    }
}

impl Learnt {
    /// How a version of an image fits what was learnt of all its versions.
    pub fn fit(
        &self,
        images: &[Sites<'_>],
        is_of_image: impl Fn(&Sites<'_>) -> bool,
        version: &Sites<'_>,
    ) -> Fit {
        let calls = Calls::new(version);
        let (mut all, mut fit) = (0.0, Fit::default());
        for (number, image) in (0..).zip(images).filter(|(_, image)| is_of_image(image)) {
            let numbers = numbers(image);
            for (&Edge { site, callee, .. }, &weight) in
                self.edges.iter().filter(|(edge, _)| edge.image == number)
            {
                all += weight;
                let callee = images[callee.0 as usize].functions[callee.1 as usize].1;
                let of_site = names(image, &numbers, site);
                let Some(does) = of_site.and_then(|(m, f, d, n)| calls.does((m, f, d, n, callee))) else {
                    continue;
                };
                fit.found += weight;
                match does {
                    Does::Nothing => {}
                    Does::Add => fit.add += weight,
                    Does::Push => fit.push += weight,
                }
            }
        }
        let share = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
        Fit { found: share(fit.found, all), push: share(fit.push, fit.found), add: share(fit.add, fit.found) }
    }
}
