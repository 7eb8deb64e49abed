"""Rollouts as the JSON that commands print and agents answer, from a group's events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from agent.core.events.events import Event
from agent.core.events.samples import LagNote
from agent.core.protocol.states import GroupType
from agent.presentation.narrative.events import NOT_LIKE_IT
from agent.presentation.rollouts.measures import Rollout, measure
from agent.presentation.rollouts.parameters import PARAMETERS
from agent.presentation.rollouts.turnover import find_rollouts
from agent.presentation.rollouts.verdicts import Judgement, judge_all

JsonObject = dict[str, Any]

LATEST_BEGINNING = 2
"""Classic groups begin with generation 1, KIP-848, share and streams groups of Kafka 4.x with epoch 2."""


def rollouts_json(
    group: str,
    events: Iterable[Event],
    now_ms: int,
    members_now: int | None = None,
    lags: Sequence[LagNote] = (),
    complete_since_ms: int | None = None,
) -> list[JsonObject]:
    """Each rollout of a group that its events show, the oldest first.

    `events` are in order, all of one group. `now_ms` is until when nothing else happened: the clock on the wall of a
    live source, else the end of the log. `members_now`: how many members it has, None where that is not known.
    `lags`: how far it was behind, as far as that is known beside the events. `complete_since_ms`: from when on the
    events are all there were, None: from the beginning. A rollout that may have begun before that, or before the
    group was found, is left out: by half of its events it would be another one, and its verdict another.
    """
    events = list(events)
    episodes = find_rollouts((it for it in events if it["at_ms"] <= now_ms), members_now=members_now)
    if complete_since_ms is not None:
        episodes = [it for it in episodes if it.began_ms - PARAMETERS.gap_ms >= complete_since_ms]
    found = _found_ms(events)
    # Tables hold what earlier agents saw before a later one found the group: what was over by then is known.
    episodes = [
        it
        for it in episodes
        if not any(it.began_ms - PARAMETERS.gap_ms < at_ms <= it.last_change_ms for at_ms in found)
    ]
    rollouts = measure(episodes, now_ms, lags, group_type=events[-1]["group_type"] if events else GroupType.CLASSIC)
    cluster = next((it["cluster"] for it in events if it.get("cluster") is not None), None)
    out: list[JsonObject] = []
    for number, (it, judged) in enumerate(zip(rollouts, judge_all(rollouts), strict=True)):
        before = None if not number else {"began_ms": out[-1]["began_ms"], "verdict": out[-1]["verdict"]}
        out.append({"cluster": cluster, "group": group, **_form(it, judged), "compared_with": before})
    return out


def known_since_ms(events: Iterable[Event], complete_since_ms: int | None) -> int | None:
    """From when on what happened to the group is known; None: from its beginning. `complete_since_ms`: from when on
    the events are all there were."""
    return max([*_found_ms(events), *(() if complete_since_ms is None else (complete_since_ms,))], default=None)


def _found_ms(events: Iterable[Event]) -> list[int]:
    """When the group was found that must be older: the log's cleaner leaves the newest record of a group, and so
    takes the first half of a rollout away."""
    return [it["at_ms"] for it in events if _is_found(it)]


def _is_found(event: Event) -> bool:
    match event["type"]:
        case "group_created":
            return not event["observed"]
        case "rebalance":
            # Of a group that was known by older commits, or members, until then.
            return event["previous_generation"] is None and (event["generation"] or 0) > LATEST_BEGINNING
    return False


def _form(it: Rollout, judged: Judgement) -> JsonObject:
    return {
        "state": str(it.state),
        "verdict": None if judged.verdict is None else str(judged.verdict),
        "reasons": list(judged.reasons),
        "recognised_by": "kubernetes" if it.by_kubernetes else "turnover",
        "workload": it.workload,
        "revision_from": it.revision_from,
        "revision_to": it.revision_to,
        "began_ms": it.began_ms,
        "ended_ms": it.ended_ms,
        "steady_ms": it.steady_ms,
        "time_to_steady_ms": it.time_to_steady_ms,
        "members_before": it.members_before,
        "members_after": it.members_after,
        "members_replaced": it.members_replaced,
        "rebalances": it.rebalances,
        "last_rebalance_ms": it.last_rebalance_ms,
        "rebalances_never_completed": it.never_completed,
        "stopped_partition_ms": it.stopped_partition_ms,
        "rebalances_of_unknown_cost": it.rebalances_of_unknown_cost,
        "lag_peak_records": it.lag_peak_records,
        "lag_peak_seconds": it.lag_peak_s,
        "lag_peak_at_least": it.lag_peak_at_least,
        "departures": dict(it.departures),
        "unclean_ends": it.unclean_ends,
        "errors": dict(it.errors),
        "crash_loops": it.crash_loops,
        "imbalance_before": None if it.imbalance_before is None else round(it.imbalance_before, 3),
        "imbalance_after": None if it.imbalance_after is None else round(it.imbalance_after, 3),
        "differences": [
            {
                "measure": at.measure,
                "before": at.before,
                "now": at.now,
                "verdict": str(at.verdict),
                "at_least": at.at_least,
            }
            for at in judged.differences
        ],
    }


def span_ms(form: JsonObject) -> tuple[int, int]:
    """From when to when a rollout's records are, bounds included, for who replays them: those of the rebalances that
    it counts."""
    last_ms = form["last_rebalance_ms"]
    return form["began_ms"], form["ended_ms"] if last_ms is None else last_ms


class _RolloutShape(Struct):
    """What the words of a rollout are made of."""

    began_ms: int
    state: str
    verdict: str | None
    reasons: list[str]
    recognised_by: str
    workload: str | None
    revision_from: str | None
    revision_to: str | None
    time_to_steady_ms: int | None
    members_before: int | None
    members_after: int | None
    members_replaced: int
    rebalances: int
    rebalances_never_completed: int
    stopped_partition_ms: int | None
    rebalances_of_unknown_cost: int
    lag_peak_records: int | None
    lag_peak_seconds: float | None
    departures: dict[str, int]
    errors: dict[str, int]
    differences: list[_Difference]
    whatif: _Costs | None
    lag_peak_at_least: bool = False


class _Difference(Struct):
    measure: str
    before: float
    at_least: bool = False


class _Cost(Struct):
    rebalances: int
    stopped_partition_ms: int


class _Costs(Struct):
    static_membership: _Cost | None
    cooperative_rebalancing: _Cost | None
    untold: str | None


def is_rollout(form: Any) -> bool:
    """Whether JSON of anyone's is a rollout: its fields are there, each of its type. More may come, and do."""
    try:
        msgspec.convert(form, _RolloutShape)
    except NOT_LIKE_IT:
        return False
    return True
