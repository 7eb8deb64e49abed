"""What was measured, as tables side by side and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Row = Mapping[str, float | None]


class Column(NamedTuple):
    """A number of each row: its key, its head, and how many decimals are shown."""

    key: str
    head: str
    digits: int = 1


COSTS = (
    Column("cpu_s", "CPU s"),
    Column("rss_mb", "RSS MB", 0),
    Column("pss_mb", "PSS MB", 0),
    Column("peak_mb", "peak MB", 0),
)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A number to look at, and what is wanted of it: `at_least` or `at_most`, or nothing."""

    what: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def is_met(self) -> bool | None:
        """Whether it is as wanted; None where nothing is."""
        if self.at_least is None and self.at_most is None:
            return None
        return self.value >= (self.at_least or 0.0) and (self.at_most is None or self.value <= self.at_most)


@dataclass(slots=True)
class Table:
    """One scenario's outcome: rows by name, in the order they came."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: dict[str, Row] = field(default_factory=dict)
    ratios: list[Ratio] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def ratio(
        self,
        what: str,
        above: float | None,
        below: float | None,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        """Note a quotient, if there are both numbers."""
        if above is not None and below:
            self.ratios.append(Ratio(what, above / below, at_least, at_most))

    def number(self, what: str, value: float | None, *, at_most: float | None = None) -> None:
        """Note a number that something is wanted of, if there is one."""
        if value is not None:
            self.ratios.append(Ratio(what, value, None, at_most))

    def value(self, row: str, key: str) -> float | None:
        """One cell; None where there is no such row or number."""
        return self.rows.get(row, {}).get(key)

    def text(self) -> str:
        """For people: what is wanted first."""
        width = max([38, *(len(name) + 2 for name in self.rows)])
        widths = [max(len(column.head) + 2, 10) for column in self.columns]
        heads = "".join(f"{column.head:>{wide}}" for column, wide in zip(self.columns, widths, strict=True))
        lines = [self.title, *(f"  {_ratio_text(it)}" for it in self.ratios), f"{'':{width}}{heads}"]
        for name, row in self.rows.items():
            cells = (_cell(row.get(column.key), column.digits) for column in self.columns)
            lines.append(f"{name:{width}}" + "".join(f"{it:>{wide}}" for it, wide in zip(cells, widths, strict=True)))
        return "\n".join([*lines, *(f"  {it}" for it in self.notes)])

    def form(self) -> dict[str, object]:
        """For programs."""
        return {
            "scenario": self.name,
            "title": self.title,
            "rows": [{"name": name, **row} for name, row in self.rows.items()],
            "ratios": [
                {
                    "what": it.what,
                    "value": it.value,
                    "at_least": it.at_least,
                    "at_most": it.at_most,
                    "is_met": it.is_met,
                }
                for it in self.ratios
            ],
            "notes": self.notes,
        }


def median(rows: Sequence[Row]) -> Row:
    """Each number's median over several rounds; with several, `wall_min` and `wall_max` tell the spread."""
    out: dict[str, float | None] = {}
    for key in rows[0]:
        values = [value for row in rows if (value := row.get(key)) is not None]
        out[key] = statistics.median(values) if values else None
    walls = [value for row in rows if (value := row.get("wall_s")) is not None]
    if walls:
        out["wall_min"], out["wall_max"] = min(walls), max(walls)
    return out


def _cell(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _ratio_text(it: Ratio) -> str:
    bounds = []
    if it.at_least is not None:
        bounds.append(f"{it.at_least:g} or more")
    if it.at_most is not None:
        bounds.append(f"{it.at_most:g} or less")
    wanted = f"  (wanted: {', '.join(bounds)}: {'met' if it.is_met else 'MISSED'})" if bounds else ""
    return f"{it.what}: {it.value:,.2f}{wanted}"
