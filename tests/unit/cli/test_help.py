"""What `--help` promises."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click
import pytest

from agent.cli.commands import LISTINGS, SECTIONS
from agent.cli.main import cli
from tests import SHARED
from tests.unit.cli.running import kshadow, on_terminal
from tests.unit.core.shadow import build as b
from tests.unit.kafka.source.building import at_offset

CONTEXT = click.Context(cli, info_name="kshadow", **cli.context_settings)
DATA = "/var/lib/kafka/data"
LOGS = "/opt/kafka/logs"
NEW = "/tmp/"


def command_of(name: str) -> click.Command:
    command = cli.get_command(CONTEXT, name)
    assert command is not None
    return command


def examples(name: str) -> list[list[str]]:
    """The command lines in a command's help, up to a pipe."""
    found = re.findall(r"^ +kshadow (.*)$", command_of(name).help or "", re.MULTILINE)
    return [shlex.split(text.partition(" | ")[0]) for text in found]


@pytest.mark.parametrize("name", LISTINGS)
def test_the_table_says_what_the_docstring_says(name: str) -> None:
    command = command_of(name)
    assert command.help is not None
    assert command.help.splitlines()[0] == LISTINGS[name].help
    assert command.name == name


def test_each_command_has_a_place_of_its_own() -> None:
    assert {it.section for it in LISTINGS.values()} == set(SECTIONS)
    places = [(it.section, it.place) for it in LISTINGS.values()]
    assert len({*places}) == len(places)


@pytest.mark.parametrize("name", LISTINGS)
def test_help_fits_a_terminal(name: str) -> None:
    result = kshadow(name, "-h")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == kshadow(name, "--help").stdout
    wide = [row for row in result.stdout.splitlines() if len(row) > 80]
    assert not [row for row in wide if not row.strip().startswith("kshadow ")]


@pytest.mark.parametrize("arguments", [line for name in LISTINGS for line in examples(name)], ids=" ".join)
def test_examples_that_need_no_broker_run(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Those of `spark` take Spark, and those of `history` tables; tests/unit/tools/spark_submit and
    # tests/unit/history run them.
    needs_one = {"run", "demo", "spark", "history"} & {arguments[0]} or {"--bootstrap-server", "--agent"} & set(
        arguments
    )
    if needs_one:
        return
    directory = tmp_path / "__consumer_offsets-15"
    directory.mkdir()
    (directory / "0.log").write_bytes(segment())
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "server.log").write_text(
        "[2026-11-21 10:00:00,000] INFO [GroupCoordinator 1]: Group g with generation 1 is now empty\n"
    )
    problem = {"assignor": "range", "partitions": {"t": 1}, "members": {"m-1": {"topics": ["t"]}}}
    (tmp_path / "problems.ndjson").write_text(json.dumps(problem), encoding="ascii")
    (tmp_path / "kshadow.yaml").write_text("lag: false\n", encoding="ascii")
    contexts = tmp_path / "contexts.yaml"
    contexts.write_text("current: test\ncontexts: {prod: {agent: 'http://p'}, test: {agent: 'http://t'}}\n")
    monkeypatch.chdir(tmp_path)
    places = {NEW: f"{tmp_path}/new-", DATA: tmp_path, LOGS: logs}
    for place, here in places.items():
        arguments = [it.replace(place, str(here)) for it in arguments]
    # A cluster of one's own is asked nowhere else.
    env = {"KSHADOW_CONTEXTS": str(contexts)} if arguments[0] == "context" else {}
    result = kshadow(*arguments, env=env)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout


def segment() -> bytes:
    """A log that holds the group `payments` of the examples."""
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    records = [b.new_group("payments"), b.classic_group(1, b.member("m-1", {"t": [0]}), group="payments")]
    for offset, (key, value) in enumerate(records):
        builder.append(offset, b.T0, key, value, [])
    return at_offset(bytes(builder.build()), 0)


def test_the_top() -> None:
    top = kshadow("--help")
    assert top.exit_code == 0
    for name, (*_, text) in LISTINGS.items():
        assert re.search(rf"^  {name} +{re.escape(text.split()[0])}", top.stdout, re.MULTILINE)
    none = kshadow()
    assert (none.exit_code, none.stdout, none.stderr) == (2, "", top.stdout)
    version = kshadow("--version").stdout
    assert re.fullmatch(r"kshadow, version \d+\.\d+.*\n", version)


@pytest.mark.usefixtures("process")
def test_wrong_commands() -> None:
    result = kshadow("grops")
    assert result.exit_code == 2
    assert "No such command 'grops'. Did you mean 'groups'?" in result.stderr
    assert "kshadow --help lists those there are" in kshadow("xyzzyq").stderr
    assert kshadow("decode").exit_code == 2
    text, code = on_terminal("describe")
    assert (code, "Missing argument 'GROUP'.\nkshadow groups lists those there are" in text) == (2, True)


@pytest.mark.parametrize("command", [("groups",), ("run",), ("context", "list"), ("config", "show")])
@pytest.mark.parametrize("option", ["--config", "--context"])
def test_an_option_of_kshadow_itself_is_told_its_place(command: tuple[str, ...], option: str) -> None:
    result = kshadow(*command, option, "x")
    assert result.exit_code == 2
    assert f"Error: {option} goes before the command: kshadow {option} … {command[0]}\n" in result.stderr


BEYOND_CONTRACT = {"analyzers", "completion", "schema"}
"""Commands that the contract does not name."""


def test_contract_names_every_command() -> None:
    contract = SHARED / "contract.md"
    if not contract.exists():
        pytest.skip(f"{contract} is missing: only beside a developer's checkout")
    named = set(re.findall(r"`(?:kshadow )?([a-z]+)", contract.read_text(encoding="utf-8")))
    assert set(LISTINGS) - BEYOND_CONTRACT <= named
