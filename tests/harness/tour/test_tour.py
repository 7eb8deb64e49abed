"""The tour without a broker, in this process: each exit code, and what any reader would stumble over.

`python -m tests.harness.tour --out DIR` takes it on a terminal, and with `--live` on a real cluster.
"""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from agent.cli.commands import LISTINGS
from agent.cli.main import cli
from tests.harness.tour import steps
from tests.harness.tour.looking import in_process, placed, prepare, problems
from tests.unit.cli.running import SEGMENTS

ELSEWHERE = {"demo"}
"""What the whole live part is about."""


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("part", ["TOP", "QUERIES", "CONTEXTS", "WRONG_QUERIES", "RECORDS", "AROUND"])
def test_nobody_stumbles(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"{data}": str(SEGMENTS), **prepare(tmp_path)}
    contexts = {"KSHADOW_CONTEXTS": str(tmp_path / "contexts.yaml")}
    found = {}
    for step in getattr(steps, part):
        for words in step.each():
            printed = in_process(placed(words, places), step.stdin, contexts)
            if wrong := list(problems(step, printed, None)):
                found[printed.line] = (wrong, printed.out[-300:], printed.err[-500:])
    assert found == {}


def test_every_command_is_on_the_tour() -> None:
    context = click.Context(cli, **cli.context_settings)
    taken = {tuple(step.words[:2]) for step in (*steps.OFFLINE, *steps.LIVE)}
    for name in set(LISTINGS) - ELSEWHERE:
        command = cli.get_command(context, name)
        assert [it for it in taken if it[:1] == (name,)], name
        for under in command.commands if isinstance(command, click.Group) else ():
            assert (name, under) in taken, (name, under)
