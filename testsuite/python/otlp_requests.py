"""Checks that lines of standard input are requests of OTLP, as OpenTelemetry's own definitions have them."""

import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

for line in sys.stdin:
    request = json.loads(line)
    message = ExportTraceServiceRequest() if "resourceSpans" in request else ExportLogsServiceRequest()
    # It refuses fields that it does not know.
    json_format.ParseDict(request, message)
    assert message.ByteSize() > 100, line
