"""`kshadow lag`: what is known is shown, what is not is null, and said. On a broker:
`tests/live/kafka/lag/test_live.py`."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from agent.cli.commands.lag import lag_rows
from agent.presentation.json_views import NO_LAG, describe_json
from agent.serving.server import serving
from tests.unit.cli.running import SEGMENTS, kshadow, lines
from tests.unit.cli.test_decode import line
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import GROUP, Log, commit, run_of
from tests.unit.serving.routes.replayed import Replayed

UNKNOWN = "lag is not known: files do not say where topics end; --bootstrap-server and --agent do\n"


def test_offline_it_is_not_known_and_said() -> None:
    result = kshadow("lag", "pricing-poll", "--from", SEGMENTS, "-o", "json")
    assert (result.exit_code, result.stderr) == (0, UNKNOWN)
    rows = json.loads(result.stdout)
    assert len(rows) == 6
    assert all(row["lag"] is row["lag_seconds"] is row["end"] is row["log_start"] is None for row in rows)
    assert all(row["offset"] >= 0 and row["committed_ms"] > 0 for row in rows)
    for output in ("ndjson", "yaml"):
        text = kshadow("lag", "pricing-poll", "--from", SEGMENTS, "-o", output).stdout
        assert (yaml.safe_load(text) if output == "yaml" else [json.loads(it) for it in text.splitlines()]) == rows
    table = kshadow("lag", "pricing-poll", "--from", SEGMENTS)
    assert (table.exit_code, table.stderr) == (0, UNKNOWN)
    totals = lines(table)[-1].split()
    assert totals[1:] == ["6", "-", "-", "6"]


def test_a_topic_that_the_group_has_not() -> None:
    """It said that nothing is committed."""
    table = kshadow("lag", "pricing-poll", "--from", SEGMENTS, "--topic", "zz")
    assert (table.exit_code, table.stderr) == (0, f"no offsets of such a topic\n{UNKNOWN}")
    described = kshadow("describe", "pricing-poll", "--from", SEGMENTS, "--topic", "zz")
    assert described.stdout.endswith("\nCommitted offsets: none of such a topic\n")
    bare = kshadow("describe", "bare", "--from", "-", "--topic", "zz", stdin=line(*b.new_group("bare")))
    assert bare.stdout.endswith("\nCommitted offsets: none\n"), "it has none of any topic"


class Lagging(Replayed):
    """An agent that knows these lags, by partition."""

    def __init__(self, log: Log, known: dict[int, dict[str, Any]]) -> None:
        super().__init__([run_of(log.records)])
        self.known = known

    def describe(self, group: str) -> dict[str, object] | None:
        found = self.mirror.find(group)
        return (
            None
            if found is None
            else describe_json(*found, lambda it: {**NO_LAG, **self.known.get(it.partition, {})})
        )


def a_log() -> Log:
    who = b.member("a-1", {"t": [0, 1, 2, 3]}, topics=("t",))
    log = Log().add(b.classic_group(1, who))
    for partition, offset in enumerate((10, 11, 12)):
        log.add(commit("t", partition, offset))
    return log


@pytest.fixture
def agent() -> Lagging:
    return Lagging(
        a_log(),
        {
            0: {"lag": 5, "lag_seconds": 1.5, "end": 15, "log_start": 0, "held_back": 0, "lost": 0},
            1: {"lag": 7, "lag_seconds": 90.0, "lag_seconds_at_least": True, "end": 18, "log_start": 3},
            2: {"lag_note": "topic_recreated"},
        },
    )


def test_an_agent_knows(agent: Lagging) -> None:
    with serving(agent) as url:
        rows = json.loads(kshadow("lag", GROUP, "--agent", url, "-o", "json").stdout)
        table = kshadow("lag", GROUP, "--agent", url)
    assert [(it["offset"], it["lag"], it["lag_seconds"], it["lag_note"]) for it in rows] == [
        (10, 5, 1.5, None),
        (11, 7, 90.0, None),
        (12, None, None, "topic_recreated"),
        (None, None, None, "not_committed"),
    ]
    assert {it["member_id"] for it in rows} == {"a-1"}
    assert table.stderr == ""
    text = lines(table)
    assert text[2].split()[:6] == ["t", "1", "11", "3", "18", "7"]
    assert "≥ 90" in text[2]
    assert text[3].endswith("committed in an earlier topic of that name")
    assert text[-1].split() == ["t", "4", "12", "≥", "90", "2"]


def test_a_lag_whose_age_is_not_known_is_not_hidden_by_others() -> None:
    agent = Lagging(a_log(), {0: {"lag": 0, "lag_seconds": 0.0}, 1: {"lag": 9, "lag_seconds_at_least": True}})
    with serving(agent) as url:
        text = lines(kshadow("lag", GROUP, "--agent", url))
    assert text[-1].split() == ["t", "4", "9", "-", "2"]


def test_what_is_no_lag_is_none() -> None:
    form = {
        "group_type": "classic",
        "members": [{"member_id": "m", "assignment": {"t": 7, "u": ["x", 1]}}],
        "offsets": [{"topic": "t", "partition": 0, "offset": 3, "lag": [], "lag_note": {}, "lag_seconds": "1"}],
    }
    first, second = lag_rows(form)
    assert (first["offset"], first["lag"], first["lag_note"], first["lag_seconds"]) == (3, None, None, None)
    assert (second["topic"], second["partition"], second["lag_note"]) == ("u", 1, "not_committed")


def test_tasks_are_no_partitions() -> None:
    form = {"group_type": "connect", "members": [{"member_id": "m", "assignment": {"c": [0]}}], "offsets": []}
    assert lag_rows(form) == []
