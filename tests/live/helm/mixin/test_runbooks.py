"""The runbooks have a section for each alert, and commands that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from agent.cli.main import cli
from tests import ROOT
from tests.live.helm.mixin.alerts import ALERTS

TEXT = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (\S+)\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL))
PARTS = ["What it means", "What it costs", "First look", "What to change", "When to silence it"]
COMMANDS = sorted(set(re.findall(r"^    (kshadow .*)$", TEXT, re.MULTILINE)))


def test_each_alert_has_its_section_and_each_section_its_alert() -> None:
    assert sorted(SECTIONS) == sorted({alert["alert"] for alert in ALERTS})


@pytest.mark.parametrize("section", SECTIONS.values(), ids=SECTIONS)
def test_a_section_says_all_that_is_asked(section: str) -> None:
    assert re.findall(r"^\*\*(.*?)\.\*\*", section, re.MULTILINE) == PARTS


@pytest.mark.parametrize("name", SECTIONS)
def test_there_are_commands_to_run_unless_it_refers_to_others(name: str) -> None:
    assert re.search(r"^    (?:kshadow|curl|kubectl) ", SECTIONS[name], re.MULTILINE)


def test_anchors_are_those_of_the_alerts() -> None:
    """A heading's anchor is its text in small letters, where it is one word."""
    anchors = {name.lower() for name in SECTIONS}
    assert set(re.findall(r"\(#(.*?)\)", TEXT)) <= anchors
    assert {alert["annotations"]["runbook_url"] for alert in ALERTS} == {f"docs/runbooks.md#{it}" for it in anchors}


@pytest.mark.parametrize("text", COMMANDS)
def test_commands_parse(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the parser of the command that they name, down to its options' values."""
    (tmp_path / "kshadow.yaml").touch()
    monkeypatch.chdir(tmp_path)
    command, context = cli, click.Context(cli, info_name="kshadow", **cli.context_settings)
    arguments = shlex.split(text)[1:]
    while isinstance(command, click.Group):
        found = command.get_command(context, arguments[0])
        assert found is not None, f"no such command: {arguments[0]}"
        command, arguments = found, arguments[1:]
    command.make_context(command.name, arguments, parent=context)


def test_settings_that_are_named_exist() -> None:
    from analyzers.registry import select_analyzers

    tuned = dict(re.findall(r"--tune (\S+?)=(\S+?)`", TEXT))
    assert len(tuned) >= 3
    select_analyzers(tuning=dict.fromkeys(tuned, "7"))
    config = (ROOT / "helm" / "mixin" / "config.libsonnet").read_text(encoding="utf-8")
    for name in re.findall(r"`(\w+)` of the mixin", TEXT):
        assert f" {name}:" in config
