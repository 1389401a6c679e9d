//! From version 1 to version 2. What version 1 says is kept exactly, or refused with the reason.

use crate::{
    Dictionary, EdgeCode, EncodedFunction, Encoding, Fragment, Function, Hybrid, Location, Module, STATIC,
    Site, SiteKind, v1, v2,
};

/// Upgrades a dictionary.
///
/// # Errors
/// What the dictionary says that version 2 cannot say.
pub(crate) fn dictionary(old: v1::Dictionary) -> Result<Dictionary, String> {
    let mut modules = Vec::with_capacity(old.modules.len());
    let mut encodings = Vec::with_capacity(old.modules.len());
    for (number, module) in (0..).zip(old.modules) {
        let fragment = fragment(module)?;
        modules.push(fragment.module);
        encodings.extend(fragment.encodings.into_iter().map(|e| Encoding { first_module: number, ..e }));
    }
    let v1::Dictionary { build_id, program, code, .. } = old;
    Ok(Dictionary { version: v2::VERSION, build_id, program, modules, encodings, code })
}

/// Upgrades a module, of which each had one encoding of its own.
///
/// # Errors
/// What the module says that version 2 cannot say.
pub(crate) fn fragment(old: v1::Module) -> Result<Fragment, String> {
    let name = old.name.clone();
    upgrade(old).map_err(|what| format!("module {name}: {what}"))
}

fn upgrade(old: v1::Module) -> Result<Fragment, String> {
    // The options were text, and this was the one that readers understood.
    let targeted =
        old.open_num_cc.is_some() && old.options.iter().any(|option| option.starts_with("target="));
    let hybrid = hybrid(&old)?;
    let mut sites = old.sites.into_iter().map(site).collect::<Result<Vec<Site>, _>>()?;
    for (number, edge) in old.edges.iter().enumerate() {
        let Some(callee) = edge.callee else { continue };
        match sites.get_mut(edge.site as usize).map(|site| &mut site.kind) {
            Some(SiteKind::Direct(known @ None)) => *known = Some(callee),
            Some(SiteKind::Direct(Some(_))) => {
                return Err(format!(
                    "edge {number} is at site {}, which has another edge already",
                    edge.site
                ));
            }
            _ => return Err(format!("edge {number} is at site {}, which is no direct call", edge.site)),
        }
    }
    // A direct call without a callee is not encoded.
    let bare = |edge: &v1::Edge| {
        let site = sites.get(edge.site as usize);
        site.is_some_and(|site| site.kind == SiteKind::Direct(None))
    };
    if let Some(number) = old.edges.iter().position(bare) {
        return Err(format!("edge {number} is of a direct call, and names no callee"));
    }
    let encoding = Encoding {
        epoch: STATIC,
        first_module: 0,
        module_count: 1,
        open_num_cc: old.open_num_cc,
        functions: old.functions.iter().map(encoded).collect(),
        edges: old.edges.iter().map(edge).collect(),
        hybrid,
    };
    let module = Module {
        name: old.name,
        producer: old.producer,
        options: old.options,
        sites_address: old.sites_address,
        targeted,
        files: old.files,
        names: old.names,
        functions: old.functions.into_iter().map(function).collect::<Result<_, _>>()?,
        sites,
        leaving_groups: old.leaving_groups,
        // Nobody counted them.
        skipped: Vec::new(),
    };
    Ok(Fragment { module, encodings: vec![encoding] })
}

fn function(old: v1::Function) -> Result<Function, String> {
    if old.tail_called {
        return Err(
            "a function has the member tail_called, of builds that did not tell tail calls apart by the call"
                .into(),
        );
    }
    Ok(Function {
        name: old.name,
        aliases: old.aliases,
        external: old.external,
        silent: old.silent,
        push_thunk: old.push_thunk,
        jumped_to: old.jumped_to,
        tail_groups: old.tail_groups,
    })
}

fn encoded(old: &v1::Function) -> EncodedFunction {
    let v1::Function { num_cc, offset, entry, open, range, .. } = *old;
    EncodedFunction { num_cc, id_offset: offset, entry, open, range }
}

fn site(old: v1::Site) -> Result<Site, String> {
    let kind = match old.kind {
        v1::SiteKind::Direct => SiteKind::Direct(None),
        v1::SiteKind::External(name) => SiteKind::External(name),
        v1::SiteKind::Indirect => SiteKind::Indirect,
        v1::SiteKind::Asm => SiteKind::Asm,
        v1::SiteKind::Capture => SiteKind::Capture,
        v1::SiteKind::Entry => SiteKind::Entry,
        v1::SiteKind::Signal => {
            return Err("a site is of the kind signal, of builds that pushed for handlers of signals".into());
        }
    };
    let locations = old.locations.into_iter().map(location).collect();
    Ok(Site { function: old.function, kind, tail_group: old.tail_group, locations })
}

fn location(old: v1::Location) -> Location {
    let v1::Location { name, file, line, column } = old;
    Location { name, file, line, column }
}

fn edge(old: &v1::Edge) -> v2::Edge {
    let code = match old.code {
        v1::EdgeCode::Add(value) => EdgeCode::Add(value),
        v1::EdgeCode::Open(value) => EdgeCode::Open(value),
        v1::EdgeCode::Back => EdgeCode::Back,
        v1::EdgeCode::Cut => EdgeCode::Cut,
        v1::EdgeCode::Required => EdgeCode::Required,
    };
    // The callee of a direct call is that of its site.
    v2::Edge { site: old.site, callee: None, code }
}

fn hybrid(old: &v1::Module) -> Result<Option<Hybrid>, String> {
    let functions = || (0..).zip(&old.functions);
    let known = |(number, bytes): (u32, Option<u32>)| bytes.map(|bytes| (number, bytes));
    let hybrid = Hybrid {
        rounds: old.hybrid_rounds.unwrap_or(0),
        stack_sizes: functions().map(|(i, f)| (i, f.frame_offset)).filter_map(known).collect(),
        unknown_bases: functions().filter(|(_, f)| f.unknown_base).map(|(i, _)| i).collect(),
        stack_offsets: (0..).zip(&old.edges).map(|(i, e)| (i, e.frame)).filter_map(known).collect(),
    };
    match old.hybrid_rounds {
        Some(_) => Ok(Some(hybrid)),
        None if hybrid == Hybrid::default() => Ok(None),
        None => Err("it has stack offsets, and no hybrid encoding".into()),
    }
}
