"""What other settings would have made of the same history: the numbers, as plain values, and what is said of them.

Whoever has the log replays it (`agent.simulation.whatif.recommendations`) and hands this over: the story is told
from events alone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from agent.common.text import truncated
from agent.presentation.narrative.words import capitalized, count, duration, join_words

ALIKE_FACTOR = 3
"""Where replayed and logged standstill differ by more than this, the replay is of something else."""

NEGLIGIBLE_S = 1.0
"""Where no more stood still than this, that nothing helps need not be said."""


MAX_LINE = 200
"""Characters of a line of a configuration: it may hold a client's name, and that is a stranger's."""


@dataclass(frozen=True, slots=True)
class Gain:
    """A setting that helps. `exact` are its lines as one writes them, `where` says into which configuration.

    Standstill is in partition-seconds. `detects_*_ms`: after how long a member that died is taken out (median), None
    where none died. `price` is what it costs, "" if nothing worth a word.
    """

    setting: str
    exact: tuple[str, ...]
    where: str
    rebalances_before: int
    rebalances_after: int
    stopped_before_s: float
    stopped_after_s: float
    detects_before_ms: int | None = None
    detects_after_ms: int | None = None
    price: str = ""
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gains:
    """What came of replaying a group's history: today's settings against `tried` others, of which `gains` help, the
    best first.

    `log_*`: what the log itself shows of the same time. `matched` of `generations` come out of the replay as they
    were. `untold`: why there are no numbers, or not all; `command` is what gives them, or more of them.
    `is_cut_short`: only time was lacking.
    """

    gains: tuple[Gain, ...] = ()
    tried: int = 0
    rebalances: int = 0
    stopped_s: float = 0.0
    log_rebalances: int = 0
    log_stopped_s: float = 0.0
    generations: int = 0
    matched: int = 0
    untold: str = ""
    command: str = ""
    is_cut_short: bool = False

    @property
    def has_numbers(self) -> bool:
        """Whether there are numbers."""
        return self.tried > 0

    def to_json(self) -> dict[str, Any]:
        """As the JSON that `kshadow explain -o json` prints."""
        return asdict(self)


def advice(gains: Gains) -> list[str]:
    """Sentences: what was replayed, and what each setting that helps would have made of it."""
    if not gains.has_numbers or (not gains.gains and min(gains.stopped_s, gains.log_stopped_s) < NEGLIGIBLE_S):
        return []
    near = "."
    if gains.matched < gains.generations:
        near = f"; {gains.matched} of {count(gains.generations, 'generation')} come out as they were."
    low, high = sorted((gains.stopped_s, gains.log_stopped_s))
    if high > ALIKE_FACTOR * max(low, NEGLIGIBLE_S):
        # What made it stand still is none of what is replayed: a piece of work that took long, say.
        return []
    base = (
        f"Replayed under today's settings this comes to {count(gains.rebalances, 'rebalance')} (the log shows "
        f"{gains.log_rebalances}) and {_duration_s(gains.stopped_s)} of stopped partition time{near} Of "
        f"{count(gains.tried, 'other setting')} that were tried"
    )
    if not gains.gains:
        return [f"{base} none would have helped notably: see to the cause, not to the settings."]
    if any(it.stopped_after_s > it.stopped_before_s + NEGLIGIBLE_S for it in gains.gains):
        return [f"{base} none helps without a price, but one may be worth it:", *map(_gain_sentence, gains.gains)]
    which = "this one would have helped" if len(gains.gains) == 1 else "these would have helped most"
    return [f"{base} {which}:", *map(_gain_sentence, gains.gains)]


def _gain_sentence(gain: Gain) -> str:
    fewer = gain.rebalances_before - gain.rebalances_after
    saved = gain.stopped_before_s - gain.stopped_after_s
    less = [
        f"{count(abs(fewer), 'rebalance')} {'fewer' if fewer > 0 else 'more'}" if fewer else "",
        f"{_duration_s(abs(saved))} {'less' if saved > 0 else 'more'}" if abs(saved) >= NEGLIGIBLE_S else "",
    ]
    different = join_words([it for it in less if it]) if any(less) else "the same"
    what = f"{count(gain.rebalances_after, 'rebalance')} and {_duration_s(gain.stopped_after_s)}"
    exact = join_words([f"`{truncated(it, MAX_LINE)}`" for it in gain.exact], 9)
    price = f" {gain.price}" if gain.price else ""
    return f"{capitalized(gain.setting)}: {what}, {different}. {capitalized(gain.where)}: {exact}.{price}"


def _duration_s(seconds: float) -> str:
    return duration(round(seconds * 1000))


def best_gain_sentence(gains: Gains | None) -> str:
    """The best of them in a sentence, if it has no price in standstill; "" without any."""
    best = gains.gains[0] if gains is not None and gains.gains else None
    if best is None or best.stopped_after_s > best.stopped_before_s + NEGLIGIBLE_S:
        return ""
    saved = best.stopped_before_s - best.stopped_after_s
    fewer = best.rebalances_before - best.rebalances_after
    parts = [f"{_duration_s(saved)} of {_duration_s(best.stopped_before_s)} of that"] if saved >= NEGLIGIBLE_S else []
    if fewer > 0:
        parts.append(f"{fewer} of {count(best.rebalances_before, 'rebalance')}")
    return f"{capitalized(best.setting)} would have saved {join_words(parts)}." if parts else ""


def limitations(gains: Gains) -> list[str]:
    """Why there are no numbers, or not all, and what gives them."""
    if not gains.untold:
        return []
    # A command is not shortened: who copies it wants all of it.
    how = f" `{gains.command}` tells." if gains.command else ""
    return [f"What other settings would have saved: {gains.untold}.{how}"]
