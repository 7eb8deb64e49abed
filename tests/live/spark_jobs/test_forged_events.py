"""What anybody who may write to the history topic may write there: a stream counts what the others told."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from agent.common.units import DAY_MS
from spark_jobs.history import from_json
from spark_jobs.rollups.rolling import table_of
from spark_jobs.streams.rolling import roll_up_stream
from tests.unit.history.histories import START_MS


def told(event_id: str, at_ms: int = START_MS, **fields: Any) -> bytes:
    event = {"schema": 1, "event_id": event_id, "type": "rebalance", "cluster": None, "group": "g", "at_ms": at_ms}
    return json.dumps({**event, "group_type": "consumer", "members": 2, **fields}).encode()


FORGED = [
    # 1, 2: no UTF-8
    (b"\xff\xfe", None, "no_event"),
    (told("bytes", group="forged").replace(b"forged", b"forged\xff"), None, "no_event"),
    # 3: what no decoder follows
    (told("deep").replace(b"null", b"[" * 5_000 + b"]" * 5_000), None, "no_event"),
    # 4: half of a letter
    (told("half", group="\ud800"), "half", "no_event"),
    # 5: of a version whose fields may mean something else
    (told("newer", schema=2, members=7), "newer", "newer_schema"),
    # 6, 7: times that cannot be
    (told("ahead", 2**62), "ahead", "no_time"),
    (told("never", -1), "never", "no_time"),
    # 8: counted, without the number
    (told("many", members=2**62, group="of many"), None, None),
]


def test_what_is_forged_is_set_aside_and_the_others_count(spark: SparkSession, tmp_path: Path) -> None:
    topic, came = tmp_path / "topic", dict[str, list[dict[str, Any]]](groups=[], set_aside=[])
    topic.mkdir()
    honest = [told("first"), told("last", START_MS + DAY_MS)]
    pq.write_table(pa.table({"value": [*honest, *(value for value, *_ in FORGED)]}), topic / "values.parquet")
    values = spark.readStream.schema("value binary").parquet(str(topic))

    def take(batch: DataFrame, batch_id: int) -> None:
        kept = batch.persist()
        for name, table in came.items():
            table.extend(table_of(kept, name).drop("date").toArrow().to_pylist())
        kept.unpersist()

    rows = roll_up_stream(from_json(values), timedelta(minutes=10))
    started = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert started.trigger(availableNow=True).start().awaitTermination(300)
    expected = [(event_id, reason) for _, event_id, reason in FORGED if reason is not None]
    found = [(it["event_id"], it["reason"]) for it in came["set_aside"]]
    assert sorted(found, key=str) == sorted(expected, key=str)
    hours = [it for it in came["groups"] if (it["window"], it["start_ms"]) == ("1h", START_MS)]
    assert {it["group"]: (it["rebalances"], it["members_max"]) for it in hours} == {"g": (1, 2), "of many": (1, None)}
