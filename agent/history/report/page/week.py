"""When in the week: a table of hours and weekdays, coloured."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent.history.report.page import markup as m
from agent.history.report.page import words as w
from agent.history.report.page.style import LEVELS
from agent.history.report.report_data import ReportData, Row
from agent.history.report.spans import has_whole_hours

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_UNITS = (("partition-hours", 3_600_000), ("partition-minutes", 60_000), ("partition-seconds", 1_000))

Cells = Mapping[tuple[int, int], Row]


def week(found: ReportData) -> m.Markup:
    """Two tables of hours by weekdays: rebalances, and stopped partition time."""
    cells = {(row["weekday"], row["hour"]): row for row in found.heat_map if row["hours"]}
    most = max((row["stopped_partition_ms"] or 0 for row in cells.values()), default=0)
    unit, unit_ms = next((it for it in _UNITS if most >= 10 * it[1]), _UNITS[-1])
    tables = m.join(
        [
            _table("Rebalances", cells, "rebalances", w.number),
            _table(f"Stopped {unit}", cells, "stopped_partition_ms", lambda value: _short(value, unit_ms)),
        ]
    )
    return m.section(
        "when",
        "When in the week",
        m.paragraph(_sentence(cells)),
        m.Markup(f'<div class="pair">{tables}</div>'),
        m.note(
            f"Sums over the range, in the time zone {found.zone}. Below each weekday: how many of it the range has.",
            "The more a cell stands out, the more there was. Blank hours are not known.",
            None
            if has_whole_hours(found.span, found.zone)
            else "Hours of that zone begin within hours of UTC: each window counts where it begins.",
        ),
    )


def _sentence(cells: Cells) -> str:
    known = {at: it["stopped_partition_ms"] for at, it in cells.items() if it["stopped_partition_ms"] is not None}
    whole = sum(known.values())
    if not whole:
        return "No stopped partition time is known."
    (day, hour), most = max(known.items(), key=lambda item: item[1])
    office = sum(value for (day_, _), value in known.items() if day_ <= 5)
    return (
        f"The hour with the most stopped partition time is {DAYS[day - 1]} {hour:02d}:00: {w.time(most)}, "
        f"{w.part(most, whole)} of the total. Mondays to Fridays have {w.part(office, whole)}."
    )


def _short(value: float | None, unit_ms: int) -> str | None:
    """A number that fits a cell."""
    if not value:
        return None if value is None else "0"
    shown = value / unit_ms
    return "<0.1" if shown < 0.05 else f"{shown:.1f}" if shown < 9.95 else f"{shown:,.0f}"


def _table(title: str, cells: Cells, key: str, show: Callable[[float | None], str | None]) -> m.Markup:
    most = max((row[key] or 0 for row in cells.values()), default=0)
    heads = "".join(
        f'<th scope="col"><abbr title="{name}">{name[:3]}</abbr><small>{_days(cells, at)}</small></th>'
        for at, name in enumerate(DAYS, 1)
    )
    rows = "\n".join(
        f'<tr><th scope="row">{hour:02d}:00</th>'
        + "".join(_cell(cells.get((day, hour)), key, most, show) for day in range(1, 8))
        + "</tr>"
        for hour in range(24)
    )
    return m.Markup(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{title} by hour and weekday">'
        '<table class="week">'
        f"<caption><span>{title}</span></caption>"
        f'<thead><tr><th scope="col">Hour</th>{heads}</tr></thead>\n<tbody>\n{rows}\n'
        "</tbody></table></div>"
    )


def _days(cells: Cells, day: int) -> str:
    hours = sum(row["hours"] for (at, _), row in cells.items() if at == day)
    shown = f"{hours / 24:.1f}"
    return f"×{shown.removesuffix('.0')}"  # noqa: RUF001


def _cell(row: Row | None, key: str, most: float, show: Callable[[float | None], str | None]) -> str:
    value = None if row is None else row[key]
    if value is None:
        return f'<td class="none">{m.BLANK}</td>'
    # By the root: one storm would leave every other hour without a shade.
    level = 0 if value <= 0 else max(1, min(LEVELS, round((value / most) ** 0.5 * LEVELS)))
    return f"<td{f' class=l{level}' if level else ''}>{m.html(show(value))}</td>"
