"""A receiver of OTLP made of the protocol's own messages and services (opentelemetry-proto), by HTTP and by gRPC.

What the collector is, where none is built: it takes logs and metrics and keeps them. It can be away, be refused
things, and be asked what came.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from threading import Thread
from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import (
    LogsServiceServicer,
    add_LogsServiceServicer_to_server,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)

from tests.answering import Handler

REQUESTS = {"/v1/logs": ExportLogsServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}

REJECTION = "too old,\n\x1b[31mit says"
"""Why it rejects some, or what else it says beside its success."""


class Receiver:
    """What came. `status`: what it answers by HTTP. `most_bytes`: of a request; larger ones are refused with 413.
    `rejected`: of each request it tells so many items as rejected, beside its success. `page`: what it answers by
    HTTP instead, and takes nothing; `page_type`: its content type. `word`: what it says beside its success."""

    def __init__(self) -> None:
        self.status, self.most_bytes, self.rejected = 200, 20 * 1024 * 1024, 0
        self.page, self.page_type, self.word = b"", "text/html", REJECTION
        self.requests: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.http_port = self.grpc_port = 0

    @property
    def http(self) -> str:
        """The endpoint by HTTP."""
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def grpc(self) -> str:
        """The endpoint by gRPC."""
        return f"grpc://127.0.0.1:{self.grpc_port}"

    def answer(self, request: Any) -> Any:
        """What it says of a request that it took."""
        if isinstance(request, ExportLogsServiceRequest):
            logs = ExportLogsServiceResponse()
            logs.partial_success.rejected_log_records = self.rejected
            logs.partial_success.error_message = self.word
            return logs
        metrics = ExportMetricsServiceResponse()
        metrics.partial_success.rejected_data_points = self.rejected
        metrics.partial_success.error_message = self.word
        return metrics

    def logs(self) -> list[Any]:
        """Every log record, as protobuf."""
        return [
            record
            for request in self.requests
            if isinstance(request, ExportLogsServiceRequest)
            for of in request.resource_logs
            for scope in of.scope_logs
            for record in scope.log_records
        ]

    def metrics(self) -> list[Any]:
        """Every metric with its points, as protobuf."""
        return [
            metric
            for request in self.requests
            if isinstance(request, ExportMetricsServiceRequest)
            for of in request.resource_metrics
            for scope in of.scope_metrics
            for metric in scope.metrics
        ]


def plain(value: Any) -> Any:
    """A protobuf `AnyValue` as JSON has it."""
    match value.WhichOneof("value"):
        case "kvlist_value":
            return {it.key: plain(it.value) for it in value.kvlist_value.values}
        case "array_value":
            return [plain(it) for it in value.array_value.values]
        case None:
            return None
        case kind:
            return getattr(value, kind)


def attributes(message: Any) -> dict[str, Any]:
    """The attributes of a record, a point or a resource."""
    return {it.key: plain(it.value) for it in message.attributes}


class _Http(Handler):
    server: _HttpServer

    def do_POST(self) -> None:
        receiver = self.server.receiver
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        status = 413 if len(body) > receiver.most_bytes else receiver.status
        answer = receiver.page
        if status == 200 and not answer:
            receiver.headers.append(dict(self.headers))
            receiver.requests.append(REQUESTS[self.path].FromString(body))
            answer = receiver.answer(receiver.requests[-1]).SerializeToString()
        headers = {"Location": "https://login.example/?token=hunter2"} if 300 <= status < 400 else {}
        headers["Content-Type"] = receiver.page_type if receiver.page else "application/x-protobuf"
        self.say(status, answer, headers)


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, receiver: Receiver) -> None:
        super().__init__(("127.0.0.1", receiver.http_port), _Http)
        self.receiver = receiver


class _Grpc(LogsServiceServicer, MetricsServiceServicer):
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def Export(self, request: Any, context: Any) -> Any:
        self._receiver.headers.append({it.key: it.value for it in context.invocation_metadata()})
        self._receiver.requests.append(request)
        return self._receiver.answer(request)


@contextmanager
def receiving(receiver: Receiver | None = None) -> Iterator[Receiver]:
    """One that listens, on the ports that it had before if it had any."""
    receiver = receiver or Receiver()
    server = _HttpServer(receiver)
    receiver.http_port = server.server_port
    Thread(target=server.serve_forever, daemon=True).start()
    by_grpc = grpc.server(ThreadPoolExecutor(2))
    for add_to in (add_LogsServiceServicer_to_server, add_MetricsServiceServicer_to_server):
        add_to(_Grpc(receiver), by_grpc)
    receiver.grpc_port = by_grpc.add_insecure_port(f"127.0.0.1:{receiver.grpc_port}")
    by_grpc.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        by_grpc.stop(0).wait()
