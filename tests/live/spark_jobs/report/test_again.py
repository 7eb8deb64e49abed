"""The command on the page is one that the command line takes, and means the same."""

from __future__ import annotations

import shlex

import pytest

from agent.cli.main import cli
from agent.tools.spark_submit.jobs import Report
from spark_jobs.report.command_line import command


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
def test_it_says_the_same_again(job: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted = []
    monkeypatch.setattr("agent.cli.spark_submitting.submit", lambda it, params: submitted.append(it))
    cli(shlex.split(command(job))[1:], standalone_mode=False)
    assert submitted == [job]
