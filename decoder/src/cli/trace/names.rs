//! The functions of a name in a trace: what it has of them, and what it cannot have.

use anyhow::bail;
use pcce::names::{Wanted, hint};
use pcce::standing::listed;
use pcce::trace::{Met, Named, Programs};

use super::super::{Status, note};

/// What a user has asked for by its name.
pub struct Asked {
    wanted: Wanted,
    pub named: Named,
}

impl Asked {
    /// # Errors
    /// The trace can have no event of such functions. The error says why.
    pub fn new(programs: &Programs, name: &str) -> anyhow::Result<Self> {
        let wanted = Wanted::new(name);
        let named = programs.tables.named(&wanted);
        if named.has_events() {
            return Ok(Self { wanted, named });
        }
        let standing = programs.standing(&wanted);
        if standing.is_instrumented {
            bail!(
                "{name} is left out of the trace (--pcce-trace-skip, --pcce-trace-only, or with the warning of the build), \
                 and no traced function calls it by its name: the trace has no event of it"
            );
        }
        if let Some(why) = standing.why(name) {
            bail!("{why}: the trace has no event of it");
        }
        let similar = wanted.similar(programs.tables.known_names());
        let inlined = match standing.has_debug_information {
            true => "the optimiser has left no code of",
            false => "were inlined, without debug information (-g)",
        };
        bail!(
            "{name}: no function of this name is traced or called{}. Functions that {inlined} have no name any more",
            hint(&similar)
        )
    }

    /// Says what the trace, or one thread of it, does not have of the functions. `shown`: events inside of
    /// them are shown already.
    pub fn tell(
        &self,
        programs: &Programs,
        thread: Option<u32>,
        met: &Met,
        gaps: u64,
        shown: bool,
    ) -> Status {
        let of = thread.map_or("the trace".to_owned(), |thread| format!("thread {thread} in the trace"));
        let (name, named) = (self.wanted.text(), &self.named);
        let mut standing = programs.standing(&self.wanted);
        standing.inlined_into.extend(named.inlined_into.iter().cloned());
        let Met { calls, inside, pointers, .. } = *met;
        if !standing.inlined_into.is_empty() {
            let inside = match (inside, shown) {
                (0, _) => String::new(),
                (_, true) => ", and shown are the events in it".to_owned(),
                (events, false) => {
                    format!(", but for {events} in it, which `pcce trace show --function {name}` shows")
                }
            };
            note(&format!(
                "{name} was inlined into {}: of calls there {of} has no event{inside}",
                standing.callers()
            ));
            return Status::Failed;
        }
        if calls > 0 {
            return Status::Done;
        }
        let as_far = if gaps > 0 { ", as far as it tells" } else { "" };
        if !named.is_traced && pointers > 0 {
            note(&format!(
                "{of} has no call of {name} by its name{as_far}; it is not traced, and may be what {pointers} calls \
                 through pointers have called"
            ));
            return Status::Failed;
        }
        let unknown = programs.tables.without_lines();
        if !unknown.is_empty() {
            note(&format!(
                "{of} has no call of {name}{as_far}; nor would it have one where {name} was inlined, which is not \
                 known of {}: without debug information (-g)",
                listed(unknown)
            ));
            return Status::Failed;
        }
        note(&format!("{of} has no call of {name}{as_far}"));
        Status::Done
    }
}
