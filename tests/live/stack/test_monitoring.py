"""Starting and ending Prometheus and Alertmanager, and the rules that they are given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.tools.demo import rules
from agent.tools.demo.monitoring import Monitoring, MonitoringError, Programs
from tests.harness.tools import need


def test_hurried_rules_differ_only_in_how_long_alerts_about_groups_wait() -> None:
    before = rules.load("alerts.yaml")
    after = rules.with_shorter_durations(before, 5)
    for old, new in zip(before["groups"], after["groups"], strict=True):
        assert [{**rule, "for": ""} for rule in old["rules"]] == [{**rule, "for": ""} for rule in new["rules"]]
        waits = {rule["for"] for rule in new["rules"]}
        assert waits == ({"5s"} if old["name"] == rules.GROUPS else {rule["for"] for rule in old["rules"]})
    assert rules.with_shorter_durations(before, 10**6) == before
    recorded = rules.load("rules.yaml")
    assert rules.with_shorter_durations(recorded, 5) == recorded


@pytest.mark.usefixtures("kafka")
def test_without_alertmanager_and_gone_at_the_end(tmp_path: Path) -> None:
    with Monitoring(Programs(need("prometheus")), tmp_path, ["127.0.0.1:1"]) as monitoring:
        assert monitoring.alertmanager is None
        [started] = monitoring.query("prometheus_build_info or vector(1)")
        assert started["value"][1] == "1"
        assert {it.name for it in monitoring.alerts()} <= {"KshadowAgentAbsent"}, "no agent is what it waits for"
        pids = monitoring.pids
        assert len(pids) == 1
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    with pytest.raises(MonitoringError, match="Connection refused"):
        monitoring.alerts()


@pytest.mark.usefixtures("kafka")
@pytest.mark.parametrize(
    ("said", "expected"), [("", "ended with exit code 3"), ("echo no such flag", "no such flag")]
)
def test_a_program_that_ends_at_once_is_told_of(tmp_path: Path, said: str, expected: str) -> None:
    program = tmp_path / "prometheus"
    program.write_text(f"#!/bin/sh\n{said}\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(MonitoringError, match=expected), Monitoring(Programs(program), tmp_path, []):
        pass


def test_what_is_no_program_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(MonitoringError, match="could not be started"), Monitoring(Programs(tmp_path), tmp_path, []):
        pass
