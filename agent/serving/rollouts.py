"""Rollouts of a group as an agent answers them, over HTTP and on its page: found anew in what is remembered, and the
newest replayed under other settings, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.core.queries import JsonObject, Rollouts, Timeline
from agent.presentation.narrative.staleness import known_until_ms
from agent.presentation.rollouts.rollout_list import known_since_ms, rollouts_json, span_ms
from agent.serving.queries import ServedQueries
from agent.serving.replay_limit import TOO_LARGE, is_too_large
from agent.serving.replays import Replay, Replays

BUDGET_S = 1.0
"""Of a replay; looked at between two plays."""


def find_rollouts(agent: ServedQueries, group: str) -> Rollouts | None:
    """A group's rollouts, without what-if; None if there is and was no group of that name.

    Raises `AmbiguousGroup` where several clusters have one.
    """
    past = agent.timeline(group)
    if past is None:
        return None
    form = agent.describe(group)
    return Rollouts(rollouts_of(agent, group, past, form, agent.now_ms), known_since_ms(*past))


def rollouts_of(
    agent: ServedQueries, group: str, past: Timeline, form: JsonObject | None, wall_ms: int
) -> list[JsonObject]:
    """The same of events that are at hand, the group's description, and the clock on the wall."""
    events, complete_since_ms = past
    newest_ms = events[-1]["at_ms"] if events else 0
    # Who does not read does not know that nothing happened.
    now_ms = max(known_until_ms(form, wall_ms), newest_ms) if agent.ready().ready else newest_ms
    members = None if form is None else len(form["members"])
    return rollouts_json(group, events, now_ms, members, agent.lag_notes(group), complete_since_ms)


def with_costs(agent: ServedQueries, rollouts: Sequence[JsonObject], replays: Replays) -> list[JsonObject]:
    """The rollouts with `whatif`: what other settings would have made of the newest that has a verdict, None in the
    others."""
    newest = newest_judged(rollouts)
    return [{**it, "whatif": replays.at_once(_replay(agent, it)) if it is newest else None} for it in rollouts]


def costs_soon(agent: ServedQueries, form: JsonObject, replays: Replays) -> JsonObject | None:
    """The same of one rollout, for who does not wait; None while it is being replayed."""
    return replays.soon(_replay(agent, form))


def newest_judged(rollouts: Sequence[JsonObject]) -> JsonObject | None:
    """The newest that has a verdict: what is still going on is not replayed again and again."""
    return next((it for it in reversed(rollouts) if it["verdict"] is not None), None)


def _replay(agent: ServedQueries, form: JsonObject) -> Replay[JsonObject]:
    since_ms, until_ms = span_ms(form)

    def run(enough: Callable[[], bool]) -> JsonObject:
        # Who never asks has no use for the model.
        from agent.simulation.whatif.rollout_costs import rollout_costs

        recording = agent.recording(form["group"])
        if recording is not None and is_too_large(recording):
            return _untold(TOO_LARGE)
        return rollout_costs(recording, since_ms, until_ms, enough)

    key = ("rollout", form["cluster"], form["group"], since_ms, until_ms)
    return Replay(key, (), BUDGET_S, run, _untold)


def _untold(reason: str) -> JsonObject:
    from agent.simulation.whatif.rollout_costs import no_costs

    return no_costs(reason)
