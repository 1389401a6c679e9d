//! Contexts as text (gdb's style), JSON, or folded stacks (for flame graphs).
//!
//! Streams of tokens repeat their sites, not always their contexts. So the bytes of each site are made once,
//! when it is first met, and a context is then written by copying them.

use std::borrow::Cow;
use std::io::{self, Write};

use super::folding::{Folding, Number};
use super::style::{Style, boundary};
use crate::context::frames::piece_frames;
use crate::context::{Context, Frame, FrameKind, Piece};
use crate::decode::Decoder;
use crate::images::Images;
use crate::printable::{json, printable};

/// The formats of contexts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One frame a line, `#0 function at file:line:column`; an empty line between contexts.
    #[default]
    Text,
    /// One object a line for each token: `{"token": …, "frames": […]}`.
    Json,
    /// One line for each token: `outermost;…;innermost 1`.
    Folded,
    /// As text, indented, with nothing between contexts: for use below a line of a log.
    Below,
    /// `outermost;…;innermost`: replaces a token.
    InPlace,
}

/// The text before each frame of [`Format::Below`].
const INDENT: &[u8] = b"    ";

/// Writes contexts, and keeps the bytes of each site.
#[derive(Debug)]
pub struct Renderer<'d> {
    images: &'d Images,
    format: Format,
    style: Style,
    /// The bytes of the sites met so far.
    bytes: Vec<u8>,
    /// The ends of the chunks in `bytes`. A chunk is a line of text, or, in the other formats, all frames of a
    /// site with a separator before each.
    ends: Vec<usize>,
    /// For each chunk, the pattern that hides it.
    hidden: Vec<Option<Number>>,
    /// For each site: number of its first chunk and one past its last; (0, 0) if it was not met yet.
    sites: Vec<(u32, u32)>,
    /// `#0 ` and so on.
    numbers: Vec<[u8; 4]>,
    scratch: String,
    pub(crate) any: bool,
}

impl<'d> Renderer<'d> {
    /// A renderer of contexts that `decoder` made.
    pub fn new(decoder: &'d Decoder, format: Format) -> Self {
        let numbers = (0..100_u8)
            .map(|n| {
                if n < 10 { [b'#', b'0' + n, b' ', b' '] } else { [b'#', b'0' + n / 10, b'0' + n % 10, b' '] }
            })
            .collect();
        Self {
            images: &decoder.images,
            format,
            style: Style::default(),
            bytes: Vec::new(),
            ends: vec![0],
            hidden: Vec::new(),
            sites: vec![(0, 0); decoder.images.symbols.sites.len()],
            numbers,
            scratch: String::new(),
            any: false,
        }
    }

    /// Sets the style of frames, for formats that have one. To be called before the first context.
    #[must_use]
    pub fn styled(self, style: Style) -> Self {
        Self { style, ..self }
    }

    pub(crate) fn style(&self) -> &Style {
        &self.style
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// Writes the context of a token. `token` is its text, of characters that need no escape in JSON.
    pub fn context(&mut self, token: &[u8], context: &Context, out: &mut impl Write) -> io::Result<()> {
        self.separator(out)?;
        self.body(token, context, out)
    }

    /// Writes the separator between two contexts, and nothing before the first one.
    pub(crate) fn separator(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.format == Format::Text && std::mem::replace(&mut self.any, true) {
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Makes the next context be written like the first one.
    pub(crate) fn restart(&mut self) {
        self.any = false;
    }

    /// Writes a context without separator: the same bytes for the same token, each time.
    pub(crate) fn body(&mut self, token: &[u8], context: &Context, out: &mut impl Write) -> io::Result<()> {
        match self.format {
            Format::Text => self.text(context, b"", out),
            Format::Below => self.text(context, INDENT, out),
            Format::Json => {
                out.write_all(b"{\"token\":\"")?;
                out.write_all(token)?;
                out.write_all(b"\",\"frames\":[")?;
                // Each chunk starts with a separator, and the first one is written without it.
                let mut skipped = 1;
                for (pieces, count) in context.slices() {
                    for _ in 0..count {
                        for piece in pieces {
                            self.piece(context, *piece, skipped, out)?;
                            skipped = 0;
                        }
                    }
                }
                out.write_all(b"]}\n")
            }
            Format::Folded | Format::InPlace => {
                let mut skipped = 1;
                for (pieces, count) in context.slices().rev() {
                    for _ in 0..count {
                        for piece in pieces.iter().rev() {
                            self.piece(context, *piece, skipped, out)?;
                            skipped = 0;
                        }
                    }
                }
                if self.format == Format::Folded { out.write_all(b" 1\n") } else { Ok(()) }
            }
        }
    }

    /// Writes the output for a token that failed: an object with `error` in JSON, nothing in the other formats.
    pub fn failure(
        &mut self,
        token: &[u8],
        error: &dyn std::fmt::Display,
        out: &mut impl Write,
    ) -> io::Result<()> {
        if self.format != Format::Json {
            return Ok(());
        }
        let token = json(&String::from_utf8_lossy(token));
        let error = json(&error.to_string());
        writeln!(out, "{{\"token\":{token},\"error\":{error}}}")
    }

    fn text(&mut self, context: &Context, indent: &[u8], out: &mut impl Write) -> io::Result<()> {
        let (mut number, mut folding) = (0_u64, Folding::default());
        for (pieces, count) in context.slices() {
            for _ in 0..count {
                for piece in pieces {
                    let (first, last) = self.chunks(context, *piece);
                    for chunk in first..last {
                        let digits = match self.numbers.get(number as usize) {
                            Some(digits) => Cow::Borrowed(&digits[..]),
                            None => Cow::Owned(format!("#{number} ").into_bytes()),
                        };
                        number += 1;
                        let (by, parts) = (self.hidden[chunk as usize], [indent, &digits, self.chunk(chunk)]);
                        folding.line(&self.style.hidden, by, parts, out)?;
                    }
                    self.forget(*piece, first);
                }
            }
        }
        folding.end(&self.style.hidden, indent, out)
    }

    /// Writes a piece that is one chunk, without its first `skipped` bytes.
    #[inline]
    fn piece(
        &mut self,
        context: &Context,
        piece: Piece,
        skipped: usize,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let (chunk, _) = self.chunks(context, piece);
        out.write_all(&self.chunk(chunk)[skipped..])?;
        self.forget(piece, chunk);
        Ok(())
    }

    #[inline]
    fn chunk(&self, chunk: u32) -> &[u8] {
        &self.bytes[self.ends[chunk as usize]..self.ends[chunk as usize + 1]]
    }

    /// The chunks of a piece. Those of sites are kept; those of other pieces stay up to [`Self::forget`].
    #[inline]
    fn chunks(&mut self, context: &Context, piece: Piece) -> (u32, u32) {
        if let Piece::Site(site) = piece {
            let chunks = self.sites[site as usize];
            if chunks != (0, 0) {
                return chunks;
            }
        }
        self.make_chunks(context, piece)
    }

    #[inline]
    fn forget(&mut self, piece: Piece, first: u32) {
        if !matches!(piece, Piece::Site(_)) {
            self.bytes.truncate(self.ends[first as usize]);
            self.ends.truncate(first as usize + 1);
            self.hidden.truncate(first as usize);
        }
    }

    #[cold]
    fn make_chunks(&mut self, context: &Context, piece: Piece) -> (u32, u32) {
        let first = self.ends.len() as u32 - 1;
        let frames = piece_frames(self.images, context, piece);
        let mut line = std::mem::take(&mut self.scratch);
        let indent = if self.format == Format::Below { INDENT.len() } else { 0 };
        match self.format {
            Format::Text | Format::Below => {
                for frame in frames {
                    line.clear();
                    self.style.frame(&frame, indent, &mut line);
                    line.push('\n');
                    self.bytes.extend_from_slice(line.as_bytes());
                    self.ends.push(self.bytes.len());
                    self.hidden.push(self.style.hidden.by(&frame));
                }
            }
            Format::Json => {
                line.clear();
                for frame in frames {
                    line.push(',');
                    line.push_str(&json(&frame));
                }
                self.bytes.extend_from_slice(line.as_bytes());
                self.ends.push(self.bytes.len());
            }
            Format::Folded | Format::InPlace => {
                let names: Vec<_> = frames.map(|frame| folded_frame(&frame, &self.style)).collect();
                for name in names.iter().rev() {
                    self.bytes.push(b';');
                    self.bytes.extend_from_slice(name.as_bytes());
                }
                self.ends.push(self.bytes.len());
            }
        }
        self.scratch = line;
        self.hidden.resize(self.ends.len() - 1, None);
        let chunks = (first, self.ends.len() as u32 - 1);
        if let Piece::Site(site) = piece {
            self.sites[site as usize] = chunks;
        }
        chunks
    }
}

/// A frame in folded stacks.
pub fn folded_frame(frame: &Frame<'_>, style: &Style) -> String {
    let function = frame.function.map(|name| style.name(name));
    let name = match frame.kind {
        FrameKind::Call => printable(function.as_deref().unwrap_or("??")).into_owned(),
        _ => boundary(&Frame { function: function.as_deref(), ..*frame }),
    };
    // `;` separates the frames of folded stacks, and Rust's array types have it.
    name.replace(';', ":")
}
