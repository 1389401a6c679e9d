//! From a thread's registers to its token, as the runtime library does it in `token.rs` and `chain.rs`.

use pcce_abi as abi;
use pcce_abi::chains::{GONE_ID, UNKNOWN};
use pcce_abi::layout;
use pcce_abi::unwind::{End, Interruption, MAX_ACTIVATIONS, Process, Registers, Tables, Unwind};

use super::image::Image;
use super::notes::State;
use super::{Core, Places, take};
use crate::code::machine::Start;
use crate::token::{BuildId, CodeAddress, MAX_FRAMES, Point, PointEnd, PushedFrame, Token};

struct Snapshot<'c> {
    core: &'c Core,
    signed_bits: u64,
}

impl<'c> Process<'c> for Snapshot<'c> {
    fn word(&mut self, address: usize) -> Option<u64> {
        if !address.is_multiple_of(8) {
            return None;
        }
        self.core.word(address as u64)
    }

    fn image(&mut self, address: usize) -> Option<Tables<'c>> {
        self.core.images.iter().find(|image| image.contains(address as u64)).map(Image::tables)
    }

    fn signed_bits(&self) -> u64 {
        self.signed_bits
    }

    fn allows(&mut self, bytes: usize) -> bool {
        take(&self.core.left.tables, bytes as u64)
    }
}

impl Core {
    /// The token of a thread, and after `+` the tokens of where the thread comes from.
    pub(super) fn context(&self, thread: &State, places: &Places) -> Option<String> {
        let block = thread.registers.thread_pointer?.wrapping_add(places.block);
        let field = |offset: u64| self.word(block.wrapping_add(offset));
        let (id, top) = (field(layout::TLS_ID)?, field(layout::TLS_TOP)?);
        let own = (field(layout::TLS_STACK_LOW)?, field(layout::TLS_STACK_HIGH)?);
        let stack = self.stack(thread.registers.sp, own);
        let signed_bits = thread.registers.signed_bits;
        let token = Token::default();
        let mut walk = Walk { core: self, signed_bits, places, token, stack, task: None };
        walk.token.with_offsets = places.hybrid;
        let is_astray = !self.executable.iter().any(|memory| memory.contains(&thread.registers.pc));
        thread.registers.unwinding.start(FromThread { walk: &mut walk, is_astray, id, top });
        let mut word = walk.token.encode();
        let origin = match walk.task {
            Some(task) => self.text(task, layout::TASK_LEN, layout::TASK_TEXT, layout::TASK_SIZE),
            None => field(layout::TLS_CREATION).and_then(|record| {
                self.text(record, layout::CREATION_LEN, layout::CREATION_TEXT, layout::CREATION_SIZE)
            }),
        };
        if let Some(origin) = origin {
            word.push('+');
            word.push_str(&origin);
        }
        Some(word)
    }

    /// The bounds of the stack on which a thread runs, as far as they are known. `own`: the bounds in its block.
    fn stack(&self, sp: u64, own: (u64, u64)) -> Option<(u64, u64)> {
        if own.1 != 0 && own.1 != u64::MAX && own.0 <= sp && sp < own.1 {
            return Some(own);
        }
        // A segment of its own is one stack. Those of several threads may be neighbours.
        (own.1 == 0 || own.1 == u64::MAX).then(|| self.segment(sp))?
    }

    /// The text at offset `text` in a record of `size` bytes, with its length at offset `len`. None if it is
    /// empty.
    fn text(&self, record: u64, len: u64, text: u64, size: u64) -> Option<String> {
        record.checked_add(size)?;
        let len = self.word(record + len)?;
        if record == 0 || len == 0 || len > size - text {
            return None;
        }
        let text = self.memory(record + text, len)?;
        let allowed = |c: &u8| c.is_ascii_alphanumeric() || b"-_.+~@".contains(c);
        text.iter().all(allowed).then(|| String::from_utf8_lossy(text).into_owned())
    }
}

/// The walk from a thread's registers to its token, as the runtime does it in `token.rs`.
struct Walk<'c> {
    core: &'c Core,
    /// The bits of return addresses in which the thread has signatures.
    signed_bits: u64,
    places: &'c Places,
    token: Token,
    stack: Option<(u64, u64)>,
    /// The address of the innermost task that the thread runs.
    task: Option<u64>,
}

/// The start of a walk at a thread's registers.
struct FromThread<'w, 'c> {
    walk: &'w mut Walk<'c>,
    is_astray: bool,
    id: u64,
    top: u64,
}

impl Start for FromThread<'_, '_> {
    fn start<M: Unwind>(self, registers: Registers<M>) {
        self.walk.thread(registers, self.is_astray, self.id, self.top);
    }
}

/// The frame to which a link leads ([`abi::Link`]).
fn frame(link: u64) -> u64 {
    link & !layout::LINK_BITS
}

/// Returns whether ids count from the one in the frame to which a link leads.
fn is_relative(link: u64) -> bool {
    link & layout::RELATIVE != 0
}

/// The site of a pushed frame without the marks.
fn unmarked(site: u64) -> u64 {
    site & ((1 << layout::MARKS_SHIFT) - 1)
}

impl Walk<'_> {
    fn thread<M: Unwind>(&mut self, mut registers: Registers<M>, is_astray: bool, id: u64, top: u64) {
        registers.is_astray = is_astray;
        let sp = registers.sp() as u64;
        let frame = frame(top);
        let mut process = Snapshot { core: self.core, signed_bits: self.signed_bits };
        let point = Interruption::walk(registers, frame as usize, MAX_ACTIVATIONS, &mut process);
        // The owner of the innermost frame is an activation here, or both are on one stack.
        let together = self.stack.is_some_and(|(low, high)| low <= sp && sp <= frame && frame < high);
        let followed = frame == 0 || point.end == End::Pushed || together;
        let detached = point.detached || !followed;
        let both = |(low, high): (u64, u64)| (low..high).contains(&sp) && (low..sp).contains(&frame);
        let gone = self.unknown(top) == Some(GONE_ID) || self.stack.is_some_and(both);
        let id = self.base(top).filter(|_| followed || !is_relative(top)).map(|base| id.wrapping_sub(base));
        let base = if detached { 0 } else { self.offset_base(top) };
        self.token.point = Some(self.point(id.unwrap_or(0), &point, base));
        self.token.other_state = detached || id.is_none();
        self.token.damaged = detached && !point.is_whole() && !gone;
        self.token.start_missing = self.token.damaged && is_relative(top);
        if !detached {
            self.frames::<M>(top);
        }
    }

    /// The id of the frame that stands for unknown frames, if a link leads to one.
    fn unknown(&self, link: u64) -> Option<u64> {
        let word = |offset: u64| self.core.word(frame(link).checked_add(offset)?);
        let is_one = frame(link) != 0 && word(layout::FRAME_SITE) == Some(UNKNOWN);
        is_one.then(|| word(layout::FRAME_ID)).flatten()
    }

    /// The base from which ids count in the sub-path that a link's frame begins.
    fn base(&self, link: u64) -> Option<u64> {
        let id = frame(link).checked_add(layout::FRAME_ID)?;
        if is_relative(link) { self.core.word(id) } else { Some(0) }
    }

    /// Adds the frames that a link leads to, as far as they can be followed.
    fn frames<M: Unwind>(&mut self, top: u64) {
        let mut link = top;
        let mut count = 1;
        while frame(link) != 0 {
            let follow = count < MAX_FRAMES && take(&self.core.left.frames, 1);
            let next = if follow { self.next_frame::<M>(link) } else { None };
            let (prev, goes_on) = next.unwrap_or((link, false));
            if !goes_on {
                self.token.damaged = true;
                self.token.start_missing = is_relative(prev);
                return;
            }
            link = prev;
            count += 1;
        }
        self.token.left = link & layout::LEFT != 0;
    }

    /// Adds the frame that a link leads to. Returns the frame's own link, and whether that can be followed;
    /// None if there is no frame.
    fn next_frame<M: Unwind>(&mut self, link: u64) -> Option<(u64, bool)> {
        let at = frame(link);
        let word = |i: u64| self.core.word(at.checked_add(i * 8)?);
        let (prev, id, marked) = (word(0)?, word(1)?, word(2)?);
        if (prev, id, marked) == (0, 0, 0) {
            return None;
        }
        let (site, left) = (unmarked(marked), link & layout::LEFT != 0);
        let to = frame(prev);
        // A link leads upwards. Only the link of a signal handler on its own stack may lead anywhere on the
        // thread's stack.
        let inside = |a: u64| self.stack.is_some_and(|(low, high)| (low..high).contains(&a));
        let possible = if inside(at) { at < to && inside(to) } else { at < to || inside(to) };
        let possible = to == 0 || possible;
        let id = id.wrapping_sub(self.base(prev).filter(|_| possible || !is_relative(prev))?);
        if Some(site) == self.places.signal_site {
            let process = &mut Snapshot { core: self.core, signed_bits: self.signed_bits };
            let registers = word(4).and_then(|c| M::interrupted(process, c as usize))?;
            let mut point = Interruption::walk(registers, to as usize, MAX_ACTIVATIONS, process);
            let unknown = self.unknown(prev);
            point.detached |= unknown.is_some();
            let before = self.token.frames.len();
            let base = if point.detached { 0 } else { self.offset_base(prev) };
            let row = self.point(id, &point, base);
            self.token.signals.push((before, row));
            if point.detached && (point.is_whole() || unknown == Some(GONE_ID)) {
                self.token.other_state = true;
                return Some((0, true));
            }
            return Some((prev, possible && !point.detached));
        }
        let image = self.core.images.iter().find(|i| i.contains(site))?;
        if self.task.is_none() && self.site_byte(site) & abi::SiteByte::RUNS_TASK != 0 {
            self.task = Some(word(layout::FRAME_TASK / 8).unwrap_or(0));
        }
        let needed = self.hybrid_byte(site) & abi::SiteByte::NEEDS_OFFSET != 0;
        let distance =
            if needed { abi::SiteByte::distance(at as usize, self.offset_base(prev) as usize) } else { 0 };
        let (number, site) = (self.image(image.build_id), site.wrapping_sub(image.bias));
        let since_signal = self.token.signals.last().map_or(0, |s| s.0) < self.token.frames.len();
        match self.token.frames.last_mut().filter(|_| since_signal) {
            Some(last)
                if (last.image, last.site, last.left, last.id, last.distance)
                    == (number, site, left, id, distance) =>
            {
                last.count += 1;
            }
            _ => self.token.frames.push(PushedFrame { image: number, site, left, id, distance, count: 1 }),
        }
        Some((prev, possible))
    }

    /// The byte of a site ([`abi::SiteByte`]).
    fn site_byte(&self, site: u64) -> u8 {
        self.core.word(site & !7).unwrap_or(0).to_le_bytes()[(site & 7) as usize]
    }

    /// The byte of a site; 0 in programs without a hybrid encoding.
    fn hybrid_byte(&self, site: u64) -> u8 {
        if self.places.hybrid { self.site_byte(site) } else { 0 }
    }

    /// The place from which distances count in the sub-path above a link; 0 if that is not known.
    fn offset_base(&self, link: u64) -> u64 {
        let at = frame(link);
        if at == 0 {
            let inside = |base: &u64| self.stack.is_some_and(|(low, high)| (low..high).contains(base));
            return self.places.main_base.filter(inside).unwrap_or(0);
        }
        let site = at.checked_add(layout::FRAME_SITE).and_then(|site| self.core.word(site)).unwrap_or(0);
        let known = self.hybrid_byte(unmarked(site)) & abi::SiteByte::KNOWN_BASE != 0;
        if known { at } else { 0 }
    }

    /// The point of a walk, with this id. `base`: the place from which distances count.
    fn point(&mut self, id: u64, walked: &Interruption, base: u64) -> Point {
        let addresses = walked.addresses().zip(walked.frames()).map(|((address, exact), cfa)| {
            let distance = if self.places.hybrid { abi::SiteByte::distance(cfa, base as usize) } else { 0 };
            let address = address as u64;
            let image = self.core.images.iter().find(|i| i.contains(address));
            let (id, bias) = image.map_or((BuildId::default(), 0), |i| (i.build_id, i.bias));
            CodeAddress { image: self.image(id), address: address.wrapping_sub(bias), exact, distance }
        });
        let addresses: Vec<_> = addresses.collect();
        let end = match walked.end {
            End::Pushed => PointEnd::Pushed,
            End::Outermost => PointEnd::Outermost,
            End::Bound => PointEnd::Bound,
            End::Lost => PointEnd::Lost,
        };
        Point { id, addresses, left_out: walked.left_out(), end }
    }

    fn image(&mut self, id: BuildId) -> u32 {
        let images = &mut self.token.images;
        let number = images.iter().position(|known| *known == id).unwrap_or_else(|| {
            images.push(id);
            images.len() - 1
        });
        number as u32
    }
}
