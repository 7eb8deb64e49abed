"""Draws what the dashboards' queries return: `python -m tests.harness.dashboards_draw --prometheus URL --out DIR`.

Not Grafana's picture: the same data in the same places and colours, to see whether a panel tells what it should.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot

from tests.live.helm.dashboards import asking, grafana
from tests.live.helm.dashboards.asking import Series, run

INCHES = (26.0, 0.42)
"""Of the whole width, and of one row of the grid."""


def _look(panel: grafana.Json, name: str) -> tuple[str, str | None]:
    """What the overrides make of a series: its name and its colour."""
    shown, color = name, None
    for override in panel["fieldConfig"]["overrides"]:
        of = override["matcher"]
        found = re.search(of["options"].strip("/"), name) if of["id"] == "byRegexp" else of["options"] == name
        for it in override["properties"] if found else ():
            if it["id"] == "color":
                color = it["value"]["fixedColor"]
            elif it["id"] == "displayName":
                shown = it["value"]
    return shown, color


def _mapped(panel: grafana.Json) -> Mapping[str, Mapping[str, str]]:
    return {
        value: it
        for mapping in panel["fieldConfig"]["defaults"].get("mappings", ())
        for value, it in mapping["options"].items()
    }


def _lines(axes: Any, panel: grafana.Json, found: Sequence[tuple[str, Series]], step_s: int) -> None:
    custom = panel["fieldConfig"]["defaults"]["custom"]
    base: dict[float, float] = {}
    stacked = custom.get("stacking", {}).get("mode") == "normal"
    for queried, series in found:
        name, color = _look(panel, queried)
        when = [datetime.fromtimestamp(at, UTC) for at, _ in series.points]
        what = [value for _, value in series.points]
        if custom.get("drawStyle") == "bars":
            bottom = [base.get(at, 0.0) for at, _ in series.points]
            axes.bar(when, what, -step_s / 86400 * 0.9, bottom, align="edge", color=color, label=name)
        elif stacked:
            bottom = [base.get(at, 0.0) for at, _ in series.points]
            tops = [low + value for low, value in zip(bottom, what, strict=True)]
            axes.fill_between(when, bottom, tops, step="post", color=color, label=name)
        else:
            after = custom.get("lineInterpolation") == "stepAfter"
            axes.plot(
                when,
                what,
                drawstyle="steps-post" if after else "default",
                label=name,
                color=color,
                marker=".",
                markersize=2,
            )
        for at, value in series.points:
            base[at] = base.get(at, 0.0) + value
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=6)
    if found:
        axes.legend(fontsize=5, loc="upper left", ncols=2)


def _timeline(axes: Any, panel: grafana.Json, found: Sequence[tuple[str, Series]], step_s: int) -> None:
    shown = _mapped(panel)
    labelled = set()
    for row, (name, series) in enumerate(found):
        for at, value in series.points:
            it = shown.get(f"{value:g}", {"text": "?", "color": "#ff00ff"})
            label = None if it["text"] in labelled else it["text"]
            labelled.add(it["text"])
            axes.barh(row, step_s / 86400, left=datetime.fromtimestamp(at, UTC), color=it["color"], label=label)
        axes.text(datetime.fromtimestamp(series.points[0][0], UTC), row, name, fontsize=7)
    axes.set_yticks([])
    axes.tick_params(labelsize=6)
    if found:
        axes.legend(fontsize=6, loc="lower left", ncols=4)


def _numbers(axes: Any, panel: grafana.Json, found: Sequence[tuple[str, Series]]) -> None:
    shown = _mapped(panel)
    said = []
    for name, series in found:
        value = f"{series.points[-1][1]:g}"
        said.append(f"{name}: {shown[value]['text'] if value in shown else value}")
    axes.text(0.02, 0.9, "\n".join(said) or panel["fieldConfig"]["defaults"]["noValue"], va="top", fontsize=7)
    axes.set_axis_off()


def _table(axes: Any, panel: grafana.Json, found: Sequence[tuple[str, Series]], refs: Sequence[str]) -> None:
    """As the transformations make it: rows of the same labels are one, columns have the overrides' names."""
    rows: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for (_, series), ref in zip(found, refs, strict=True):
        field = "Value" if len(set(refs)) == 1 else f"Value #{ref}"
        rows.setdefault(tuple(sorted(series.labels.items())), {})[field] = series.points[-1][1]
    columns = {
        it["matcher"]["options"]: {that["id"]: that["value"] for that in it["properties"]}
        for it in panel["fieldConfig"]["overrides"]
    }
    lines = [[it["displayName"] for it in columns.values() if "displayName" in it]]
    for labels, values in rows.items():
        cells: dict[str, Any] = {**dict(labels), **values}
        lines.append([_cell(cells.get(field), it) for field, it in columns.items() if "displayName" in it])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    empty = panel["fieldConfig"]["defaults"]["noValue"]
    axes.text(0.01, 0.97, text if rows else empty, va="top", fontsize=6, family="monospace")
    axes.set_axis_off()


def _cell(value: object, column: Mapping[str, Any]) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    for mapping in column.get("mappings", ()):
        if (mapped := mapping["options"].get(f"{value:g}")) is not None:
            return str(mapped["text"])
    return f"{value:.{column.get('decimals', 2)}f}"


def draw(
    base: str, dashboard: grafana.Json, chosen: Mapping[str, Sequence[str]], screen: grafana.Screen, out: Path
) -> None:
    """One picture of a dashboard."""
    shown = list(grafana.panels(dashboard))
    height = 1 + max(it["gridPos"]["y"] + it["gridPos"]["h"] for it in shown)
    figure = pyplot.figure(figsize=(INCHES[0] * 0.8, height * INCHES[1]))
    for panel in shown:
        where = panel["gridPos"]
        left, bottom = where["x"] / 24 + 0.02, 1 - (where["y"] + where["h"]) / height + 0.25 / height
        axes = figure.add_axes((left, bottom, where["w"] / 24 - 0.03, (where["h"] - 1.4) / height))
        axes.set_title(f"{panel['title']} [{panel['fieldConfig']['defaults']['unit']}]", fontsize=7, loc="left")
        found, refs = [], []
        for query in grafana.queries({**dashboard, "panels": [panel]}):
            for series in run(base, query, dashboard, chosen, screen):
                found.append((grafana.names(query.legend, series.labels), series))
                refs.append(query.where[-1])
        step_s = screen.step_s(panel)
        match panel["type"]:
            case "timeseries":
                _lines(axes, panel, found, step_s)
            case "state-timeline":
                _timeline(axes, panel, found, step_s)
            case "stat":
                _numbers(axes, panel, found)
            case "table":
                _table(axes, panel, found, refs)
    figure.savefig(out, dpi=110)
    pyplot.close(figure)


@click.command()
@click.option("--prometheus", "base", required=True, help="Its URL.")
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Where pictures go.")
@click.option("--minutes", default=15.0, show_default=True, help="The range shown, up to now.")
@click.option("--group", "groups", multiple=True, help="Of the group's dashboard; the first there is, if none.")
def main(base: str, out: Path, minutes: float, groups: tuple[str, ...]) -> None:
    """Draw every dashboard from a Prometheus."""
    out.mkdir(parents=True, exist_ok=True)
    now = time.time()
    screen = grafana.Screen(now - minutes * 60, now)
    for uid, dashboard in grafana.load().items():
        chosen: dict[str, Sequence[str]] = {}
        if variable := grafana.variables(dashboard).get("group"):
            chosen["group"] = groups or asking.values(base, variable, dashboard, {}, screen)[:1]
        draw(base, dashboard, chosen, screen, out / f"{uid}.png")
        click.echo(out / f"{uid}.png")


if __name__ == "__main__":
    main()
