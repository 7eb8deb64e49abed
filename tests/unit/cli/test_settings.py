"""Where options come from: the command line before the environment before the file."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from agent.cli.commands import LISTINGS
from agent.cli.main import cli
from tests.unit.cli.running import SEGMENTS, kshadow, lines

CONTEXT = click.Context(cli, **cli.context_settings)
NAMES = [*(name for name in LISTINGS if name != "config"), "config show", "config check"]


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "kshadow.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def partitions(*arguments: object, env: dict[str, str] | None = None) -> int:
    result = kshadow(*arguments, "coordinator", "g", env=env)
    assert result.exit_code == 0, result.stderr
    return int(json.loads(result.stdout)["partitions"])


def test_who_wins(tmp_path: Path) -> None:
    path = config(tmp_path, "output: json\noffsets-partitions: 10\n")
    env = {"KSHADOW_OFFSETS_PARTITIONS": "20"}
    assert partitions("--config", path) == 10
    assert partitions(env={"KSHADOW_CONFIG": str(path)}) == 10
    assert partitions("--config", path, env=env) == 20
    result = kshadow("--config", path, "coordinator", "g", "--offsets-partitions", "30", env=env)
    assert json.loads(result.stdout)["partitions"] == 30


def test_a_section_wins_over_the_top(tmp_path: Path) -> None:
    path = config(
        tmp_path, "output: ndjson\noffsets_partitions: 10\ncoordinator:\n  offsets-partitions: 11\ndecode:\n"
    )
    assert partitions("--config", path) == 11
    assert len(lines(kshadow("--config", path, "groups", "--from", SEGMENTS))) == 6


def test_a_source_in_the_file_yields_to_one_on_the_command_line(tmp_path: Path) -> None:
    path = config(tmp_path, "bootstrap-server: localhost:1\nproperty: {security.protocol: SASL_SSL}\n")
    assert kshadow("--config", path, "groups", "--from", SEGMENTS).exit_code == 0


def test_names_that_yaml_takes_for_numbers(tmp_path: Path) -> None:
    names = ["010", "0x10", "12:30:45", "1_000", "1.10", "2026-01-02"]
    path = config(tmp_path, f"run: {{group: [{', '.join(names)}]}}\nproperty: {{sasl.username: 007}}\n")
    rows = map(json.loads, lines(kshadow("--config", path, "config", "show", "-o", "ndjson")))
    values = {row["option"]: row["value"] for row in rows}
    assert (values["group"], values["property"]) == (names, {"sasl.username": "007"})


def test_names_that_yaml_takes_for_truths(tmp_path: Path) -> None:
    names = ["no", "on", "Off", "y", "truely"]
    path = config(
        tmp_path, f"run: {{group: [{', '.join(names)}], lag: no, admin: true}}\nproperty: {{a.b: yes, a.c: False}}\n"
    )
    rows = map(json.loads, lines(kshadow("--config", path, "config", "show", "-o", "ndjson")))
    values = {row["option"]: row["value"] for row in rows}
    assert (values["group"], values["property"]) == (names, {"a.b": "yes", "a.c": "false"})
    assert (values["lag"], values["admin"]) == (False, True)
    path = config(tmp_path, "clusters: {no: {bootstrap-server: 'a:1'}, se: {bootstrap-server: 'b:1'}}\n")
    rows = map(json.loads, lines(kshadow("--config", path, "config", "show", "-o", "ndjson")))
    assert {row["cluster"] for row in rows} == {"no", "se", None}


# 1-5: an option that may come several times.
@pytest.mark.parametrize("text", ["group: ads-eos", "group: [ads-eos]", "replay: {group: ads-eos}"])
def test_repeated_options(tmp_path: Path, text: str) -> None:
    result = kshadow("--config", config(tmp_path, text), "replay", SEGMENTS)
    assert {json.loads(it)["group"] for it in lines(result)} == {"ads-eos"}


@pytest.mark.parametrize(
    "text",
    [
        "property: {nonsense.a: no}",
        "property: [nonsense.a=b]",
        "property: nonsense.a=b",
        "groups: {property: {nonsense.a: 1}}",
    ],
)
def test_properties(tmp_path: Path, text: str) -> None:
    result = kshadow("--config", config(tmp_path, text), "groups", "--bootstrap-server", "localhost:1")
    assert (result.exit_code, 'No such configuration property: "nonsense.a"' in result.stderr) == (2, True)


# 1-19: each error names the file, the place in it, what was expected and what came.
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour: red", "unknown key 'colour'; known are admin, admin-rate, admin-requests-per-second, after, "),  # 1
        (
            "groups: {colour: red}",
            "groups: unknown key 'colour'; known are agent, agent-ca, ",
        ),  # 2
        ("groups: {listen: ':1'}", "groups: unknown key 'listen'"),  # 3: another command has it
        ("nosuch: {output: json}", "unknown key 'nosuch'"),  # 4: no such command
        ("decode: 5", "decode: expected a section of options, got '5'"),  # 5
        ("[a, b]", "expected options by name, got list"),  # 6
        ("a: [1\nb: hunter2", "line 2, column 2: expected YAML: expected ',' or ']', but got ':'\n"),  # 7
        ("output: xml", "output: 'xml' is not one of"),  # 8: a value that the option does not take
        ("offsets-partitions: many", "offsets-partitions: 'many' is not a valid integer"),  # 9
        ("offsets-partitions: 0", "offsets-partitions: 0 is not in the range x>=1"),  # 10
        ("listen: [a]", "listen: expected a text or a number, got list"),  # 11
        ("group: [[a]]", "group: expected a text or a number, got list"),  # 12
        ("property: {a: {b: c}}", "property: expected a text or a number, got dict"),  # 13
        ("keep: perhaps", "keep: 'perhaps' is not a valid boolean"),  # 14
        ("1: 2", "unknown key '1'"),  # 15: no text
        ('output: "\\e[31m"', "output: '\\x1b[31m' is not one of"),  # 16: quoted
        ("deny-group: {a: b}", "deny-group: expected a text or a number, got dict"),  # 19: no NAME=VALUE
        ("keep: 5", "keep: '5' is not a valid boolean"),  # 17: a number, and a list, ended in a traceback
        ("keep: [yes]", "keep: expected a text or a number, got list"),  # 18
    ],
)
def test_errors(tmp_path: Path, text: str, said: str) -> None:
    path = config(tmp_path, text)
    result = kshadow("--config", path, "groups", "--from", SEGMENTS)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Error: {path}: {said}" in result.stderr


def test_other_files(tmp_path: Path) -> None:
    assert "does not exist" in kshadow("--config", tmp_path / "nothing", "groups").stderr
    (tmp_path / "latin").write_bytes(b"cluster: gr\xf6\xdfe")
    result = kshadow("--config", tmp_path / "latin", "groups")
    assert (result.exit_code, "expected YAML" in result.stderr) == (2, True)
    assert kshadow("--config", config(tmp_path, ""), "groups", "--from", SEGMENTS).exit_code == 0
    assert kshadow("--config", config(tmp_path, "cluster:\nkeep: 1\n"), "groups", "--from", SEGMENTS).exit_code == 0


@pytest.mark.parametrize("name", NAMES)
def test_every_option_has_its_variable_and_says_so(name: str) -> None:
    command: click.Command | None = cli
    for part in name.split():
        assert isinstance(command, click.Group)
        command = command.get_command(CONTEXT, part)
    assert command is not None
    for parameter in command.params:
        if not isinstance(parameter, click.Option) or parameter.name == "help":
            continue
        (long,) = (it for it in parameter.opts if it.startswith("--"))
        assert parameter.envvar == "KSHADOW_" + long[2:].replace("-", "_").upper()
        assert parameter.show_envvar
        assert parameter.help, long
        if not parameter.is_flag and long not in ("--mix", "--assignor"):  # names, checked where they are known
            # `run --group "$GROUP"`, where the variable is not set, read one partition and showed nothing.
            with pytest.raises(click.UsageError):
                parameter.type.convert("", parameter, CONTEXT)


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "--groups", "1", "--out", ""),
        ("report", "--from", "-", "--out", ""),
        ("run", "--bootstrap-server", "localhost:1", "--state-dir", ""),
        ("run", "--bootstrap-server", "localhost:1", "--history-parquet", ""),
        ("history", "rollup", "--history", "", "--out", "x"),
        ("history", "report", "--rollups", "x", "--out", ""),
        ("spark", "rollup", "--history", "x", "--out", ""),
    ],
)
def test_an_empty_text_is_not_the_working_directory(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = kshadow(*arguments)
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "expected a file, a directory" in result.stderr
    assert "got an empty text" in result.stderr
