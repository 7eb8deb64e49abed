"""Tracks as one block of bytes are those that were put in, in their order, whatever is dropped in between."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.shadow.views import Position
from analyzers.api import LagLook, Sample, TopicPartition
from analyzers.stalled_consumer import StalledConsumer
from analyzers.stalled_rules import PartitionTrack, StalledSettings
from analyzers.stalled_tracks import TracksByPosition, packed, partition_track

SLOTS: list[TopicPartition] = [("a", 0), ("a", 1), ("b", 0), ("c", 7)]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(SLOTS), st.integers(0, 1 << 62)),
        st.tuples(st.just("drop"), st.sampled_from(SLOTS), st.just(0)),
        st.tuples(st.just("restore"), st.just(SLOTS[0]), st.just(0)),
    )
)


def track_at(offset: int) -> PartitionTrack:
    return PartitionTrack.begin(Position(offset, 60_000, 1))


@given(STEPS)
def test_as_a_dict_has_them(steps: list[tuple[str, TopicPartition, int]]) -> None:
    kept, expected = TracksByPosition(PartitionTrack), dict[TopicPartition, PartitionTrack]()
    for step, slot, offset in steps:
        if step == "put":
            expected.pop(slot, None)
            tracks = kept.read()
            tracks.pop(slot, None)
            expected[slot] = tracks[slot] = track_at(offset)
            kept.keep(tracks)
        elif step == "drop":
            expected.pop(slot, None)
            kept.drop(slot)
        else:
            again = TracksByPosition(PartitionTrack)
            again.keep_bytes(kept.as_bytes())
            kept = again
        assert list(kept.read().items()) == list(expected.items())
        assert {slot: partition_track(it) for slot, it in kept.as_bytes().items()} == expected


def test_what_is_not_given_back_is_not_changed() -> None:
    kept = TracksByPosition(PartitionTrack)
    kept.keep({SLOTS[0]: track_at(5)})
    kept.read()[SLOTS[0]].position = Position(6, 60_000, 2)
    assert kept.read() == {SLOTS[0]: track_at(5)}


def test_bytes_that_are_no_track() -> None:
    kept = TracksByPosition(PartitionTrack)
    kept.keep_bytes({SLOTS[0]: packed([1])})
    with pytest.raises(msgspec.ValidationError, match="Expected"):
        kept.read()


TIMES = [-(1 << 63), -1, 0, 1_795_000_000_000, (1 << 63) - 1]


@pytest.mark.parametrize("times", [*product(TIMES, repeat=2)])
@pytest.mark.parametrize("offsets", [(0, 1), (1, (1 << 63) - 1), ((1 << 63) - 1, 0)])
def test_the_tracks_of_any_commits_can_be_kept(times: tuple[int, int], offsets: tuple[int, int]) -> None:
    """Clients of before Kafka 4.0 may commit with any time."""
    analyzer, now_ms = StalledConsumer(StalledSettings()), 1_795_000_000_000
    group: Any = SimpleNamespace(now_ms=now_ms, known_ms=now_ms, view=None)
    committed = [Position(*it) for it in zip(offsets, times, (1, 2), strict=True)]
    for position in committed:
        analyzer.sample(Sample(now_ms, {SLOTS[0]: position}), group)
    for number, (position, lag) in enumerate(zip([*committed, committed[0]], (0, 5, (1 << 63) - 1), strict=True)):
        at_ms = now_ms + 30_000 * number
        analyzer.look(LagLook(at_ms, at_ms, {SLOTS[0]: position}, {SLOTS[0]: lag}), group)
    analyzer.judge(group)
