"""What streams keep in their checkpoints: a change is told by a version, and each version is gone on from."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest

from agent.core.diagnosis.api import WINDOW_MS
from agent.core.events.events import event_of
from agent.persistence.cluster_state import ClusterState
from agent.persistence.snapshot.envelope import read_header
from agent.persistence.snapshot.errors import SnapshotRefused
from agent.persistence.snapshot.migrations import FORMAT, OLDEST_FORMAT
from agent.tools.spark_submit.jobs import Diagnosis
from spark_jobs.errors import StateRefused, explained
from spark_jobs.partition_reducer import PartitionReducer, TaskState, analyzers_of
from spark_jobs.streams.state_format import MAGIC, StateFormat
from tests.unit.spark_jobs.making_states import (
    FORMATS,
    HALF,
    KEPT,
    PARTITION,
    T0,
    fields_of,
    group_in_the_middle,
    halves,
    judged,
    layout,
    loads,
    rows_of_second_half,
    taken,
)


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_kept_changes_with_its_version_alone(name: str) -> None:
    assert (KEPT / f"{name}.layout").read_text() == layout(name), (
        f"what a stream keeps changed: raise the version of {name}, see spark_jobs/streams/state_format.py, and run"
        " python -m tests.unit.spark_jobs.making_states"
    )


def test_there_is_a_state_of_each_version() -> None:
    expected = {f"{name}-{it.version}.state" for name, it in FORMATS.items()} | {"rollup-3.state"}
    expected |= {f"mirror-{version}.state" for version in range(OLDEST_FORMAT, FORMAT + 1)}
    assert {it.name for it in KEPT.glob("*.state")} == expected


@pytest.mark.parametrize("version", [3, FORMATS["rollup"].version])
def test_rollups_go_on_from_each_version(version: int) -> None:
    state = FORMATS["rollup"].decode((KEPT / f"rollup-{version}.state").read_bytes())
    again = group_in_the_middle()
    assert (sorted(state.waiting), state.timer_ms) == (sorted(again.waiting), again.timer_ms)
    expected = rows_of_second_half(again)
    assert rows_of_second_half(state) == expected
    assert len(expected) > 10, "windows of five minutes, hours, a day, and two episodes"


@pytest.mark.parametrize("version", range(OLDEST_FORMAT, FORMAT + 1))
def test_the_mirror_goes_on_from_each_version(version: int) -> None:
    first, second = halves()
    whole = PartitionReducer(PARTITION, TaskState(Diagnosis()))
    taken(whole, first)
    expected = [event_of(it) for it in taken(whole, second)]
    reducer = PartitionReducer(PARTITION, TaskState(Diagnosis()))
    reducer.restore((KEPT / f"mirror-{version}.state").read_bytes())
    assert [event_of(it) for it in taken(reducer, second)] == expected
    assert expected, "something happens in the second half"


def test_findings_of_the_cluster_go_on_from_the_release_before() -> None:
    kept = FORMATS["findings"].decode((KEPT / "findings-3.state").read_bytes())
    assert read_header(kept.image)[0].format == OLDEST_FORMAT
    came = ClusterState(analyzers_of(Diagnosis())._replace(makes=()), remembers=False)
    came.restore_cluster(kept.image)
    assert [it.windows[0][0] for it in kept.loads] == [T0 + HALF * WINDOW_MS] * len(kept.partitions)
    for partition, clock_ms in kept.partitions:
        came.diagnosis.merge_partition(partition, {}, clock_ms)
    whole = ClusterState(analyzers_of(Diagnosis())._replace(makes=()), remembers=False)
    before = judged(whole.diagnosis, loads(0, HALF))
    expected = [event_of(it) for it in judged(whole.diagnosis, loads(HALF, 8))]
    assert not before
    assert [event_of(it) for it in judged(came.diagnosis, loads(HALF, 8))] == expected
    assert expected, "a partition is hot all the time"


class Inner(msgspec.Struct):
    names: list[str]


class Thing(msgspec.Struct):
    """As it is now: `fresh` came with its second version."""

    count: int
    inner: Inner
    by: dict[tuple[str, str], list[int]]
    fresh: int | None = None


THINGS = StateFormat("things", Thing, version=2)


def of_version(version: int, body: dict[str, Any]) -> bytes:
    return struct.pack(">8sH", MAGIC, version) + msgspec.msgpack.encode(body)


def test_a_field_that_came_later_has_its_default() -> None:
    kept = of_version(1, {"count": 7, "inner": {"names": ["x"]}, "by": {}})
    assert THINGS.decode(kept) == Thing(7, Inner(["x"]), {})


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        # 1: a newer kshadow wrote it
        (of_version(3, {}), "things: expected versions up to 2, got version 3, which a newer kshadow wrote"),
        # 2: a field lacks that has no default
        (of_version(1, {"inner": {"names": []}}), "things: version 1 cannot be read: ValidationError"),
        # 3: another type
        (of_version(2, {"count": "7"}), "things: version 2 cannot be read: ValidationError: Expected `int`"),
        # 4: cut off
        (THINGS.encode(Thing(7, Inner([]), {}))[:-2], "things: version 2 cannot be read"),
        # 5: cut off in its head
        (MAGIC + b"\0", "things: 9 bytes came that are no state"),
        # 6: without a head, as the first builds wrote it
        (msgspec.msgpack.encode({"count": 7}), "things: 8 bytes came that are no state, or one of an early build"),
        # 7: nothing
        (b"", "things: 0 bytes came that are no state"),
    ],
)
def test_what_cannot_be_read_is_refused(kept: bytes, said: str) -> None:
    with pytest.raises(StateRefused) as caught:
        THINGS.decode(kept)
    assert said in str(caught.value)
    error = explained(f"Traceback\n  File x\nspark_jobs.errors.StateRefused: {caught.value}\n\tat y")
    assert (type(error), error.code) == (StateRefused, 2)
    assert str(caught.value) in str(error)
    assert "start with another --checkpoint and another --out" in str(error)


def test_the_layout_names_every_field() -> None:
    assert fields_of(THINGS.kind) == (
        "Thing: count int, inner Inner, by dict[tuple[str, str], list[int]], fresh int | none\nInner: names list[str]"
    )


def test_an_image_of_other_settings_is_refused() -> None:
    reducer = PartitionReducer(PARTITION, TaskState(Diagnosis(tuned={"rebalance_storm.open_after_s": "7"})))
    with pytest.raises(SnapshotRefused, match="settings"):
        reducer.restore((KEPT / f"mirror-{FORMAT}.state").read_bytes())
