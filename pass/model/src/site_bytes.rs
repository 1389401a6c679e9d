//! The bytes of a module's site array: what the runtime must know of each site.

use pcce_abi::SiteByte;
use pcce_dictionary as dictionary;
use pcce_encoding::FunctionId;

use crate::hybrid::Used;
use crate::plan::PlannedFunction;

/// The bytes, by the numbers of the sites. None if all are 0, without a hybrid encoding. `stack_offsets`: those of the
/// edges, with one.
pub fn of(
    used: Option<&Used>,
    functions: &[PlannedFunction],
    sites: &[dictionary::Site],
    edges: &[dictionary::Edge],
    stack_offsets: &[(u32, u32)],
) -> Option<Vec<u8>> {
    let mut bytes = vec![0; sites.len()];
    for call in functions.iter().flat_map(|function| &function.calls).filter(|call| call.runs_task) {
        bytes[call.site as usize] |= SiteByte::RUNS_TASK;
    }
    let Some(used) = used else { return bytes.iter().any(|&byte| byte != 0).then_some(bytes) };
    for (byte, site) in bytes.iter_mut().zip(sites) {
        if used.hybrid.needs_stack_offset(FunctionId::new(site.function)) {
            *byte |= SiteByte::NEEDS_OFFSET;
        }
    }
    for (edge, _) in stack_offsets {
        let edge = &edges[*edge as usize];
        let pushes = !matches!(edge.code, dictionary::EdgeCode::Add(_) | dictionary::EdgeCode::Open(_));
        if pushes && matches!(sites[edge.site as usize].kind, dictionary::SiteKind::Direct(_)) {
            bytes[edge.site as usize] |= SiteByte::KNOWN_BASE;
        }
    }
    Some(bytes)
}
