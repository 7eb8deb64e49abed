"""One word for each rollout, by stated rules. They are tried from the top; the first that holds decides.

| verdict | rule |
|---|---|
| `harmful` | new members left one place `crash_restarts` times (2): a crash loop |
| `harmful` | by Kubernetes a new member was OOM-killed, killed by its liveness probe, or exited with an error |
| `harmful` | `unclean_share` (a fifth) of the departures or more were unclean: by a timeout, or killed as the \
grace period ended |
| `harmful` | the group was not steady `unsteady_ms` (10 min) after the last member was replaced |
| none | all members left, with goodbyes, before the group was steady, and none joined again within ten minutes |
| none yet | members are still being replaced, or the last rebalance is not `settle_ms` (30 s) ago |
| `worse` | by Kubernetes a new member was evicted |
| `worse` | the group became lopsided: the largest share of partitions grew by half (`imbalance_growth`) a fair one |
| `worse`, `better` | the first of these that differs from the rollout before, for as many members: lag's peak \
(`stopped_factor`, 2, and 30 s), stopped partition time (2, 10 s, and 3 s for each partition), rebalances \
(`rebalances_factor`, 1.5, and 2). \
Lag: where what is not known of it can change nothing. Stopped time: where that of all rebalances is known. \
Rebalances: not where the group was empty during one of both, which takes few of them and stops all |
| `same` | nothing differs that much; or it is the first rollout that is seen, which has nothing to be compared with |

An exit code of 0 or 143 (SIGTERM) is no error. Numbers: `parameters`. Known to mislead: a rollout at another load
than the one before (lag); one of fewer members at once (more rebalances, each shorter); members that never commit:
how they ended is not known, so not unclean.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from agent.core.inference.origins import OriginKind
from agent.presentation.narrative.words import about, clock, count, duration, join_words
from agent.presentation.rollouts.measures import KILLED_AT_STOP, Rollout, RolloutState
from agent.presentation.rollouts.parameters import PARAMETERS as P


class RolloutVerdict(StrEnum):
    """Whether a rollout did harm."""

    BETTER = "better"
    SAME = "same"
    WORSE = "worse"
    HARMFUL = "harmful"

    @property
    def is_good(self) -> bool:
        """Whether a pipeline may go on."""
        return self in (RolloutVerdict.BETTER, RolloutVerdict.SAME)


class Difference(Struct, frozen=True):
    """One measure beside that of the rollout before; `verdict` is what it alone would say. `at_least`: the greater of
    the two is a bound, and as much is enough for the verdict."""

    measure: str
    before: float
    now: float
    verdict: RolloutVerdict
    at_least: bool = False


class Judgement(Struct, frozen=True):
    """The verdict (None: not yet), why in sentences, the most important first, and the comparison it rests on."""

    verdict: RolloutVerdict | None
    reasons: tuple[str, ...]
    differences: tuple[Difference, ...] = ()


def judge(rollout: Rollout, before: Rollout | None) -> Judgement:
    """The verdict on a rollout, beside the one `before` it."""
    differences = () if before is None else tuple(_differences(rollout, before))
    if harm := _harm(rollout):
        return Judgement(RolloutVerdict.HARMFUL, tuple(harm), differences)
    if rollout.state is RolloutState.RUNNING:
        said = "The rollout is running: it is complete, and the group has yet to be steady."
        over = f"{clock(rollout.over_ms)} UTC, ten minutes after the last change of members"
        if rollout.is_complete and rollout.members_after == 0:
            said = f"All members left before the group was steady. If none joins until {over}, nothing tells of harm."
        elif not rollout.is_complete:
            replaced = f"{rollout.members_replaced} of {rollout.members_before or '?'} members are replaced"
            said = f"The rollout is running or was stopped: {replaced}. If no more are, it is judged at {over}."
        return Judgement(None, (said,), differences)
    if rollout.is_stopped:
        said = (
            "All members left before the group was steady, and none joined again: whether it did harm is not known."
        )
        return Judgement(None, (said,), differences)
    if evicted := rollout.errors.get(OriginKind.EVICTED, 0):
        said = f"By Kubernetes, {count(evicted, 'new member')} {'was' if evicted == 1 else 'were'} evicted."
        return Judgement(RolloutVerdict.WORSE, (said,), differences)
    if (lopsided := _lopsided(rollout)) is not None:
        return Judgement(RolloutVerdict.WORSE, (lopsided,), differences)
    if before is None:
        return Judgement(
            RolloutVerdict.SAME, ("It did no harm. It is the first rollout seen, so nothing is compared.",)
        )
    decisive = next((it for it in differences if it.verdict is not RolloutVerdict.SAME), None)
    if decisive is None:
        said = "It did no harm and cost about what the rollout before cost."
        if not differences:
            said = "It did no harm; nothing of it can be compared with the rollout before."
        return Judgement(RolloutVerdict.SAME, (said,), differences)
    return Judgement(decisive.verdict, (_difference_sentence(decisive),), differences)


def judge_all(rollouts: Sequence[Rollout]) -> list[Judgement]:
    """The verdict on each, beside the one before it."""
    befores = [None, *rollouts[:-1]] if rollouts else []
    return [judge(it, before) for it, before in zip(rollouts, befores, strict=True)]


def _harm(rollout: Rollout) -> list[str]:
    out = []
    if rollout.crash_loops:
        places = "One new member" if rollout.crash_loops == 1 else f"{rollout.crash_loops} new members"
        out.append(f"{places} left again and again: a crash loop.")
    errors = {kind: n for kind, n in rollout.errors.items() if kind in _ERRORS}
    if errors:
        said = join_words([f"{n} {_ERRORS[kind]}" for kind, n in errors.items()])
        out.append(f"New members failed, by Kubernetes: {said}.")
    if rollout.unclean_ends and rollout.unclean_ends >= P.unclean_share * rollout.left:
        killed = rollout.errors.get(KILLED_AT_STOP, 0)
        how = f"; {killed} killed at the end of the grace period" if killed else ""
        out.append(
            f"{rollout.unclean_ends} of {count(rollout.left, 'departure')} ended without leaving the group{how}: "
            "partitions waited for a timeout."
        )
    if rollout.state is RolloutState.UNSTEADY and not rollout.is_stopped:
        out.append("The group did not become steady after it.")
    return out


_ERRORS = {
    "oom_killed": "OOM-killed",
    "liveness_killed": "killed by the liveness probe",
    "exited": "exited with an error",
}


def _lopsided(rollout: Rollout) -> str | None:
    before, after = rollout.imbalance_before, rollout.imbalance_after
    if before is None or after is None or after < before + P.imbalance_growth:
        return None
    return (
        f"The group became lopsided: the largest share of partitions is {after:.1f} fair shares, "
        f"before it {before:.1f}."
    )


def _differences(now: Rollout, before: Rollout) -> list[Difference]:
    # Rollouts of more members cost more; lag is nobody's sum.
    scale = (
        now.members_replaced / before.members_replaced if before.members_replaced and now.members_replaced else 1.0
    )
    compared = (
        (
            "lag_peak_seconds",
            before.lag_peak_s,
            now.lag_peak_s,
            1.0,
            P.stopped_factor,
            P.least_lag_s,
        ),
        (
            "stopped_partition_ms",
            None if before.rebalances_of_unknown_cost else before.stopped_partition_ms,
            None if now.rebalances_of_unknown_cost else now.stopped_partition_ms,
            scale,
            P.stopped_factor,
            max(P.least_stopped_ms, P.least_stopped_each_ms * max(now.partitions, before.partitions)),
        ),
        (
            "rebalances",
            None if before.was_empty is not now.was_empty else before.rebalances,
            now.rebalances,
            scale,
            P.rebalances_factor,
            P.least_rebalances,
        ),
    )
    found = [
        Difference(name, old, new, _alone(old * times, new, factor, least))
        for name, old, new, times, factor, least in compared
        if old is not None and new is not None
    ]
    return [it for it in map(partial(_as_far_as_known, now, before), found) if it is not None]


def _as_far_as_known(now: Rollout, before: Rollout, it: Difference) -> Difference | None:
    """None where what is not known of the lag may make another difference."""
    if it.measure != "lag_peak_seconds" or not (now.lag_peak_at_least or before.lag_peak_at_least):
        return it
    smaller, verdict = (before, RolloutVerdict.WORSE) if now.lag_peak_at_least else (now, RolloutVerdict.BETTER)
    return replace(it, at_least=True) if it.verdict is verdict and not smaller.lag_peak_at_least else None


def _alone(expected: float, now: float, factor: float, least: float) -> RolloutVerdict:
    """What one measure says by itself."""
    if abs(now - expected) < least or max(now, expected) < factor * min(now, expected):
        return RolloutVerdict.SAME
    return RolloutVerdict.WORSE if now > expected else RolloutVerdict.BETTER


def _difference_sentence(it: Difference) -> str:
    more = "more" if it.verdict is RolloutVerdict.WORSE else "less"
    match it.measure:
        case "lag_peak_seconds":
            now, before = duration(round(1000 * it.now)), duration(round(1000 * it.before))
            if it.at_least:
                now, before = (f"{now} or more", before) if it.now > it.before else (now, f"{before} or more")
            return f"Lag peaked at {now}; in the rollout before at {before}."
        case "stopped_partition_ms":
            now, before = about(round(it.now)), about(round(it.before))
            return f"Partitions were stopped for {now}, {more} than in the rollout before ({before})."
        case _:
            more = "more" if it.verdict is RolloutVerdict.WORSE else "fewer"
            return (
                f"It took {count(round(it.now), 'rebalance')}, {more} than the rollout before ({round(it.before)})."
            )
