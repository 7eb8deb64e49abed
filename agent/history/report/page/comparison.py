"""Before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from agent.history.report.columns import MEASURES
from agent.history.report.page import markup as m
from agent.history.report.page import plots as p
from agent.history.report.page import words as w
from agent.history.report.page.header import cause_words, change_of, join_names, of_all, verdict
from agent.history.report.report_data import Comparison, ReportData, Row
from agent.history.report.spans import Range
from agent.presentation.narrative.words import count

_SHOWN: dict[str, tuple[str, Callable[[float | None], str | None]]] = {
    "rebalances_per_day": ("Rebalances per group and day", w.decimal),
    "stopped_partition_ms_per_day": ("Stopped partition time per group and day", w.time),
    "departures_per_day": ("Departures per group and day", w.decimal),
    "imbalance_avg": ("Imbalance: largest share by fair share, mean", w.ratio),
    "lag_records_p99": ("Lag p99 in records, mean of groups", w.number),
    "lag_seconds_p99": ("Lag p99 in time, mean of groups", w.seconds),
}
assert list(_SHOWN) == list(MEASURES)


def comparison(found: ReportData) -> m.Markup | None:
    """All groups, then those that changed the most."""
    compared = found.compared
    if compared is None:
        return None
    helped = verdict(compared, "After the change", ("before", "after"))
    better = sorted((it for it in compared.groups if change_of(it) == -1), key=lambda it: it["change"])
    worse = sorted((it for it in compared.groups if change_of(it) == 1), key=lambda it: -it["change"])
    half = max(1, found.most_groups // 2)
    return m.section(
        "before-after",
        "Before and after",
        m.paragraph(
            helped or "It is not known whether the change helped.",
            _most_changed(better, worse, shows_cluster=found.has_clusters),
        ),
        m.paragraph(_ranges(compared)),
        _departures_plot(compared),
        m.table(
            "All groups that are known in both ranges",
            [
                m.Column("Measure", _measure),
                m.numbers("Before", lambda row: _shown(row, "before")),
                m.numbers("After", lambda row: _shown(row, "after")),
                m.numbers("Change", lambda row: w.signed(_shown(row, "change"))),
                m.numbers("Change, %", _in_percent),
            ],
            _ordered(compared),
        ),
        _groups(found, f"Less stopped time ({w.count(len(better), 'group')})", better[:half]),
        _groups(found, f"More stopped time ({w.count(len(worse), 'group')})", worse[:half]),
        m.note(
            "Only whole hours within a range count, and only groups that are known in both. Rates are per "
            "known time.",
            "Lag and imbalance are means of the groups that have them in both. Other changes at the same time (load,",
            "day of the week, versions) have their effect too. Groups that changed by less than 5 %, or of which too "
            "little is known to tell, are in neither table.",
        ),
    )


def _ranges(compared: Comparison) -> str:
    row = of_all(compared, "rebalances_per_day")
    assert row is not None, "groups are known in both"
    before = f"Before: {_range(compared.before)}, {w.time(row['before_known_ms'])} of known group time."
    after = f"After: {_range(compared.after)}, {w.time(row['after_known_ms'])} of known group time."
    groups = count(len(compared.groups), "group")
    return f"{before} {after} Stopped time is that of {groups} for which it is known in both."


def _range(span: Range) -> str:
    return f"{w.moment(span.since_ms)} to {w.moment(span.until_ms)} UTC"


def _most_changed(better: Sequence[Row], worse: Sequence[Row], *, shows_cluster: bool) -> m.Markup:
    told = [
        m.join([word, ": ", join_names([_named(it, shows_cluster=shows_cluster) for it in rows[:3]]), "."])
        for word, rows in (("Less stopped time, most of all", better), ("More stopped time, most of all", worse))
        if rows
    ]
    return m.join(told, " ") if told else m.Markup("No group changed by 5 % or more.")


def _named(row: Row, *, shows_cluster: bool) -> m.Markup:
    change = w.signed(w.time(row["change"]))
    name = m.name(row["group"], cluster=row["cluster"], shows_cluster=shows_cluster)
    return m.join([name, f" ({change} a day)"])


def _ordered(compared: Comparison) -> list[Row]:
    order = {measure: at for at, measure in enumerate(MEASURES)}
    return sorted(
        compared.of_all, key=lambda it: (order[it["measure"]], it["cause"] is not None, -(it["before"] or 0))
    )


def _measure(row: Row) -> str:
    return _SHOWN[row["measure"]][0] if row["cause"] is None else f"… {cause_words(row['cause'])}"


def _shown(row: Row, key: str) -> str | None:
    return _SHOWN[row["measure"]][1](row[key])


def _in_percent(row: Row) -> str | None:
    return w.changed(row["before"], row["after"])


def _groups(found: ReportData, caption: str, rows: Sequence[Row]) -> m.Markup:
    if not rows:
        return m.Markup("")
    return m.table(
        caption,
        [
            m.group_column(found.has_clusters),
            m.field("Stopped per day, before", "before", w.time),
            m.field("After", "after", w.time),
            m.field("Change", "change", lambda ms: w.signed(w.time(ms))),
            m.numbers("Change, %", _in_percent),
            m.field("Known before", "before_known_ms", w.time),
            m.field("Known after", "after_known_ms", w.time),
        ],
        rows,
    )


def _departures_plot(compared: Comparison) -> m.Markup:
    """Departures by family of cause, before and after."""
    sums = {family: [0.0, 0.0] for family in p.FAMILIES}
    for it in compared.of_all:
        if it["measure"] == "departures_per_day" and it["cause"] is not None:
            for at, side in enumerate(("before", "after")):
                sums[p.cause_family(it["cause"])][at] += it[side] or 0
    rows = [(p.family_label(family), both) for family, both in sums.items() if any(both)]
    if not rows:
        return m.Markup("")

    def draw(figure: Figure, ink: p.Palette, is_wide: bool) -> None:
        at = p.axes(figure, (1, 1, 1), ink, "departures per group and day")
        for side, (label, color) in enumerate((("before", p.GREY), ("after", p.BLUE))):
            places = [place + (side - 0.5) * 0.38 for place in range(len(rows))]
            at.bar(places, [both[side] for _, both in rows], 0.36, color=color, label=label)
        names = [name if is_wide else name.replace(" ", "\n") for name, _ in rows]
        at.set_xticks(range(len(rows)), names, parse_math=False)
        at.yaxis.set_major_formatter("{x:g}")
        p.legend(at, ink, 2)

    return p.picture(
        draw,
        "Bars: departures per group and day by cause, before and after. The table has the numbers.",
        m.Markup("Departures per group and day, by cause."),
        wide=(1240, 260),
        narrow=(340, 260),
    )
