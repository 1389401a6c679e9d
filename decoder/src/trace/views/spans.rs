//! Calls as spans: each begins and ends, and they nest.

use crate::trace::event::{Event, EventKind};
use crate::trace::tables::{NONE, Tables};

/// The callee of a call, as a dense number: a traced function, a name, or an unknown function that is called
/// through a pointer.
pub type Callee = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub callee: Callee,
    /// The number of calls that it is inside of.
    pub depth: u32,
    /// The node that calls it; [`NONE`] if unknown code calls it.
    pub node: u32,
    /// When it began, on the clock of the user of [`Spans`].
    pub start: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Begin(Span),
    /// The span that began last is a call of its callee. Before, it was taken for a call of a function of the
    /// same name, which is the second value.
    Found(Span, Callee),
    End(Span),
}

/// The spans that are open.
#[derive(Debug, Default)]
pub struct Spans {
    open: Vec<Span>,
    /// True if the innermost span is a call of unknown code that has just begun. If the function of its name is
    /// entered next, that function was called.
    is_unknown: bool,
}

impl Spans {
    /// Takes an event, at a time `now` that never decreases.
    #[inline]
    pub fn event(&mut self, tables: &Tables, event: &Event, now: u64, mut sink: impl FnMut(Change)) {
        let span = |callee| Span { callee, depth: event.depth, node: event.node, start: now };
        if std::mem::take(&mut self.is_unknown)
            && matches!(event.kind, EventKind::Entered | EventKind::Active)
            && let Some(call) = self.open.last_mut()
            && event.depth == call.depth + 1
            && tables.calls(call.node, event.function)
        {
            let before = std::mem::replace(&mut call.callee, event.function);
            sink(Change::Found(*call, before));
            return;
        }
        match event.kind {
            EventKind::Call | EventKind::Entered | EventKind::Leave => {
                self.close(event.depth, &mut sink);
                self.open(span(event.function), sink);
            }
            EventKind::Active if event.function != NONE => {
                self.close(event.depth, &mut sink);
                self.open(span(event.function), sink);
            }
            EventKind::Active if tables.was_left(event.node, NONE) => self.close(event.depth, &mut sink),
            EventKind::Active | EventKind::Open => {
                self.close(event.depth, &mut sink);
                self.open(span(tables.callee_of(event.node)), sink);
                self.is_unknown = true;
            }
            EventKind::Closed | EventKind::ReturnsTwice | EventKind::LeaveOpen => {
                self.close(event.depth, &mut sink);
                let span = span(tables.callee_of(event.node));
                sink(Change::Begin(span));
                sink(Change::End(span));
            }
            EventKind::Return | EventKind::OpenReturned | EventKind::Gap(_) => {
                self.close(event.depth, &mut sink);
            }
            EventKind::Landed | EventKind::Again => {
                self.close(event.depth + 1, &mut sink);
                // The function was not known to be active.
                if self.open.last().is_none_or(|span| span.depth < event.depth) {
                    self.open(span(event.function), sink);
                }
            }
            EventKind::Known
            | EventKind::Switched
            | EventKind::Handler
            | EventKind::HandlerEnd
            | EventKind::HandlerLeft
            | EventKind::Interrupted
            | EventKind::Unwound
            | EventKind::End(_) => self.close(0, &mut sink),
            EventKind::Resume | EventKind::Mark | EventKind::Block | EventKind::Forked => {}
        }
    }

    fn open(&mut self, span: Span, mut sink: impl FnMut(Change)) {
        self.open.push(span);
        sink(Change::Begin(span));
    }

    /// Closes the spans from a depth on.
    fn close(&mut self, depth: u32, sink: &mut impl FnMut(Change)) {
        while let Some(span) = self.open.last()
            && span.depth >= depth
        {
            sink(Change::End(*span));
            self.open.pop();
        }
    }
}

impl Tables {
    pub fn callee_of(&self, node: u32) -> Callee {
        let named =
            |name: Option<u32>| self.function_count() + name.map_or(self.name_count(), |name| name as usize);
        match self.called_function(node) {
            Some(function) => function,
            None if node == NONE => named(None) as u32,
            None => named(self.callee(node)) as u32,
        }
    }

    /// The number of different [`Callee`]s.
    pub fn callee_count(&self) -> usize {
        self.function_count() + self.name_count() + 1
    }

    /// The name of a callee.
    pub fn callee_name(&self, callee: Callee) -> &str {
        let callee = callee as usize;
        match callee.checked_sub(self.function_count()) {
            None => self.source_name(self.name_of(callee as u32)),
            Some(name) if name < self.name_count() => self.source_name(name as u32),
            Some(_) => POINTER,
        }
    }
}

/// The name that is shown for a function that is called through a pointer, and not traced.
pub const POINTER: &str = "call through a pointer";
