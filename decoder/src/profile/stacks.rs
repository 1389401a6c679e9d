//! From the tokens of a profile to stacks of frames.

use std::collections::HashMap;

use serde::Serialize;

use crate::context::{Context, Frame, FrameKind};
use crate::decode::Decoder;
use crate::printable::printable;
use crate::session::Failure;
use crate::show::folding::Number;
use crate::show::render::folded_frame;
use crate::show::style::Style;
use crate::token::{BuildId, Token};

use super::{Profile, Record};

/// Bound on the frames of a stack, counted from the innermost. Further ones are left out, and a frame says so.
const MAX_DEPTH: usize = 4096;

/// The number of frames of all stacks from which on stacks have at most [`REDUCED_DEPTH`].
const MAX_FRAMES: usize = 1 << 23;
/// The depth of stacks beyond [`MAX_FRAMES`].
const REDUCED_DEPTH: usize = 16;

/// The indentation of frames in a report.
pub(super) const INDENT: &str = "    ";

/// A frame, as the stacks of a profile share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct StackFrame {
    pub kind: FrameKind,
    /// Name for pictures: the function, or the boundary in angle brackets.
    #[serde(skip)]
    pub name: String,
    /// Name of the function, if it is known.
    pub function: Option<String>,
    /// The frame's line in gdb's style, with the place.
    #[serde(skip)]
    pub text: String,
    /// The pattern that hides it in a report.
    #[serde(skip)]
    pub(super) hidden: Option<Number>,
    /// Linkage name; empty for boundaries.
    #[serde(skip)]
    pub linkage_name: String,
    /// Source file, if known.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column, from 1.
    pub column: Option<u32>,
    /// True if the function was inlined into the function of the next frame outwards.
    pub inlined: bool,
}

/// A stack, with the values of all contexts that have its frames.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Indices into [`Stacks::frames`], innermost first.
    pub frames: Vec<u32>,
    /// The values of the metrics, in the order of [`Kind::metrics`](super::Kind::metrics).
    pub values: Vec<u64>,
}

/// The decoded contexts of a profile. Contexts with equal frames are one stack.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    pub frames: Vec<StackFrame>,
    pub stacks: Vec<Stack>,
    /// Modules whose dictionary was not given.
    pub missing: Vec<BuildId>,
    /// Build ids of the libraries whose files were not found: whether they are instrumented is not known.
    pub absent: Vec<BuildId>,
}

struct Maker<'d> {
    decoder: &'d Decoder,
    style: &'d Style,
    result: Stacks,
    numbers: HashMap<StackFrame, u32>,
    token: Token,
    context: Context,
    scratch: Vec<u8>,
    total: usize,
}

impl Stacks {
    /// Decodes all contexts. `style`: of names and texts.
    ///
    /// # Errors
    /// The first token that cannot be decoded, and why.
    pub fn decode(profile: &Profile, decoder: &Decoder, style: &Style) -> Result<Self, (String, Failure)> {
        let mut maker = Maker {
            decoder,
            style,
            result: Self::default(),
            numbers: HashMap::new(),
            token: Token::default(),
            context: Context::default(),
            scratch: Vec::new(),
            total: 0,
        };
        let mut index: HashMap<Vec<u32>, usize> = HashMap::new();
        for record in &profile.records {
            let frames = maker
                .frames(record)
                .map_err(|failure| (record.token.clone().unwrap_or_default(), failure))?;
            if let Some(&at) = index.get(&frames) {
                // Metrics that are not additive are added, too: the sum is an upper bound of the maximum.
                for (sum, value) in maker.result.stacks[at].values.iter_mut().zip(&record.values) {
                    *sum = sum.saturating_add(*value);
                }
            } else {
                index.insert(frames.clone(), maker.result.stacks.len());
                maker.result.stacks.push(Stack { frames, values: record.values.clone() });
            }
        }
        Ok(maker.result)
    }
}

impl Maker<'_> {
    fn frames(&mut self, record: &Record) -> Result<Vec<u32>, Failure> {
        let boundary = |kind, name: &str| StackFrame {
            kind,
            name: name.to_owned(),
            function: None,
            text: name.to_owned(),
            hidden: None,
            linkage_name: String::new(),
            file: None,
            line: None,
            column: None,
            inlined: false,
        };
        let text = match record.token.as_deref() {
            None => return Ok(vec![self.number(boundary(FrameKind::Unknown, "<unknown calls>"))]),
            Some("") => {
                let name = match &record.name {
                    Some(name) => format!("<{}>", printable(name)),
                    None => "<code, not instrumented>".to_owned(),
                };
                let frame = boundary(FrameKind::Uninstrumented, &name);
                return Ok(vec![self.number(StackFrame { function: record.name.clone(), ..frame })]);
            }
            Some(text) => text,
        };
        self.token.parse_into(text.as_bytes(), &mut self.scratch)?;
        let mut context = std::mem::take(&mut self.context);
        // The profile as a whole is of this build.
        self.decoder.decode_of_program(&self.token, &mut context)?;
        let add = |ids: &mut Vec<BuildId>, id| {
            if !ids.contains(&id) {
                ids.push(id);
            }
        };
        context.missing().for_each(|id| add(&mut self.result.missing, id));
        context.absent().for_each(|id| add(&mut self.result.absent, id));
        let mut frames = Vec::new();
        let mut rest = self.decoder.frames(&context);
        let depth = if self.total < MAX_FRAMES { MAX_DEPTH } else { REDUCED_DEPTH };
        for frame in rest.by_ref().take(depth) {
            // In a picture, a function that is not instrumented looks like others.
            let name = match (frame.kind, frame.function) {
                (FrameKind::Uninstrumented, Some(_)) => {
                    folded_frame(&Frame { kind: FrameKind::Call, ..frame }, self.style)
                }
                _ => folded_frame(&frame, self.style),
            };
            let mut text = String::new();
            self.style.frame(&frame, INDENT.len(), &mut text);
            frames.push(self.number(StackFrame {
                kind: frame.kind,
                name,
                function: frame.function.map(str::to_owned),
                text,
                hidden: self.style.hidden.by(&frame),
                linkage_name: frame.linkage_name.unwrap_or_default().to_owned(),
                file: frame.file.map(str::to_owned),
                line: frame.line,
                column: frame.column,
                inlined: frame.inlined,
            }));
        }
        if rest.next().is_some() {
            frames.push(self.number(boundary(FrameKind::Truncated, "<further calls, left out>")));
        }
        drop(rest);
        self.total += frames.len();
        self.context = context;
        Ok(frames)
    }

    fn number(&mut self, frame: StackFrame) -> u32 {
        let next = self.result.frames.len() as u32;
        let frames = &mut self.result.frames;
        *self.numbers.entry(frame).or_insert_with_key(|frame| {
            frames.push(frame.clone());
            next
        })
    }
}
