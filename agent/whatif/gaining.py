"""Which other settings would have helped a group, beyond what the replay itself may be off by."""

from __future__ import annotations

from collections.abc import Callable

from agent.story.gains import Gain, Gains
from agent.story.words import capital, duration
from agent.whatif import exact
from agent.whatif.changes import CHANGES, TODAY, standard, starts
from agent.whatif.comparing import LEAST, Compared, Outcome, bearable_ms, outcome
from agent.whatif.playing import NotPlayed
from agent.whatif.recorded import NothingRecorded
from agent.whatif.recorder import Recording
from agent.whatif.refusing import refused
from agent.whatif.reproducing import Fitted, fitted

MOST = 3
"""So many settings are named."""

LEAST_MS = 1_000
"""What saves less partition time than this saves nothing."""

NEAR = 3
"""Where replayed and logged standstill differ by more than this factor no price of more standstill can be named."""

OFF = 2
"""So many times what the replay is off by from what the log shows must be saved to be no chance."""

TRUE = 0.5
"""From which part of its generations on a replay that is not exact says anything."""

MANY, MUCH = 2, 0.5
"""What costs standstill is worth naming where it saves so many rebalances, and such a part of them."""

Enough = Callable[[], bool]


def gains(
    recording: Recording, since_ms: int | None, until_ms: int | None, end_ms: int, enough: Enough = lambda: False
) -> Gains:
    """Replay what was recorded in a range, up to `end_ms`, under the standard set of settings.

    `enough` is asked between plays: once it says so, what was tried by then is all.
    """
    if (reason := refused(recording)) is not None:
        return Gains(untold=reason)
    try:
        found = fitted(recording.between(since_ms, until_ms), end_ms, enough=enough)
        outcomes = [outcome(found.recorded, TODAY)]
    except (NothingRecorded, NotPlayed) as error:
        return Gains(untold=str(error))
    near = found.reproduction
    if near.matched < TRUE * near.generations:
        return Gains(
            untold=f"replayed under today's settings only {near.matched} of {near.generations} generations come out "
            "as they were, so no other numbers can be trusted"
        )
    is_over = False
    for alternative in standard(found.recorded.script):
        if is_over := enough():
            break
        try:
            outcomes.append(outcome(found.recorded, alternative))
        except NotPlayed:
            continue
    compared = Compared(tuple(outcomes), ())
    return Gains(
        gains=tuple(_gain(found, compared, it) for it in helpful(found, compared)),
        tried=len(outcomes) - 1,
        rebalances=compared.today.rebalances,
        stopped_s=compared.today.stopped_ms / 1000,
        log_rebalances=near.generations,
        log_stopped_s=found.recorded.stopped_ms / 1000,
        generations=near.generations,
        matched=near.matched,
        untold="replaying it takes longer than there is time for here" if is_over else "",
        is_cut_short=is_over,
    )


def helpful(found: Fitted, compared: Compared) -> list[Outcome]:
    """What helps, the best first: what saves standstill, else rebalances; where nothing does so without a price, what
    saves many rebalances for one that can be borne. Of several with the same change in them one stands for all."""
    noise_ms = max(
        LEAST_MS,
        LEAST * compared.today.stopped_ms,
        OFF * abs(compared.today.stopped_ms - found.recorded.stopped_ms),
    )

    def rank(it: Outcome) -> tuple[int, int, int, int]:
        rebalances, saved_ms = compared.saved(it)
        # What differs by less than the noise is the same: then what saves rebalances, or is the smaller change.
        return round(saved_ms / noise_ms), rebalances, -len(it.alternative.values), saved_ms

    others = sorted(compared.outcomes[1:], key=rank, reverse=True)
    free = [
        it
        for it in others
        if compared.saved(it)[1] > noise_ms or (compared.saved(it)[0] > 0 and compared.saved(it)[1] >= -LEAST_MS)
    ]
    out: list[Outcome] = []
    for it in free:
        if not any(it.alternative.values.keys() & chosen.alternative.values.keys() for chosen in out):
            out.append(it)
    least_ms, most_ms = sorted([compared.today.stopped_ms, found.recorded.stopped_ms])
    if out or most_ms > NEAR * least_ms:
        return out[:MOST]
    price_ms, least = bearable_ms(found.recorded, compared), max(MANY, MUCH * compared.today.rebalances)
    dear = [it for it in others if compared.saved(it)[0] >= least and compared.saved(it)[1] >= -price_ms]
    return sorted(dear, key=compared.saved, reverse=True)[:1]


def _gain(found: Fitted, compared: Compared, it: Outcome) -> Gain:
    values, today = it.alternative.values, compared.today
    clients = sorted({step.client for step in starts(found.recorded.script)})
    price = [*exact.notes(values), *_price(found, today, it)]
    return Gain(
        setting=it.alternative.label,
        exact=exact.lines(values, clients[0], found.recorded.heartbeat_ms),
        where=exact.where(values),
        rebalances_before=today.rebalances,
        rebalances_after=it.rebalances,
        stopped_before_s=today.stopped_ms / 1000,
        stopped_after_s=it.stopped_ms / 1000,
        detects_before_ms=today.detects_ms,
        detects_after_ms=it.detects_ms,
        price=" ".join(price),
        assumptions=tuple(f"{capital(CHANGES[name].assumes)}." for name in values),
    )


def _price(found: Fitted, today: Outcome, it: Outcome) -> list[str]:
    """What is worse with it."""
    out = []
    session_ms = it.alternative.values.get("session-timeout")
    sessions = [step.settings.session_timeout_ms for step in starts(found.recorded.script)]
    if session_ms is not None and session_ms < max(sessions):
        out.append(f"A client that pauses for longer than {duration(session_ms)} would then be thrown out.")
    now, then = today.detects_ms, it.detects_ms
    if now is not None and then is not None and then > 1.1 * now:
        out.append(f"A member that dies is then taken out after {duration(then)}, today after {duration(now)}.")
    elif len(it.detected_ms) < len(today.detected_ms):
        out.append("One that dies is noticed only if it is not back before its session ends.")
    return out
