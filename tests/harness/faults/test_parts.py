"""What the scenes are judged by, without a broker."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.answering import answering_bytes
from tests.harness.faults import __main__ as entry
from tests.harness.faults.agents import AgentProcess
from tests.harness.faults.truth import Verdict


def test_a_verdict_shows_each_wording_of_an_event() -> None:
    texts = {"3-7-ab": ['{"members":2}', '{"members":3}']}
    verdict = Verdict("play", expected=1, conflicting=["3-7-ab"], texts=texts)
    first, *rest = str(verdict).splitlines()
    assert first.startswith("play: 0 records; events expected 1")
    assert [line.strip() for line in rest] == ["conflicting: 1, of them ['3-7-ab']", '{"members":2}', '{"members":3}']


def test_an_agent_that_is_killed_as_it_answers_has_not_answered(tmp_path: Path) -> None:
    """Else the thread that scrapes ends, and nothing is looked at from then on."""
    with answering_bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n") as port:
        assert AgentProcess(tmp_path, port=port).groups(10.0) == set()


def test_a_play_that_is_too_short_is_refused_before_a_broker_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["faults", "nothing", "--seconds", "59"])
    monkeypatch.setattr(entry, "FAULTS", {})
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith("error: --seconds: expected 60 or more, got 59\n")
