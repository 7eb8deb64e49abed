"""Several groups are followed as each is by itself."""

from __future__ import annotations

import pytest

from agent.offline import load
from agent.report import recording
from agent.report.recording import Recorders
from agent.whatif.recorder import Recorder, Recording
from tests.cli.running import SEGMENTS


def alone(group: str) -> Recording:
    recorder = Recorder(group)
    load([str(SEGMENTS)], on_problem=print, recorder=recorder)
    return recorder.recording()


def together(*groups: str) -> Recorders:
    recorders = Recorders(groups)
    load([str(SEGMENTS)], on_problem=print, recorder=recorders)
    return recorders


def test_those_that_are_named_and_no_other() -> None:
    recorders = together("pricing-poll", "fraud-848")
    for group in ("pricing-poll", "fraud-848"):
        assert recorders.of(group).recording() == alone(group)
    assert not recorders.of("ads-eos").recording().seen


def test_all_of_them_while_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    recorders = together()
    assert recorders.of("pricing-poll").recording() == alone("pricing-poll")
    assert alone("pricing-poll").seen
    assert not recorders.gave_up
    monkeypatch.setattr(recording, "MOST", 10)
    recorders = together()
    assert recorders.gave_up
    assert not recorders.of("pricing-poll").recording().seen, "half a history would be a wrong one"
