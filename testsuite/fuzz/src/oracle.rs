//! The meaning of a token, computed backwards: the calls of a decoded context, added up by the dictionary, must give
//! the numbers in the token. Nothing here is shared with the decoder.

use pcce::token::{BuildId, Token};
use pcce::{Frame, FrameKind};
use pcce_dictionary::{EdgeCode, Encoding, Module, SiteKind};

use crate::common;

/// Longer runs of equal frames are not checked.
const MAX_COUNT: u64 = 200;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The text of a token with this payload.
pub(crate) fn text(version: u8, payload: &[u8]) -> String {
    let prefix = format!("pcce{version}.");
    let mut crc = !0_u32;
    let summed: &[&[u8]] = if version == 1 { &[payload] } else { &[prefix.as_bytes(), payload] };
    for byte in summed.concat() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 * (crc & 1));
        }
    }
    let bytes = [payload, &(!crc).to_le_bytes()].concat();
    let mut text = prefix;
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for i in 0..=three.len() {
            text.push(char::from(ALPHABET[(bits >> (18 - 6 * i)) as usize & 63]));
        }
    }
    text
}

/// The version and the payload of a token.
pub(crate) fn payload(text: &str) -> Option<(u8, Vec<u8>)> {
    let version = text.as_bytes().get(4)? - b'0';
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for byte in text.get(6..)?.bytes() {
        bits = bits << 6 | ALPHABET.iter().position(|known| *known == byte)? as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes.truncate(bytes.len().checked_sub(4)?);
    Some((version, bytes))
}

/// A site of the test program: module, and index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(usize, usize);

struct Program {
    /// With the build id of its image, and its encoding.
    modules: Vec<(BuildId, Module, Encoding)>,
}

impl Program {
    fn new() -> Self {
        let images = [(common::app(), &common::APP[..]), (common::lib(), &common::LIB)];
        let modules = images.into_iter().flat_map(|(dictionary, id)| {
            // Each module has one of its own.
            let modules = dictionary.modules.into_iter().zip(dictionary.encodings);
            modules.map(move |(module, encoding)| (BuildId::from_prefix(id), module, encoding))
        });
        Self { modules: modules.collect() }
    }

    fn by_address(&self, image: BuildId, address: u64) -> Option<Place> {
        self.modules.iter().enumerate().find_map(|(number, (id, module, _))| {
            let index = usize::try_from(address.checked_sub(module.sites_address)?).ok()?;
            (*id == image && index < module.sites.len()).then_some(Place(number, index))
        })
    }

    /// Each line has one site, and the one site without a line is that of its function.
    fn by_frame(&self, frame: &Frame<'_>) -> Place {
        let found = self.modules.iter().enumerate().find_map(|(number, (_, module, _))| {
            let index = module.sites.iter().position(|site| match site.locations.last() {
                Some(at) => {
                    Some(&*module.files[at.file as usize]) == frame.file
                        && Some(at.line) == frame.line.or(Some(0))
                }
                None => {
                    let name = module.functions[site.function as usize].name;
                    frame.file.is_none() && Some(&*module.names[name as usize]) == frame.linkage_name
                }
            });
            index.map(|index| Place(number, index))
        });
        found.unwrap_or_else(|| panic!("{frame:?} is no site"))
    }

    fn kind(&self, Place(module, site): Place) -> SiteKind {
        self.modules[module].1.sites[site].kind
    }

    /// Returns whether ids of the module count from the frame with which their sub-path starts.
    fn counts_from_frames(&self, Place(module, _): Place) -> bool {
        self.modules[module].2.open_num_cc.is_some()
    }

    fn function(&self, Place(module, site): Place) -> u32 {
        self.modules[module].1.sites[site].function
    }

    /// The callee and the addition value of a call that does not push.
    fn addition(&self, Place(module, site): Place) -> Option<(u32, u64)> {
        let edge = self.modules[module].2.edges.iter().find(|edge| edge.site as usize == site)?;
        match (self.kind(Place(module, site)), edge.code) {
            (SiteKind::Direct(callee), EdgeCode::Add(value)) => Some((callee?, value)),
            _ => None,
        }
    }
}

/// Panics if the frames are not those of the token.
pub(crate) fn check<'f>(token: &Token, frames: impl Iterator<Item = Frame<'f>>) {
    if token.point.is_some() || !token.signals.is_empty() || token.frames.iter().any(|f| f.count > MAX_COUNT)
    {
        return;
    }
    let program = Program::new();
    let pushed = token.frames.iter().flat_map(|f| (0..f.count).map(|_| (f.image, f.site, f.id)));
    let elements: Option<Vec<(Place, u64)>> = token
        .capture
        .iter()
        .map(|c| (c.image, c.site, c.id))
        .chain(pushed)
        .map(|(image, site, id)| {
            let place = program.by_address(token.images[image as usize], site)?;
            // The token does not have these calls.
            let known = !matches!(program.kind(place), SiteKind::Entry);
            known.then_some((place, id))
        })
        .collect();
    let Some(elements) = elements else { return };
    let mut calls = frames
        .filter(|frame| frame.kind == FrameKind::Call && !frame.inlined)
        .map(|frame| program.by_frame(&frame))
        .peekable();
    let last = elements.len().wrapping_sub(1);
    for (number, (place, id)) in elements.into_iter().enumerate() {
        assert_eq!(calls.next(), Some(place), "the place where it was taken or pushed");
        if number == last && token.start_missing && program.counts_from_frames(place) {
            // The frame is missing, so its id is not known.
            break;
        }
        let (module, mut function, mut rest) = (place.0, program.function(place), id);
        while let Some((callee, value)) = calls.peek().and_then(|call| program.addition(*call)) {
            let call = calls.next().expect("was peeked at");
            assert_eq!((call.0, callee), (module, function), "the callee of {call:?}");
            function = program.function(call);
            rest = rest.checked_sub(value).unwrap_or_else(|| panic!("the id is too small at {call:?}"));
        }
        assert_eq!(rest, 0, "the id is larger than its calls");
        let start = &program.modules[module].2.functions[function as usize];
        assert!(start.entry, "the sub-path of {place:?} starts in function {function}");
    }
    assert_eq!(calls.next(), None, "there are more calls than in the token");
}

#[cfg(test)]
mod tests {
    use pcce::Context;

    use super::*;
    use crate::common::{site, token};
    use crate::decoder;

    #[test]
    fn tokens_are_what_their_bytes_say() {
        for token in crate::token::tokens() {
            let text_of_it = token.encode();
            let (version, payload) = payload(&text_of_it).unwrap();
            assert_eq!(text(version, &payload), text_of_it);
        }
    }

    /// The context of another id, of another place, and one with a call too few.
    #[test]
    fn wrong_contexts_are_found() {
        let decoded = |token: &Token| {
            let mut context = Context::default();
            decoder().decode(token, &mut context).unwrap();
            context
        };
        let right = token(Some((site::LEAF_CAPTURE, 1)), &[]);
        let other_id = token(Some((site::LEAF_CAPTURE, 2)), &[]);
        let other_place = token(Some((site::TAIL_CAPTURE, 0)), &[(site::LEAF_TAIL, 1)]);
        let one_less = token(Some((site::LEAF_CAPTURE, 0)), &[]);
        // The outermost calls are not known, but those of the inner frame are.
        let missing = |frames: &[(u64, u64)]| Token {
            cut: true,
            start_missing: true,
            ..token(Some((site::LEAF_CAPTURE, 1)), frames)
        };
        let no_start = missing(&[]);
        let no_start_below = missing(&[(site::RUN_RUN, 1)]);
        for right in [&right, &no_start, &no_start_below] {
            check(right, decoder().frames(&decoded(right)));
        }
        let wrong = [
            (&right, &other_id),
            (&right, &other_place),
            (&right, &one_less),
            (&no_start, &right),
            (&right, &no_start),
            (&no_start_below, &no_start),
        ];
        for (right, wrong) in wrong {
            let context = decoded(wrong);
            let result = std::panic::catch_unwind(|| check(right, decoder().frames(&context)));
            assert!(result.is_err(), "{wrong:?}");
        }
    }
}
