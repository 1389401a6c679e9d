//! Perfetto's format: a sequence of packets, each a field of one protocol buffer. The messages have the
//! numbers and types of Perfetto's `trace_packet.proto` and `track_event.proto`; fields that are never
//! written are left out.

use std::io::{self, Write};

use prost::Message;

use super::Clock;
use crate::trace::event::{EventKind, NOT_KEPT};
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::views::show::heading;
use crate::trace::views::spans::{Change, Spans};

#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(int32, optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct InternedData {
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<EventName>,
}

#[derive(Clone, PartialEq, Message)]
struct EventName {
    #[prost(uint64, optional, tag = "1")]
    iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;
/// All packets are of one sequence.
const SEQUENCE: u32 = 1;

/// Writes some streams. Returns how many gaps were met.
pub fn perfetto<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
    out: &mut dyn Write,
) -> io::Result<u64> {
    let tables = &reader.programs.tables;
    let mut bytes = Vec::new();
    let mut write = |packet: Packet, out: &mut dyn Write| {
        bytes.clear();
        let packet = Packet { trusted_packet_sequence_id: Some(SEQUENCE), ..packet };
        File { packet: vec![packet] }.encode(&mut bytes).expect("memory can be written");
        out.write_all(&bytes)
    };
    let mut named = vec![false; tables.callee_count()];
    write(Packet { sequence_flags: Some(STATE_CLEARED), ..Packet::default() }, out)?;
    let mut gaps = 0;
    for stream in streams {
        let track = TrackDescriptor { uuid: Some(stream.number), name: Some(heading(reader, stream)) };
        write(Packet { track_descriptor: Some(track), ..Packet::default() }, out)?;
        let mut spans = Spans::default();
        let mut clock = Clock::new(reader);
        let mut replay = reader.replay(stream);
        let mut result = Ok(());
        while let Some(event) = replay.next() {
            let now = clock.now(&replay);
            let packet = |event: TrackEvent| Packet {
                timestamp: Some(now),
                sequence_flags: Some(NEEDS_STATE),
                track_event: Some(TrackEvent { track_uuid: Some(stream.number), ..event }),
                ..Packet::default()
            };
            spans.event(tables, &event, now, |change| {
                let packet = match change {
                    Change::Begin(span) => {
                        let iid = u64::from(span.callee) + 1;
                        let begin = TrackEvent {
                            r#type: Some(SLICE_BEGIN),
                            name_iid: Some(iid),
                            ..TrackEvent::default()
                        };
                        let mut packet = packet(begin);
                        if !std::mem::replace(&mut named[span.callee as usize], true) {
                            let name = Some(tables.callee_name(span.callee).to_owned());
                            let event_names = vec![EventName { iid: Some(iid), name }];
                            packet.interned_data = Some(InternedData { event_names });
                        }
                        packet
                    }
                    Change::Found(..) => return,
                    Change::End(_) => packet(TrackEvent { r#type: Some(SLICE_END), ..TrackEvent::default() }),
                };
                if result.is_ok() {
                    result = write(packet, out);
                }
            });
            std::mem::replace(&mut result, Ok(()))?;
            let instant = match event.kind {
                EventKind::Mark => format!("mark {}", event.value),
                EventKind::Gap(why) => why.to_string(),
                EventKind::Known if event.value == 1 => NOT_KEPT.to_owned(),
                EventKind::Handler => format!("signal {}", event.value),
                _ => continue,
            };
            let event = TrackEvent { r#type: Some(INSTANT), name: Some(instant), ..TrackEvent::default() };
            write(packet(event), out)?;
        }
        gaps += replay.finish()?;
    }
    Ok(gaps)
}
