"""Samples: how a group stands at one time, as an event. Pure.

Unlike the other events they are no part of what the log tells: nobody who replays it gets them. They are made by a
live agent, if it is asked to, for what cannot be had later: lag.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from agent.core.events.events import SAMPLE, SCHEMA, Event


class LagNote(NamedTuple):
    """How far a group was behind at a time: epoch milliseconds, records, seconds; None: not known. `at_least`: these
    are bounds, it may have been more."""

    at_ms: int
    records: int | None
    seconds: float | None
    at_least: bool = False


class GroupLagTotal(NamedTuple):
    """The lag of a group's committed positions: how many there are, and of how many it is known.

    `records` is the sum and `seconds` the longest of those, None where it is known of none. `at_least`: the seconds
    are a bound, it may be longer.
    """

    positions: int = 0
    known: int = 0
    records: int | None = None
    seconds: float | None = None
    at_least: bool = False

    def note(self, at_ms: int) -> LagNote:
        """As it was at that time. Where only what is known is caught up, it is not known."""
        is_partly_known = self.known < self.positions
        at_least = is_partly_known or self.at_least or (self.seconds is None and self.records is not None)
        if is_partly_known and not self.records:
            return LagNote(at_ms, None, None, at_least)
        return LagNote(at_ms, self.records, self.seconds, at_least)


MOST_BEHIND = 100
"""So many positions of a group are in a sample, those that are furthest behind."""


class PositionBehind(NamedTuple):
    """A position with something to read: where, and where that partition ended."""

    topic: str
    partition: int
    end: int


class GroupSample(NamedTuple):
    """A group as of `at_ms` (epoch milliseconds), with every record up to `offset` of its coordinator's partition.

    The ratios are the metrics': largest share / fair share, of partitions and of records; None where not known.
    """

    at_ms: int
    partition: int
    offset: int
    group: str
    group_type: str
    state: str
    members: int
    imbalance_ratio: float | None
    load_imbalance_ratio: float | None
    lag: GroupLagTotal
    ends_ms: int | None = None
    """When the ends were seen; None: they are not known."""
    behind: Sequence[PositionBehind] = ()
    sampled_every_ms: int | None = None
    """Where groups are looked at and no record is read: how often."""


def sample_event(sample: GroupSample, cluster: str | None = None) -> Event:
    """A sample as an event; `cluster` is the cluster's name, None where it has none."""
    lag = sample.lag
    own: Event = {
        "state": sample.state,
        "members": sample.members,
        "partitions": lag.positions,
        "lag_records": lag.records,
        "lag_seconds": None if lag.seconds is None else round(lag.seconds, 3),
        "lag_partitions": lag.known,
        "lag_at_least": lag.at_least,
        "imbalance_ratio": sample.imbalance_ratio,
        "load_imbalance_ratio": sample.load_imbalance_ratio,
    }
    ends: Event = {"ends_ms": sample.ends_ms, "behind": [it._asdict() for it in sample.behind]}
    has_ends = sample.ends_ms is not None or sample.behind
    # All that it says goes in: so no two agents give one id to what differs, whatever their clocks do. Where nothing
    # is written all have one offset for weeks: so the hash is a longer one than that of other events.
    every_ms = sample.sampled_every_ms
    further = [*([ends] if has_ends else []), *([] if every_ms is None else [every_ms])]
    said = msgspec.json.encode([SAMPLE, sample.at_ms, sample.group_type, own, *further])
    name = sample.group.encode("utf-8", "surrogatepass")
    digest = blake2b(name + b"\0" + said, digest_size=10).hexdigest()
    place = (sample.partition, sample.offset) if every_ms is None else (None, None)
    return {
        "schema": SCHEMA,
        "event_id": f"{place[0] or 0}-{place[1] or 0}-{digest}",
        "type": SAMPLE,
        "cluster": cluster,
        "group": sample.group,
        "group_type": sample.group_type,
        "at_ms": sample.at_ms,
        "partition": place[0],
        "offset": place[1],
        **({} if every_ms is None else {"sampled": True, "sampled_every_ms": every_ms}),
        **own,
        **ends,
    }
