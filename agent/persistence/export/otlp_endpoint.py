"""OpenTelemetry's own exporters for one endpoint, and why one of them did not get rid of what it was given.

Owns which exporter a scheme means, the resource that all is told of, and their failures: exporters of the SDK answer
with success or failure and log the reason, which is taken from there instead. They read no answer that says success,
though it may tell of items that the collector rejected, and take a redirection for one, without following it, and a
page for a login: all are looked for here. They take an answer of any length in, for however long it comes: here it
has bounds. Headers, certificates, timeouts and compression are the SDK's own settings
(`OTEL_EXPORTER_OTLP_HEADERS` and the like), which it reads itself.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import time
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from agent import __version__
from agent.config.values import OtlpEndpoint
from agent.persistence.export.errors import ExportMisconfigured

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

log = logging.getLogger("kshadow.export")

INSTALL = "pip install 'kshadow[otlp]'"
SCOPE = "kshadow"
_UNSENDABLE = re.compile(r"code: 413\b|larger than max|Failed to encode|Value out of range")
_NOT_UNDERSTOOD = re.compile(r"code: 400\b|StatusCode\.INVALID_ARGUMENT\b")


_GIVEN_UP = re.compile(r"due to timeout, max retries or shutdown|code: None|code: StatusCode\.DEADLINE_EXCEEDED\b")
_TIMEOUT_S = 5.0
"""Of one export with its tries, unless `OTEL_EXPORTER_OTLP_TIMEOUT` says otherwise (the SDK: 10 s): an agent that is
to stop waits for it."""
_MOST_ANSWER_BYTES = 1024 * 1024


class ExportFailure(Struct, frozen=True):
    """Why an export failed. What is too large, has a value that OTLP has not, or is not understood need not be sent
    again as it is; but whoever is no collector at all may understand nothing."""

    reason: str
    is_unsendable: bool = False
    is_not_understood: bool = False
    rejected: int = 0
    """So many of what was sent the collector rejects, without saying which. It has the rest, and wants none again."""


class _Failures(logging.Handler):
    """Takes what the exporters log, by thread: an export is one call, of several tries."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._of_thread = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        """Note it."""
        self.note(record.getMessage())

    def note(self, text: str) -> None:
        """Note what was said of one try, or of all."""
        vars(self._of_thread).setdefault("said", []).append(" ".join(text.split())[:500])

    def take(self) -> ExportFailure:
        """What was said since the last time. That trying was given up tells less than what was said of a try."""
        said = vars(self._of_thread).pop("said", [])
        telling = [it for it in said if not _GIVEN_UP.search(it)] or said or ["the exporter says no reason"]
        return ExportFailure(telling[-1], any(map(_UNSENDABLE.search, said)), any(map(_NOT_UNDERSTOOD.search, said)))

    def note_answer(self, answer: Any) -> None:
        """Note what a collector says of its success: an `Export…ServiceResponse`."""
        vars(self._of_thread)["partial"] = answer.partial_success

    def take_rejected(self) -> ExportFailure | None:
        """What the answer since the last time rejects; None where that is nothing."""
        partial = vars(self._of_thread).pop("partial", None)
        for field, value in () if partial is None else partial.ListFields():
            if field.name.startswith("rejected_") and value > 0:
                text = " ".join(partial.error_message.split())[:500] or "the collector says no reason"
                return ExportFailure(text, rejected=value)
        return None


_FAILURES = _Failures()


def try_export(exporter: Any, items: Any) -> ExportFailure | None:
    """Give an exporter what it is to send; None where the collector took all of it."""
    _FAILURES.take()  # said of an export that came through in the end
    _FAILURES.take_rejected()
    try:
        if exporter.export(items).name == "SUCCESS":
            return _FAILURES.take_rejected()
    except ValueError as error:
        # Of a value that has no place in the protocol, or of headers that cannot be sent: the text tells. By HTTP the
        # exporter says it in its log.
        _FAILURES.note(str(error))
    return _FAILURES.take()


def resource(cluster: str | None = None) -> Resource:
    """Who tells: `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` win over what is said here."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    ours = {
        "service.name": "kshadow",
        "service.version": __version__,
        "service.instance.id": socket.gethostname(),
        **({} if cluster is None else {"kshadow.cluster": cluster}),
    }
    return Resource(ours).merge(OTELResourceDetector().detect())


def new_exporter(endpoint: OtlpEndpoint, signal: Literal["logs", "metrics"]) -> Any:
    """The SDK's exporter. Connects to nothing yet. Raises `ExportMisconfigured`."""
    try:
        made = _exporter(endpoint, signal)
    except ImportError as error:
        raise ExportMisconfigured(f"--otlp needs OpenTelemetry's exporters: {INSTALL}") from error
    except (OSError, ValueError) as error:
        raise ExportMisconfigured(f"--otlp {endpoint}: {error}") from error
    logger = logging.getLogger("opentelemetry.exporter")
    logger.propagate = False
    logger.handlers = [_FAILURES]
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("opentelemetry.exporter."):
            # They leave out what was said before, since logs may be what they export; here they are not.
            logging.getLogger(name).filters.clear()
    return made


def _exporter(endpoint: OtlpEndpoint, signal: str) -> Any:
    said = {"OTEL_EXPORTER_OTLP_TIMEOUT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_TIMEOUT"} & os.environ.keys()
    timeout_s = None if said else _TIMEOUT_S
    if endpoint.is_grpc:
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics

        kind = GrpcLogs if signal == "logs" else GrpcMetrics
        telling = type(kind.__name__, (_TellsAnswers, kind), {})
        return telling(endpoint=endpoint.grpc_url, insecure=not endpoint.is_secure, timeout=timeout_s)
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    kind_by_http = OTLPLogExporter if signal == "logs" else OTLPMetricExporter
    return kind_by_http(endpoint=f"{endpoint}/v1/{signal}", timeout=timeout_s, session=_telling_session(signal))


class _TellsAnswers:
    """Before an exporter by gRPC: notes what each answer says."""

    _client: Any

    def _initialize_channel_and_stub(self) -> None:
        super()._initialize_channel_and_stub()  # type: ignore[misc]
        call = self._client.Export

        def export(**request: Any) -> Any:
            answer = call(**request)
            _FAILURES.note_answer(answer)
            return answer

        self._client.Export = export


def _telling_session(signal: str) -> Any:
    """A session that notes what an answer says and why none came: the exporter says only that it gave up. None where
    the environment names a provider of sessions (`OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER`), which is then
    the one."""
    if any(it.startswith("OTEL_PYTHON_EXPORTER_OTLP_HTTP") and it.endswith("PROVIDER") for it in os.environ):
        return None
    import requests
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

    kind = ExportLogsServiceResponse if signal == "logs" else ExportMetricsServiceResponse

    class Bounded(requests.adapters.HTTPAdapter):
        def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
            response = super().send(request, *args, **options)
            response.raw = BytesIO(_whole(response.raw, options.get("timeout") or _TIMEOUT_S))
            return response

    class Telling(requests.Session):
        is_doubted = False

        def __init__(self) -> None:
            super().__init__()
            for scheme in ("http://", "https://"):
                self.mount(scheme, Bounded())

        def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
            try:
                response = super().send(request, **options)
                if (reason := _no_answer(response)) is not None:
                    raise requests.RequestException(reason)
            except (requests.RequestException, OSError) as error:
                _FAILURES.note(str(error))
                raise
            if response.ok:
                if (answer := _answer(response, kind)) is not None:
                    _FAILURES.note_answer(answer)
                elif not self.is_doubted:
                    self.is_doubted = True
                    log.warning(
                        "--otlp: %s answers %d with what is no answer of an OTLP receiver (%s: %s); whether it keeps"
                        " what it is sent is not known",
                        response.url.partition("?")[0], response.status_code,
                        response.headers.get("Content-Type", "no type")[:100], _shown(response.content),
                    )  # fmt: skip
            return response

    return Telling()


def _whole(answer: Any, timeout_s: float) -> bytes:
    """The body of an answer, unpacked. Raises `OSError` where it is too long, or does not end in time."""
    deadline = time.monotonic() + timeout_s
    content = bytearray()
    try:
        while part := answer.read1(65536, decode_content=True):
            content += part
            if len(content) > _MOST_ANSWER_BYTES:
                raise OSError(f"its answer is longer than {_MOST_ANSWER_BYTES} bytes, as no OTLP receiver's is")
            if time.monotonic() > deadline:
                raise OSError(f"its answer has no end after {timeout_s:.1f} s")
    except BaseException:
        answer.close()
        raise
    return bytes(content)


def _no_answer(response: Any) -> str | None:
    """Why an answer that the exporter takes for success is none; None where it is. The query of a place may hold a
    secret: it is not told."""
    if 300 <= response.status_code < 400:
        place = response.headers.get("Location", "").partition("?")[0]
        return f"it answers {response.status_code}, which leads to {place[:200] or 'nowhere'}"
    # What is protobuf may begin so as well: a line feed is its first field's tag, "<" that field's length.
    if response.ok and not _is_protobuf(response) and response.content.lstrip().startswith(b"<"):
        return f"it answers {response.status_code} with a page, as no OTLP receiver does"
    return None


def _answer(response: Any, kind: Any) -> Any:
    """What a receiver says of its success, nothing being a word of success, too; None where it is none's. Some write
    JSON, whatever they were sent."""
    from google.protobuf.json_format import Parse, ParseError
    from google.protobuf.message import DecodeError

    try:
        if not response.content or _is_protobuf(response):
            return kind.FromString(response.content)
        return Parse(response.content, kind())
    except (DecodeError, ParseError, UnicodeDecodeError):
        return None


def _shown(content: bytes) -> str:
    return " ".join(content[:200].decode(errors="replace").split())


def _is_protobuf(response: Any) -> bool:
    return bool(response.headers.get("Content-Type", "").startswith("application/x-protobuf"))
