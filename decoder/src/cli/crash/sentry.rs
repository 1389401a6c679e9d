//! Crash reports as events of Sentry (<https://develop.sentry.dev/sdk/foundations/transport/event-payloads/>).

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use pcce::crash_report::{Report, Signal};
use pcce::render::folded_frame;
use pcce::session::Session;
use pcce::style::Style;
use pcce::token::{from_hex, to_hex};
use pcce::{Frame, FrameKind};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::super::Status;
use super::fingerprint;

/// The time of a crash: when the file with its report was written.
///
/// # Errors
/// The file cannot be looked at.
pub fn time(file: &Path) -> anyhow::Result<Duration> {
    let changed = fs::metadata(file).and_then(|data| data.modified());
    let changed = changed.with_context(|| file.display().to_string())?;
    Ok(changed.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The event of a report, and whether all of its contexts were decoded. `number`: the report's number in its file.
pub fn event(
    session: &mut Session<'_>,
    report: &Report,
    number: usize,
    time: Duration,
    style: &Style,
) -> (Value, Status) {
    let mut status = Status::Done;
    let (mut threads, mut errors, mut crashed) = (Vec::new(), Vec::new(), json!({}));
    let mut equal = Value::Null;
    for (number, thread) in report.threads.iter().enumerate() {
        let is_first = number == 0;
        // Where the kernel's number is not known, the thread gets one that no thread has.
        let id = thread.number.map_or(-1 - number as i64, i64::from);
        let mut row =
            json!({ "id": id, "crashed": is_first || thread.also_crashed.is_some(), "current": is_first });
        if let Some(name) = &thread.name {
            row["name"] = name.as_str().into();
        }
        let frames = thread.context.token().map(|token| session.frames(token.as_bytes()));
        let stack = match frames {
            Some(Ok(frames)) => {
                if is_first {
                    let calls = frames.iter().filter(|frame| frame.kind == FrameKind::Call);
                    equal = json!([fingerprint(report, calls.map(|frame| frame.function), None)]);
                }
                if frames.iter().any(|frame| frame.kind == FrameKind::UnknownModule) {
                    status = Status::Failed;
                }
                Some(json!({ "frames": frames.iter().rev().map(|f| shown(f, style)).collect::<Vec<_>>() }))
            }
            Some(Err(failure)) => {
                status = Status::Failed;
                errors.push(json!({ "thread": id, "error": failure.to_string() }));
                None
            }
            None => {
                errors.push(json!({ "thread": id, "error": "the report has no context" }));
                None
            }
        };
        // The exception has the stack of its thread, and the thread has none then.
        if is_first {
            crashed = exception(report.signal.as_ref(), id, stack);
        } else if let Some(stack) = stack {
            row["stacktrace"] = stack;
        }
        threads.push(row);
    }
    let mut event = json!({
        "timestamp": time.as_secs_f64(),
        "platform": "native",
        "level": "fatal",
        "sdk": { "name": "pcce", "version": env!("CARGO_PKG_VERSION") },
        "exception": { "values": [crashed] },
        "threads": { "values": threads },
        "contexts": { "pcce": {
            "type": "pcce",
            "process": report.process,
            "trace": report.trace,
            "complete": report.is_whole,
            "missing": report.incomplete,
            "not_decoded": errors,
        } },
    });
    if !equal.is_null() {
        event["fingerprint"] = equal;
    }
    if let Some(image) = image(report) {
        event["debug_meta"] = json!({ "images": [image] });
    }
    // A report that is sent again is the same event.
    let mut hash = Sha256::new();
    hash.update(event.to_string());
    hash.update(number.to_string());
    event["event_id"] = to_hex(&hash.finalize()[..16]).into();
    (event, status)
}

/// The signal that ended the program, as the exception of a thread.
fn exception(signal: Option<&Signal>, thread: i64, stack: Option<Value>) -> Value {
    let mut mechanism = json!({ "type": "signalhandler", "handled": false, "synthetic": true });
    let mut text = "the program crashed".to_owned();
    let mut kind = "crash".to_owned();
    if let Some(signal) = signal {
        kind = signal.name().map_or_else(|| format!("signal {}", signal.number), str::to_owned);
        text = kind.clone();
        let mut meta = Map::from_iter([("number".to_owned(), signal.number.into())]);
        meta.extend(signal.name().map(|name| ("name".to_owned(), name.into())));
        meta.extend(signal.code.map(|code| ("code".to_owned(), code.into())));
        if let Some(meaning) = signal.meaning() {
            meta.insert("code_name".to_owned(), meaning.into());
            text += &format!(" ({meaning})");
        }
        mechanism["meta"] = json!({ "signal": meta });
        if let Some(address) = signal.address {
            mechanism["data"] = json!({ "address": format!("{address:#x}") });
            text += &format!(" at {address:#x}");
        }
        if let Some(sender) = signal.sender {
            text += &format!(" from process {sender}");
        }
    }
    let mut exception = json!({ "type": kind, "value": text, "thread_id": thread, "mechanism": mechanism });
    if let Some(stack) = stack {
        exception["stacktrace"] = stack;
    }
    exception
}

/// A frame. A boundary becomes one, too, with its text as the function.
fn shown(frame: &Frame<'_>, style: &Style) -> Value {
    if frame.kind != FrameKind::Call {
        return json!({ "function": folded_frame(frame, style), "in_app": false });
    }
    let mut shown = Map::from_iter([("in_app".to_owned(), (!style.hidden.hides(frame)).into())]);
    let name = frame.function.unwrap_or("??");
    shown.insert("function".to_owned(), (&*style.name(name)).into());
    if let Some(file) = frame.file {
        shown.insert("filename".to_owned(), (&*style.path(file)).into());
        shown.insert("abs_path".to_owned(), file.into());
    }
    shown.extend(frame.line.map(|line| ("lineno".to_owned(), line.into())));
    shown.extend(frame.column.map(|column| ("colno".to_owned(), column.into())));
    shown.into()
}

/// The program. Its debug id is the first 16 bytes of the build id as a UUID, whose first three fields are
/// little-endian.
fn image(report: &Report) -> Option<Value> {
    let mut id = from_hex(&report.build_id).filter(|id| !id.is_empty())?;
    id.resize(16, 0);
    for field in [0..4, 4..6, 6..8] {
        id[field].reverse();
    }
    let digits = to_hex(&id);
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    Some(json!({
        "type": "elf",
        "code_id": report.build_id,
        "code_file": report.program,
        "debug_id": parts.join("-"),
    }))
}
