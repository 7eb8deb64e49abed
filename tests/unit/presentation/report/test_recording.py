"""Several groups are followed as each is by itself."""

from __future__ import annotations

import pytest

from agent.runtime.offline import load
from agent.simulation.whatif import group_recorders
from agent.simulation.whatif.group_recorders import GroupRecorders
from agent.simulation.whatif.recorder import GroupRecorder, GroupRecording
from tests.unit.cli.running import SEGMENTS


def alone(group: str) -> GroupRecording:
    recorder = GroupRecorder(group)
    load([str(SEGMENTS)], on_problem=print, recorder=recorder)
    return recorder.recording()


def together(*groups: str) -> GroupRecorders:
    recorders = GroupRecorders(groups)
    load([str(SEGMENTS)], on_problem=print, recorder=recorders)
    return recorders


def test_those_that_are_named_and_no_other() -> None:
    recorders = together("pricing-poll", "fraud-848")
    for group in ("pricing-poll", "fraud-848"):
        assert recorders.of(group).recording() == alone(group)
    assert not recorders.of("ads-eos").recording().states


def test_all_of_them_while_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    recorders = together()
    assert recorders.of("pricing-poll").recording() == alone("pricing-poll")
    assert alone("pricing-poll").states
    assert not recorders.gave_up
    monkeypatch.setattr(group_recorders, "MAX_RECORDS", 10)
    recorders = together()
    assert recorders.gave_up
    assert not recorders.of("pricing-poll").recording().states, "half a history would be a wrong one"
