"""Dashboards' queries, run against a Prometheus."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.live.helm.dashboards.grafana import Json, Query, Screen, aligned, filled


class Series(NamedTuple):
    """One series of an answer: its labels, and (epoch seconds, value)."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]


class Refused(Exception):
    """Prometheus would not answer: what it said."""


def ask(base: str, path: str, **parameters: str) -> Any:
    """The `data` of an answer of Prometheus' HTTP API. Raises `Refused`."""
    body = urllib.parse.urlencode(parameters).encode()
    try:
        with urllib.request.urlopen(f"{base}/api/v1/{path}", body, timeout=60) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise Refused(f"{error.code}: {error.read().decode(errors='replace')}") from error


def run(
    base: str, query: Query, dashboard: Json, chosen: Mapping[str, Sequence[str]], screen: Screen
) -> list[Series]:
    """What a panel would be given."""
    step_s = screen.step_s(query.panel)
    expr = filled(query.expr, dashboard, chosen, screen, step_s)
    if query.at_end:
        answer = ask(base, "query", query=expr, time=str(screen.end_s))
        return [Series(it["metric"], [_point(it["value"])]) for it in answer["result"]]
    start, end = aligned(screen.start_s, step_s), aligned(screen.end_s, step_s)
    answer = ask(base, "query_range", query=expr, start=str(start), end=str(end), step=str(step_s))
    return [Series(it["metric"], [_point(point) for point in it["values"]]) for it in answer["result"]]


def values(
    base: str, variable: Json, dashboard: Json, chosen: Mapping[str, Sequence[str]], screen: Screen
) -> list[str]:
    """What a variable offers."""
    parsed = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"])
    assert parsed, variable["query"]
    selector = filled(parsed[1], dashboard, chosen, screen, 60)
    query = urllib.parse.urlencode({"match[]": selector, "start": screen.start_s, "end": screen.end_s})
    with urllib.request.urlopen(f"{base}/api/v1/label/{parsed[2]}/values?{query}", timeout=60) as answer:
        return [str(it) for it in json.load(answer)["data"]]


def _point(pair: Sequence[Any]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])
