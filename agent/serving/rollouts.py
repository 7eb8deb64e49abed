"""Rollouts of a group as an agent answers them, over HTTP and on its page: found anew in what is remembered, and the
newest replayed under other settings, once.

A replay is made when somebody asks, one at a time, and kept: a pipeline that asks every few seconds costs one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable

from agent.core.events.events import Event
from agent.core.queries import JsonObject
from agent.presentation.rollouts.rollout_list import rollouts_json, span_ms
from agent.serving.queries import ServedQueries
from agent.serving.replay_limit import TOO_LARGE, is_too_large
from agent.simulation.whatif.recorder import GroupRecording

log = logging.getLogger("kshadow")

BUDGET_S = 1.0
"""Of a replay; looked at between two plays."""
MAX_KEPT = 200

Key = tuple[str | None, str, int, int]


def find_rollouts(agent: ServedQueries, group: str) -> list[JsonObject] | None:
    """A group's rollouts, the oldest first, without what-if; None if there is and was no group of that name.

    Raises `AmbiguousGroup` where several clusters have one.
    """
    past = agent.timeline(group)
    if past is None:
        return None
    form = agent.describe(group)
    return rollouts_of(agent, group, past.events, form)


def rollouts_of(
    agent: ServedQueries, group: str, events: Iterable[Event], form: JsonObject | None
) -> list[JsonObject]:
    """The same of events that are at hand, and the group's description."""
    events = list(events)
    newest_ms = events[-1]["at_ms"] if events else 0
    # Who does not read does not know that nothing happened.
    now_ms = max(agent.now_ms, newest_ms) if agent.ready().ready else newest_ms
    return rollouts_json(group, events, now_ms, None if form is None else len(form["members"]))


class RolloutCosts:
    """What rollouts would have cost under other settings, kept once it is known. Thread-safe."""

    def __init__(self) -> None:
        self._working = threading.Lock()
        self._kept: OrderedDict[Key, JsonObject] = OrderedDict()

    def of_newest(self, agent: ServedQueries, rollouts: list[JsonObject]) -> list[JsonObject]:
        """The rollouts with `whatif`: of the newest that has a verdict, None in the others."""
        newest = next((it for it in reversed(rollouts) if it["verdict"] is not None), None)
        return [{**it, "whatif": self._costs(agent, it) if it is newest else None} for it in rollouts]

    def _costs(self, agent: ServedQueries, form: JsonObject) -> JsonObject:
        since_ms, until_ms = span_ms(form)
        key = (form["cluster"], form["group"], since_ms, until_ms)
        with self._working:
            if (known := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return known
            began_s = time.monotonic()
            found = _replayed(agent.recording(form["group"]), since_ms, until_ms, began_s + BUDGET_S)
            self._kept[key] = found
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
            return found


def _replayed(recording: GroupRecording | None, since_ms: int, until_ms: int, over_s: float) -> JsonObject:
    # Who never asks has no use for the model.
    from agent.simulation.whatif.rollout_costs import ALTERNATIVES, rollout_costs

    untold = {"today": None, **dict.fromkeys(ALTERNATIVES)}
    if recording is not None and is_too_large(recording):
        return {**untold, "untold": TOO_LARGE}
    try:
        return rollout_costs(recording, since_ms, until_ms, lambda: time.monotonic() >= over_s)
    except Exception as error:
        # A history that the model trips over must not fail the answer.
        log.exception("replaying a rollout")
        return {**untold, "untold": f"the replay failed ({type(error).__name__})"}
