"""From a recording to a script, with what a play of it must come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from agent.core.causes import Cause
from agent.core.inference.session_settings import SessionSetting
from agent.simulation.groups.script import BrokerSettings, Script, SetPartitions, Start, Step
from agent.simulation.whatif import timing_estimates
from agent.simulation.whatif.changes import allow_session_timeouts, starts
from agent.simulation.whatif.clients import ClientNames, consecutive_states, identify_clients
from agent.simulation.whatif.recorder import GroupRecording, RecordedState
from agent.simulation.whatif.script_builder import ScriptBuilder


class Generation(NamedTuple):
    """A generation of the log or of a play: when it was complete, and who was in it.

    `skipped`: in the log, generations before it that never completed. `stopped_ms`: standstill since the
    generation before, in partition-milliseconds; None where the log does not tell.
    """

    generation: int
    at_ms: int
    clients: frozenset[str]
    skipped: int = 0
    stopped_ms: int | None = None


class RecordedScript(Struct, frozen=True):
    """A script and what a play of it must come to. Times are epoch milliseconds.

    Results count from `opening_ms` on: a group that was found with members is first brought there. Stopped time
    counts until `closing_ms`; the script goes on until every death would be noticed. `notes` counts the assumptions
    made, by kind (`ASSUMPTION_NOTES`). `heartbeat_ms` and `delay_ms` are the values used; `heartbeat_told` and
    `delay_told` say whether the log or the caller gave them, and `kip848_session_told` whether brokers or the caller
    gave what the script's broker sets of KIP-848 sessions. `stopped_ms` is the stopped time that the log itself
    shows, in partition-milliseconds.
    """

    script: Script
    opening_ms: int
    closing_ms: int
    opening: Generation | None
    expected: tuple[Generation, ...]
    clients: ClientNames
    notes: Mapping[str, int]
    heartbeat_ms: int
    heartbeat_told: bool
    delay_ms: int
    delay_told: bool
    stopped_ms: int
    kip848_session_told: bool = False


ASSUMPTION_NOTES = {
    str(Cause.UNKNOWN_DEPARTURE): "departures of which the log does not tell how, taken as closes",
    "unknown_rebalance": "rebalances with nobody coming or going and no known cause, taken as the leader's rejoining",
    "never_completed": "generations that never completed, of which the log shows only that the number jumps",
    "static_restart": "restarts of static members, away since their last commit for all that the log shows",
    "no_stall": "poll timeouts that had too little time since the last rebalance, taken as closes",
    "foreign_assignor": "members with an assignor that the model does not know, taken as range (cooperative-sticky "
    "where they keep partitions through a rebalance)",
}
"""By kind, in the plural."""


NOT_REPLAYABLE = {
    "connect": "Connect shares out its tasks by a protocol of its own, which whatif does not replay",
    "consumer": "a KIP-848 group has no join phases to save; whatif replays classic groups",
    "share": "a share group's members share partitions: none stands still for a rebalance",
    "streams": "a Streams group is assigned tasks by its broker; whatif replays classic groups of consumers",
}
"""Why, by the type of group."""


def reason_not_replayable(recording: GroupRecording) -> str | None:
    """Why a group cannot be replayed, if it cannot."""
    if not recording.states:
        return "the log shows no member of it"
    last = recording.states[-1]
    if any(seen.at_ms <= 0 for seen in recording.states):
        return "its records have no timestamps, so nothing tells how long anything took"
    types = {seen.view.protocol_type for seen in recording.states if seen.members} - {None}
    if last.view.group_type != "classic":
        # A newer agent may know more types.
        return NOT_REPLAYABLE.get(last.view.group_type, "whatif replays classic groups of consumers")
    if any(seen.view.protocol == "stream" for seen in recording.states):
        return "Kafka Streams assigns tasks by an assignor of its own, which whatif does not know"
    if types - {"consumer"}:
        return f"its protocol type is {' or '.join(sorted(map(repr, types)))}; whatif replays groups of consumers"
    return None


class NothingToReplay(ValueError):
    """There is no rebalance to replay."""


def reconstruct(
    recording: GroupRecording,
    end_ms: int,
    *,
    heartbeat_ms: int | None = None,
    delay_ms: int | None = None,
    share: float = 0.5,
) -> RecordedScript:
    """The script of a recording that was looked at until `end_ms`.

    `heartbeat_ms` and `delay_ms`: if they are known better than from the log. `share`: how much of a heartbeat
    interval before the end of a join phase that came which set it off. Raises `NothingToReplay`.
    """
    if not any(seen.members for seen in recording.states):
        raise NothingToReplay("the log shows no member of it in this time")
    beat = timing_estimates.estimate_heartbeat_ms(recording)
    delay = timing_estimates.estimate_initial_delay_ms(recording)
    steps = ScriptBuilder(
        recording,
        identify_clients(recording),
        heartbeat_ms or beat or timing_estimates.DEFAULT_HEARTBEAT_MS,
        delay_ms if delay_ms is not None else timing_estimates.DEFAULT_DELAY_MS if delay is None else delay,
        share,
    )
    opening_ms, found = steps.add_first_members()
    for before, seen, changes in consecutive_states(recording):
        steps.add_state(before, seen, changes)
    expected = tuple(_expected(recording, steps.clients))
    steps.notes["never_completed"] = sum(it.skipped for it in expected)
    session = recording.kip848_session or SessionSetting()
    script = Script(
        recording.group,
        steps.partitions,
        _in_order(steps.steps),
        recording.states[-1].at_ms,
        BrokerSettings(
            initial_rebalance_delay_ms=steps.delay_ms,
            consumer_session_timeout_ms=session.timeout_ms,
            consumer_heartbeat_interval_ms=session.heartbeat_ms,
        ),
        latency_ms=0,
    )
    closing_ms = _closing(recording, end_ms)
    return RecordedScript(
        until_sessions_end(allow_session_timeouts(script), closing_ms),
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
        sum(seen.stopped_ms or 0 for seen in recording.states),
        recording.kip848_session is not None,
    )


def _in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """In order of time, and nothing of a client before its start: records behind one that is dated ahead have that
    time, too."""
    started: dict[str, int] = {}
    out: list[Step] = []
    for step in steps:
        if isinstance(step, Start):
            started[step.client] = step.at_ms
        elif not isinstance(step, SetPartitions) and step.at_ms < started[step.client]:
            step = replace(step, at_ms=started[step.client])
        out.append(step)
    return tuple(sorted(out, key=lambda step: step.at_ms))


def _closing(recording: GroupRecording, end_ms: int) -> int:
    """Until when standstill counts: to the end, or until the last member of a group that has ended left."""
    last = recording.states[-1]
    return max(end_ms, last.at_ms) if last.members else last.at_ms


def until_sessions_end(script: Script, closing_ms: int) -> Script:
    """A script looked at for so long that every session that can end by itself does: a death at the end is noticed,
    a static member that closed is taken out."""
    settings = [it.settings for it in starts(script)]
    longest_ms = max(
        script.broker.consumer_session_timeout_ms,
        *(it.session_timeout_ms + 2 * it.heartbeat_interval_ms for it in settings),
        *(it.max_poll_interval_ms for it in settings),
    )
    return replace(script, until_ms=closing_ms + longest_ms)


def _expected(recording: GroupRecording, clients: ClientNames) -> Iterable[Generation]:
    """The generations of a recording, the first as it was found."""
    # Until a group's first assignment nobody reads, which the log does not count as standstill.
    yield _shown(clients, replace(recording.states[0], stopped_ms=None), 0)
    for before, seen, _ in consecutive_states(recording):
        if seen.view.generation != before.view.generation:
            yield _shown(clients, seen, seen.view.generation - before.view.generation - 1)


def _shown(clients: ClientNames, seen: RecordedState, skipped: int) -> Generation:
    names = frozenset(clients.by_member_id[member_id] for member_id in seen.members)
    return Generation(seen.view.generation, seen.at_ms, names, skipped, seen.stopped_ms)
