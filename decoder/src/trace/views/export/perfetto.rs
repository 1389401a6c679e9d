//! Perfetto's format: a sequence of packets, each a field of one protocol buffer. The messages have the
//! numbers and types of Perfetto's `trace_packet.proto` and `track_event.proto`; fields that are never
//! written are left out.

use std::io::{self, Write};

use prost::Message;

use super::{Viewer, write_spans};
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::tables::Tables;
use crate::trace::views::spans::Callee;

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

/// Writes some streams. Returns the number of gaps.
pub fn perfetto<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
    out: &mut dyn Write,
) -> io::Result<u64> {
    let tables = &reader.programs.tables;
    let mut viewer = Perfetto { tables, named: vec![false; tables.callee_count()], bytes: Vec::new() };
    viewer.write(Packet { sequence_flags: Some(STATE_CLEARED), ..Packet::default() }, out)?;
    write_spans(reader, streams, &mut viewer, out)
}

struct Perfetto<'t> {
    tables: &'t Tables,
    /// By callee, whether its name was written.
    named: Vec<bool>,
    bytes: Vec<u8>,
}

impl Perfetto<'_> {
    fn write(&mut self, packet: Packet, out: &mut dyn Write) -> io::Result<()> {
        self.bytes.clear();
        let packet = Packet { trusted_packet_sequence_id: Some(SEQUENCE), ..packet };
        File { packet: vec![packet] }.encode(&mut self.bytes).expect("memory can be written");
        out.write_all(&self.bytes)
    }
}

/// The packet of an event.
fn packet(stream: &Stream, time: u64, event: TrackEvent) -> Packet {
    Packet {
        timestamp: Some(time),
        sequence_flags: Some(NEEDS_STATE),
        track_event: Some(TrackEvent { track_uuid: Some(stream.number), ..event }),
        ..Packet::default()
    }
}

impl Viewer for Perfetto<'_> {
    fn track(&mut self, stream: &Stream, name: &str, out: &mut dyn Write) -> io::Result<()> {
        let track = TrackDescriptor { uuid: Some(stream.number), name: Some(name.to_owned()) };
        self.write(Packet { track_descriptor: Some(track), ..Packet::default() }, out)
    }

    fn begin(&mut self, stream: &Stream, time: u64, callee: Callee, out: &mut dyn Write) -> io::Result<()> {
        let iid = Some(u64::from(callee) + 1);
        let begin = TrackEvent { r#type: Some(SLICE_BEGIN), name_iid: iid, ..TrackEvent::default() };
        let mut packet = packet(stream, time, begin);
        if !std::mem::replace(&mut self.named[callee as usize], true) {
            let name = Some(self.tables.callee_name(callee).to_owned());
            packet.interned_data = Some(InternedData { event_names: vec![EventName { iid, name }] });
        }
        self.write(packet, out)
    }

    fn end(&mut self, stream: &Stream, time: u64, out: &mut dyn Write) -> io::Result<()> {
        let end = TrackEvent { r#type: Some(SLICE_END), ..TrackEvent::default() };
        self.write(packet(stream, time, end), out)
    }

    fn instant(&mut self, stream: &Stream, time: u64, name: String, out: &mut dyn Write) -> io::Result<()> {
        let instant = TrackEvent { r#type: Some(INSTANT), name: Some(name), ..TrackEvent::default() };
        self.write(packet(stream, time, instant), out)
    }
}
