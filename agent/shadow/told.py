"""What somebody saw of a rebalance besides the topic: a broker's own log, or the Admin API while it went on.

A witness only answers what it is asked, so the mirror stays a pure function of the records and of its answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

from agent.shadow.causes import Cause
from agent.shadow.transitions import Rebalanced, Transition


class Told(NamedTuple):
    """What a witness knows of one rebalance. Times are epoch milliseconds, None where it does not know.

    `began_ms` is when the join phase began. `cause` set it off, `causes` are all, as far as stated; `departures` says
    of members by id how and when they went, the cause None where none was stated.
    """

    source: str
    began_ms: int | None = None
    cause: Cause | None = None
    causes: tuple[Cause, ...] = ()
    departures: Mapping[str, tuple[Cause | None, int]] = {}


class Witness(Protocol):
    """Someone who was there."""

    def told(self, group: str, generation: int, end_ms: int) -> Told | None:
        """What is known of the rebalance that led to `generation`, whose join phase ended at `end_ms`."""


def amended(transitions: Iterable[Transition], witness: Witness) -> list[Transition]:
    """Transitions of one record, with what the witness knows in place of what was inferred."""
    return [_amended(it, witness) if isinstance(it, Rebalanced) else it for it in transitions]


def _amended(it: Rebalanced, witness: Witness) -> Rebalanced:
    end_ms = it.at.timestamp_ms - (it.sync_ms or 0)
    told = witness.told(it.group, it.generation, end_ms)
    if told is None or told.began_ms is None:
        return it
    return replace(it, observed=True, join_ms=max(end_ms - told.began_ms, 0))
