//! A trace as calls from functions to functions, whichever images these are in.

use anyhow::Result;
use pcce::trace::{Event, EventKind, NONE, Reader, Tables, TraceFile};

use super::program::{Action, Process};

/// How a function is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// By a call within its image.
    Inside,
    /// Within its image through a pointer, or by a name that the loader binds.
    InsideUnbound,
    /// From another image by its name.
    ByName,
    /// From another image through a pointer.
    ThroughPointer,
    /// From plain code, which traced code has called, or which began the thread.
    FromPlain,
}

impl Way {
    /// Whether both sides are traced, and in different images.
    #[must_use]
    pub fn crosses(self) -> bool {
        matches!(self, Self::ByName | Self::ThroughPointer)
    }
}

/// A call of a traced function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Who calls: a traced function, plain code by its name, or [`Calls::outside`].
    pub caller: u32,
    /// The node that calls. Of plain code, what no node's number is.
    pub site: u32,
    /// The function.
    pub callee: u32,
    /// How.
    pub way: Way,
    /// What is done there today, and pushed.
    pub action: Action,
    /// How many frames that are: a call that adds, and a callee that pushes at its entry, make one.
    pub pushes: u32,
    /// The callee takes the place of its caller's activation: a tail call.
    pub leaves: bool,
    /// Of a call from plain code, the node that called that.
    pub through: Option<u32>,
}

/// What becomes of the activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many are left.
    Cut(usize),
    /// The function is entered.
    Enter(Call),
    /// Code is called of which nothing is known: with a push, if so. It may take the place of its caller's activation.
    /// What enters a function in [`Way::InsideUnbound`] and the like from there has gone no way through plain code.
    Unknown {
        /// Whether the call pushes.
        pushes: bool,
        /// Whether it is a tail call.
        leaves: bool,
    },
}

#[derive(Clone, Copy, Debug)]
struct Open {
    depth: u32,
    /// The traced function, or plain code.
    callee: u32,
    /// The node that called plain code; [`NONE`] in traced functions.
    node: u32,
    /// Plain code has entered a function.
    entered: bool,
    /// It took its caller's place, and so does whatever it enters.
    left: bool,
}

/// Replays streams.
pub struct Calls<'p> {
    process: &'p Process,
    tables: &'p Tables,
    open: Vec<Open>,
    /// What was met and is not known: gaps.
    pub gaps: u64,
}

impl<'p> Calls<'p> {
    /// Of this process.
    #[must_use]
    pub fn new(process: &'p Process) -> Self {
        Self { process, tables: &process.programs.tables, open: Vec::new(), gaps: 0 }
    }

    /// Who calls the first functions of a thread. Callers have smaller numbers.
    #[must_use]
    pub fn outside(&self) -> u32 {
        self.tables.callee_count() as u32
    }

    /// Replays all streams, one after the other.
    ///
    /// # Errors
    /// Those of reading the trace.
    pub fn replay(&mut self, trace: &TraceFile, mut sink: impl FnMut(Step)) -> Result<()> {
        let reader = Reader::new(trace, &self.process.programs);
        for stream in &trace.streams {
            self.open.clear();
            sink(Step::Cut(0));
            let mut machine = reader.machine(stream);
            for event in machine.by_ref() {
                self.event(&event, &mut sink);
            }
            self.gaps += machine.finish()?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event, sink: &mut impl FnMut(Step)) {
        match event.kind {
            EventKind::Call | EventKind::Leave => {
                // A tail call's activation is its caller's, which is known by its node.
                let caller = self.tables.function_of(event.node);
                let action = match event.kind {
                    EventKind::Call => self.process.actions[event.node as usize],
                    _ => Action::Nothing,
                };
                let leaves = event.kind == EventKind::Leave;
                let call = Call {
                    caller,
                    site: event.node,
                    callee: event.function,
                    way: Way::Inside,
                    action,
                    pushes: u32::from(action == Action::Push),
                    leaves,
                    through: None,
                };
                self.enter(event, call, sink);
            }
            EventKind::Open | EventKind::LeaveOpen => {
                let leaves = event.kind == EventKind::LeaveOpen;
                self.cut(event.depth + u32::from(leaves), sink);
                if leaves {
                    self.open.pop();
                }
                let callee = self.tables.callee_of(event.node);
                self.open.push(Open {
                    depth: event.depth,
                    callee,
                    node: event.node,
                    entered: false,
                    left: leaves,
                });
                let pushes = self.process.actions[event.node as usize] == Action::Push;
                sink(Step::Unknown { pushes, leaves });
            }
            EventKind::Entered => {
                self.cut(event.depth + 1, sink);
                let leaves = self.open.last().is_some_and(|open| open.left && open.depth == event.depth);
                if !leaves {
                    self.cut(event.depth, sink);
                }
                let call = self.entered(event.function);
                self.enter(event, Call { leaves, ..call }, sink);
            }
            EventKind::Return | EventKind::OpenReturned | EventKind::Gap(_) => self.cut(event.depth, sink),
            EventKind::Landed | EventKind::Again => self.cut(event.depth + 1, sink),
            EventKind::Known
            | EventKind::Handler
            | EventKind::HandlerEnd
            | EventKind::HandlerLeft
            | EventKind::Interrupted
            | EventKind::Unwound
            | EventKind::End(_) => self.cut(0, sink),
            _ => {}
        }
    }

    fn enter(&mut self, event: &Event, call: Call, sink: &mut impl FnMut(Step)) {
        self.cut(event.depth + u32::from(call.leaves), sink);
        if call.leaves {
            self.open.pop();
        }
        self.open.push(Open {
            depth: event.depth,
            callee: event.function,
            node: NONE,
            entered: false,
            left: false,
        });
        sink(Step::Enter(call));
    }

    fn cut(&mut self, depth: u32, sink: &mut impl FnMut(Step)) {
        let before = self.open.len();
        while self.open.last().is_some_and(|open| open.depth >= depth) {
            self.open.pop();
        }
        if self.open.len() < before {
            sink(Step::Cut(self.open.len()));
        }
    }

    /// Who has entered the function, if nobody says so.
    fn entered(&mut self, callee: u32) -> Call {
        let outside = self.outside();
        let plain = |caller, through| Call {
            caller,
            site: !caller,
            callee,
            way: Way::FromPlain,
            action: Action::Nothing,
            pushes: 0,
            leaves: false,
            through,
        };
        let Some(open) = self.open.last_mut().filter(|open| open.node != NONE) else {
            return plain(outside, None);
        };
        // Who enters a second function is plain code itself.
        let (node, again) = (open.node, std::mem::replace(&mut open.entered, true));
        let name = self.tables.callee(node);
        if again || name.is_some_and(|name| name != self.tables.name_of(callee)) {
            return plain(open.callee, Some(node));
        }
        let caller = self.tables.function_of(node);
        let [from, to] = [caller, callee].map(|function| &self.process.functions[function as usize]);
        let way = match (from.image == to.image, name) {
            (true, _) => Way::InsideUnbound,
            (false, Some(_)) => Way::ByName,
            (false, None) => Way::ThroughPointer,
        };
        let action = self.process.actions[node as usize];
        // Who is entered by an open call of another image pushes at the entry.
        let entry = matches!(action, Action::Open(..)) && way.crosses() && !to.silent;
        let pushes = u32::from(entry || action == Action::Push);
        Call { caller, site: node, callee, way, action, pushes, leaves: false, through: None }
    }
}
