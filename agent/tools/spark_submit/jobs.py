"""What a Spark job is told: one JSON document, made by `kshadow spark` and read by the job. Pure.

It stands on a command line, where everybody can read it: passwords are not in it, but in the environment
(`SECRETS`), as JSON of the same shape as `Kafka.properties`.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from agent.core.inference.session_settings import SessionSetting
from agent.history.report.request import Report

__all__ = ["Backfill", "Diagnosis", "Job", "Kafka", "Report", "Rollup", "Stream", "job_of", "text_of"]

SECRETS = "KSHADOW_SPARK_SECRETS"
"""The environment variable with those properties of the Kafka client that nobody else should read."""

GROUP_PREFIX = "kshadow-spark"
"""Spark's consumers are of groups whose names begin so: made up anew each time, never joined, and nothing is
committed; but their offsets are asked for, which needs Describe on them."""


Format = Literal["parquet", "delta", "iceberg"]
"""Of the tables that a job writes. Of an Iceberg table `out` is no path, but `CATALOG.DB.PREFIX`."""


class Kafka(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach a cluster: librdkafka's names, as everywhere in kshadow; `bootstrap.servers` is among them."""

    properties: dict[str, str]


class Diagnosis(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What looks for causes and findings, as `--broker-config`, `--analyzers` and `--tune` say it."""

    analyzers: str = "all"
    tuned: dict[str, str] = {}
    sessions: dict[str, SessionSetting] = {}
    """That the brokers set, by group type, as far as it is known."""


class Backfill(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="backfill"):
    """Raw records → history events in `out`. Exactly one of `paths`, `archives`, `kafka` is there."""

    out: str
    format: Format = "parquet"
    paths: tuple[str, ...] = ()
    """Segment files and directories of them, as for `kshadow replay`; every executor sees them under these names."""
    archives: tuple[str, ...] = ()
    """Parquet files, or directories of them, of raw records."""
    kafka: Kafka | None = None
    cluster: str | None = None
    diagnosis: Diagnosis = Diagnosis()
    overwrite: bool = False


class Stream(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="stream"):
    """A stream → tables in `out`, until it is stopped.

    `reads`: `topic` is `__consumer_offsets` itself, of which come history events; `history-topic` and `history` (a
    directory of Parquet) are such events, of which come rollups.
    """

    reads: Literal["topic", "history-topic", "history"]
    out: str
    checkpoint: str
    format: Format = "parquet"
    kafka: Kafka | None = None
    history_topic: str | None = None
    history: str | None = None
    events_topic: str | None = None
    """Where what comes of it goes as well, as JSON, for alerting."""
    watermark_s: int = 600
    trigger_s: float = 30.0
    available_now: bool = False
    """Read what is there, then end."""
    most_records: int = 1_000_000
    """In one batch, of a topic: without a bound a backlog is one batch, which a crash makes anew as a whole."""
    most_files: int = 1_000
    """In one batch, of a directory."""
    cluster: str | None = None
    diagnosis: Diagnosis = Diagnosis()
    listen: str | None = None
    """HOST:PORT of the driver where its metrics are served; None: nowhere."""


class Rollup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rollup"):
    """History events → the same rollups in batch, of whole days (UTC). Replaces those days in `out`."""

    history: tuple[str, ...]
    """Directories or files of Parquet, Delta tables, or `iceberg:CATALOG.DB.PREFIX`."""
    out: str
    format: Format = "parquet"
    since: str | None = None
    """The first day, YYYY-MM-DD; None: the first there is."""
    until: str | None = None
    """The last day, itself included."""


Job = Backfill | Stream | Rollup | Report

_decode = msgspec.json.Decoder(Job).decode
_encode = msgspec.json.Encoder().encode


def job_of(text: str) -> Job:
    """The job that a text says. Raises `ValueError` that says what was expected."""
    try:
        job: Job = _decode(text)
        return job
    except msgspec.MsgspecError as error:
        raise ValueError(f"expected a job of kshadow spark: {error}") from error


def text_of(job: Job) -> str:
    """The job as a text."""
    return _encode(job).decode()
