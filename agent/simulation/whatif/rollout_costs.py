"""What one rollout would have cost with static membership or with cooperative rebalancing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent.simulation.whatif.calibrated_replay import CalibratedReplay, CannotReplay, calibrate
from agent.simulation.whatif.changes import CURRENT_SETTINGS, Alternative
from agent.simulation.whatif.comparison import evaluate
from agent.simulation.whatif.recommendations import LEAST_MATCHED_SHARE, NO_TIME
from agent.simulation.whatif.recorded_script import NothingToReplay, reason_not_replayable
from agent.simulation.whatif.recorder import GroupRecording

ALTERNATIVES = {
    "static_membership": Alternative({"static": True}),
    "cooperative_rebalancing": Alternative({"assignor": "cooperative-sticky"}),
}
"""What a rollout is held against, by the name of its field."""

MARGIN_MS = 30_000
"""So long before a rollout's first record its first goodbye may have been said, since a join phase lies between; and
so long after its last one what is replayed may come to rest."""

NO_REBALANCE = "the log has no rebalance of it to replay"
NO_RECORDS = "there are no records to replay"
NO_BEGINNING = "what is kept of the group's states begins after it did"

JsonObject = dict[str, Any]


def rollout_costs(
    recording: GroupRecording | None,
    began_ms: int,
    until_ms: int,
    enough: Callable[[], bool] = lambda: False,
) -> JsonObject:
    """Rebalances and stopped partition-milliseconds of what was recorded in a range, bounds included: replayed as it
    was (`today`), and under each of `ALTERNATIVES`; None with the reason in `untold` where there are no numbers.

    `enough` is asked between plays: once it says so, what is there by then is all.
    """
    if recording is None:
        return no_costs(NO_RECORDS)
    if (reason := reason_not_replayable(recording)) is not None:
        return no_costs(reason)
    before_ms = max((it.at_ms for it in recording.states if it.at_ms < began_ms), default=0)
    # What was recorded before the rollout is how it found the group, and no part of it.
    since_ms = max(began_ms - MARGIN_MS, before_ms + 1)
    if not recording.reaches_back_to(since_ms):
        return no_costs(NO_BEGINNING)
    ranged = recording.between(since_ms, until_ms)
    if not any(it.inferred is not None for it in ranged.states):
        return no_costs(NO_REBALANCE)
    try:
        found = calibrate(ranged, until_ms + MARGIN_MS, enough=enough)
    except (NothingToReplay, CannotReplay) as error:
        return no_costs(str(error))
    near = found.reproduction
    if near.matched < LEAST_MATCHED_SHARE * near.generations:
        untold = f"replayed as it was only {near.matched} of {near.generations} generations come out as they were"
        return no_costs(untold)
    out = no_costs(None)
    for name, alternative in {"today": CURRENT_SETTINGS, **ALTERNATIVES}.items():
        if enough():
            return out | {"untold": NO_TIME}
        try:
            out[name] = _cost(found, alternative)
        except CannotReplay as error:
            out["untold"] = str(error)
    return out


def no_costs(reason: str | None) -> JsonObject:
    """The form without numbers, and why there are none."""
    return {"today": None, **dict.fromkeys(ALTERNATIVES), "untold": reason}


def _cost(found: CalibratedReplay, alternative: Alternative) -> JsonObject:
    outcome = evaluate(found.recorded, alternative)
    return {"rebalances": outcome.rebalances, "stopped_partition_ms": outcome.stopped_ms}
