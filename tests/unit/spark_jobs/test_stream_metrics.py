"""A stream's metrics: what Spark tells of a batch, and what a scrape says of it."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from agent.config.values import Address
from spark_jobs.streams.listening import behind_records, progress_of
from spark_jobs.streams.metrics import STREAM_METRICS, ProgressCollector, StreamProgress, serving
from tests import DATA

TOLD: dict[str, dict[str, Any]] = json.loads((DATA / "spark_progress.json").read_text())
"""What Spark 4.0.5 said: `mirror` of a batch with records left, `rollups` of one of files, `first` of a first one."""
SOURCES = {"__consumer_offsets": "__consumer_offsets"}
NOW_S = 1_795_600_000.0


def scraped(progress: StreamProgress) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(ProgressCollector(progress, lambda: NOW_S))
    lines = generate_latest(registry).decode().splitlines()
    return {name: float(value) for name, _, value in (it.rpartition(" ") for it in lines if not it.startswith("#"))}


def test_the_mirror() -> None:
    told = progress_of(TOLD["mirror"], SOURCES)
    assert told.input_records == TOLD["mirror"]["numInputRows"] > 0
    (source,) = TOLD["mirror"]["sources"]
    read, latest = (sum(source[it]["__consumer_offsets"].values()) for it in ("endOffset", "latestOffset"))
    assert told.behind == {"__consumer_offsets": latest - read}
    assert latest > read, "it was a batch in the middle"
    assert told.watermark_ms is None, "the mirror has no watermark"
    assert None not in (told.state_rows, told.state_bytes, told.state_memory_bytes)
    assert sum(told.parts_s.values()) <= (told.duration_s or 0) + 0.01
    progress = StreamProgress("mirror", starts=3, failures=1, started_s=5.0, is_up=True)
    progress.batch(told, NOW_S - 7)
    progress.batch(told, NOW_S - 2)
    came = scraped(progress)
    label = '{query="mirror"}'
    expected = {
        "up": 1,
        "starts_total": 3,
        "failures_total": 1,
        "batches_total": 2,
        "input_records_total": 2 * told.input_records,
        "start_timestamp_seconds": 5,
        "last_progress_timestamp_seconds": NOW_S - 2,
        "state_rows": told.state_rows,
    }
    assert {name: came[f"kshadow_spark_stream_{name}{label}"] for name in expected} == expected
    behind = 'kshadow_spark_stream_behind_records{query="mirror",source="__consumer_offsets"}'
    assert came[behind] == latest - read
    assert came['kshadow_spark_stream_batch_part_seconds{part="addBatch",query="mirror"}'] == told.parts_s["addBatch"]
    assert not any("watermark" in name for name in came)


def test_rollups_of_files() -> None:
    told = progress_of(TOLD["rollups"], {})
    assert told.behind == {}
    progress = StreamProgress("rollups", is_up=True)
    progress.batch(told, NOW_S)
    progress.set_aside += 4
    came = scraped(progress)
    at_s = came['kshadow_spark_stream_watermark_timestamp_seconds{query="rollups"}']
    assert at_s == (told.watermark_ms or 0) / 1000 > 0
    assert came['kshadow_spark_stream_watermark_age_seconds{query="rollups"}'] == NOW_S - at_s
    assert came['kshadow_spark_stream_set_aside_events_total{query="rollups"}'] == 4
    assert not any("behind" in name for name in came)


def test_before_the_first_event_there_is_no_watermark() -> None:
    assert progress_of(TOLD["first"], {}).watermark_ms is None


def test_what_spark_does_not_say_is_absent() -> None:
    progress = StreamProgress("mirror")
    known = {name.partition("{")[0].removeprefix("kshadow_spark_stream_") for name in scraped(progress)}
    assert known == {
        *("up", "start_timestamp_seconds", "starts_total", "failures_total", "batches_total", "input_records_total"),
        *("batch_seconds_total", "set_aside_events_total"),
    }
    progress.batch(progress_of({}, SOURCES), NOW_S)
    assert not {name for name in scraped(progress) if "behind" in name or "state" in name or "duration" in name}
    progress.idle(NOW_S + 9)
    assert progress.last_progress_s == NOW_S + 9


@pytest.mark.parametrize(
    ("read", "latest", "records"),
    [
        # 1: two partitions
        ({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7}}, 4),
        # 2: a topic that was made anew ends before what was read
        ({"t": {"0": 5}}, {"t": {"0": 2}}, 0),
        # 3: a partition that is not read
        ({"t": {"0": 5}}, {"t": {"0": 5, "1": 100}}, 0),
        # 4: nothing read yet
        (None, {"t": {"0": 2}}, None),
        # 5: files
        ({"logOffset": 3}, {"logOffset": 4}, None),
        ("-", "-", None),
    ],
)
def test_records_behind(read: Any, latest: Any, records: int | None) -> None:
    assert behind_records(read, latest) == records


def test_names_and_labels_are_bounded() -> None:
    assert {label for it in STREAM_METRICS for label in it.labels} == {"query", "source", "part"}
    assert len({it.name for it in STREAM_METRICS}) == len(STREAM_METRICS)


def test_it_is_served() -> None:
    progress = StreamProgress("mirror")
    with serving(progress, Address("127.0.0.1", 0)) as port:
        at = f"http://127.0.0.1:{port}"
        with pytest.raises(HTTPError) as caught, urlopen(f"{at}/healthz", timeout=30):
            pass
        assert (caught.value.code, caught.value.read()) == (503, b"not up\n")
        caught.value.close()
        progress.is_up = True
        with urlopen(f"{at}/healthz", timeout=30) as answer:
            assert answer.read() == b"up\n"
        with urlopen(f"{at}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        assert 'kshadow_spark_stream_up{query="mirror"} 1.0\n' in text
        assert "process_resident_memory_bytes" in text
        with pytest.raises(HTTPError) as caught, urlopen(f"{at}/else", timeout=30):
            pass
        assert caught.value.code == 404
        caught.value.close()
