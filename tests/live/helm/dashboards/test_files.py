"""The files of the dashboards: current, sound, and of nothing that agents do not export."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from agent.cli.main import cli
from agent.core.causes import Cause
from agent.core.diagnosis.severity import Severity
from agent.core.protocol.states import GroupState
from agent.serving.metrics.table import METRICS
from helm.dashboards import FILES, looks, rendered
from tests.harness.tools import need
from tests.live.helm.dashboards import grafana

DASHBOARDS = grafana.load()
PANELS = [(uid, panel) for uid, it in DASHBOARDS.items() for panel in grafana.panels(it)]
QUERIES = [
    (uid, query) for uid, it in DASHBOARDS.items() for query in (*grafana.queries(it), *grafana.annotations(it))
]

FOREIGN = {
    "process_cpu_seconds_total": set[str](),
    "process_resident_memory_bytes": set[str](),
    "process_open_fds": set[str](),
    "process_max_fds": set[str](),
    "process_start_time_seconds": set[str](),
    "scrape_duration_seconds": set[str](),
    "ALERTS": {"alertname", "alertstate", "severity", "group"},
}
"""Metrics of Python's client library and of Prometheus, with their labels."""
KNOWN = {it.sample_name: set(it.labels) for it in METRICS.values()} | FOREIGN
TARGET = {"job", "instance", "cluster"}
"""Labels that Prometheus adds, or agents of several clusters."""

WINDOWS = {"$__rate_interval", "$__range", "$__interval"}
UNITS = {"none", "short", "s", "cps", "reqps", "bytes", "percentunit"}
SELECTOR = re.compile(r"(?<![\w:$])([a-zA-Z_]\w*)\{([^{}]*)\}")
MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"')
ADDED = {"link"}
"""Labels that `label_replace` adds."""


each_dashboard = pytest.mark.parametrize("uid", DASHBOARDS)


def test_files_are_current() -> None:
    """After a change: `python -m helm.dashboards`."""
    assert {path.name: path.read_text() for path in FILES.glob("*.json")} == dict(rendered())


def test_three_dashboards_named_after_their_files() -> None:
    assert set(DASHBOARDS) == {"kshadow-fleet", "kshadow-group", "kshadow-agent"}
    assert {path.stem for path in FILES.glob("*.json")} == set(DASHBOARDS)


@each_dashboard
def test_the_sdk_reads_what_it_wrote(uid: str) -> None:
    """Nothing in a file is unknown to the SDK's models, but for what Prometheus' data source adds to annotations."""
    register_default_plugins()
    raw = DASHBOARDS[uid]
    again = json.loads(json.dumps(Dashboard.from_json(raw), cls=JSONEncoder))
    expected = json.loads(json.dumps(raw))
    for it in expected["annotations"]["list"]:
        for added in ("step", "titleFormat", "textFormat", "tagKeys", "useValueForTime", "target"):
            it.pop(added)
    for it in again["annotations"]["list"]:
        it.pop("target", None)
    assert again == expected


@each_dashboard
def test_ids_are_unique_and_nothing_overlaps(uid: str) -> None:
    everything = [it for panel in DASHBOARDS[uid]["panels"] for it in (panel, *panel.get("panels", ()))]
    numbers = [it["id"] for it in everything]
    assert len(set(numbers)) == len(numbers)
    assert 0 not in numbers
    taken: dict[tuple[int, int], str] = {}
    for it in everything:
        at = it["gridPos"]
        assert at["x"] + at["w"] <= 24, it["title"]
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            assert cell not in taken, f"{it['title']} lies over {taken[cell]}"
            taken[cell] = it["title"]


def test_a_panel_says_what_it_shows() -> None:
    for uid, panel in PANELS:
        where, field = f"{uid} / {panel['title']}", panel["fieldConfig"]["defaults"]
        assert panel["title"], where
        assert len(panel["description"]) > 40, where
        assert field["unit"] in UNITS, where
        assert field["noValue"], where
        assert panel["targets"], where
        # Grafana fills variables into both, and renders the description as Markdown: no stranger's text there.
        assert "$" not in panel["title"] + panel["description"], where
        for override in panel["fieldConfig"]["overrides"]:
            for it in override["properties"]:
                assert it["id"] != "custom.cellOptions" or it["value"] == {"type": "color-text"}, where


def test_numbers_lines_and_tables_alone() -> None:
    """No panel that renders text."""
    assert {panel["type"] for _, panel in PANELS} == {"stat", "table", "timeseries", "state-timeline"}


@each_dashboard
def test_nothing_names_a_data_source(uid: str) -> None:
    def uids(of: Any) -> Iterator[str]:
        if isinstance(of, dict):
            if set(of) == {"type", "uid"}:
                yield of["uid"]
            for value in of.values():
                yield from uids(value)
        elif isinstance(of, list):
            for value in of:
                yield from uids(value)

    assert set(uids(DASHBOARDS[uid])) == {"${datasource}"}
    for _, panel in (it for it in PANELS if it[0] == uid):
        assert "datasource" in panel
        assert all("datasource" in target for target in panel["targets"])


@each_dashboard
def test_the_frame(uid: str) -> None:
    it = DASHBOARDS[uid]
    assert it["editable"] is False
    assert it["refresh"] == "30s"
    assert it["schemaVersion"] >= 39
    assert it["time"]["to"] == "now"
    assert it["tags"] == ["kshadow"]
    [link] = it["links"]
    assert (link["type"], link["tags"], link["includeVars"], link["keepTime"]) == (
        "dashboards",
        ["kshadow"],
        True,
        True,
    )
    declared = grafana.variables(it)
    assert list(declared)[:3] == ["datasource", "job", "cluster"]
    assert declared["cluster"]["allValue"] == ".*", "that matches series without the label as well"
    for variable in declared.values():
        if variable["type"] == "query":
            assert variable["multi"], "only then Grafana escapes values for regular expressions"
            assert variable["refresh"] == 2


@each_dashboard
def test_every_variable_is_used(uid: str) -> None:
    text = json.dumps(DASHBOARDS[uid])
    for name in grafana.variables(DASHBOARDS[uid]):
        assert re.search(rf"\${name}\b|\${{{name}[}}:]", text), name


def test_a_query_asks_for_what_is_exported() -> None:
    for _, query in QUERIES:
        selectors = SELECTOR.findall(query.expr)
        assert selectors, query.where
        labels = set(TARGET) | ADDED
        for name, matchers in selectors:
            assert name in KNOWN, f"{query.where}: {name}"
            used = {it[1] for it in MATCHER.finditer(matchers)}
            assert used <= KNOWN[name] | TARGET, f"{query.where}: {name}"
            labels |= KNOWN[name]
        for clause in re.findall(r"\b(?:by|on|ignoring) \(([^)]*)\)", query.expr):
            assert {it.strip() for it in clause.split(",")} <= labels, f"{query.where}: {clause}"
        bare = re.sub(r'"[^"]*"|\{[^{}]*\}', "", query.expr)
        without_labels = set(re.findall(r"\b(?:kshadow|process)_\w+", bare)) - {name for name, _ in selectors}
        assert not without_labels, query.where


def test_windows_are_grafanas() -> None:
    for _, query in QUERIES:
        assert set(re.findall(r"\[([^\]]*)\]", query.expr)) <= WINDOWS, query.where
        assert set(re.findall(r"offset (\S+?)[) ]", query.expr)) <= {"$__interval"}, query.where
        for call in re.findall(r"\brate\([^\[]*\[([^\]]*)\]", query.expr):
            assert call == "$__rate_interval", query.where


def test_agents_are_not_summed_up() -> None:
    """What is told of a group may come from two agents: the largest is taken before anything is summed."""
    for _, query in QUERIES:
        summed = re.search(r"\b(?:sum|avg|count)\b[^(]*(?: by \([^)]*\))? ?\(kshadow_(?:group|finding)", query.expr)
        assert not summed, query.where


def test_a_legend_names_labels_that_are_there() -> None:
    for _, query in QUERIES:
        for label in re.findall(r"\{\{(\w+)\}\}", query.legend):
            kept = {it.strip() for clause in re.findall(r"\bby \(([^)]*)\)", query.expr) for it in clause.split(",")}
            kept |= set(re.findall(r'\bcount_values\("(\w+)"', query.expr))
            plain = not re.search(r"\b(?:max|min|sum|count) by", query.expr)
            assert label in kept or plain or label == "alertname", f"{query.where}: {label}"


@each_dashboard
def test_marks_hold_no_strangers_text(uid: str) -> None:
    """Titles may hold markup, tags are shown as they are."""
    for it in DASHBOARDS[uid]["annotations"]["list"]:
        assert not re.search(r"\{\{(?:group|topic|cluster)\}\}", it["titleFormat"] + it["textFormat"])
        assert it["target"]["expr"] == it["expr"]


def test_links_lead_to_dashboards_that_there_are() -> None:
    urls = [it["url"] for _, panel in PANELS for it in _links(panel)]
    assert len(urls) >= 5
    for url in urls:
        path, _, parameters = url.partition("?")
        assert path.removeprefix("/d/") in DASHBOARDS
        assert "${__url_time_range}" in parameters
        assert "${datasource:queryparam}" in parameters
        for name in re.findall(r"\$\{(__(?:data|field)[^}]*)\}", parameters):
            assert name.endswith(":percentencode"), "a stranger's text stays one parameter"


def _links(panel: grafana.Json) -> Iterator[Mapping[str, str]]:
    yield from panel["fieldConfig"]["defaults"].get("links", ())
    for override in panel["fieldConfig"]["overrides"]:
        for it in override["properties"]:
            if it["id"] == "links":
                yield from it["value"]


def test_linked_queries_say_where_to() -> None:
    """A link to a group takes its cluster from a label that the query adds."""
    for uid, panel in PANELS:
        if any("link:percentencode" in it["url"] for it in _links(panel)):
            for target in panel["targets"]:
                assert target["expr"].startswith("label_replace("), f"{uid} {panel['title']}"


def test_everything_has_a_colour_of_its_own() -> None:
    assert len({cause.info.dashboard_color for cause in Cause}) == len(Cause)
    assert set(looks.STATES) == set(GroupState)
    assert len({it.code for it in looks.STATES.values()} | {looks.OTHER_STATE.code}) == len(GroupState) + 1
    assert set(looks.SEVERITIES) == set(Severity)


def test_commands_and_options_that_are_named_exist() -> None:
    context = click.Context(cli, **cli.context_settings)
    run = cli.get_command(context, "run")
    assert run is not None
    options = {option for it in run.params for option in (*it.opts, *it.secondary_opts)}
    for uid, panel in PANELS:
        text = panel["description"] + panel["fieldConfig"]["defaults"]["noValue"]
        assert set(re.findall(r"`kshadow (\w+)", text)) <= set(cli.list_commands(context)), (
            f"{uid} / {panel['title']}"
        )
        assert set(re.findall(r"(?<![\w-])--[a-z-]+", text)) <= options, f"{uid} / {panel['title']}"


def test_prometheus_can_parse_every_query(tmp_path: Path) -> None:
    promtool = need("promtool")
    screen = grafana.Screen(0, 3600)
    chosen = {"group": ['a "b" \\c.d'.replace('"', "'")]}
    rules = [
        {"record": "x", "expr": grafana.filled(query.expr, DASHBOARDS[uid], chosen, screen, 60)}
        for uid, query in QUERIES
    ]
    for uid, dashboard in DASHBOARDS.items():
        for it in grafana.variables(dashboard).values():
            if it["type"] == "query":
                selector = it["query"].removeprefix("label_values(").rpartition(", ")[0]
                rules.append({"record": "x", "expr": grafana.filled(selector, DASHBOARDS[uid], chosen, screen, 60)})
    file = tmp_path / "queries.yaml"
    # One group for each: Prometheus takes no rule twice in one.
    groups = [{"name": str(index), "rules": [rule]} for index, rule in enumerate(rules)]
    file.write_text(yaml.safe_dump({"groups": groups}))
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=none", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout
