"""What a real Prometheus and Alertmanager made of real faults, and of a deploy."""

from __future__ import annotations

import subprocess
from urllib.request import urlopen

import pytest

from agent.serving.metrics.table import METRICS
from tests.harness.tools import need
from tests.live.stack.scene import EXPECTED, QUIET, Stack

pytestmark = [pytest.mark.usefixtures("kafka"), pytest.mark.thorough]  # promtool has each rule's own tests

FAULTS = sorted(EXPECTED)


@pytest.mark.parametrize("which", FAULTS, ids=[name for name, _ in FAULTS])
def test_it_fires_reaches_alertmanager_and_resolves(stack: Stack, which: tuple[str, str]) -> None:
    stood = [it for it in stack.of(*which) if it.stood]
    assert stood, stack.table()
    for it in stood:
        assert None not in (it.reached, it.told, it.gone, it.resolved), stack.table()
        assert it.told < it.resolved


def test_nothing_is_said_of_a_clean_deploy(stack: Stack) -> None:
    """Nor did anything ever wait to fire."""
    said = stack.monitoring.query("max_over_time(ALERTS[10m])")
    about = {(it["metric"]["alertname"], it["metric"].get("group")) for it in said}
    assert about >= EXPECTED
    assert not {which for which in about if which[1] in QUIET}
    [rebalances] = stack.monitoring.query(
        f'sum(kshadow_group_rebalances_total{{group="{QUIET[0]}",instance="{host(stack)}"}})'
    )
    assert float(rebalances["value"][1]) >= 9, "and there was one"


def test_two_agents_make_one_alert(stack: Stack) -> None:
    said = stack.monitoring.query(
        "count by (alertname, group, severity) (max_over_time(ALERTS{alertstate='firing'}[10m]))"
    )
    assert {it["value"][1] for it in said if it["metric"].get("group")} == {"1"}
    exported = stack.monitoring.query("count by (group) (count by (group, instance) (kshadow_group_members))")
    assert {it["value"][1] for it in exported} == {"2"}


def test_nothing_else_fires(stack: Stack) -> None:
    """Alerts about agents wait their minutes: one that begins to read, or met what cannot be decoded, is none yet."""
    fired = {which[:2] for which, it in stack.seen.items() if it.firing}
    assert fired == EXPECTED, stack.table()
    assert {group for _, group in {which[:2] for which in stack.seen} - fired} <= {""}, stack.table()


def test_promtool_finds_nothing_wrong_with_what_is_scraped(stack: Stack) -> None:
    with urlopen(f"{stack.agent}/metrics", timeout=10) as response:
        text = response.read()
    done = subprocess.run([need("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_every_metric_has_series(stack: Stack) -> None:
    got = {
        it["metric"]["__name__"]
        for it in stack.monitoring.query('count by (__name__) (last_over_time({__name__=~"kshadow_.+"}[10m]))')
    }
    missing = {metric.sample_name for metric in METRICS.values()} - got
    # The scene has no Kubernetes: `python -m tests.harness.origins` plays one. Open transactions are in
    # tests/live/hostile.
    elsewhere = {"kshadow_group_departures_by_origin_total", "kshadow_group_stale"}
    assert {it for it in missing if "_kubernetes_" not in it} == elsewhere


def host(stack: Stack) -> str:
    return stack.agent.removeprefix("http://")
