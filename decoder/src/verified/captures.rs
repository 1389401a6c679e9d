//! Captures that a program in verify mode has written (`PCCE_VERIFY_CAPTURES`), in the form that
//! `runtime-lib/src/verify/captures.rs` describes: decodes each token, and compares the result with the records of
//! the shadow stack.
//!
//! The call sites must be equal, from the innermost one to the outermost one, and at interrupted points also
//! the functions whose machine code was active. At a boundary at which calls may be missing, any number of
//! records may be left out. After it, all must be equal again.
//!
//! At an interrupted point, and only there, the shadow stack may differ from the active functions in two ways:
//! - The innermost instrumented function may have no record. It adds its record by a call at its beginning, and
//!   removes it by calls before its returns. The record may be missing if nothing else is active further in, and the
//!   next record outwards is at a call that can reach the function. It may also be missing if the function has ended
//!   its clean-up after an exception, and has let the unwinder go on.
//! - The runtime's `longjmp` may have dropped the records of the activations that it is about to leave.
//!
//! The call of the innermost record's site may be over, so the site counts only while the callee is active.
//!
//! Numbers ([`crate::numbers`]) are compared in the same way, and with each other ([`numbers`]).

mod numbers;

use std::collections::HashSet;
use std::io::{self, BufRead, Read as _};

use pcce_abi::functions;
use pcce_dictionary::SiteKind;

use numbers::Numbers;

use super::Functions;
use crate::Decoder;
use crate::context::{Context, Piece, PieceClass, Run};
use crate::decode::DecodeError;
use crate::images::symbols::Symbols;
use crate::show::render::{Format, Renderer};
use crate::token::{BuildId, Token, TokenError, from_hex};

/// Bound on the wrong captures that are described one by one.
const MAX_SHOWN: usize = 10;
/// Bound on the bytes of a line. Programs write no longer ones.
const MAX_LINE: u64 = 1 << 28;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captures {
    pub captures: u64,
    /// Captures that have the calls of the shadow stack, and no others.
    pub equal: u64,
    /// Captures that have the calls of the shadow stack, except at boundaries at which calls may be missing.
    pub partly: u64,
    /// Captures that the shadow stack does not know: control had just come back to an activation further out.
    pub without_list: u64,
    pub of_others: u64,
    /// Captures with calls of an image that is not in verify mode: no function of it is in any record.
    pub mixed: u64,
    /// Captures that show other calls than the shadow stack has, or could not be decoded.
    pub wrong: u64,
    pub shown: Vec<String>,
    /// Numbers that name different contexts, and contexts that have several numbers. They are among `wrong`.
    pub ambiguous: u64,
    /// Numbers from 2⁶³ on, where no file of numbers is given.
    pub interned: u64,
    /// Lines that are no captures: they were written while the disk was full, perhaps.
    pub damaged: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Record {
    /// The function, or several of its name; none if no dictionary has it.
    functions: Vec<u32>,
    /// The call site. None if there was no call yet, or no dictionary has the site.
    site: Option<u32>,
    /// True if this is no record: the runtime has called a handler here.
    signal: bool,
}

struct Capture<'l> {
    /// The capture's site, if instrumented code has taken it.
    site: Option<u32>,
    token: &'l str,
    records: Vec<Record>,
    /// True if there are more records, or the records are not known.
    open: bool,
}

/// Compares all captures of a file.
pub fn check(decoder: &Decoder, mut text: impl BufRead) -> io::Result<Captures> {
    let symbols = &decoder.images.symbols;
    let reader = Reader { symbols, functions: Functions::new(symbols) };
    let mut found = Captures::default();
    // The images with records, and the wrong captures, each with the images of its calls. Records of these images
    // may come later.
    let (mut images, mut wrong) = (HashSet::new(), Vec::new());
    let (mut line, mut context, mut at_line) = (Vec::new(), Context::default(), 0_u64);
    let mut numbers = Numbers::default();
    loop {
        line.clear();
        at_line += 1;
        if text.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let capture = std::str::from_utf8(&line).ok().and_then(|line| reader.capture(line));
        let Some(capture) = capture else {
            found.damaged += 1;
            continue;
        };
        found.captures += 1;
        images.extend(capture.records.iter().filter_map(|record| reader.image(record)));
        if capture.records.is_empty() && capture.open {
            found.without_list += 1;
            continue;
        }
        let compared = match Taken::parse(capture.token) {
            Ok(Taken::Number(number, process)) => match decoder.decode_number(number, &mut context) {
                Ok(()) => {
                    let context_of = numbers::hash(decoder, &context, &capture);
                    capture.set_line(symbols, &mut context);
                    let others = decoder.token_of(number).is_some_and(|token| other_handlers(&token));
                    compare(decoder, &context, &capture, others).and_then(|whole| {
                        numbers.add(number, process, context_of.filter(|_| whole)).map(|()| whole)
                    })
                }
                Err(DecodeError::Interned { .. }) => {
                    found.interned += 1;
                    continue;
                }
                Err(error) => Err(error.to_string()),
            },
            Ok(Taken::Token(token)) => match decoder.decode_of_program(&token, &mut context) {
                Ok(()) => compare(decoder, &context, &capture, other_handlers(&token)),
                Err(DecodeError::OtherBuild { .. } | DecodeError::NoBuildId) => {
                    found.of_others += 1;
                    continue;
                }
                Err(error) => Err(error.to_string()),
            },
            Err(error) => Err(error.to_string()),
        };
        match compared {
            Ok(true) => found.equal += 1,
            Ok(false) => found.partly += 1,
            Err(what) => {
                let of: HashSet<u32> = images_of(symbols, &context).collect();
                // Only the first ones are shown. Which captures count is decided at the end, by their images.
                let what = (wrong.len() < 100 * MAX_SHOWN)
                    .then(|| format!("line {at_line}: {what} (token {})", capture.token));
                wrong.push((of, what));
            }
        }
    }
    for (of, what) in wrong {
        if of.is_subset(&images) {
            found.wrong += 1;
            found.shown.extend(what.filter(|_| found.shown.len() < MAX_SHOWN));
        } else {
            found.mixed += 1;
        }
    }
    found.ambiguous = numbers.ambiguous;
    Ok(found)
}

/// The token or number of a capture.
enum Taken {
    Token(Token),
    /// A number, and the process that took it.
    Number(u64, u32),
}

impl Taken {
    fn parse(word: &str) -> Result<Self, TokenError> {
        let number = word.strip_prefix("pcce:").and_then(|number| number.split_once('@'));
        match number.and_then(|(number, process)| Some((number.parse().ok()?, process.parse().ok()?))) {
            Some((number, process)) => Ok(Self::Number(number, process)),
            None => Token::parse(word).map(Self::Token),
        }
    }
}

impl Capture<'_> {
    /// A number stands for all captures of a place. If this capture is one of them, the context gets its site.
    fn set_line(&self, symbols: &Symbols, context: &mut Context) {
        let (Some(own), Some(piece)) = (self.site, context.pieces.first_mut()) else { return };
        let (of_place, any_line) = match *piece {
            Piece::Site(site) => (site, false),
            Piece::AnyLine(site) => (site, true),
            _ => return,
        };
        let [site, place] = [own, of_place].map(|site| &symbols.sites[site as usize]);
        let is_same = match (symbols.locations(site), symbols.locations(place)) {
            ([a, outer_a @ ..], [b, outer_b @ ..]) if any_line => {
                (a.name, a.file, outer_a) == (b.name, b.file, outer_b)
            }
            (a, b) => a == b,
        };
        if site.function == place.function && is_same {
            *piece = Piece::Site(own);
        }
    }
}

/// Returns whether a handler was active that the runtime did not call: the shadow stack does not show such handlers.
fn other_handlers(token: &Token) -> bool {
    let points = token.point.iter().chain(token.signals.iter().map(|(_, point)| point));
    points.flat_map(|point| point.addresses.iter().skip(1)).any(|address| address.exact)
}

fn images_of<'c>(symbols: &'c Symbols, context: &'c Context) -> impl Iterator<Item = u32> + 'c {
    context.pieces.iter().enumerate().filter_map(|(number, piece)| match piece {
        Piece::Site(site) => Some(symbols.address_of_site(*site).0),
        _ => context.owner(number).map(|owner| symbols.module_of(owner).image),
    })
}

struct Reader<'d> {
    symbols: &'d Symbols,
    functions: Functions,
}

impl Reader<'_> {
    /// None if the line is damaged.
    fn capture<'l>(&self, line: &'l str) -> Option<Capture<'l>> {
        let mut words = line.strip_suffix('\n')?.split(' ');
        if words.next()? != "capture" {
            return None;
        }
        let kind = words.next()?;
        let site = match kind.strip_prefix("s:") {
            Some(site) => Some(self.site(site)?),
            None if kind == "p" => None,
            None => return None,
        };
        let token = words.next()?;
        let mut records = Vec::new();
        let mut innermost = site.is_some();
        let open = loop {
            match words.next()? {
                "." => break false,
                "+" | "?" => break true,
                "!" => records.push(Record { signal: true, ..Record::default() }),
                word => {
                    let mut record = self.record(word)?;
                    if std::mem::take(&mut innermost)
                        && let Some(site) = site.flatten()
                    {
                        let function = self.symbols.sites[site as usize].function;
                        record.site = record.functions.contains(&function).then_some(site);
                    }
                    let thunk = |&function: &u32| self.symbols.functions[function as usize].push_thunk;
                    let thunks = !record.functions.is_empty() && record.functions.iter().all(thunk);
                    if !thunks && !record.site.is_some_and(|site| self.symbols.is_left_out(site)) {
                        records.push(record);
                    }
                }
            }
        };
        let site = site.flatten();
        words.next().is_none().then_some(Capture { site, token, records, open })
    }

    fn record(&self, word: &str) -> Option<Record> {
        let Some(word) = word.strip_prefix('=') else {
            let site = self.site(word)?;
            let functions = site.map(|site| self.symbols.sites[site as usize].function).into_iter().collect();
            return Some(Record { functions, site, signal: false });
        };
        let (name, site) = word.split_once('@')?;
        let functions = self.functions.named(&unescaped(name)?).to_vec();
        let site = if site.is_empty() { None } else { self.site(site)? };
        // The site must be in the function.
        let is_own = |site: u32| functions.contains(&self.symbols.sites[site as usize].function);
        site.is_none_or(is_own).then_some(Record { functions, site, signal: false })
    }

    /// The site. `Some(None)` if no dictionary has it, `None` if the word is malformed.
    fn site(&self, word: &str) -> Option<Option<u32>> {
        let (image, address) = word.split_once('+')?;
        let id = if image.is_empty() { BuildId::default() } else { BuildId::from_prefix(&from_hex(image)?) };
        let address = if address.is_empty() { 0 } else { u64::from_str_radix(address, 16).ok()? };
        let image = self.symbols.images.iter().position(|image| image.id == id);
        Some(image.and_then(|image| self.symbols.site_at(image as u32, address)))
    }

    /// The image of a record, if it is known.
    fn image(&self, record: &Record) -> Option<u32> {
        let &[function] = record.functions.as_slice() else { return None };
        Some(self.symbols.module_of(function).image)
    }
}

/// Decodes a name in which some bytes are written as `%` and two hexadecimal digits.
fn unescaped(name: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.as_slice().get(..2)?;
        bytes.extend(from_hex(std::str::from_utf8(digits).ok()?)?);
        rest = rest.as_slice()[2..].iter();
    }
    String::from_utf8(bytes).ok()
}

/// Compares a context with the shadow stack. Returns true if all calls are equal, and false if only the calls
/// that the context shows are. The error shows both.
fn compare(
    decoder: &Decoder,
    context: &Context,
    capture: &Capture<'_>,
    other_handlers: bool,
) -> Result<bool, String> {
    let mut places = Places { other_handlers, ..Places::new(decoder, context, capture) };
    let mut whole = true;
    let mut start = 0;
    'context: for &Run { end, count } in &context.runs {
        // Each piece takes a record, so further repetitions make no difference.
        for _ in 0..count.min(capture.records.len() as u64 + 2) {
            for number in start..end {
                let piece = context.pieces[number];
                if matches!(piece, Piece::Thread | Piece::Task) {
                    break 'context;
                }
                whole &= places.follow(number, piece);
            }
        }
        start = end;
    }
    if places.is_at_end() {
        return Ok(whole);
    }
    let text = |context: &Context| -> String {
        let mut text = Vec::new();
        let written = Renderer::new(decoder, Format::InPlace).body(b"", context, &mut text);
        written.map(|()| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    };
    Err(format!("the token shows {}, and the shadow stack has {}", text(context), text(&listed(capture))))
}

/// The records as a context, for messages.
fn listed(capture: &Capture<'_>) -> Context {
    let mut context = Context::default();
    for (number, record) in capture.records.iter().enumerate() {
        let is_over = number == 0 && capture.site.is_none();
        context.push(match record {
            Record { signal: true, .. } => Piece::Signal,
            Record { site: Some(site), .. } if !is_over => Piece::Site(*site),
            Record { functions, .. } => {
                functions.first().map_or(Piece::Unknown(None), |&f| Piece::Function(f))
            }
        });
    }
    if capture.open {
        context.push(Piece::Truncated);
    }
    context.runs.push(Run { end: context.pieces.len(), count: 1 });
    context
}

/// The places between the records that the pieces of a context may have led to.
struct Places<'a> {
    decoder: &'a Decoder,
    context: &'a Context,
    records: &'a [Record],
    open: bool,
    /// The places, by the number of records that are further in, in ascending order.
    at: Vec<usize>,
    /// True if no function of the point was met yet.
    innermost: bool,
    /// True if the runtime's `longjmp` is active.
    jumps: bool,
    /// True if a handler may have been called by others than the runtime.
    other_handlers: bool,
}

impl<'a> Places<'a> {
    fn new(decoder: &'a Decoder, context: &'a Context, capture: &'a Capture<'_>) -> Self {
        let (records, open) = (&capture.records, capture.open);
        let (at, innermost, jumps, other_handlers) = (vec![0], true, false, false);
        Self { decoder, context, records, open, at, innermost, jumps, other_handlers }
    }

    fn is_at_end(&self) -> bool {
        self.at.last() == Some(&self.records.len())
    }

    /// Goes over a piece. Returns false if calls may be missing there.
    fn follow(&mut self, number: usize, piece: Piece) -> bool {
        if let Some(owner) = self.context.owner(number) {
            let inner = self.inner(number);
            let innermost = std::mem::take(&mut self.innermost);
            let may_lack = innermost && inner != Inner::Other || inner == Inner::Resumes;
            let (decoder, records) = (self.decoder, self.records);
            // A function that has left its activation to this one has removed its own record.
            let outer = self.context.pieces.get(number + 1);
            let is_left_to = outer.is_some_and(|piece| piece.class() == PieceClass::Left);
            let reaches = |place: usize| {
                may_lack && (is_left_to || may_reach(&decoder.images.symbols, records.get(place), owner))
            };
            self.step(|record| record.functions.contains(&owner), reaches);
            return true;
        }
        match piece.class() {
            PieceClass::Call(site) => self.step(|record| record.site == Some(site), |_| false),
            PieceClass::Handler => {
                (self.innermost, self.jumps) = (true, false);
                let other = self.other_handlers;
                self.step(|record| record.signal, |_| other);
            }
            PieceClass::Missing => {
                self.at =
                    self.at.first().map_or_else(Vec::new, |&first| (first..=self.records.len()).collect());
                return false;
            }
            PieceClass::Outside => {
                if let Piece::Named(_, image, name) = piece {
                    self.jumps |= self.name(image, name) == Some(functions::LONGJMP);
                }
            }
            PieceClass::Function | PieceClass::Left | PieceClass::Origin => {}
        }
        true
    }

    /// Goes over a call. `stays`: whether the call may have no record at a place.
    fn step(&mut self, is_call: impl Fn(&Record) -> bool, stays: impl Fn(usize) -> bool) {
        let mut next = Vec::with_capacity(self.at.len() + 1);
        for &place in &self.at {
            // The records that a jump has dropped are those of the first calls of its point.
            let is_first = place.checked_sub(1).is_none_or(|inner| self.records[inner].signal);
            if stays(place) || self.jumps && is_first || self.open && place == self.records.len() {
                next.push(place);
            }
            if self.records.get(place).is_some_and(&is_call) {
                next.push(place + 1);
            }
        }
        next.dedup();
        self.at = next;
    }

    /// The kind of code that is active further in than the function of a piece.
    fn inner(&self, number: usize) -> Inner {
        let Some(inner) = number.checked_sub(1) else { return Inner::Nothing };
        let piece = self.context.pieces[inner];
        let name = match piece.class() {
            PieceClass::Handler | PieceClass::Left => return Inner::Nothing,
            PieceClass::Outside => match piece {
                Piece::Uninstrumented(Some(name)) => Some(self.decoder.images.symbols.linkage_name(name)),
                Piece::Named(_, image, name) => self.name(image, name),
                _ => return Inner::Nothing,
            },
            PieceClass::Call(_) | PieceClass::Function | PieceClass::Origin | PieceClass::Missing => None,
        };
        match name {
            Some("_Unwind_Resume") => Inner::Resumes,
            Some(name) if name.starts_with(functions::OWN) => Inner::Nothing,
            _ => Inner::Other,
        }
    }

    fn name(&self, image: u32, name: u32) -> Option<&str> {
        Some(self.decoder.images.code(image).ok()??.linkage(name))
    }
}

/// The kind of code that is active further in than a function of a point.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inner {
    /// Nothing, or the code that adds or removes the function's record.
    Nothing,
    /// The code that goes on with an exception after the function's clean-up. Its record was removed before.
    Resumes,
    Other,
}

/// Returns whether the call at the site of a record can have reached a function.
fn may_reach(symbols: &Symbols, record: Option<&Record>, function: u32) -> bool {
    let Some(site) = record.and_then(|record| record.site) else { return true };
    let reached = &symbols.functions[function as usize];
    // Only a direct call tells what it reaches.
    let SiteKind::Direct(Some(callee)) = symbols.sites[site as usize].kind else { return true };
    callee == function || symbols.functions[callee as usize].push_thunk || reached.jumped_to || reached.enters
}
