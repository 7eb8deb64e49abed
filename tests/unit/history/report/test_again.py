"""The command on the page is one that the command line takes, and means the same."""

from __future__ import annotations

import shlex

import pytest

from agent.cli.main import cli
from agent.history.report.command_line import command
from agent.history.report.request import Report


@pytest.mark.parametrize(
    "job",
    [
        Report(rollups="in", out="o.html"),
        Report(
            rollups="a b/'in'",
            out="o.html",
            summary="s",
            since_ms=1_783_296_000_001,
            until_ms=1_783_396_000_000,
            before=(1_783_296_000_000, 1_783_297_000_000),
            after=(1_783_298_000_000, 1_783_299_000_500),
            time_zone="Europe/Berlin",
            what_if="w.json",
            most_groups=7,
        ),
    ],
)
@pytest.mark.parametrize("engine", ["history", "spark"])
def test_it_says_the_same_again(job: Report, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr("agent.history.report.local.run", lambda it, **_: made.append((it, _["command"])))
    cli(shlex.split(command(job, engine))[1:], standalone_mode=False)
    assert made == [(job, engine)]
