"""Spark's own listener of a stream, and how often a stream was started from a checkpoint and how that ended."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from agent.tools.spark_submit.checkpoint import STARTS
from spark_jobs.streams.metrics import PARTS, BatchProgress, StreamProgress
from spark_jobs.writing import HadoopFileSystem

_WHOLE = "triggerExecution"
_ON_DISK = "rocksdbSstFileSize"


class ProgressListener(StreamingQueryListener):  # type: ignore[misc]  # pyspark is not typed for us
    """Tells a `StreamProgress` what Spark tells."""

    def __init__(self, progress: StreamProgress, sources: Mapping[str, str]) -> None:
        """`sources`: what the description of a source has in it, and what the source is called."""
        self._progress, self._sources = progress, sources

    def onQueryStarted(self, event: Any) -> None:  # Spark's names
        """The stream works."""
        self._progress.is_up = True

    def onQueryProgress(self, event: Any) -> None:
        """A batch ended."""
        self._progress.batch(progress_of(json.loads(event.progress.json), self._sources), time.time())

    def onQueryIdle(self, event: Any) -> None:
        """There was nothing to read."""
        self._progress.idle(time.time())

    def onQueryTerminated(self, event: Any) -> None:
        """The stream ended."""
        self._progress.is_up = False
        if event.exception is not None:
            self._progress.failures += 1


def progress_of(told: Mapping[str, Any], sources: Mapping[str, str]) -> BatchProgress:
    """What Spark says of a batch (`StreamingQueryProgress` as JSON), as we tell it. What is not said is None."""
    took = {name: ms / 1000 for name, ms in (told.get("durationMs") or {}).items()}
    whole = took.pop(_WHOLE, None)
    parts = {name: seconds for name, seconds in took.items() if name in PARTS}
    if others := [seconds for name, seconds in took.items() if name not in PARTS]:
        parts["other"] = sum(others)
    states = told.get("stateOperators") or []
    behind: dict[str, int] = {}
    for source in told.get("sources") or []:
        records = behind_records(source.get("endOffset"), source.get("latestOffset"))
        name = next((it for text, it in sources.items() if text in source.get("description", "")), None)
        if records is not None and name is not None:
            behind[name] = behind.get(name, 0) + records
    return BatchProgress(
        input_records=sum(source.get("numInputRows") or 0 for source in told.get("sources") or []),
        input_records_per_s=told.get("inputRowsPerSecond"),
        processed_records_per_s=told.get("processedRowsPerSecond"),
        duration_s=whole,
        parts_s=parts,
        watermark_ms=_watermark_ms((told.get("eventTime") or {}).get("watermark")),
        state_rows=_sum(it.get("numRowsTotal") for it in states),
        state_bytes=_sum((it.get("customMetrics") or {}).get(_ON_DISK) for it in states),
        state_memory_bytes=_sum(it.get("memoryUsedBytes") for it in states),
        behind=behind,
    )


def behind_records(read: Any, latest: Any) -> int | None:
    """From offsets of Kafka's source, topic → partition → offset: what is left to read; None for other sources."""
    if not isinstance(read, dict) or not isinstance(latest, dict):
        return None
    out = 0
    for topic, ends in latest.items():
        at = read.get(topic)
        if not isinstance(ends, dict) or not isinstance(at, dict):
            return None
        out += sum(max(end - at.get(partition, end), 0) for partition, end in ends.items())
    return out


def _sum(values: Any) -> int | None:
    told = [it for it in values if it is not None]
    return sum(told) if told else None


def _watermark_ms(text: str | None) -> int | None:
    if text is None:
        return None
    at_ms = int(datetime.fromisoformat(text).timestamp() * 1000)
    # Before the first event Spark says 1970.
    return at_ms if at_ms > 0 else None


class _Starts(Struct):
    starts: int = 0
    failures: int = 0
    ended: bool = True
    """In order; of one that was killed nobody writes down an end."""


class StartCounter:
    """How often streams were started from a checkpoint, kept in it: restarts are seen although each is a process."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._files, self._path = HadoopFileSystem(spark), f"{checkpoint}/{STARTS}"

    def begin(self, progress: StreamProgress) -> None:
        """A stream starts; gives it the counts so far."""
        now = self._read()
        progress.starts, progress.failures = now.starts + 1, now.failures + (not now.ended)
        self._write(_Starts(progress.starts, progress.failures, ended=False))

    def end(self, progress: StreamProgress) -> None:
        """It ended in order."""
        self._write(_Starts(progress.starts, progress.failures))

    def _read(self) -> _Starts:
        kept = self._files.read(self._path)
        try:
            return _Starts() if kept is None else msgspec.json.decode(kept, type=_Starts)
        except msgspec.MsgspecError:
            # Nothing depends on it but a metric.
            return _Starts()

    def _write(self, now: _Starts) -> None:
        self._files.write(self._path, msgspec.json.encode(now))
