"""A generated log, rearranged to Redpanda's layout and records: the rule is found, and the groups are the same."""

from __future__ import annotations

from functools import cache

import pytest

from agent.core.protocol.hashing import GroupPartitioner
from agent.core.records import RawRecord
from agent.simulation.generator.histories import generate
from agent.simulation.generator.settings import GeneratorSettings, IntegerRange
from tests.harness.redpanda_layout import compare, rearranged, records_of
from tests.unit.core.wire.vectors import CAPTURE, needs


@cache
def generated() -> tuple[RawRecord, ...]:
    settings = GeneratorSettings(
        1_790_000_000_000, groups=12, duration_ms=120_000, members=IntegerRange(1, 4), topics=5, seed=11
    )
    return tuple(generate(settings, lambda truth: None))


@pytest.mark.parametrize("partitions", [3, 16])
def test_the_groups_of_a_rearranged_log_are_the_same(partitions: int) -> None:
    records = generated()
    moved = rearranged(records, partitions, expiry_ms=86_400_000)
    assert len(moved) == len(records)
    found = compare(records, moved, partitions)
    assert found.placement.partitioner is GroupPartitioner.REDPANDA
    assert found.placement.by_redpanda == found.placement.telling
    assert found.groups >= 10
    assert found.events > 40
    assert found.other_events == []
    assert (found.anomalies, found.rejects) == (0, 0)
    assert not any(found.diverging.values())


def test_a_group_that_the_rearranged_log_lacks_is_told() -> None:
    records = generated()
    moved = rearranged(records, 16)
    stable = next(it for it in moved if it.key is not None and it.key[:2] == b"\0\2")
    found = compare(records, [it for it in moved if it.key != stable.key], 16)
    assert found.other_events
    assert any(found.diverging.values())


def test_what_generate_writes_for_redpanda_stands_there() -> None:
    settings = GeneratorSettings(
        1_790_000_000_000,
        groups=12,
        duration_ms=120_000,
        members=IntegerRange(1, 4),
        topics=5,
        seed=11,
        offsets_partitions=16,
        group_partitioner=GroupPartitioner.REDPANDA,
    )
    found = compare(generated(), list(generate(settings, lambda truth: None)), 16)
    assert found.placement.partitioner is GroupPartitioner.REDPANDA
    assert found.other_events == []


@needs(CAPTURE)
def test_a_captured_log_rearranged() -> None:
    records = list(records_of(str(CAPTURE / "segments")))
    found = compare(records, rearranged(records, 16), 16)
    assert found.placement.partitioner is GroupPartitioner.REDPANDA
    assert (found.other_events, found.anomalies, found.rejects) == ([], 0, 0)
    assert not any(found.diverging.values())
