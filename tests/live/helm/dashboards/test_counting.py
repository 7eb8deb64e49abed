"""How rare events are counted, by Prometheus' own engine over made-up samples."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

from helm.dashboards.promql import AGENT, BY_AGENT, GROUP, in_range, linked, since_last_bar, state_code
from tests.harness.tools import need
from tests.live.helm.dashboards import grafana

COUNTER = "kshadow_group_rebalances"
SCREEN = grafana.Screen(0, 600)

# Samples every 15 s: four a minute, the bar's width. `_` is a missing one.
SAMPLES = {
    # From the beginning on, and a cause that comes as the third minute ends.
    "old": ("3x40", {"member_joined": "5x40", "session_timeout": "_x12 1x28"}),
    # It grows in the sixth minute, two agents tell of it, one began later.
    "twice": ("3x40", {"member_joined": "5x22 7x18"}),
    # An agent that read everything anew and knows of less: no event, then one.
    "less": ("3x40", {"member_joined": "9x22 1x6 2x12"}),
    # First seen in the fourth minute: two rebalances that were before, one more within that minute.
    "new": ("_x13 3x27", {"member_joined": "_x13 2x1 3x26"}),
}

# By group, what a bar at the end of each minute shows.
BARS = {
    "old": {2: 0, 3: 1, 4: 0},
    "twice": {5: 0, 6: 2, 7: 0},
    "less": {5: 0, 6: 0, 7: 1, 8: 0},
    "new": {3: None, 4: 1, 5: 0},
}
RANGE = {"old": 1, "twice": 2, "new": 1}
"""What there was in all ten minutes. Of a counter that was reset `increase` believes that it began from zero."""


def _values(text: str) -> str:
    """`1x3 _x2` in the notation of promtool: `1+0x2 _x2`."""
    parts = (it.split("x") for it in text.split())
    return " ".join(f"_x{times}" if value == "_" else f"{value}+0x{int(times) - 1}" for value, times in parts)


def _series() -> list[dict[str, str]]:
    made = []
    for instance, late in (("a", ""), ("b", "_x20 ")):
        for group, (members, causes) in SAMPLES.items():
            labels = f'job="k",instance="{instance}",group="{group}"'
            if late and group not in ("twice", "old"):
                continue
            made.append({"series": f"kshadow_group_members{{{labels}}}", "values": late + _values(members)})
            for cause, values in causes.items():
                series = f'kshadow_group_rebalances_total{{{labels},cause="{cause}"}}'
                made.append({"series": series, "values": _late(_values(values), values) if late else _values(values)})
    return made


def _late(plain: str, compact: str) -> str:
    """The same without its first twenty samples."""
    samples = [it.split("x")[0] for it in compact.split() for _ in range(int(it.split("x")[1]))]
    return " ".join([*["_"] * 20, *samples[20:]])


def _filled(query: str) -> str:
    uid = "kshadow-agent" if "$instance" in query else "kshadow-group"
    return grafana.filled(query.replace("$group", ".+"), grafana.load()[uid], {}, SCREEN, 60)


def _promtool(
    tmp_path: Path, series: list[dict[str, str]], expected: list[dict[str, object]], every: str = "15s"
) -> None:
    promtool = need("promtool")
    test = {"interval": every, "input_series": series, "promql_expr_test": expected}
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [], "tests": [test]}))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_event_is_in_one_bar(tmp_path: Path) -> None:
    query = f"sum by (group) ({_filled(since_last_bar(COUNTER, GROUP, 'cause'))})"
    expected = []
    for group, bars in BARS.items():
        for minute, count in bars.items():
            samples = [] if count is None else [{"labels": f'{{group="{group}"}}', "value": count}]
            only = f'{query} and on (group) group(kshadow_group_rebalances_total{{group="{group}"}}) by (group)'
            expected.append({"expr": only, "eval_time": f"{minute}m", "exp_samples": samples})
    _promtool(tmp_path, _series(), expected)


def test_slower_scrapes_than_the_data_source_says_lose_nothing(tmp_path: Path) -> None:
    """Scraped by the minute, which Grafana was not told: then a bar holds one sample."""
    labels = 'job="k",instance="a",group="slow"'
    series = [
        {"series": f"kshadow_group_members{{{labels}}}", "values": "3+0x20"},
        {"series": f'kshadow_group_rebalances_total{{{labels},cause="poll_timeout"}}', "values": "_x5 1+0x15"},
    ]
    query = _filled(since_last_bar(COUNTER, GROUP, "cause"))
    of = '{cause="poll_timeout", group="slow"}'
    expected: list[dict[str, object]] = [
        {"expr": query, "eval_time": at, "exp_samples": [{"labels": of, "value": count}]}
        for at, count in (("5m30s", 1), ("6m30s", 0), ("7m30s", 0))
    ]
    _promtool(tmp_path, series, expected, every="1m")


def test_a_range_has_the_first_of_its_cause(tmp_path: Path) -> None:
    query = f"round(sum by (group) ({_filled(in_range(COUNTER, GROUP, 'cause'))}))"
    expected: list[dict[str, object]] = []
    for group, count in RANGE.items():
        only = f'{query} and on (group) group(kshadow_group_members{{group="{group}"}}) by (group)'
        samples = [{"labels": f'{{group="{group}"}}', "value": count}]
        expected.append({"expr": only, "eval_time": "585s", "exp_samples": samples})
    _promtool(tmp_path, _series(), expected)


def test_what_is_an_agents_own_is_counted_by_agent(tmp_path: Path) -> None:
    query = since_last_bar("kshadow_decode_errors", AGENT, "reason", each=BY_AGENT, seen="kshadow_source_healthy")
    series = [
        {"series": 'kshadow_source_healthy{job="k",instance="a"}', "values": "1+0x40"},
        {"series": 'kshadow_source_healthy{job="k",instance="b",cluster="eu"}', "values": "1+0x40"},
        {"series": 'kshadow_decode_errors_total{job="k",instance="a",reason="truncated"}', "values": "_x9 3+0x31"},
        {
            "series": 'kshadow_decode_errors_total{job="k",instance="b",cluster="eu",reason="truncated"}',
            "values": "4+0x40",
        },
    ]
    samples = [
        {"labels": '{instance="a", reason="truncated"}', "value": 3},
        {"labels": '{cluster="eu", instance="b", reason="truncated"}', "value": 0},
    ]
    _promtool(tmp_path, series, [{"expr": _filled(query), "eval_time": "3m", "exp_samples": samples}])


def test_a_link_has_a_cluster_to_name_in_any_case(tmp_path: Path) -> None:
    series = [
        {"series": 'm{group="g",cluster="eu"}', "values": "1"},
        {"series": 'm{group="h"}', "values": "1"},
    ]
    samples = [
        {"labels": 'm{group="g", cluster="eu", link="eu"}', "value": 1},
        {"labels": 'm{group="h", link="All"}', "value": 1},
    ]
    _promtool(tmp_path, series, [{"expr": linked("m"), "eval_time": "0", "exp_samples": samples}])


def test_of_two_states_the_one_on_the_move_is_shown(tmp_path: Path) -> None:
    def of(group: str, instance: str, state: str) -> dict[str, str]:
        labels = f'job="k",instance="{instance}",group="{group}",group_type="classic",state="{state}"'
        return {"series": f"kshadow_group_state{{{labels}}}", "values": "1"}

    series = [of("g", "a", "Stable"), of("g", "b", "Reconciling"), of("h", "a", "Empty"), of("i", "a", "Brandnew")]
    samples = [
        {"labels": '{group="g"}', "value": 8},
        {"labels": '{group="h"}', "value": 2},
        {"labels": '{group="i"}', "value": 0},
    ]
    _promtool(tmp_path, series, [{"expr": _filled(state_code(GROUP)), "eval_time": "0", "exp_samples": samples}])
