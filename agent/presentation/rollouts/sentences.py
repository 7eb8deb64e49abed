"""A rollout in words, from its JSON: a headline, why the verdict is so, and its numbers as labelled lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent.common.text import truncated
from agent.core.causes import cause_info
from agent.core.inference.origins import origin_words
from agent.presentation.narrative.words import MAX_NAME, about, clock, count, day, duration, join_words
from agent.presentation.rollouts.measures import KILLED_AT_STOP, RolloutState

JsonObject = Mapping[str, Any]

UNKNOWN = "not known"
PENDING = "pending"
"""The word where there is no verdict yet."""

WHATIF_LABELS = {
    "today": "Replayed as it was",
    "static_membership": "With static membership",
    "cooperative_rebalancing": "With cooperative rebalancing",
}


def verdict_word(form: JsonObject) -> str:
    """The verdict, that there is none yet, or that nothing tells one."""
    return str(form["verdict"] or (PENDING if form["state"] == RolloutState.RUNNING else UNKNOWN))


def what_was_rolled_out(form: JsonObject) -> str:
    """`Deployment/payments, 6f7b9 → 7d9c8`; "" where Kubernetes does not tell."""
    revisions = " → ".join(truncated(str(it), MAX_NAME) for it in (form["revision_from"], form["revision_to"]) if it)
    return ", ".join(it for it in (truncated(form["workload"] or "", MAX_NAME), revisions) if it)


def moment(at_ms: int) -> str:
    """`2026-11-21 10:02:03`."""
    return f"{day(at_ms)} {clock(at_ms)}"


def lines(form: JsonObject) -> list[tuple[str, str]]:
    """Its numbers, each with its label, those of the rollout before beside them."""
    differences = {it["measure"]: it for it in form["differences"]}
    before = {measure: it["before"] for measure, it in differences.items()}
    steady = form["time_to_steady_ms"]
    until = f"steady after {about(steady)}" if steady is not None else f"{form['state']}"
    out = [
        ("Began", f"{moment(form['began_ms'])}, {until}"),
        ("Members replaced", _members(form)),
        ("Rebalances", _rebalances(form, before.get("rebalances"))),
        ("Stopped partition time", _stopped(form, before.get("stopped_partition_ms"))),
        ("Lag's peak", _lag(form, differences.get("lag_peak_seconds"))),
    ]
    if form["departures"]:
        left = [f"{n} {cause_info(cause).label}" for cause, n in form["departures"].items()]
        out.append(("Departures", join_words(left)))
    if form["errors"]:
        out.append(("Errors", join_words([f"{n} {_error(kind)}" for kind, n in form["errors"].items()])))
    return out + list(whatif_lines(form.get("whatif")))


def whatif_lines(whatif: JsonObject | None) -> Iterable[tuple[str, str]]:
    """What other settings would have cost, or why that is not told."""
    if whatif is None:
        return
    for name, label in WHATIF_LABELS.items():
        cost = whatif.get(name)
        if cost is not None:
            yield label, f"{count(cost['rebalances'], 'rebalance')}, {about(cost['stopped_partition_ms'])} stopped"
    if whatif["untold"]:
        yield "With other settings", f"{UNKNOWN}: {whatif['untold']}"


def _members(form: JsonObject) -> str:
    known = form["members_before"]
    of = f" of {known}" if known is not None else ""
    after = form["members_after"]
    return f"{form['members_replaced']}{of}" + ("" if after in (None, known) else f"; {after} after it")


def _rebalances(form: JsonObject, before: float | None) -> str:
    never = form["rebalances_never_completed"]
    return f"{form['rebalances']}{f' and {never} that never completed' if never else ''}" + (
        "" if before is None else f" (rollout before: {before:.0f})"
    )


def _stopped(form: JsonObject, before: float | None) -> str:
    stopped, unknown = form["stopped_partition_ms"], form["rebalances_of_unknown_cost"]
    if stopped is None:
        return UNKNOWN
    said = about(stopped) if stopped else "none"
    said += f", {count(unknown, 'rebalance')} of unknown cost" if unknown else ""
    return said + ("" if before is None else f" (rollout before: {about(round(before)) if before else 'none'})")


def _lag(form: JsonObject, difference: JsonObject | None) -> str:
    records, seconds = form["lag_peak_records"], form["lag_peak_seconds"]
    if records is None and seconds is None:
        return UNKNOWN
    parts = [] if records is None else [count(records, "record")]
    parts += [] if seconds is None else [duration(round(1000 * seconds))]
    # An agent of before says nothing of bounds.
    at_least = form.get("lag_peak_at_least", False)
    said = _bounded(", ".join(parts), at_least=at_least)
    if difference is None:
        return said
    before = duration(round(1000 * difference["before"]))
    is_bound = difference.get("at_least", False) and not at_least
    return f"{said} (rollout before: {_bounded(before, at_least=is_bound)})"


def _bounded(text: str, *, at_least: bool) -> str:
    return f"at least {text}" if at_least else text


def _error(kind: str) -> str:
    return "killed at the end of the grace period" if kind == KILLED_AT_STOP else origin_words(kind)
