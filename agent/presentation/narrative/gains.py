"""What other settings would have made of the same history: the numbers, as plain values, and what is said of them.

Whoever has the log replays it (`agent.simulation.whatif.recommendations`) and hands this over: the story is told
from events alone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec import Struct, to_builtins

from agent.common.text import truncated
from agent.core.protocol.client_libraries import is_lacking, spell_line
from agent.presentation.narrative.words import about, capitalized, count, join_words

ALIKE_FACTOR = 2
"""Where replayed and logged standstill differ by more than this, the model's times are not the group's."""

NEGLIGIBLE_S = 1.0
"""Where no more stood still than this, that nothing helps need not be said."""


MAX_LINE = 200
"""Characters of a line of a configuration: it may hold a client's name, and that is a stranger's."""


class Gain(Struct, frozen=True):
    """A setting that helps. `exact` are its lines as one writes them, `where` says into which configuration.

    Standstill is in partition-seconds. `detects_*_ms`: after how long a member that died is taken out (median), None
    where none died. `price` is what it costs, clauses without a full stop, "" if nothing worth a word.
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


class Gains(Struct, frozen=True):
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
    def is_like_the_log(self) -> bool:
        """Whether there are numbers, and what was replayed is what happened: else what stopped partitions is none of
        what is replayed, such as one record that took long."""
        return self.tried > 0 and are_alike(self.stopped_s, self.log_stopped_s)

    def to_json(self) -> dict[str, Any]:
        """As the JSON that `kshadow explain -o json` prints."""
        built: dict[str, Any] = to_builtins(self)
        return built


def are_alike(replayed_s: float, logged_s: float) -> bool:
    """Whether two lengths of standstill, in partition-seconds, are the same as far as a model can tell."""
    low, high = sorted((replayed_s, logged_s))
    return high <= ALIKE_FACTOR * max(low, NEGLIGIBLE_S)


def advice(gains: Gains, libraries: Collection[str] = ()) -> list[tuple[frozenset[str], str, int]]:
    """What each setting that helps changes (by Java's names), its sentence, and the stopped partition time that it
    saves, in milliseconds. `libraries` are those of the group's clients: settings that they lack are left out."""
    if not gains.is_like_the_log:
        return []
    return [
        (names, _gain_advice(gain, libraries), round(1000 * (gain.stopped_before_s - gain.stopped_after_s)))
        for gain in gains.gains
        if not any(is_lacking(line, libraries) for line in gain.exact)
        for names in [frozenset(line.partition("=")[0] for line in gain.exact[:1])]
    ]


def _gain_advice(gain: Gain, libraries: Collection[str]) -> str:
    exact = join_words([f"`{truncated(spell_line(it, libraries), MAX_LINE)}`" for it in gain.exact], 9)
    first, _, more = gain.price.partition("; ")
    price = f"; {first}" if first else ""
    where = gain.where.replace("client's configuration", "client").replace("broker's configuration", "broker")
    return f"Set {exact} {where}: {_saved(gain)}{price}." + (f" {capitalized(more)}." if more else "")


def _saved(gain: Gain) -> str:
    """`saves 4 of 8 rebalances and 3 min 16 s of 4 min 19 s stopped`."""
    fewer, saved_s = gain.rebalances_before - gain.rebalances_after, gain.stopped_before_s - gain.stopped_after_s
    saves, costs = [], []
    if saved_s >= NEGLIGIBLE_S:
        saves.append(f"{_duration_s(saved_s)} of {_duration_s(gain.stopped_before_s)} stopped time")
    elif saved_s <= -NEGLIGIBLE_S:
        costs.append(f"{_duration_s(-saved_s)} more stopped time")
    if fewer > 0:
        saves.append(f"{fewer} of {count(gain.rebalances_before, 'rebalance')}")
    elif fewer < 0:
        costs.append(count(-fewer, "more rebalance"))
    said = [f"{verb} {join_words(them)}" for verb, them in (("saves", saves), ("costs", costs)) if them]
    return " and ".join(said) or "changes nothing"


def replayed(gains: Gains) -> list[str]:
    """How near the replay comes to the log, and what it found: for who wants to know where the numbers are from."""
    if not gains.is_like_the_log or (not gains.gains and min(gains.stopped_s, gains.log_stopped_s) < NEGLIGIBLE_S):
        return []
    exact = ""
    if gains.matched < gains.generations:
        exact = f" {gains.matched} of {count(gains.generations, 'generation')} are replayed as they were."
    found = [
        f"{capitalized(it.setting)}: {count(it.rebalances_after, 'rebalance')}, {_duration_s(it.stopped_after_s)} "
        "stopped"
        for it in gains.gains
    ]
    best = "; ".join(found) if found else "None helps notably, so change the cause, not the settings"
    return [
        f"The log shows {count(gains.log_rebalances, 'rebalance')} and {_duration_s(gains.log_stopped_s)} of stopped "
        f"partition time. A replay under today's settings has {gains.rebalances}, and "
        f"{_duration_s(gains.stopped_s)}.{exact} "
        f"{count(gains.tried, 'other setting')} {'was' if gains.tried == 1 else 'were'} tried. {best}."
    ]


def _duration_s(seconds: float) -> str:
    return about(round(seconds * 1000))


def best_gain_sentence(gains: Gains | None) -> str:
    """The best of them in a sentence, if it has no price in standstill; "" without any."""
    best = gains.gains[0] if gains is not None and gains.gains and gains.is_like_the_log else None
    if best is None or best.stopped_after_s > best.stopped_before_s + NEGLIGIBLE_S:
        return ""
    saved = best.stopped_before_s - best.stopped_after_s
    fewer = best.rebalances_before - best.rebalances_after
    parts = [f"{_duration_s(saved)} of {_duration_s(best.stopped_before_s)} stopped"] if saved >= NEGLIGIBLE_S else []
    if fewer > 0:
        parts.append(f"{fewer} of {count(best.rebalances_before, 'rebalance')}")
    return f"{capitalized(best.setting)} would save {join_words(parts)}." if parts else ""


def limitations(gains: Gains) -> list[str]:
    """Why there are no numbers, or not all, and what gives them."""
    if not gains.untold:
        return []
    # A command is not shortened: who copies it wants all of it.
    how = f" `{gains.command}` shows it." if gains.command else ""
    return [f"What other settings would have saved: {gains.untold}.{how}"]
