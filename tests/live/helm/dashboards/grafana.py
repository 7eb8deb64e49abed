"""Dashboards' files read as Grafana reads them: panels, queries, and variables filled in as it does.

The rules are those of Grafana's Prometheus data source: what may have several values is escaped for regular
expressions (`prometheusSpecialRegexEscape`), anything else for a string; the interval is the range by the number of
points, rounded to a common length, and not less than the panel's; the rate interval is that plus a scrape, and at
least four.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from helm.dashboards import FILES

Json = dict[str, Any]

ALL = "$__all"
_STEPS_S = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)(?::(\w+))?\}")


def load() -> dict[str, Json]:
    """The dashboards of the chart by uid."""
    found = (json.loads(path.read_text()) for path in sorted(FILES.glob("*.json")))
    return {it["uid"]: it for it in found}


def panels(dashboard: Json) -> Iterator[Json]:
    """All panels, those of collapsed rows as well, without the rows."""
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            yield from panel["panels"]
        else:
            yield panel


class Query(NamedTuple):
    """What is asked: by a panel's target, or an annotation. `where` names it for people."""

    where: str
    expr: str
    legend: str
    at_end: bool
    panel: Json


def queries(dashboard: Json) -> Iterator[Query]:
    """Of the panels."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            where = f"{dashboard['uid']} / {panel['title']} ({panel['type']}) / {target['refId']}"
            yield Query(where, target["expr"], target["legendFormat"], bool(target.get("instant")), panel)


def annotations(dashboard: Json) -> Iterator[Query]:
    """Of the annotations."""
    for it in dashboard["annotations"]["list"]:
        where = f"{dashboard['uid']} / annotation {it['name']}"
        yield Query(where, it["target"]["expr"], it["titleFormat"], False, {"interval": it["target"]["interval"]})


def variables(dashboard: Json) -> Mapping[str, Json]:
    """By name."""
    return {it["name"]: it for it in dashboard["templating"]["list"]}


@dataclass(frozen=True, slots=True)
class Screen:
    """What someone looks at: a range (epoch seconds), so many points wide, of a data source scraped that often."""

    start_s: float
    end_s: float
    scrape_s: int = 15
    points: int = 1000

    def step_s(self, panel: Json) -> int:
        """The interval of a panel's queries."""
        least = self.scrape_s
        if interval := panel.get("interval"):
            least = max(least, _seconds(interval))
        wanted = (self.end_s - self.start_s) / panel.get("maxDataPoints", self.points)
        return max(least, next(it for it in _STEPS_S if it >= wanted))

    def rate_s(self, step_s: int) -> int:
        """The interval for rates."""
        return max(step_s + self.scrape_s, 4 * self.scrape_s)

    @property
    def range_s(self) -> int:
        """The whole of it."""
        return round(self.end_s - self.start_s)


def filled(expr: str, dashboard: Json, chosen: Mapping[str, Sequence[str]], screen: Screen, step_s: int) -> str:
    """A query as it reaches Prometheus.

    Args:
        expr: As it stands in the dashboard.
        dashboard: Where its variables are declared.
        chosen: The values of variables; what is missing has its first value: All, or what the file says.
        screen: What is looked at.
        step_s: The panel's interval.

    Raises:
        KeyError: There is no such variable.
    """
    own = {
        "__interval": f"{step_s}s",
        "__interval_ms": str(step_s * 1000),
        "__rate_interval": f"{screen.rate_s(step_s)}s",
        "__range": f"{screen.range_s}s",
        "__range_s": str(screen.range_s),
    }
    declared = variables(dashboard)

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name.isdigit():  # a group of label_replace's pattern
            return match[0]
        return own[name] if name in own else _value(declared[name], chosen.get(name))

    return _VARIABLE.sub(value, expr)


def _value(variable: Json, chosen: Sequence[str] | None) -> str:
    if variable["type"] == "textbox":
        text = chosen[0] if chosen else variable["query"]
        return str(text).replace("\\", "\\\\")
    values = list(chosen) if chosen else list(variable["current"]["value"])
    if values == [ALL]:
        return str(variable["allValue"])
    escaped = [_for_regex(it) for it in values]
    return escaped[0] if len(escaped) == 1 else "(" + "|".join(escaped) + ")"


def _for_regex(text: str) -> str:
    return re.sub(r"[$^*{}\[\]+?.()|]", r"\\\\\g<0>", text.replace("\\", "\\\\\\\\"))


def _seconds(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([smh])", text).groups()  # type: ignore[union-attr]
    return int(number) * {"s": 1, "m": 60, "h": 3600}[unit]


def aligned(at_s: float, step_s: int) -> int:
    """Grafana asks at multiples of the step."""
    return math.floor(at_s / step_s) * step_s


def names(legend: str, labels: Mapping[str, str]) -> str:
    """What a series is called."""
    return re.sub(r"\{\{(\w+)\}\}", lambda it: labels.get(it[1], ""), legend).strip()


def files() -> Sequence[Path]:
    """The dashboards' files."""
    return sorted(FILES.glob("*.json"))
