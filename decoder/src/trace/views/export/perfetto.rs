//! Perfetto's format: a sequence of packets, each a field of one protocol buffer. The messages have the
//! numbers and types of Perfetto's `trace_packet.proto` and `track_event.proto`, without the fields that are
//! never written.
//!
//! Each stream is a sequence of packets of its own. So packets need not say to which track they belong, and their times
//! are differences. Each sequence has its names and places once.

use std::collections::HashSet;
use std::io::{self, Write};

use prost::Message;

use super::{Exported, Viewer, place, write_spans};
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::tables::Tables;
use crate::trace::views::named::Met;
use crate::trace::views::spans::Span;

#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(message, optional, tag = "6")]
    clock_snapshot: Option<ClockSnapshot>,
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
    #[prost(message, optional, tag = "59")]
    trace_packet_defaults: Option<Defaults>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    clocks: Vec<Clock>,
}

#[derive(Clone, PartialEq, Message)]
struct Clock {
    #[prost(uint32, optional, tag = "1")]
    clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    timestamp: Option<u64>,
    #[prost(bool, optional, tag = "3")]
    is_incremental: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
struct Defaults {
    #[prost(message, optional, tag = "11")]
    track_event_defaults: Option<EventDefaults>,
    #[prost(uint32, optional, tag = "58")]
    timestamp_clock_id: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct EventDefaults {
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(int32, optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    name_iid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(uint64, optional, tag = "34")]
    source_location_iid: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct InternedData {
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<EventName>,
    #[prost(message, repeated, tag = "4")]
    source_locations: Vec<SourceLocation>,
}

#[derive(Clone, PartialEq, Message)]
struct EventName {
    #[prost(uint64, optional, tag = "1")]
    iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct SourceLocation {
    #[prost(uint64, optional, tag = "1")]
    iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    file_name: Option<String>,
    #[prost(uint32, optional, tag = "4")]
    line_number: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "4")]
    thread: Option<ThreadDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    tid: Option<i64>,
    #[prost(string, optional, tag = "5")]
    thread_name: Option<String>,
}

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;
/// `CLOCK_BOOTTIME` in a snapshot of clocks, on which viewers show times.
const BOOT_TIME: u32 = 6;
/// A clock of one sequence of packets.
const OWN_CLOCK: u32 = 64;

/// Writes some streams. Returns the counts of what was met.
pub fn perfetto<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
    exported: &Exported,
    out: &mut dyn Write,
) -> io::Result<Met> {
    let tables = &reader.programs.tables;
    let (named, placed) = (HashSet::new(), HashSet::new());
    let mut viewer = Perfetto { tables, named, placed, sequence: 0, time: 0, bytes: Vec::new() };
    write_spans(reader, streams, exported, &mut viewer, out)
}

struct Perfetto<'t> {
    tables: &'t Tables,
    /// The callees whose names the sequence has, and the nodes whose places it has.
    named: HashSet<u32>,
    placed: HashSet<u32>,
    /// The number of the sequence, from 1.
    sequence: u32,
    /// The time of the last packet.
    time: u64,
    bytes: Vec<u8>,
}

impl Perfetto<'_> {
    fn write(&mut self, packet: Packet, out: &mut dyn Write) -> io::Result<()> {
        self.bytes.clear();
        let packet = Packet { trusted_packet_sequence_id: Some(self.sequence), ..packet };
        File { packet: vec![packet] }.encode(&mut self.bytes).expect("memory can be written");
        out.write_all(&self.bytes)
    }

    /// Writes an event. `time` is not before the time of the last one.
    fn event(
        &mut self,
        time: u64,
        event: TrackEvent,
        interned: InternedData,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let difference = time - std::mem::replace(&mut self.time, time);
        let packet = Packet {
            timestamp: Some(difference),
            sequence_flags: Some(NEEDS_STATE),
            interned_data: Some(interned).filter(|interned| *interned != InternedData::default()),
            track_event: Some(event),
            ..Packet::default()
        };
        self.write(packet, out)
    }
}

impl Viewer for Perfetto<'_> {
    fn track(&mut self, stream: &Stream, name: &str, out: &mut dyn Write) -> io::Result<()> {
        self.named.clear();
        self.placed.clear();
        (self.sequence, self.time) = (self.sequence + 1, 0);
        let name = Some(name.to_owned());
        // Handlers have rows of their own.
        let thread = (stream.level == 0).then(|| ThreadDescriptor {
            pid: i32::try_from(stream.process).ok(),
            tid: Some(stream.thread.into()),
            thread_name: name.clone(),
        });
        let name = name.filter(|_| thread.is_none());
        let track = TrackDescriptor { uuid: Some(stream.number), name, thread };
        let clock = |id, is_incremental| Clock { clock_id: Some(id), timestamp: Some(0), is_incremental };
        let clocks = vec![clock(BOOT_TIME, None), clock(OWN_CLOCK, Some(true))];
        let defaults = Defaults {
            track_event_defaults: Some(EventDefaults { track_uuid: Some(stream.number) }),
            timestamp_clock_id: Some(OWN_CLOCK),
        };
        let first = Packet {
            clock_snapshot: Some(ClockSnapshot { clocks }),
            sequence_flags: Some(STATE_CLEARED),
            trace_packet_defaults: Some(defaults),
            ..Packet::default()
        };
        self.write(first, out)?;
        self.write(Packet { track_descriptor: Some(track), ..Packet::default() }, out)
    }

    fn begin(&mut self, _: &Stream, span: &Span, out: &mut dyn Write) -> io::Result<()> {
        let mut interned = InternedData::default();
        let iid = Some(u64::from(span.callee) + 1);
        if self.named.insert(span.callee) {
            let name = Some(self.tables.callee_name(span.callee).to_owned());
            interned.event_names.push(EventName { iid, name });
        }
        let location = place(self.tables, span.node).map(|(file, line)| {
            let iid = Some(u64::from(span.node) + 1);
            if self.placed.insert(span.node) {
                let (file_name, line_number) = (Some(file.to_owned()), Some(line));
                interned.source_locations.push(SourceLocation { iid, file_name, line_number });
            }
            iid
        });
        let begin = TrackEvent {
            r#type: Some(SLICE_BEGIN),
            name_iid: iid,
            source_location_iid: location.flatten(),
            ..TrackEvent::default()
        };
        self.event(span.start, begin, interned, out)
    }

    fn end(&mut self, _: &Stream, time: u64, _: &Span, out: &mut dyn Write) -> io::Result<()> {
        let end = TrackEvent { r#type: Some(SLICE_END), ..TrackEvent::default() };
        self.event(time, end, InternedData::default(), out)
    }

    fn instant(&mut self, _: &Stream, time: u64, name: String, out: &mut dyn Write) -> io::Result<()> {
        let instant = TrackEvent { r#type: Some(INSTANT), name: Some(name), ..TrackEvent::default() };
        self.event(time, instant, InternedData::default(), out)
    }
}
