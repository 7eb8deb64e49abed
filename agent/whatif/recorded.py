"""From a recording to a script, with what a play of it must come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from agent.coordinator.script import BrokerSettings, Script
from agent.whatif import pulse
from agent.whatif.changes import allowing, starts
from agent.whatif.clients import Clients, clients_of, steps_of
from agent.whatif.recorder import Recording, Seen
from agent.whatif.steps import Steps


class Expected(NamedTuple):
    """A generation that the log shows, and who was in it. `skipped`: generations before it that never completed."""

    generation: int
    at_ms: int
    clients: frozenset[str]
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Recorded:
    """A script and what a play of it must come to. Times are epoch milliseconds.

    `opening_ms` is from when on it counts: a group that was found with members is first brought there. `closing_ms`
    is until when standstill counts; the script goes on until every death would be noticed. `notes` counts what was
    taken for granted, by kind (`NOTES`). `heartbeat_ms` and `delay_ms` are the values taken, with whether somebody
    told them. `stopped_ms` is the standstill that the log itself shows, in partition-milliseconds.
    """

    script: Script
    opening_ms: int
    closing_ms: int
    opening: Expected | None
    expected: tuple[Expected, ...]
    clients: Clients
    notes: Mapping[str, int]
    heartbeat_ms: int
    heartbeat_told: bool
    delay_ms: int
    delay_told: bool
    stopped_ms: int


NOTES = {
    "unknown_departure": "departures of which the log does not tell how, taken as closes",
    "unknown_rebalance": "rebalances with nobody coming or going and no known cause, taken as the leader's rejoining",
    "never_completed": "generations that never completed, of which the log shows only that the number jumps",
    "static_restart": "restarts of static members, away since their last commit for all that the log shows",
    "no_stall": "poll timeouts that had too little time since the last rebalance, taken as closes",
    "foreign_assignor": "members with an assignor that the model does not know, taken as range (cooperative-sticky "
    "where they keep partitions through a rebalance)",
}
"""By kind, in the plural."""


class NothingRecorded(ValueError):
    """There is no rebalance to replay."""


def recorded(
    recording: Recording,
    end_ms: int,
    *,
    heartbeat_ms: int | None = None,
    delay_ms: int | None = None,
    share: float = 0.5,
) -> Recorded:
    """The script of a recording that was looked at until `end_ms`.

    `heartbeat_ms` and `delay_ms`: if they are known better than from the log. `share`: how much of a heartbeat
    interval before the end of a join phase that came which set it off. Raises `NothingRecorded`.
    """
    if not any(seen.members for seen in recording.seen):
        raise NothingRecorded("the log shows no member of it in this time")
    beat, delay = pulse.heartbeat_ms(recording), pulse.initial_delay_ms(recording)
    steps = Steps(
        recording,
        clients_of(recording),
        heartbeat_ms or beat or pulse.DEFAULT_HEARTBEAT_MS,
        delay_ms if delay_ms is not None else pulse.DEFAULT_DELAY_MS if delay is None else delay,
        share,
    )
    opening_ms, found = steps.begin()
    for before, seen, changes in steps_of(recording):
        steps.follow(before, seen, changes)
    expected = tuple(_expected(recording, steps.clients))
    steps.notes["never_completed"] = sum(it.skipped for it in expected)
    script = Script(
        recording.group,
        steps.partitions,
        tuple(sorted(steps.steps, key=lambda step: step.at_ms)),
        recording.seen[-1].at_ms,
        BrokerSettings(initial_rebalance_delay_ms=steps.delay_ms),
        latency_ms=0,
    )
    closing_ms = _closing(recording, end_ms)
    return Recorded(
        lasting(allowing(script), closing_ms),
        opening_ms,
        closing_ms,
        expected[0] if found else None,
        expected[found:],
        steps.clients,
        {kind: count for kind, count in steps.notes.items() if count},
        steps.heartbeat_ms,
        heartbeat_ms is not None or beat is not None,
        steps.delay_ms,
        delay_ms is not None or delay is not None,
        sum(seen.stopped_ms or 0 for seen in recording.seen),
    )


def _closing(recording: Recording, end_ms: int) -> int:
    """Until when standstill counts: to the end, or until the last member of a group that has ended left."""
    last = recording.seen[-1]
    return max(end_ms, last.at_ms) if last.members else last.at_ms


def lasting(script: Script, closing_ms: int) -> Script:
    """A script looked at for so long that every session that can end by itself does: a death at the end is noticed,
    a static member that closed is taken out."""
    settings = [it.settings for it in starts(script)]
    longest_ms = max(
        script.broker.consumer_session_timeout_ms,
        *(it.session_timeout_ms + 2 * it.heartbeat_interval_ms for it in settings),
        *(it.max_poll_interval_ms for it in settings),
    )
    return replace(script, until_ms=closing_ms + longest_ms)


def _expected(recording: Recording, clients: Clients) -> Iterable[Expected]:
    """The generations of a recording, the first as it was found."""
    yield _shown(clients, recording.seen[0], 0)
    for before, seen, _ in steps_of(recording):
        if seen.generation != before.generation:
            yield _shown(clients, seen, seen.generation - before.generation - 1)


def _shown(clients: Clients, seen: Seen, skipped: int) -> Expected:
    names = frozenset(clients.by_member_id[member_id] for member_id in seen.members)
    return Expected(seen.generation, seen.at_ms, names, skipped)
