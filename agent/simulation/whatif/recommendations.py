"""Which other settings would have helped a group, beyond what the replay itself may be off by."""

from __future__ import annotations

from collections.abc import Callable

from agent.presentation.narrative.gains import Gain, Gains, are_alike
from agent.presentation.narrative.words import about, capitalized, duration
from agent.simulation.whatif.calibrated_replay import CalibratedReplay, CannotReplay, calibrate
from agent.simulation.whatif.changes import CHANGES, standard_alternatives, starts
from agent.simulation.whatif.comparison import (
    LEAST_SAVED_SHARE,
    AlternativeOutcome,
    Comparison,
    compare,
    tolerable_cost_ms,
)
from agent.simulation.whatif.recorded_script import NothingToReplay, reason_not_replayable
from agent.simulation.whatif.recorder import GroupRecording
from agent.simulation.whatif.sentences import kip848_session

MAX_RECOMMENDATIONS = 3
"""So many settings are named."""

LEAST_SAVED_MS = 1_000
"""What saves less partition time than this saves nothing."""

NOISE_FACTOR = 2
"""So many times what the replay is off by from what the log shows must be saved to be no chance."""

NO_TIME = "replaying it takes longer than there is time for here"
LEAST_MATCHED_SHARE = 0.5
"""From which part of its generations on a replay that is not exact says anything."""

LEAST_REBALANCES_FOR_PRICE, LEAST_SHARE_FOR_PRICE = 2, 0.5
"""What costs standstill is worth naming where it saves so many rebalances, and such a part of them."""

BudgetSpent = Callable[[], bool]


def recommend(
    recording: GroupRecording,
    since_ms: int | None,
    until_ms: int | None,
    end_ms: int,
    enough: BudgetSpent = lambda: False,
) -> Gains:
    """Replay what was recorded in a range, up to `end_ms`, under the standard set of settings.

    `enough` is asked between plays: once it says so, what was tried by then is all.
    """
    if (reason := reason_not_replayable(recording)) is not None:
        return Gains(untold=reason)
    try:
        found = calibrate(recording.between(since_ms, until_ms), end_ms, enough=enough)
    except (NothingToReplay, CannotReplay) as error:
        return Gains(untold=str(error))
    near = found.reproduction
    if near.matched < LEAST_MATCHED_SHARE * near.generations:
        return Gains(
            untold=f"replayed under today's settings only {near.matched} of {near.generations} generations come out "
            "as they were, so no other numbers can be trusted"
        )
    if near.has_times_of_log is False:
        return _untrusted(near.stopped_ms, f"for {about(near.log_stopped_ms)} in the log")
    compared = compare(found, standard_alternatives(found.recorded.script), enough)
    today_ms, log_ms = compared.today.stopped_ms, found.recorded.stopped_ms
    if not are_alike(today_ms / 1000, log_ms / 1000):
        return _untrusted(today_ms, f"as far as the log shows for {about(log_ms)}")
    return Gains(
        gains=tuple(_gain(found, compared, it) for it in helpful_outcomes(found, compared)),
        tried=len(compared.outcomes) - 1,
        rebalances=compared.today.rebalances,
        stopped_s=today_ms / 1000,
        log_rebalances=near.generations,
        log_stopped_s=log_ms / 1000,
        generations=near.generations,
        matched=near.matched,
        untold=NO_TIME if compared.is_cut_short else "",
        is_cut_short=compared.is_cut_short,
    )


def _untrusted(stopped_ms: int, logged: str) -> Gains:
    return Gains(
        untold=f"replayed under today's settings partitions are stopped for {about(stopped_ms)}, and {logged}, so no "
        "other times can be trusted"
    )


def helpful_outcomes(found: CalibratedReplay, compared: Comparison) -> list[AlternativeOutcome]:
    """What helps, the best first: what saves standstill, else rebalances; where nothing does so without a price, what
    saves many rebalances for one that can be borne. Of several with the same change in them one stands for all."""
    noise_ms = max(
        LEAST_SAVED_MS,
        LEAST_SAVED_SHARE * compared.today.stopped_ms,
        NOISE_FACTOR * abs(compared.today.stopped_ms - found.recorded.stopped_ms),
    )

    def rank(it: AlternativeOutcome) -> tuple[int, int, int, int]:
        rebalances, saved_ms = compared.saved(it)
        # What differs by less than the noise is the same: then what saves rebalances, or is the smaller change.
        return round(saved_ms / noise_ms), rebalances, -len(it.alternative.values), saved_ms

    others = sorted(compared.outcomes[1:], key=rank, reverse=True)
    free = [
        it
        for it in others
        if compared.saved(it)[1] > noise_ms
        or (compared.saved(it)[0] > 0 and compared.saved(it)[1] >= -LEAST_SAVED_MS)
    ]
    out: list[AlternativeOutcome] = []
    for it in free:
        if not any(it.alternative.values.keys() & chosen.alternative.values.keys() for chosen in out):
            out.append(it)
    if out:
        return out[:MAX_RECOMMENDATIONS]
    price_ms = tolerable_cost_ms(found.recorded, compared)
    least = max(LEAST_REBALANCES_FOR_PRICE, LEAST_SHARE_FOR_PRICE * compared.today.rebalances)
    dear = [it for it in others if compared.saved(it)[0] >= least and compared.saved(it)[1] >= -price_ms]
    return sorted(dear, key=compared.saved, reverse=True)[:1]


def _gain(found: CalibratedReplay, compared: Comparison, it: AlternativeOutcome) -> Gain:
    values, today = it.alternative.values, compared.today
    price = [*it.alternative.notes, *_price(found, today, it)]
    return Gain(
        setting=it.alternative.label,
        exact=it.alternative.config_lines(found.recorded.heartbeat_ms),
        where=it.alternative.where,
        rebalances_before=today.rebalances,
        rebalances_after=it.rebalances,
        stopped_before_s=today.stopped_ms / 1000,
        stopped_after_s=it.stopped_ms / 1000,
        detects_before_ms=today.detects_ms,
        detects_after_ms=it.detects_ms,
        price="; ".join(it.removesuffix(".") for it in price),
        assumptions=tuple(f"{capitalized(CHANGES[name].assumes)}." for name in values),
    )


def _price(found: CalibratedReplay, today: AlternativeOutcome, it: AlternativeOutcome) -> list[str]:
    """What is worse with it."""
    out = []
    if it.alternative.values.get("protocol") == "consumer":
        out.append(kip848_session(found.recorded))
    session_ms = it.alternative.values.get("session-timeout")
    sessions = [step.settings.session_timeout_ms for step in starts(found.recorded.script)]
    if session_ms is not None and session_ms < max(sessions):
        out.append(f"a client that pauses for more than {duration(session_ms)} is removed")
    if not it.alternative.has_part_in_detection:
        return out
    now, then = today.detects_ms, it.detects_ms
    if now is not None and then is not None and then > 1.1 * now:
        out.append(f"a dead member is removed after {duration(then)}, not {duration(now)}")
    elif len(it.detected_ms) < len(today.detected_ms):
        out.append("a dead member is detected only if it does not return within its session timeout")
    return out
