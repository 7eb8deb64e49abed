"""The command that `kshadow doctor` ends with, and how a program names itself."""

import sys

import click
import pytest

from agent.cli.commands import find_command
from agent.cli.main import cli
from agent.cli.next_command import next_command
from agent.cli.program import program_name
from tests.unit.cli.running import kshadow

DROPPED = ("timeout", "output", "cluster")


@pytest.fixture
def next_of(monkeypatch):
    """What comes after a command line, as `kshadow doctor` asks for it."""

    def told(ctx, **_):
        click.echo(next_command(ctx, "run", without=DROPPED))

    monkeypatch.setattr(find_command("doctor"), "callback", click.pass_context(told))
    return lambda *arguments: kshadow(*arguments).stdout.removesuffix("\n")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["--bootstrap-server", "b:9092"], "kshadow run --bootstrap-server b:9092"),
        (
            ["--bootstrap-server=b:9092", "--no-admin", "--lag", "-o", "json", "--timeout", "3"],
            "kshadow run --bootstrap-server b:9092 --no-admin --lag",
        ),
        (
            ["--bootstrap-server", "b:1", "-X", "sasl.username=me", "-X", "sasl.password=hunter2"],
            "kshadow run --bootstrap-server b:1 --property sasl.username=me --property 'sasl.password=…'",
        ),
        (
            ["--bootstrap-server", "b:1", "--state-dir", "a place", "--listen", ":9308"],
            "kshadow run --bootstrap-server b:1 --state-dir 'a place' --listen :9308",
        ),
    ],
)
def test_options_are_kept(next_of, typed, expected):
    assert next_of("doctor", *typed) == expected


def test_what_doctor_takes_run_takes_too():
    names = {it.name for it in cli.get_command(click.Context(cli), "run").params}
    asked = {it.name for it in cli.get_command(click.Context(cli), "doctor").params}
    assert asked - set(DROPPED) <= names


def test_the_file_of_options_is_kept(next_of, tmp_path):
    config = tmp_path / "kshadow.yaml"
    config.write_text("run: {bootstrap-server: 'b:9092'}\n")
    expected = f"kshadow --config {config} run --no-lag"
    assert next_of("--config", str(config), "doctor", "--no-lag") == expected


def test_program_name(tmp_path, monkeypatch):
    program = tmp_path / ".venv" / "bin" / "kshadow"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(tmp_path)
    assert program_name() == ".venv/bin/kshadow"
    monkeypatch.chdir(program.parent.parent)
    assert program_name() == "bin/kshadow"
    monkeypatch.setenv("PATH", str(program.parent))
    assert program_name() == "kshadow"
    monkeypatch.setattr(sys, "argv", ["/x/agent/cli/main.py"])
    assert program_name() == "kshadow"


def test_a_path_with_a_blank_is_quoted_once(next_of, tmp_path, monkeypatch):
    program = tmp_path / "my tools" / "kshadow"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(tmp_path)
    assert next_of("doctor", "--no-lag") == "'my tools/kshadow' run --no-lag"
