//! From the pieces of a decoded context to its frames.

use crate::context::{Absent, Context, Frame, FrameKind, Piece};
use crate::images::Images;
use crate::images::symbols::Location;

/// The frames of a piece, innermost first.
pub(crate) fn piece_frames<'d>(
    images: &'d Images,
    context: &Context,
    piece: Piece,
) -> impl Iterator<Item = Frame<'d>> + use<'d> {
    let symbols = &images.symbols;
    let frame = move |kind, name: Option<u32>| Frame {
        kind,
        function: name.map(|name| symbols.source_name(name)),
        linkage_name: name.map(|name| symbols.linkage_name(name)),
        file: None,
        line: None,
        column: None,
        inlined: false,
        certain: false,
        build_id: None,
    };
    let mut locations: &[Location] = &[];
    let mut places = None;
    let known_line = !matches!(piece, Piece::AnyLine(_));
    let single = match piece {
        Piece::Site(site) | Piece::AnyLine(site) => {
            let site = &symbols.sites[site as usize];
            locations = symbols.locations(site);
            let name = symbols.functions[site.function as usize].name;
            locations.is_empty().then(|| frame(FrameKind::Call, Some(name)))
        }
        Piece::Function(function) => {
            Some(frame(FrameKind::Call, Some(symbols.functions[function as usize].name)))
        }
        Piece::Uninstrumented(name) => Some(frame(FrameKind::Uninstrumented, name)),
        Piece::Tail(None) => Some(Frame { certain: true, ..frame(FrameKind::Tail, None) }),
        Piece::Tail(name) => Some(frame(FrameKind::Tail, name)),
        Piece::MayHaveLeft => Some(frame(FrameKind::Tail, None)),
        Piece::Signal => Some(frame(FrameKind::Signal, None)),
        Piece::Thread => Some(frame(FrameKind::Thread, None)),
        Piece::Task => Some(frame(FrameKind::Task, None)),
        Piece::Unknown(name) => Some(frame(FrameKind::Unknown, name)),
        Piece::UnknownModule(image) => {
            let build_id = Some(context.images[image as usize].0);
            Some(Frame { build_id, ..frame(FrameKind::UnknownModule, None) })
        }
        Piece::Absent(number) => {
            let Absent { id, called } = context.absent[number as usize];
            let code = called.and_then(|(image, name)| Some((images.code(image).ok()??, name)));
            Some(Frame {
                function: code.map(|(code, name)| code.name(name)),
                linkage_name: code.map(|(code, name)| code.linkage(name)),
                build_id: Some(id),
                ..frame(FrameKind::Uninstrumented, None)
            })
        }
        Piece::Place(image, place) => {
            places = images.code(image).ok().flatten().map(|code| (code, place));
            None
        }
        Piece::Named(kind, image, name) => Some(match images.code(image) {
            Ok(Some(code)) if !code.linkage(name).is_empty() => Frame {
                function: Some(code.name(name)),
                linkage_name: Some(code.linkage(name)),
                ..frame(kind, None)
            },
            _ => frame(kind, None),
        }),
        Piece::Truncated => Some(frame(FrameKind::Truncated, None)),
        Piece::Damaged => Some(frame(FrameKind::Damaged, None)),
    };
    let known = |number: u32| (number != 0).then_some(number);
    let calls = locations.iter().enumerate().map(move |(i, location)| Frame {
        file: Some(symbols.file(location.file)).filter(|_| known_line || i > 0),
        line: known(location.line).filter(|_| known_line || i > 0),
        column: known(location.column).filter(|_| known_line || i > 0),
        inlined: i + 1 < locations.len(),
        ..frame(FrameKind::Call, Some(location.name))
    });
    let places = places.into_iter().flat_map(move |(code, place)| {
        code.chain(place).map(move |place| Frame {
            function: Some(code.name(place.name)),
            linkage_name: Some(code.linkage(place.name)),
            file: Some(code.file(place.file)).filter(|file| !file.is_empty()),
            line: known(place.line),
            column: known(place.column),
            inlined: place.caller != 0,
            ..frame(FrameKind::Call, None)
        })
    });
    single.into_iter().chain(calls).chain(places)
}
