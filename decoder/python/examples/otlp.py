"""Adds the calls behind context tokens to spans and log records of OpenTelemetry.

    python3 otlp.py DICTIONARIES < telemetry.jsonl > decoded.jsonl

It reads OTLP in JSON, one request a line, as OpenTelemetry's file exporters write it. Where there is an attribute
`pcce.token`, it adds `code.stacktrace`, and the innermost call as `code.function.name`, `code.file.path`,
`code.line.number` and `code.column.number`; or `pcce.error`.
"""

import json
import sys

import pcce


def attribute(key, value):
    return {"key": key, "value": {"intValue" if isinstance(value, int) else "stringValue": str(value)}}


def calls(decoder, token):
    try:
        context = decoder.decode(token)
    except pcce.DecodeError as error:
        return [attribute("pcce.error", error)]
    found = {"code.stacktrace": context}
    for frame in context.frames:
        if frame.kind == "call":
            found["code.function.name"] = frame.function
            found["code.file.path"] = frame.file
            found["code.line.number"] = frame.line
            found["code.column.number"] = frame.column
            break
    return [attribute(key, value) for key, value in found.items() if value is not None]


def add(decoder, value):
    """Adds to all lists of attributes in `value`."""
    if isinstance(value, dict):
        attributes = value.get("attributes", [])
        tokens = [held["value"]["stringValue"] for held in attributes if held["key"] == "pcce.token"]
        for token in tokens:
            attributes.extend(calls(decoder, token))
        value = list(value.values())
    if isinstance(value, list):
        for held in value:
            add(decoder, held)


def main(dictionaries):
    decoder = pcce.Decoder(dictionaries)
    for line in sys.stdin:
        request = json.loads(line)
        add(decoder, request)
        print(json.dumps(request, separators=(",", ":")), flush=True)


main(sys.argv[1])
