"""Settings as `kshadow run` would get them from a command line, an environment and a file."""

from __future__ import annotations

from pathlib import Path

import click

from agent.cli.config_file import read_config_file
from agent.cli.main import cli
from agent.cli.run_options import declared
from agent.cli.run_settings import given_values, settings_in_force
from agent.config.resolving import EffectiveValues, FileOptions
from agent.config.settings import RunSettings
from agent.config.value_source import GivenValues

BROKERS = ("--bootstrap-server", "b:9092")


def asked(*arguments: str) -> GivenValues:
    """What a command line says."""
    return given_values(declared.make_context("run", list(arguments)))


def file_options(tmp_path: Path, text: str) -> FileOptions:
    """What a file says to `run`; it may have no problem."""
    path = tmp_path / "kshadow.yaml"
    path.write_text(text, encoding="utf-8")
    loaded = read_config_file(path, cli, click.Context(cli, **cli.context_settings))
    assert loaded.problems == []
    return loaded.run


def settled(*arguments: str, file: FileOptions | None = None) -> tuple[EffectiveValues, RunSettings]:
    return settings_in_force(asked(*arguments), file)


def settings(*arguments: str, file: FileOptions | None = None) -> RunSettings:
    return settled(*arguments, file=file)[1]
