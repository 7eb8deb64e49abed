"""A stream's progress as Prometheus metrics: the table of them, what they are read from, and the page that is served.

`StreamProgress` is told by Spark's listener (`spark_jobs.streams.listening`), and asked by scrapes: it knows nothing
of Spark. What Spark did not tell is absent, never 0. Labels are of the stream's own settings: no stranger names one.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from msgspec import Struct, field

from agent.config.values import Address
from agent.serving.metrics.text import Metric

REQUEST_TIMEOUT_S = 10

PARTS = ("addBatch", "commitOffsets", "getBatch", "latestOffset", "queryPlanning", "walCommit")
"""The parts of a batch as Spark tells them; others count as `other`."""


class BatchProgress(Struct, frozen=True):
    """What Spark tells at the end of a batch."""

    input_records: int
    input_records_per_s: float | None
    processed_records_per_s: float | None
    duration_s: float | None
    parts_s: Mapping[str, float]
    watermark_ms: int | None
    """Epoch milliseconds; None: there is none, or none yet."""
    state_rows: int | None
    state_bytes: int | None
    """On disk."""
    state_memory_bytes: int | None
    behind: Mapping[str, int]
    """By source: records between what was read and its end."""


class StreamProgress(Struct):
    """How a stream is getting on. Times are Unix time in seconds."""

    query: str
    """What it is called: `mirror` or `rollups`."""
    starts: int = 1
    failures: int = 0
    started_s: float = field(default_factory=time.time)
    is_up: bool = False
    batches: int = 0
    input_records: int = 0
    batch_s: float = 0.0
    last_progress_s: float | None = None
    set_aside: int = 0
    latest: BatchProgress | None = None

    def batch(self, told: BatchProgress, now_s: float) -> None:
        """A batch ended."""
        self.batches += 1
        self.input_records += told.input_records
        self.batch_s += told.duration_s or 0.0
        self.latest, self.last_progress_s = told, now_s

    def idle(self, now_s: float) -> None:
        """There is nothing to read."""
        self.last_progress_s = now_s


Samples = Iterable[tuple[tuple[str, ...], float]]


class StreamMetric(Metric, frozen=True):
    """A metric of a stream."""

    values: Callable[[StreamProgress, float], Mapping[str, float] | float | None]
    """Of the progress and the time: the value, or values by that of the second label; None: there is no sample."""

    def samples(self, progress: StreamProgress, now_s: float) -> Samples:
        """The values of the labels, and the value."""
        values = self.values(progress, now_s)
        if isinstance(values, Mapping):
            yield from (((progress.query, key), value) for key, value in values.items())
        elif values is not None:
            yield (progress.query,), values


def _of_latest(get: Callable[[BatchProgress], Any]) -> Callable[[StreamProgress, float], Any]:
    return lambda it, now_s: None if it.latest is None else get(it.latest)


def _watermark(it: StreamProgress) -> float | None:
    at_ms = None if it.latest is None else it.latest.watermark_ms
    return None if at_ms is None else at_ms / 1000


def _age(it: StreamProgress, now_s: float) -> float | None:
    at_s = _watermark(it)
    return None if at_s is None else max(now_s - at_s, 0.0)


def _gauge(name: str, text: str, values: Callable[[StreamProgress, float], Any], *labels: str) -> StreamMetric:
    return StreamMetric(f"kshadow_spark_stream_{name}", "gauge", ("query", *labels), text, values)


def _counter(name: str, text: str, values: Callable[[StreamProgress, float], Any]) -> StreamMetric:
    return StreamMetric(f"kshadow_spark_stream_{name}", "counter", ("query",), text, values)


STREAM_METRICS = (
    _gauge("up", "1 while the stream works, 0 before it began and once it ended.", lambda it, _: float(it.is_up)),
    _gauge("start_timestamp_seconds", "When the stream was started, Unix time.", lambda it, _: it.started_s),
    _counter("starts", "How often a stream was started from this checkpoint.", lambda it, _: it.starts),
    _counter(
        "failures",
        "How often a stream of this checkpoint ended otherwise than in order: by an error, or killed.",
        lambda it, _: it.failures,
    ),
    _counter("batches", "Batches that ended.", lambda it, _: it.batches),
    _counter("input_records", "Records, or events, that were read.", lambda it, _: it.input_records),
    _gauge(
        "input_records_per_second",
        "Records a second that came for the last batch.",
        _of_latest(lambda it: it.input_records_per_s),
    ),
    _gauge(
        "processed_records_per_second",
        "Records a second that the last batch took in.",
        _of_latest(lambda it: it.processed_records_per_s),
    ),
    _counter("batch_seconds", "Time that batches took.", lambda it, _: it.batch_s),
    _gauge("batch_duration_seconds", "Time that the last batch took.", _of_latest(lambda it: it.duration_s)),
    _gauge(
        "batch_part_seconds",
        "Time that a part of the last batch took; addBatch is the work, the others are Spark's own.",
        _of_latest(lambda it: it.parts_s),
        "part",
    ),
    _gauge(
        "last_progress_timestamp_seconds",
        "When a batch last ended, or there was nothing to read, Unix time.",
        lambda it, _: it.last_progress_s,
    ),
    _gauge(
        "behind_records",
        "Records between what was read and the end of the source, all partitions together, at the last batch's end. "
        "Absent for files.",
        _of_latest(lambda it: it.behind),
        "source",
    ),
    _gauge(
        "watermark_timestamp_seconds",
        "Up to when events have their say in the rollups, Unix time; windows that end earlier are written.",
        lambda it, _: _watermark(it),
    ),
    _gauge("watermark_age_seconds", "How long ago the watermark is.", _age),
    _counter("set_aside_events", "Events that were set aside: late, or of no time.", lambda it, _: it.set_aside),
    _gauge("state_rows", "Keys that the stream keeps state of.", _of_latest(lambda it: it.state_rows)),
    _gauge("state_bytes", "State on disk.", _of_latest(lambda it: it.state_bytes)),
    _gauge("state_memory_bytes", "State in memory.", _of_latest(lambda it: it.state_memory_bytes)),
)


class ProgressCollector:
    """The metrics of a stream, for a registry of prometheus_client."""

    def __init__(self, progress: StreamProgress, clock: Callable[[], float] = time.time) -> None:
        self._progress, self._clock = progress, clock

    def collect(self) -> Iterator[Any]:
        """Families and their samples."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        kinds = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}
        now_s = self._clock()
        for metric in STREAM_METRICS:
            family = kinds[metric.kind](metric.name, metric.help, labels=metric.labels)
            for labels, value in metric.samples(self._progress, now_s):
                family.add_metric(labels, value)
            yield family


@contextmanager
def serving(progress: StreamProgress, listen: Address) -> Iterator[int]:
    """Serve `/metrics` and `/healthz` while the block runs; gives the port. Raises `OSError`."""
    from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app

    registry = CollectorRegistry()
    registry.register(ProgressCollector(progress))
    ProcessCollector(registry=registry)
    metrics = make_wsgi_app(registry)

    def answer(environ: Any, start_response: Any) -> Any:
        path = environ.get("PATH_INFO")
        if path == "/metrics":
            return metrics(environ, start_response)
        code, text = "404 Not Found", "there are /metrics and /healthz\n"
        if path == "/healthz":
            code, text = ("200 OK", "up\n") if progress.is_up else ("503 Service Unavailable", "not up\n")
        start_response(code, [("Content-Type", "text/plain; charset=utf-8")])
        return [text.encode()]

    family = _Server6 if ":" in listen.host else _Server
    server = make_server(listen.host, listen.port, answer, family, _Handler)
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # Without the question to a name server of the base class.
        self.server_name = str(self.server_address[0])
        super(WSGIServer, self).server_bind()
        self.server_port = self.server_address[1]
        self.setup_environ()


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""
