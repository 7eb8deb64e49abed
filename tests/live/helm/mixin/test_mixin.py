"""The mixin: what it renders to, and that its alerts fire and are silent when they should be."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.serving.metrics.table import METRICS
from spark_jobs.streams.metrics import STREAM_METRICS
from tests.harness.tools import need
from tests.live.helm.mixin.alerts import ALERTS, GROUPS, RECORDED
from tests.live.helm.mixin.rendering import FILES, MIXIN, PLACES, evaluate, render

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
DASHBOARDS = FILES / "dashboards"
DEPLOY = "a clean rolling deploy"
ORIGINS = (
    "{{ with printf `sort_desc(topk(3, cluster_group_origin:kshadow_group_departures_by_origin:increase1h"
    "{cluster=%q, group=%q}))` $labels.cluster $labels.group | query }} Kubernetes reports of members that left in "
    "the last hour:{{ range $at, $it := . }}{{ if $at }},{{ end }} "
    '{{ $it.Labels.origin | reReplaceAll "oom_killed" "OOM-killed" | reReplaceAll "_" " " }} '
    '({{ $it.Value | printf "%.0f" }}){{ end }}.{{ end }}'
)
"""The one query in a template: names of groups and clusters are in it quoted, as Go and PromQL quote alike."""
METRIC = re.compile(r"(?<![:\w])kshadow_\w+")


def checks() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each check of an alert, and the name of the test that it stands in."""
    for path in CASES:
        for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]:
            for check in test["alert_rule_test"]:
                yield test["name"], check


def test_the_files_are_what_the_mixin_renders_to() -> None:
    for name, content in render(need("jsonnet")).items():
        for place in PLACES:
            assert (place / name).read_text(encoding="utf-8") == content, f"{place}: python -m tests.generate.mixin"


def test_it_is_formatted() -> None:
    subprocess.run([need("jsonnetfmt"), "--test", *sorted(MIXIN.rglob("*.libsonnet"))], check=True)


def test_promtool_finds_nothing_wrong() -> None:
    files = [FILES / "alerts.yaml", FILES / "rules.yaml"]
    done = subprocess.run(
        [need("promtool"), "check", "rules", "--lint=all", "--lint-fatal", *files], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(ALERTS)} rules" in done.stdout


def by_alerts(path: Path, directory: Path) -> list[Path]:
    """The cases of a file, in a file for each set of alerts that they ask about, with these and what is recorded.

    Promtool evaluates all rules that it is given, each minute of each case, and looks at those that are asked about.
    """
    file = yaml.safe_load(path.read_text(encoding="utf-8"))
    cases: dict[frozenset[str], list[dict[str, Any]]] = {}
    for case in file["tests"]:
        cases.setdefault(frozenset(it["alertname"] for it in case["alert_rule_test"]), []).append(case)
    made = []
    for number, (names, tests) in enumerate(cases.items()):
        groups = [
            {"name": name, "rules": asked}
            for name, rules in GROUPS.items()
            if (asked := [it for it in rules if it["alert"] in names])
        ]
        alerts, of_these = directory / f"{number}-alerts.yaml", directory / f"{number}.yaml"
        alerts.write_text(yaml.safe_dump({"groups": groups}), encoding="utf-8")
        rules = [str(alerts), str(FILES / "rules.yaml")]
        of_these.write_text(yaml.safe_dump({**file, "rule_files": rules, "tests": tests}), encoding="utf-8")
        made.append(of_these)
    return made


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_cases(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [need("promtool"), "test", "rules", *by_alerts(path, tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    found = list(checks())
    fires = {(it["alertname"], alert["exp_labels"]["severity"]) for _, it in found for alert in it["exp_alerts"]}
    silent = {it["alertname"] for _, it in found if not it["exp_alerts"]}
    assert fires == {(alert["alert"], alert["labels"]["severity"]) for alert in ALERTS}
    assert silent == {alert["alert"] for alert in ALERTS}
    for name, it in found:
        if name != DEPLOY:
            said = f"{it['alertname']} {'fires' if it['exp_alerts'] else 'is silent'}: "
            assert name.startswith(said), "a case is called by what it shows"


def test_all_alerts_about_groups_are_tried_with_a_deploy() -> None:
    tried = {it["alertname"] for name, it in checks() if name == DEPLOY}
    assert tried == {alert["alert"] for alert in GROUPS["kshadow-groups"]}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda it: f"{it['alert']}-{it['labels']['severity']}")
def test_an_alert_says_all_that_is_asked(alert: dict[str, Any]) -> None:
    assert alert["alert"].startswith("Kshadow")
    assert alert["labels"] == {"severity": alert["labels"]["severity"]}
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert re.fullmatch(r"\d+[smh]", alert["for"])
    texts = alert["annotations"]
    assert set(texts) == {"summary", "description", "runbook_url"}
    for text in (texts["summary"], texts["description"].replace(ORIGINS, "")):
        # Any other query in a template would have strangers' names in it.
        assert set(re.findall(r"\{\{ ?(\w+|\$[\w.]+|\.)", text)) <= {
            *(
                "$labels.group",
                "$labels.cluster",
                "$labels.instance",
                "$labels.job",
                "$labels.reason",
                "$labels.partition",
            ),
            *("$labels.field", "$labels.sink", "$labels.query", "$value", "with", "if", "else", "end", "printf", "."),
        }
        assert text.endswith(".")
        assert "  " not in text


def test_only_what_is_exported_is_asked_for() -> None:
    exported = {metric.sample_name for metric in (*METRICS.values(), *STREAM_METRICS)}
    recorded = {rule["record"] for rule in RECORDED}
    for rule in (*ALERTS, *RECORDED):
        assert set(METRIC.findall(rule["expr"])) <= exported
        assert set(re.findall(r"\w+:\w+:\w+", rule["expr"])) <= recorded


def test_what_is_said_of_groups_is_a_maximum_over_agents() -> None:
    for rule in (*GROUPS["kshadow-groups"], *RECORDED):
        for aggregated in re.findall(r"(\w+) by \(cluster, group[^)]*\) \((?!cluster_)", rule["expr"]):
            assert aggregated == "max"


def test_the_selector_is_everywhere() -> None:
    """Recorded series were chosen by it when they were recorded."""
    for what in ("prometheusAlerts", "prometheusRules"):
        rendered = evaluate(need("jsonnet"), what, """{ selector: 'job="kshadow"' }""")
        rules = [rule["expr"] for group in rendered["groups"] for rule in group["rules"]]
        metrics = [hit for expr in rules for hit in re.findall(rf"{METRIC.pattern}(.{{13}})", expr)]
        assert metrics
        assert set(metrics) == {'{job="kshadow'}


def test_its_settings_are_taken() -> None:
    rendered = evaluate(need("jsonnet"), "prometheusAlerts", "{ runbookURLPattern: 'https://x/%s', stormFor: '9m' }")
    storm = rendered["groups"][0]["rules"][0]
    assert storm["for"] == "9m"
    assert storm["annotations"]["runbook_url"] == "https://x/kshadowrebalancestorm"


@pytest.mark.skipif(not DASHBOARDS.exists(), reason="the dashboards are not rendered")
def test_the_dashboards_are_taken_as_they_are() -> None:
    dashboards = evaluate(need("jsonnet"), "grafanaDashboards")
    assert set(dashboards) == {path.name for path in DASHBOARDS.glob("*.json")}
