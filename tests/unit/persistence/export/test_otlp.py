"""History as OpenTelemetry logs, to a receiver of the protocol's own messages: what comes, and what outages cost."""

from __future__ import annotations

import gzip
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent.common import clock
from agent.config.values import parse_otlp_endpoint
from agent.persistence.export import sink_worker
from agent.persistence.export.encoded_event import encode_event
from agent.persistence.export.errors import ExportMisconfigured, SinkDown
from agent.persistence.export.otlp_endpoint import new_exporter, try_export
from agent.persistence.export.otlp_sink import OtlpSink
from agent.persistence.export.pipeline import ExportPipeline, SpoolSettings
from tests.answering import Handler, web_server
from tests.harness.otlp import Receiver, attributes, plain, receiving
from tests.unit.cli.running import kshadow
from tests.unit.persistence.export.made import HOSTILE, event
from tests.waiting import until

FINDING = {
    "type": "finding",
    "analyzer": "rebalance_storm",
    "severity": "critical",
    "state": "firing",
    "group_type": None,
    "numbers": {"rate": 1.5, "groups": ["a", "b"], "nothing": None},
}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as it:
        yield it


@pytest.mark.parametrize("by", ["http", "grpc"])
def test_an_event_is_a_record(receiver: Receiver, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cr3t")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    sink = OtlpSink(parse_otlp_endpoint(getattr(receiver, by)), "prod")
    events = [event(1), event(2, **FINDING), event(3, **{**FINDING, "state": "resolved"})]
    assert sink.write([encode_event(it, 1_795_000_009_000) for it in events]) == []
    sink.close()
    records = receiver.logs()
    assert [plain(it.body) for it in records] == events
    assert [attributes(it)["log.record.uid"] for it in records] == [it["event_id"] for it in events]
    assert attributes(records[1]) == {
        "log.record.uid": events[1]["event_id"],
        **{name: value for name, value in events[1].items() if value is not None and name != "numbers"},
    }
    assert [(it.severity_text, it.severity_number) for it in records] == [("INFO", 9), ("ERROR", 17), ("INFO", 9)]
    assert [it.event_name for it in records] == ["kshadow.group_emptied", "kshadow.finding", "kshadow.finding"]
    assert records[0].time_unix_nano == 1_795_000_000_001_000_000
    # Some milliseconds more or less by the wall clock of now.
    assert records[0].observed_time_unix_nano == pytest.approx(1_795_000_009_000_000_000, abs=10**9)
    told = attributes(receiver.requests[0].resource_logs[0].resource)
    assert told | {"service.name": "kshadow", "kshadow.cluster": "prod", "deployment.environment": "test"} == told
    headers = {name.lower(): value for name, value in receiver.headers[0].items()}
    assert headers["authorization"] == "Bearer s3cr3t"


def test_what_strangers_write_comes_through(receiver: Receiver) -> None:
    sink = OtlpSink(parse_otlp_endpoint(receiver.http))
    assert sink.write([encode_event(event(at, name), 0) for at, name in enumerate(HOSTILE)]) == []
    shown = [plain(it.body)["group"] for it in receiver.logs()]
    assert shown == [it.encode("utf-8", "backslashreplace").decode() for it in HOSTILE]


@pytest.mark.parametrize("by", ["http", "grpc"])
def test_one_that_is_away_says_why(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where a machine has much to do, it may not get as far as a refusal within one second.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")
    sink = OtlpSink(parse_otlp_endpoint(f"{by}://127.0.0.1:1"))
    for _ in range(2):  # said each time
        with pytest.raises(SinkDown, match=rf"sending logs to {by}://127\.0\.0\.1:1: .*(?i:refused)"):
            sink.write([encode_event(event(1), 0)])


def test_a_last_try_that_had_no_time_left_says_less_than_one_before() -> None:
    exporter = new_exporter(parse_otlp_endpoint("grpc://127.0.0.1:1"), "logs")
    said = logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter")

    class OutOfTime:
        """What the exporter's own loop says where little time is left for the second try."""

        name = "FAILURE"

        def export(self, _: object) -> OutOfTime:
            said.warning("Transient error StatusCode.UNAVAILABLE encountered. Error details: refused")
            said.error("Failed to export logs to x, error code: StatusCode.DEADLINE_EXCEEDED")
            return self

    failure = try_export(OutOfTime(), [])
    exporter.shutdown()
    assert failure is not None
    assert failure.reason.endswith("Error details: refused")


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_a_no_that_can_change_is_tried_again(receiver: Receiver, status: int) -> None:
    receiver.status = status
    sink = OtlpSink(parse_otlp_endpoint(receiver.http))
    with pytest.raises(SinkDown, match=str(status)):
        sink.write([encode_event(event(1), 0)])


@pytest.mark.parametrize("status", [300, 301, 302, 304, 307, 308])
def test_a_redirection_is_no_success(receiver: Receiver, status: int) -> None:
    """A proxy that wants TLS, or a login, answers so: what was sent is nowhere."""
    receiver.status = status
    sink = OtlpSink(parse_otlp_endpoint(receiver.http))
    with pytest.raises(SinkDown, match=f"it answers {status}, which leads to https://login.example/$"):
        sink.write([encode_event(event(1), 0)])


def test_a_page_is_no_success(receiver: Receiver) -> None:
    """That of a login, or of a server whose pages are one for all addresses."""
    receiver.page = b"\n<!doctype html><title>Log in</title>"
    sink = OtlpSink(parse_otlp_endpoint(receiver.http))
    with pytest.raises(SinkDown, match=r"it answers 200 with a page, as no OTLP receiver does$"):
        sink.write([encode_event(event(1), 0)])


def test_protobuf_that_begins_like_a_page_is_a_success(receiver: Receiver) -> None:
    receiver.word = "x" * 58
    sink = OtlpSink(parse_otlp_endpoint(receiver.http))
    assert sink.write([encode_event(event(1), 0)]) == []
    (request,) = receiver.requests
    assert receiver.answer(request).SerializeToString()[:2] == b"\n<"


class Endless(Handler):
    """Answers with what never ends."""

    piece, pause_s, encoding, status = b"", 0.0, "identity", 200

    def do_POST(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Encoding", self.encoding)
        self.end_headers()
        with suppress(ConnectionError):
            while not time.sleep(self.pause_s):
                self.wfile.write(self.piece)


class Flood(Endless):
    piece = bytes(65536)


class Packed(Flood):
    """A megabyte of a kilobyte each time."""

    piece, encoding, status = gzip.compress(bytes(1 << 20)), "gzip", 302


class Drip(Endless):
    piece, pause_s = b"x", 0.05


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (Flood, "its answer is longer than 1048576 bytes"),
        (Packed, "its answer is longer than 1048576 bytes"),
        (Drip, "its answer has no end after "),
    ],
)
def test_an_answer_without_an_end(answers: type[Endless], reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took all memory, or held up all that came after it, for ever."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    with web_server(answers) as url:
        sink = OtlpSink(parse_otlp_endpoint(url))
        with pytest.raises(SinkDown, match=reason):
            sink.write([encode_event(event(1), 0)])


@pytest.mark.parametrize(
    ("content_type", "body", "shown"),
    [
        ("text/plain", b"ok\n\x1b[31m", "(text/plain: ok"),
        ("application/json", b'{"status": "ok"}', '(application/json: {"status": "ok"})'),
        ("application/x-protobuf", b"\xff\xff", "(application/x-protobuf: "),
        ("application/json", b"\xff", "(application/json: "),
    ],
)
def test_that_an_answer_is_no_receivers_is_told_once(
    receiver: Receiver, caplog: pytest.LogCaptureFixture, content_type: str, body: bytes, shown: str
) -> None:
    """It says success, so nothing is sent again; what becomes of the events nobody knows."""
    receiver.page_type, receiver.page = content_type, body
    sink = OtlpSink(parse_otlp_endpoint(receiver.http))
    assert [sink.write([encode_event(event(number), 0)]) for number in range(2)] == [[], []]
    (record,) = caplog.records
    said = record.getMessage()
    assert said.startswith(f"--otlp: {receiver.http}/v1/logs answers 200 with what is no answer of an OTLP receiver")
    assert shown in said


@pytest.mark.parametrize("body", [b"{}", b'{"partialSuccess": {}}'])
def test_a_receiver_that_answers_with_json_is_one(
    receiver: Receiver, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    receiver.page_type, receiver.page = "application/json", body
    assert OtlpSink(parse_otlp_endpoint(receiver.http)).write([encode_event(event(1), 0)]) == []
    assert caplog.records == []


def test_events_that_are_rejected_in_json_are_counted(receiver: Receiver) -> None:
    receiver.page_type = "application/json"
    receiver.page = b'{"partialSuccess": {"rejectedLogRecords": "1", "errorMessage": "too old"}}'
    line = encode_event(event(1), 0)
    (rejected,) = OtlpSink(parse_otlp_endpoint(receiver.http)).write([line])
    assert rejected.event == line
    assert rejected.reason == "the collector rejects it: too old"


@pytest.mark.parametrize("by", ["http", "grpc"])
def test_events_that_a_collector_rejects_beside_its_success_are_counted(
    receiver: Receiver, by: str, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.rejected = 3
    exports = ExportPipeline([OtlpSink(parse_otlp_endpoint(getattr(receiver, by)))], spool=None)
    exports.put([event(number) for number in range(10)])
    exports.start()
    until(lambda: exports.readings()[0].buffered == 0)
    (reading,) = exports.readings()
    exports.stop(5)
    assert (reading.events, reading.dropped["refused"], reading.healthy) == (7, 3, True)
    assert len(receiver.logs()) == 10  # none a second time
    assert "history sink otlp: 3 events refused: the collector rejects it: too old," in caplog.text


@pytest.mark.parametrize("by", ["http", "grpc"])
def test_a_word_of_a_collector_beside_its_success_rejects_nothing(receiver: Receiver, by: str) -> None:
    sink = OtlpSink(parse_otlp_endpoint(getattr(receiver, by)))
    receiver.rejected = 1
    line = encode_event(event(1), 0)
    assert [it.event for it in sink.write([line])] == [line]
    receiver.rejected = 0
    assert sink.write([line]) == []


def test_what_a_collector_does_not_understand_is_refused(receiver: Receiver) -> None:
    sink = OtlpSink(parse_otlp_endpoint(receiver.http))
    assert sink.write([encode_event(event(1), 0)]) == []
    receiver.status = 400
    (refused,) = sink.write([encode_event(event(2), 0)])
    assert refused.event == encode_event(event(2), 0)


@pytest.mark.parametrize("by", ["http", "grpc"])
def test_one_that_is_too_large_holds_up_no_other(
    receiver: Receiver, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "http":
        # What is too large for gRPC is tried again for all of the time.
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
    receiver.most_bytes = 4 * 1024 * 1024
    sink = OtlpSink(parse_otlp_endpoint(getattr(receiver, by)))
    large = event(3, summary="x" * 3_000_000)  # in the body, and among the attributes
    lines = [encode_event(it, 0) for it in (event(1), event(2), large, event(4))]
    (refused,) = sink.write(lines)
    assert refused.event == lines[2]
    assert refused.reason.startswith("it is too large, or not understood: ")
    assert [plain(it.body)["offset"] for it in receiver.logs()] == [1, 2, 4]


@pytest.mark.parametrize("by", ["http", "grpc"])
@pytest.mark.parametrize("at_ms", [-1, -(1 << 62), 253_402_300_800_000, (1 << 63) - 1])
def test_a_time_that_otlp_has_not_is_unknown_there(receiver: Receiver, by: str, at_ms: int) -> None:
    """Strangers write times: one of them held up all that came after it, for ever."""
    sink = OtlpSink(parse_otlp_endpoint(getattr(receiver, by)))
    of_it = {**event(1), "at_ms": at_ms}
    assert sink.write([encode_event(it, 0) for it in (of_it, event(2))]) == []
    strange, other = receiver.logs()
    assert (strange.time_unix_nano, plain(strange.body)["at_ms"]) == (0, at_ms)
    assert other.time_unix_nano == 1_795_000_000_002_000_000


def test_a_clock_that_was_set_back_before_1970(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    began_ms = clock.steady_ms()
    monkeypatch.setattr(clock, "now_ms", lambda: clock.steady_ms() - began_ms - 1_000)
    sink = OtlpSink(parse_otlp_endpoint(receiver.grpc))
    assert sink.write([encode_event(event(1), began_ms)]) == []
    assert [it.observed_time_unix_nano for it in receiver.logs()] == [0]


@pytest.mark.parametrize("by", ["http", "grpc"])
def test_a_number_that_otlp_has_not_holds_up_no_other(
    receiver: Receiver, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "30")
    sink = OtlpSink(parse_otlp_endpoint(getattr(receiver, by)))
    lines = [encode_event(it, 0) for it in (event(1), {**event(2), "stopped_partition_ms": 1 << 70}, event(3))]
    (refused,) = sink.write(lines)
    assert refused.event == lines[1]
    assert f"Value out of range: {1 << 70}" in refused.reason
    assert [plain(it.body)["offset"] for it in receiver.logs()] == [1, 3]


def test_what_was_said_of_an_export_that_came_through_is_no_reason_of_a_later_one(receiver: Receiver) -> None:
    sink = OtlpSink(parse_otlp_endpoint(receiver.http))
    assert sink.write([encode_event(event(1), 0)]) == []
    logging.getLogger("opentelemetry.exporter").warning("Retryable error, code: 413")
    receiver.status = 404
    with pytest.raises(SinkDown) as down:
        sink.write([encode_event(event(2), 0)])
    assert "code: 413" not in str(down.value)


def test_an_outage_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the receiver is away the events wait in the spool, through a restart of the agent, too."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setattr(sink_worker, "LONGEST_PAUSE_S", 0.5)
    receiver = Receiver()

    def pipeline() -> ExportPipeline:
        made = ExportPipeline(
            [OtlpSink(parse_otlp_endpoint(receiver.http))], spool=SpoolSettings(tmp_path, "c"), memory_bytes=1 << 16
        )
        made.start()
        return made

    with receiving(receiver):
        exports = pipeline()
        exports.put([event(number) for number in range(100)])
        until(lambda: len(receiver.logs()) == 100)
    exports.put([event(number) for number in range(100, 3000)])
    until(lambda: not exports.readings()[0].healthy)
    assert exports.wait_durable(10)
    exports.stop(5)
    exports = pipeline()
    exports.put([event(number) for number in range(3000, 3100)])
    with receiving(receiver):
        until(lambda: len({plain(it.body)["offset"] for it in receiver.logs()}) == 3100, 60)
        exports.stop(5)
    offsets = [plain(it.body)["offset"] for it in receiver.logs()]
    assert sorted({*offsets}) == list(range(3100))
    assert exports.readings()[0].dropped == {"full": 0, "refused": 0, "damaged": 0, "stopped": 0}


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http._log_exporter", None)
    with pytest.raises(ExportMisconfigured, match=r"pip install 'kshadow\[otlp\]'"):
        OtlpSink(parse_otlp_endpoint("http://collector:4318"))


# 1-9: endpoints, and what is said of those that are none.
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("collector:4318", "got 'collector:4318'"),
        ("", "got ''"),
        ("ftp://x", "got 'ftp://x'"),
        ("http://", "got 'http://'"),
        ("grpc://collector", "for gRPC a host and a port"),
        ("grpc://collector:4317/v1", "for gRPC a host and a port"),
        ("http://u:hunter2@collector", "OTEL_EXPORTER_OTLP_HEADERS"),
        ("http://collector?token=hunter2", "OTEL_EXPORTER_OTLP_HEADERS"),
        ("http://[hunter2", "got something else"),
    ],
)
def test_no_endpoints(text: str, said: str) -> None:
    result = kshadow("run", "--bootstrap-server", "127.0.0.1:1", "--otlp", text)
    assert (result.exit_code, "hunter2" in result.stderr) == (2, False)
    assert said in " ".join(result.stderr.split())


@pytest.mark.parametrize("text", ["http://c", "https://c:4318/a/b", "grpc://[::1]:4317", "grpcs://c:4317"])
def test_endpoints(text: str) -> None:
    assert str(parse_otlp_endpoint(text + ("/" if text.startswith("http") else ""))) == text
