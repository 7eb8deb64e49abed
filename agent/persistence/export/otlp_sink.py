"""History as OpenTelemetry logs: each event one record, sent when it comes.

The body is the event as it is everywhere, as a map; its plain fields are attributes as well, so that backends can
look for them. `log.record.uid` is the event's id: OpenTelemetry's own name for what tells a record that came twice. A
finding that fires has its severity, everything else is INFO.

A collector that takes nothing now is tried again; one that says that it will never take this batch (too large, or not
understood) is given the halves of it, down to the one event that it refuses. One that takes a batch but for some
events says how many, not which, and must not be given them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.common import clock
from agent.config.values import OtlpEndpoint
from agent.core.events.events import FINDING
from agent.persistence.export.encoded_event import EncodedEvent, decode_event
from agent.persistence.export.errors import SinkDown
from agent.persistence.export.otlp_endpoint import SCOPE, new_exporter, resource, try_export
from agent.persistence.export.sinks import BatchLimits, RejectedEvent

BATCH_EVENTS, BATCH_BYTES = 500, 1024 * 1024
"""Collectors take 4 MB a request by gRPC unless told; protobuf is about as long as JSON, and fields come twice."""
UNKNOWN_TIME, END_OF_TIME_NS = 0, 1 << 64
"""OTLP's own word for a time that is not known, and what its times are below."""

SEVERITIES: Mapping[str, str] = {"info": "INFO", "warning": "WARN", "critical": "ERROR"}
"""Of findings, by ours."""


class OtlpSink:
    """Sends events to one endpoint."""

    name = "otlp"

    def __init__(self, endpoint: OtlpEndpoint, cluster: str | None = None) -> None:
        """Raises `ExportMisconfigured`."""
        self._endpoint = endpoint
        self._exporter = new_exporter(endpoint, "logs")
        self._records = LogRecords(cluster)
        self._is_collector = False
        """Whether it has taken something: who understands nothing is another server, such as one that wants TLS."""
        self.batching = BatchLimits(BATCH_EVENTS, BATCH_BYTES, 0.0)

    def write(self, batch: Sequence[EncodedEvent]) -> Sequence[RejectedEvent]:
        """Send them. Raises `SinkDown` where they cannot be sent now."""
        return list(self._sent(batch))

    def _sent(self, batch: Sequence[EncodedEvent]) -> Iterator[RejectedEvent]:
        """Those that the collector will never take."""
        if not batch:
            return
        failure = try_export(self._exporter, self._records.of(batch))
        if failure is None:
            self._is_collector = True
            return
        if failure.rejected:
            self._is_collector = True
            for _ in range(min(failure.rejected, len(batch))):
                yield RejectedEvent(
                    batch[0] if len(batch) == 1 else None, f"the collector rejects it: {failure.reason}"
                )
            return
        if not failure.is_unsendable and not (failure.is_not_understood and self._is_collector):
            raise SinkDown(f"sending logs to {self._endpoint}: {failure.reason}")
        if len(batch) == 1:
            yield RejectedEvent(batch[0], f"it is too large, or not understood: {failure.reason}")
            return
        half = len(batch) // 2
        yield from self._sent(batch[:half])
        yield from self._sent(batch[half:])

    def close(self) -> None:
        """Let go of connections."""
        self._exporter.shutdown()


class LogRecords:
    """Makes records of one cluster's events."""

    def __init__(self, cluster: str | None) -> None:
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._resource, self._scope = resource(cluster), InstrumentationScope(SCOPE)

    def of(self, batch: Sequence[EncodedEvent]) -> list[Any]:
        """A record for each event, in their order."""
        return [self._record(line) for line in batch]

    def _record(self, line: EncodedEvent) -> Any:
        from opentelemetry._logs import LogRecord, SeverityNumber
        from opentelemetry.sdk._logs import ReadableLogRecord

        event, is_text = decode_event(line)
        body = event if is_text else _printable(event)
        severity = severity_of(body)
        record = LogRecord(
            # A stranger's record has any time, or none; the body says which.
            timestamp=nanoseconds(line.at_ms),
            # By the wall clock of now: it may have been set right since the process began.
            observed_timestamp=nanoseconds(line.put_ms + clock.now_ms() - clock.steady_ms()),
            severity_text=severity,
            severity_number=SeverityNumber[severity],
            body=body,
            attributes=attributes_of(body),
            event_name=f"kshadow.{line.type}",
        )
        return ReadableLogRecord(record, self._resource, self._scope)


def nanoseconds(at_ms: int) -> int:
    """An OTLP time."""
    at_ns = at_ms * 1_000_000
    return at_ns if 0 <= at_ns < END_OF_TIME_NS else UNKNOWN_TIME


def severity_of(event: Mapping[str, Any]) -> str:
    """By OpenTelemetry's names."""
    is_firing = event["type"] == FINDING and event.get("state") == "firing"
    return SEVERITIES.get(str(event.get("severity")), "INFO") if is_firing else "INFO"


def attributes_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are one value, those that are null left out."""
    plain = {name: value for name, value in event.items() if isinstance(value, str | bool | int | float)}
    return {"log.record.uid": event["event_id"], **plain}


def _printable(value: Any) -> Any:
    """Lone surrogates have no UTF-8, which protobuf wants: they are written as in the JSON, \\udc80."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {_printable(key): _printable(it) for key, it in value.items()}
        case list():
            return [_printable(it) for it in value]
        case _:
            return value
