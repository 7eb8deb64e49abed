"""The budget of a replay, and the command for more."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from agent.cli.whatif_gains import gains_within_budget
from agent.core.diagnosis.cluster import AnalyzerSelection
from agent.runtime.offline import load
from agent.simulation.whatif.command_line import whatif_command
from agent.simulation.whatif.recorder import GroupRecorder
from analyzers.registry import select_analyzers
from tests.unit.cli.running import SEGMENTS

# 1-7: as a shell takes it.
COMMANDS: list[tuple[str, dict[str, Any], int | None, int | None, str]] = [
    ("g", {"from_path": "/data"}, None, None, "kshadow whatif g --from /data"),  # 1
    ("g h", {"from_path": "/my data"}, None, None, "kshadow whatif 'g h' --from '/my data'"),  # 2
    ("g", {"bootstrap_server": "a:1,b:2"}, None, None, "kshadow whatif g --bootstrap-server a:1,b:2"),  # 3
    ("g", {"agent": "http://a"}, None, None, "kshadow whatif g --agent http://a"),  # 4
    (
        "g",
        {"from_path": "d"},
        1_795_246_088_638,
        1_795_246_098_000,
        "kshadow whatif g --from d --since 2026-11-21T07:28:08Z --until 2026-11-21T07:28:18Z",
    ),  # 5
    ("x" * 61, {"from_path": "d"}, None, None, "kshadow whatif GROUP --from d"),  # 6: nobody copies that
    ("\x1b[2J", {"from_path": "d"}, None, None, "kshadow whatif GROUP --from d"),  # 7: nor that
    ("--help", {"from_path": "d"}, None, None, "kshadow whatif GROUP --from d"),  # 8: which is an option
]


@pytest.mark.parametrize(("group", "source", "since_ms", "until_ms", "said"), COMMANDS)
def test_commands(group: str, source: dict[str, Any], since_ms: int | None, until_ms: int | None, said: str) -> None:
    assert whatif_command(group, source, since_ms, until_ms) == said
    assert shlex.split(said)[:2] == ["kshadow", "whatif"]


def recorder(group: str, chosen: AnalyzerSelection) -> GroupRecorder:
    follows = GroupRecorder(group)
    load([str(SEGMENTS)], on_problem=print, group=group, chosen=chosen, recorder=follows)
    return follows


def test_beside_the_analyzers_the_same_is_recorded() -> None:
    alone, beside = (recorder("pricing-poll", it).recording() for it in (AnalyzerSelection(), select_analyzers()))
    assert alone == beside
    assert len(alone.states) > 1


def test_a_budget() -> None:
    recorded = recorder("pricing-poll", AnalyzerSelection()).recording()
    end_ms = recorded.states[-1].at_ms
    whole = gains_within_budget(recorded, None, None, end_ms, command="c")
    assert (whole.untold, whole.command) == ("", "")
    none = gains_within_budget(recorded, None, None, end_ms, command="c", budget_s=0)
    assert (none.tried, none.gains) == (0, ())
    assert (none.untold, none.command) == ("replaying it takes longer than there is time for here", "c")
