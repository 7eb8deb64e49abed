"""What the page says first."""

from __future__ import annotations

from agent.core.inference.origins import origin_words
from agent.history.report.page import markup as m
from agent.history.report.page import words as w
from agent.history.report.report_data import Comparison, ReportData, Row
from agent.presentation.narrative.words import join_words

STATES = {
    "stable_ms": "stable",
    "empty_ms": "without members",
    "preparing_rebalance_ms": "in join phases",
    "completing_rebalance_ms": "in sync phases",
}
NEGLIGIBLE_CHANGE = 0.05
"""A smaller change is shown as none."""
_MOST_NAMES = 6


def header(found: ReportData) -> m.Markup:
    """Title, the main thing, the totals."""
    return m.join(
        [
            m.Markup("<header><h1>Consumer groups: what their rebalances cost</h1>"),
            m.paragraph(_range(found)),
            m.Markup(f'<p class="lead">{m.join(_main(found), " ")}</p>'),
            _totals(found),
            _departures(found),
            m.note(
                "Stopped partition time: how long rebalances stopped partitions, summed over the partitions "
                "(two partitions",
                "for 3 s: 6 s). It does not show how many records waited.",
            ),
            m.Markup("</header>"),
        ],
        "\n",
    )


def _range(found: ReportData) -> m.Markup:
    groups, clusters = found.totals["groups"], found.totals["clusters"]
    named = [m.name(it) if it else m.Markup("one without a name") for it in sorted(clusters, key=lambda it: not it)]
    where = m.join([" in the clusters " if len(named) > 1 else " of the cluster ", join_names(named)])
    where = where if any(clusters) else m.Markup("")
    return m.join(
        [
            f"From {w.moment(found.span.since_ms)} to {w.moment(found.span.until_ms)} UTC ",
            f"({w.time(found.span.until_ms - found.span.since_ms)}): ",
            w.count(groups, "group"),
            where,
            ". " if found.zone == "UTC" else f". Days and hours are those of {found.zone}.",
        ]
    )


def join_names(names: list[m.Markup]) -> m.Markup:
    """Names in a sentence."""
    more = [m.Markup(f"{len(names) - _MOST_NAMES} more")] if len(names) > _MOST_NAMES else []
    shown = [*names[:_MOST_NAMES], *more]
    return shown[0] if len(shown) == 1 else m.Markup(f"{', '.join(shown[:-1])} and {shown[-1]}")


def _main(found: ReportData) -> list[m.Cell]:
    return [it for it in (_dearest(found), _trend(found)) if it is not None]


def _dearest(found: ReportData) -> m.Markup | None:
    whole = found.totals["stopped_partition_ms"]
    if whole is None:
        return m.Markup("Stopped partition time is not known.")
    first = [row for row in found.ranking[:3] if row["stopped_partition_ms"]]
    if not first:
        return m.Markup("Rebalances stopped no partitions.")
    names = join_names([m.name(it["group"], cluster=it["cluster"], shows_cluster=found.has_clusters) for it in first])
    part = sum(it["stopped_partition_ms"] for it in first)
    cause = first[0]["main_cause"]
    part_of = w.share(first[0]["main_cause_share"])
    why = (
        "" if cause is None else f". The main cause in the first is {cause_words(cause)}, {part_of} of its rebalances"
    )
    return m.join(
        [
            f"Rebalances stopped partitions for {w.time(whole)} of partition time. ",
            names,
            f" had the most: {w.part(part, whole)} of it",
            why,
            ".",
            "" if not found.totals["stopped_unknown"] else f" {unknown_cost(found.totals)}: the total is higher.",
        ]
    )


def unknown_cost(row: Row) -> str:
    """Of how many rebalances it is not known what they cost."""
    unknown, rebalances = row["stopped_unknown"], row["rebalances"]
    of = "all rebalances" if unknown == rebalances else f"{w.number(unknown)} of {w.count(rebalances, 'rebalance')}"
    return f"The stopped time of {of} is not known"


def cause_words(cause: str | None) -> str:
    """`session timeout`."""
    return "not known" if cause is None else m.shortened(cause.replace("_", " "))


def _trend(found: ReportData) -> str | None:
    if found.compared is not None:
        return verdict(found.compared, "After the change", ("before", "after"))
    if found.halves is not None:
        return verdict(found.halves, "In the second half of the range", ("in the first", "in the second"))
    return None


def verdict(compared: Comparison, when: str, names: tuple[str, str]) -> str | None:
    """Whether stopped partition time became less, of all groups that are known in both ranges."""
    row = of_all(compared, "stopped_partition_ms_per_day")
    if row is None or row["before"] is None or row["after"] is None:
        return None
    before, after = row["before"], row["after"]
    told = f"{w.time(before)} per group and day {names[0]}, {w.time(after)} {names[1]}"
    direction = change_of(row)
    change = w.changed(before, after)
    told += f" ({change})." if direction and change is not None else "."
    if row["before_unknown"] or row["after_unknown"]:
        first, second = (
            f"{w.number(row[f'{it}_unknown'])} of {w.number(row[f'{it}_rebalances'])}" for it in ("before", "after")
        )
        told += f" The stopped time of {first} rebalances {names[0]} and of {second} {names[1]} is not known."
    if direction is None:
        return f"Whether stopped time changed is not known. What is known: {told}"
    return f"{when} stopped time was {_CHANGES[direction]}: {told}"


_CHANGES = {-1: "lower", 0: "about the same", 1: "higher"}


def change_of(row: Row) -> int | None:
    """Of a row of stopped partition time that is known of both ranges: -1 less, 1 more, 0 neither; None where the
    rebalances whose cost is not known would make it another answer, if they cost as much as those whose is."""
    known = (row["before"], row["after"])
    rebalances = ((row[f"{it}_rebalances"], row[f"{it}_unknown"]) for it in ("before", "after"))
    whole = [
        value * of / max(of - unknown, 1) if unknown else value
        for value, (of, unknown) in zip(known, rebalances, strict=True)
    ]
    directions = {_direction(*known), _direction(*whole)}
    return directions.pop() if len(directions) == 1 else None


def _direction(before: float, after: float) -> int:
    if before == after or (before and abs(after / before - 1) < NEGLIGIBLE_CHANGE):
        return 0
    return -1 if after < before else 1


def of_all(compared: Comparison, measure: str) -> Row | None:
    """The row of all groups and causes."""
    return next((it for it in compared.of_all if (it["measure"], it["cause"]) == (measure, None)), None)


def _totals(found: ReportData) -> m.Markup:
    it = found.totals
    known = it["known_ms"]
    parts = [
        ("Groups", w.number(it["groups"]), None),
        ("Rebalances", w.number(it["rebalances"]), None),
        ("Stopped partition time", w.time(it["stopped_partition_ms"]), without_unknown(it)),
        ("Departures", w.number(it["departures"]), None),
        ("Known group time", w.time(known), "summed over groups"),
        *(_time_in(it, name, word) for name, word in STATES.items()),
    ]
    return m.Markup(f"<dl>{''.join(_total(*part) for part in parts)}</dl>")


_UNKNOWN = {"preparing_rebalance_ms": "join_unknown", "completing_rebalance_ms": "sync_unknown"}
"""Phases, and the rebalances of which it is not known how long they took."""


def _time_in(it: Row, name: str, word: str) -> tuple[str, str | None, str | None]:
    unknown = it[_UNKNOWN[name]] if name in _UNKNOWN else None
    if unknown and unknown >= it["rebalances"]:
        return f"Time {word}", None, f"not known of {w.count(unknown, 'rebalance')}"
    left_out = f", {_without(unknown, it['rebalances'])}" if unknown else ""
    return f"Time {word}", w.part(it[name], it["known_ms"]), f"{w.time(it[name])}{left_out}"


def without_unknown(row: Row) -> str | None:
    """What a sum of stopped time leaves out; None where it is whole."""
    unknown = row["stopped_unknown"]
    return _without(unknown, row["rebalances"]) if unknown else None


def _without(unknown: int, rebalances: int) -> str:
    return f"without {w.number(unknown)} of {w.count(rebalances, 'rebalance')}"


def _total(name: str, value: str | None, about: str | None) -> str:
    small = "" if about is None else f"<small>{m.html(about)}</small>"
    return f"<div><dt>{m.html(name)}</dt><dd>{m.html(value)}{small}</dd></div>"


def _departures(found: ReportData) -> m.Markup:
    rows = found.departures
    if not rows:
        return m.paragraph("No departures are known.")
    most = 6
    told = [f"{cause_words(it['cause'])} {w.number(it['count'])}" for it in rows[:most]]
    rest = sum(it["count"] for it in rows[most:])
    told += [f"other causes {w.number(rest)}"] if rest else []
    said = f"Departures by cause: {join_words(told, most + 1)}."
    if found.origins:
        origins = [f"{origin_words(it['cause'])} {w.number(it['count'])}" for it in found.origins]
        said += f" By what Kubernetes reports of their pods: {join_words(origins, len(origins))}."
    return m.paragraph(said)
