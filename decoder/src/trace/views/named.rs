//! The functions of a trace's programs that have a given name.

use std::collections::{BTreeSet, HashSet};

use crate::names::Wanted;
use crate::trace::event::{Event, EventKind};
use crate::trace::tables::{NONE, Op, Tables};

/// The functions of a name, as the tables know them.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// By callee, whether it has the name and its calls are events.
    callees: Vec<bool>,
    /// By name, whether it is wanted and was inlined.
    inlined: Vec<bool>,
    /// True if a traced function has the name.
    pub is_traced: bool,
    /// The functions with events in which functions of the name were inlined.
    pub inlined_into: BTreeSet<String>,
}

/// Counts of a trace's events that concern the functions of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    pub calls: u64,
    /// Events in inlined copies of them.
    pub inside: u64,
    /// Calls through pointers that led to no traced function.
    pub pointers: u64,
    pub gaps: u64,
    /// The gaps among these for parts that a ring has not kept.
    pub cut_off: u64,
}

impl Tables {
    pub fn named(&self, wanted: &Wanted) -> Named {
        let count = self.name_count() as u32;
        let fits: Vec<bool> =
            (0..count).map(|name| wanted.fits(self.linkage_name(name), self.source_name(name))).collect();
        let mut called = vec![false; fits.len()];
        let mut named = Named { inlined: vec![false; fits.len()], ..Named::default() };
        for node in 0..self.node_count() as u32 {
            if let (Some(name), None) = (self.callee(node), self.called_function(node)) {
                called[name as usize] = fits[name as usize];
            }
            for name in self.inlined_at(node).filter(|name| fits[*name as usize]) {
                named.inlined[name as usize] = true;
                let into = self.name_of(self.function_of(node));
                named.inlined_into.insert(self.source_name(into).to_owned());
            }
        }
        let functions = self.functions.iter().map(|f| f.is_traced && fits[f.name as usize]);
        named.callees = functions.collect();
        named.is_traced = named.callees.contains(&true);
        // The last callee is an unknown function.
        named.callees.extend(called.into_iter().chain([false]));
        named
    }

    /// The traced functions whose calls have no lines, so that functions inlined into them are unknown.
    pub fn without_lines(&self) -> BTreeSet<&str> {
        let mut functions: Vec<(bool, bool)> = vec![(false, false); self.function_count()];
        for node in 0..self.node_count() as u32 {
            let row = &mut functions[self.function_of(node) as usize];
            row.0 |= self.has_place(node);
            row.1 |= !matches!(self.nodes[node as usize].op, Op::Return | Op::Resume | Op::Landing);
        }
        let lacking = (0..).zip(functions).filter(|(_, (lines, calls))| *calls && !lines);
        let names = lacking.map(|(function, _)| self.source_name(self.name_of(function)));
        // Compilers make this function, without lines.
        names.filter(|name| *name != "__clang_call_terminate").collect()
    }

    /// The linkage names of functions that are left out of the trace in every module.
    pub fn left_out_names(&self) -> HashSet<&str> {
        let names = |traced: bool| {
            let functions = self.functions.iter().filter(move |f| f.is_traced == traced);
            functions.map(|f| self.linkage_name(f.name))
        };
        let traced: HashSet<&str> = names(true).collect();
        names(false).filter(|name| !traced.contains(name)).collect()
    }

    /// The names of all functions that have events, are called, or were inlined.
    pub fn known_names(&self) -> impl Iterator<Item = &str> {
        let functions = self.functions.iter().filter(|f| f.is_traced).map(|f| f.name);
        let nodes = (0..self.node_count() as u32)
            .flat_map(|node| self.callee(node).into_iter().chain(self.inlined_at(node)));
        let names: BTreeSet<u32> = functions.chain(nodes).collect();
        names.into_iter().map(|name| self.source_name(name))
    }
}

impl Named {
    /// Returns whether the trace may have events of them.
    pub fn has_events(&self) -> bool {
        self.callees.contains(&true) || self.inlined.contains(&true)
    }

    /// Returns whether the event calls one of them, or begins in one.
    pub(in crate::trace) fn is_called(&self, tables: &Tables, event: &Event) -> bool {
        let callee = match event.kind {
            EventKind::Call | EventKind::Entered | EventKind::Leave => event.function,
            EventKind::Open | EventKind::Closed | EventKind::ReturnsTwice | EventKind::LeaveOpen => {
                tables.callee_of(event.node)
            }
            _ => return false,
        };
        self.callees[callee as usize]
    }

    /// Returns whether the event calls one of them, or says that one is active where a chunk begins.
    pub(in crate::trace) fn is_entered(&self, tables: &Tables, event: &Event) -> bool {
        match event.kind {
            EventKind::Active if event.function != NONE => self.callees[event.function as usize],
            EventKind::Active if tables.was_left(event.node, NONE) => false,
            EventKind::Active => self.callees[tables.callee_of(event.node) as usize],
            _ => self.is_called(tables, event),
        }
    }

    /// Returns whether the event is in an inlined copy of one.
    pub(in crate::trace) fn is_inside(&self, tables: &Tables, event: &Event) -> bool {
        let is_place = matches!(
            event.kind,
            EventKind::Call
                | EventKind::Closed
                | EventKind::Open
                | EventKind::ReturnsTwice
                | EventKind::Leave
                | EventKind::LeaveOpen
                | EventKind::Active
                | EventKind::Block
        );
        is_place
            && event.node != NONE
            && tables.inlined_at(event.node).any(|name| self.inlined[name as usize])
    }
}

impl Met {
    /// Counts an event. `pending` says whether the event before was a call through a pointer: this event shows
    /// whether that call led to a traced function.
    pub(in crate::trace) fn event(
        &mut self,
        tables: &Tables,
        named: &Named,
        event: &Event,
        pending: &mut bool,
    ) {
        self.calls += u64::from(named.is_called(tables, event));
        self.inside += u64::from(named.is_inside(tables, event));
        let was_open = std::mem::replace(pending, false);
        self.pointers += u64::from(was_open && event.kind != EventKind::Entered);
        let calls = matches!(event.kind, EventKind::Open | EventKind::ReturnsTwice | EventKind::LeaveOpen);
        *pending = calls && tables.callee(event.node).is_none();
    }
}
