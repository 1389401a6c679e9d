//! Events of a trace.

use std::fmt;

/// An event of a stream, or a boundary of the known part of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: EventKind,
    /// The number of activations, and of calls of unknown code, around it. A return has the depth of its
    /// call.
    pub depth: u32,
    /// The traced function that is entered or left; [`super::NONE`] where there is none.
    pub function: u32,
    /// The node that it is; [`super::NONE`] where there is none.
    pub node: u32,
    /// A value whose meaning depends on the kind.
    pub value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// A traced function is called by name.
    Call,
    /// A function was called that is not traced and calls nothing back.
    Closed,
    /// A function is called of which nothing is known.
    Open,
    /// A function of which nothing is known has returned.
    OpenReturned,
    /// A call that may return two times, for the first time.
    ReturnsTwice,
    /// A function is entered from unknown code.
    Entered,
    Return,
    /// A function leaves its activation to another traced one.
    Leave,
    /// A function leaves its activation to unknown code.
    LeaveOpen,
    /// A block of a function's code begins.
    Block,
    /// A function is left by an exception that goes on.
    Resume,
    /// An exception has come to a landing pad (`node`) of `function`: all deeper activations were left.
    Landed,
    /// The call `node` of `function` has returned again: all deeper activations were left.
    Again,
    /// A signal handler begins; `value` is the signal.
    Handler,
    HandlerEnd,
    /// A signal handler was left by a jump to the code that it had interrupted.
    HandlerLeft,
    /// A signal handler that had interrupted the stream was left by a jump, or the thread was ended: the events
    /// that had to come next may have happened.
    Interrupted,
    /// The stream goes on in a process that was forked by a signal handler, which had interrupted it: the next
    /// events may have happened before the fork, and the events before may have happened after it.
    Forked,
    /// The thread was ended while functions were active: none is active any more. Where other events may have
    /// happened before, [`Interrupted`](Self::Interrupted) replaces this event.
    Unwound,
    /// A mark of the program's: `value`.
    Mark,
    /// The active functions are known from here on, and come next as [`Active`](Self::Active). `value` is 1
    /// where the events before were not kept, and 2 where the thread has come back to a stack that it had
    /// left.
    Known,
    /// A function that is active here, and was called before the known part of the stream.
    Active,
    /// The thread continues on another stack: the functions that were active did not call the next ones.
    Switched,
    /// Something is missing here, for this reason. From here on the calls further out are not known, unless
    /// `depth` says otherwise.
    Gap(GapCause),
    /// The stream ends. The active functions are still active.
    End(End),
}

/// The message for [`EventKind::Known`] where a ring begins.
pub(super) const NOT_KEPT: &str = "what came before was not kept";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The thread or the process has ended.
    Ended,
    /// The process has ended, or crashed, in the thread's calls: further calls that had to come next, and one that was
    /// being written, are not recorded.
    Stopped,
    /// The stream was still being written: later events are not recorded.
    Open,
}

/// Causes of gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GapCause {
    /// A chunk of the stream is not in the file.
    Missing,
    /// A chunk's checksum does not match.
    BadChunk,
    BadWord,
    Middle,
    /// The thread's stream was given up in the middle of a change, and this one goes on.
    Lost,
    Stopped,
    /// The thread has switched to another stack.
    Switched,
    /// `longjmp` went to a place where the activations are unknown.
    Jumped,
    Full,
    /// An exception has come to a landing pad of a function that is left out.
    Caught,
    /// A special word is where the tables allow none: the events before it are not certain.
    Unexpected,
    /// The bits are not the code of any event that can come here.
    NoCode,
    /// By the tables, control does not get here.
    NotReached,
    /// The function that was entered is not in the cache.
    NotCached,
    /// A function of an image without tables was entered, at the address `value`.
    NoTables,
    /// A special word names a place of code that is not active.
    NotActive,
    /// More activations than the reader keeps.
    TooDeep,
    /// Too many events that have no bits: the tables have a loop without bits.
    Endless,
    /// The thread has come back to a stack, and it is not known where it left that stack.
    Back,
    /// The function that was known has returned, and its caller is not known.
    Outside,
    /// The stream that was forked cannot be followed to the place of the fork.
    Parent,
}

impl fmt::Display for GapCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "chunks are missing",
            Self::BadChunk => "a chunk is damaged",
            Self::BadWord => "a word is damaged",
            Self::Middle => "recording began",
            Self::Lost => "the thread's stream before this one was lost while it changed",
            Self::Stopped => "recording was stopped: calls that had to come next may have been made",
            Self::Switched => "the thread switched to another stack",
            Self::Jumped => "`longjmp` went to an unknown place",
            Self::Full => "the file was full",
            Self::Caught => "an exception came to a function that is left out",
            Self::Unexpected => "what came before is not certain",
            Self::NoCode => "the bits are no code of what can come",
            Self::NotReached => "control does not get here",
            Self::NotCached => "an unknown function was entered",
            Self::NoTables => "code without tables was entered",
            Self::NotActive => "a place came back that was not active",
            Self::TooDeep => "too many calls are active",
            Self::Endless => "a loop left no word",
            Self::Back => "the thread came back to a stack of which nothing is known",
            Self::Outside => "its caller is not known",
            Self::Parent => "the stream that was forked is not known there",
        })
    }
}

impl EventKind {
    /// Returns whether verify mode counts it.
    #[must_use]
    pub fn is_counted(self) -> bool {
        matches!(
            self,
            Self::Call
                | Self::Closed
                | Self::Open
                | Self::ReturnsTwice
                | Self::Return
                | Self::Leave
                | Self::LeaveOpen
                | Self::Block
                | Self::Resume
        )
    }

    /// A description for users.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Closed | Self::Open => "call of code that is not traced",
            Self::OpenReturned => "return of code that is not traced",
            Self::ReturnsTwice => "call that may return twice",
            Self::Entered => "entry from code that is not traced",
            Self::Return => "return",
            Self::Leave => "tail call",
            Self::LeaveOpen => "tail call of code that is not traced",
            Self::Block => "block",
            Self::Resume => "exception passed on",
            Self::Landed => "exception caught",
            Self::Again => "second return",
            Self::Handler => "signal",
            Self::HandlerEnd => "return of a signal handler",
            Self::HandlerLeft => "jump out of a signal handler",
            Self::Interrupted => "interruption for good",
            Self::Forked => "fork in a signal handler",
            Self::Unwound => "end of the thread while calls are active",
            Self::Mark => "mark",
            Self::Known => "what is active is known again",
            Self::Switched => "another stack",
            Self::Active => "active call",
            Self::Gap(_) => "gap",
            Self::End(_) => "end",
        }
    }

    /// The name of the kind in the JSON forms.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Closed => "closed-call",
            Self::Open => "open-call",
            Self::OpenReturned => "open-return",
            Self::ReturnsTwice => "returns-twice",
            Self::Entered => "entered",
            Self::Return => "return",
            Self::Leave => "tail-call",
            Self::LeaveOpen => "open-tail-call",
            Self::Block => "block",
            Self::Resume => "exception",
            Self::Landed => "landed",
            Self::Again => "returned-again",
            Self::Handler => "signal",
            Self::HandlerEnd => "signal-return",
            Self::HandlerLeft => "signal-left",
            Self::Interrupted => "interrupted",
            Self::Forked => "forked",
            Self::Unwound => "thread-exit",
            Self::Mark => "mark",
            Self::Known => "known",
            Self::Switched => "switched",
            Self::Active => "active",
            Self::Gap(_) => "gap",
            Self::End(_) => "end",
        }
    }
}
