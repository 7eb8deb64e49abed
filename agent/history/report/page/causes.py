"""What rebalances came of, over time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from matplotlib.figure import Figure

from agent.history.report.page import markup as m
from agent.history.report.page import plots as p
from agent.history.report.page import words as w
from agent.history.report.page.header import cause_words
from agent.history.report.report_data import ReportData

FOLDS_FROM = 14
"""Steps: a longer table is folded."""


def causes(found: ReportData) -> m.Markup:
    """A plot and its numbers."""
    of_steps = {row["start"]: row for row in found.steps}
    unknown = [start for start in found.starts if start not in of_steps]
    rebalances = [row for row in found.causes if row["kind"] == "rebalance"]
    count: Counter[str | None] = Counter()
    unknown_cost: Counter[str | None] = Counter()
    stopped: dict[str | None, int | None] = defaultdict(lambda: None)
    for row in rebalances:
        count[row["cause"]] += row["count"] or 0
        unknown_cost[row["cause"]] += row["stopped_unknown"] or 0
        if row["stopped_partition_ms"] is not None:
            stopped[row["cause"]] = (stopped[row["cause"]] or 0) + row["stopped_partition_ms"]
    every, cost = sum(count.values()), sum(value or 0 for value in stopped.values())
    per_step = _by_step(found, of_steps)
    return m.section(
        "causes",
        "Causes over time",
        m.paragraph(_sentence(found)),
        _plot(found),
        m.table(
            "Rebalances by cause",
            [
                m.Column("Cause", lambda it: cause_words(it[0])),
                m.numbers("Rebalances", lambda it: w.number(it[1])),
                m.numbers("Share", lambda it: w.part(it[1], every)),
                m.numbers("Stopped partition time", lambda it: w.time(stopped[it[0]])),
                m.numbers("Share", lambda it: w.part(stopped[it[0]], cost)),
                *m.not_known(lambda it: unknown_cost[it[0]], list(count.items())),
            ],
            sorted(count.items(), key=lambda item: (-item[1], str(item[0]))),
        ),
        m.folded(f"Numbers by {found.step}", per_step) if len(found.starts) > FOLDS_FROM else per_step,
        m.note(
            "The cause is what started a rebalance; it is inferred from the log, and unknown where the log "
            "does not show it.",
            f"For hatched {found.step}s nothing is known." if unknown else None,
            f"The first and the last {found.step} may be incomplete.",
        ),
    )


def _sentence(found: ReportData) -> str:
    known = [row for row in found.steps if row["stopped_partition_ms"] is not None]
    if not known:
        return "Stopped partition time is not known."
    worst = max(known, key=lambda row: row["stopped_partition_ms"])
    whole = found.totals["stopped_partition_ms"]
    if not worst["stopped_partition_ms"]:
        return f"Rebalances stopped partitions on no {found.step}."
    return (
        f"The worst {found.step} was {worst['start']}: {w.count(worst['rebalances'], 'rebalance')}, "
        f"{w.time(worst['stopped_partition_ms'])} of stopped partition time, "
        f"{w.part(worst['stopped_partition_ms'], whole)} of the total."
    )


def _series(found: ReportData) -> list[tuple[str, list[float]]]:
    """Rebalances of each family of causes by step."""
    at = {start: place for place, start in enumerate(found.starts)}
    out = {family: [0.0] * len(at) for family in p.FAMILIES}
    for row in found.causes:
        if row["kind"] == "rebalance" and row["start"] in at:
            out[p.cause_family(row["cause"])][at[row["start"]]] += row["count"] or 0
    return [(family, values) for family, values in out.items() if any(values)]


def _plot(found: ReportData) -> m.Markup:
    of_steps = {row["start"]: row["stopped_partition_ms"] for row in found.steps}
    series = _series(found)
    stopped = [of_steps.get(start) for start in found.starts]
    unit, unit_ms = (
        ("hours", 3_600_000) if max(filter(None, stopped), default=0) >= 7_200_000 else ("minutes", 60_000)
    )
    names = [start[5:] for start in found.starts]
    unknown = [place for place, start in enumerate(found.starts) if start not in of_steps]

    def draw(figure: Figure, ink: p.Palette, is_wide: bool) -> None:
        top = p.axes(figure, (2, 1, 1), ink, "rebalances")
        p.stack(top, ink, series)
        if series:
            p.legend(top, ink, 5 if is_wide else 2)
        below = p.axes(figure, (2, 1, 2), ink, f"stopped, {unit}", shared=top)
        below.bar(range(len(stopped)), [(value or 0) / unit_ms for value in stopped], 0.86, color=p.GREY)
        for at in (top, below):
            p.gaps(at, ink, unknown)
        top.tick_params(labelbottom=False)
        p.ticks(
            below, names, 16 if is_wide and found.step == "day" else 8 if is_wide else 4 if found.step == "day" else 2
        )

    return p.picture(
        draw,
        f"Bars: rebalances by cause for each {found.step}, below them stopped partition time. The tables have "
        "the numbers.",
        m.join([f"Above: rebalances by cause and {found.step}. Below: stopped partition time in partition-{unit}."]),
        wide=(1240, 460),
        narrow=(340, 430),
    )


def _by_step(found: ReportData, of_steps: Mapping[str, Mapping[str, int | None]]) -> m.Markup:
    places = {start: place for place, start in enumerate(found.starts)}

    def of_family(values: Sequence[float], start: str) -> str | None:
        return w.number(values[places[start]]) if start in of_steps else None

    def of_step(key: str, show: Callable[[float | None], str | None], start: str) -> str | None:
        return show(of_steps[start][key]) if start in of_steps else None

    return m.table(
        f"Rebalances by {found.step} and cause",
        [
            m.Column(found.step.capitalize(), str),
            m.numbers("Rebalances", partial(of_step, "rebalances", w.number)),
            m.numbers("Stopped partition time", partial(of_step, "stopped_partition_ms", w.time)),
            *(m.numbers(p.family_label(family), partial(of_family, values)) for family, values in _series(found)),
        ],
        found.starts,
    )
