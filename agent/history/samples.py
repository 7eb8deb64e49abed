"""Samples: how a group stands at one time, as an event. Pure.

Unlike the other events they are no part of what the log tells: nobody who replays it gets them. They are made by a
live agent, if it is asked to, for what cannot be had later: lag.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

import msgspec

from agent.history.events import SCHEMA, Event

SAMPLE = "group_sample"
"""The events' type."""


class LagSum(NamedTuple):
    """The lag of a group's committed positions: how many there are, and of how many it is known.

    `records` is the sum and `seconds` the longest of those, None where it is known of none. `at_least`: the seconds
    are a bound, it may be longer.
    """

    positions: int = 0
    known: int = 0
    records: int | None = None
    seconds: float | None = None
    at_least: bool = False


NO_LAG = LagSum()


class Sample(NamedTuple):
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
    lag: LagSum


def sample_event(it: Sample, cluster: str | None = None) -> Event:
    """A sample as an event: the common fields, then its own in a fixed order."""
    own: Event = {
        "state": it.state,
        "members": it.members,
        "partitions": it.lag.positions,
        "lag_records": it.lag.records,
        "lag_seconds": None if it.lag.seconds is None else round(it.lag.seconds, 3),
        "lag_partitions": it.lag.known,
        "lag_at_least": it.lag.at_least,
        "imbalance_ratio": it.imbalance_ratio,
        "load_imbalance_ratio": it.load_imbalance_ratio,
    }
    # All that it says goes in: so no two agents give one id to what differs, whatever their clocks do. Where nothing
    # is written all have one offset for weeks: so the hash is a longer one than that of other events.
    said = msgspec.json.encode([SAMPLE, it.at_ms, it.group_type, own])
    name = it.group.encode("utf-8", "surrogatepass")
    digest = blake2b(name + b"\0" + said, digest_size=10).hexdigest()
    return {
        "schema": SCHEMA,
        "event_id": f"{it.partition}-{it.offset}-{digest}",
        "type": SAMPLE,
        "cluster": cluster,
        "group": it.group,
        "group_type": it.group_type,
        "at_ms": it.at_ms,
        "partition": it.partition,
        "offset": it.offset,
        **own,
    }
