"""`${NAME}` as a property's value: on the command line and in the variable as in the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.running import kshadow

TOLD = ("config", "show", "-o", "json", "--bootstrap-server", "b")
USER = "sasl.username=${SOME_USER}"


def properties(*before: object, arguments: tuple[str, ...] = (), **env: str) -> dict[str, str]:
    result = kshadow(*before, *TOLD, *arguments, env=env)
    assert result.exit_code == 0, result.stderr
    rows = {row["option"]: row["value"] for row in json.loads(result.stdout)}
    found: dict[str, str] = rows["property"]
    return found


@pytest.mark.parametrize("said", ["sre", 'it\'s "$(x)" = ü 🦊', "", "${OTHER}", "${SOME_USER}"])
def test_it_is_looked_up_once_wherever_it_stands(tmp_path: Path, said: str) -> None:
    file = tmp_path / "kshadow.yaml"
    file.write_text("property:\n  sasl.username: ${SOME_USER}\n")
    listed = tmp_path / "listed.yaml"
    listed.write_text("property: ['sasl.username=${SOME_USER}']\n")
    expected = {"sasl.username": said}
    assert properties(arguments=("-X", USER), SOME_USER=said) == expected
    assert properties(KSHADOW_PROPERTY=USER, SOME_USER=said) == expected
    assert properties("--config", file, SOME_USER=said) == expected
    assert properties("--config", listed, SOME_USER=said) == expected


@pytest.mark.parametrize("text", ["x${SOME_USER}", "$SOME_USER", "${}", "${1}", "$(SOME_USER)", "${SOME_USER} "])
def test_what_is_no_reference_stays(text: str) -> None:
    assert properties(arguments=("-X", f"sasl.username={text}"), SOME_USER="sre") == {"sasl.username": text}


def test_the_file_of_an_option_that_may_be_repeated(tmp_path: Path) -> None:
    """It was taken for a name with a value: groups `file=denied` were denied, and `secret` was shown."""
    (tmp_path / "denied").write_text("secret\n")
    file = tmp_path / "kshadow.yaml"
    file.write_text("deny-group: {file: denied}\nallow-group: [all, {file: denied}]\n")
    rows = json.loads(kshadow("--config", file, *TOLD).stdout)
    found = {row["option"]: row["value"] for row in rows}
    assert found["deny-group"] == ["secret"]
    assert found["allow-group"] == ["all", "secret"]


def test_a_variable_that_is_missing_is_named_and_nothing_is_tried() -> None:
    for command in (("run",), ("groups",), ("doctor",), ("coordinator", "g")):
        result = kshadow(*command, "--bootstrap-server", "localhost:1", "-X", "sasl.password=${KAFKA_PASSWORD}")
        assert result.exit_code == 2
        said = "sasl.password: expected the environment variable KAFKA_PASSWORD, it is not set"
        assert said in " ".join(result.stderr.split())
    result = kshadow("run", "--bootstrap-server", "b", env={"KSHADOW_PROPERTY": "sasl.password=${KAFKA_PASSWORD}"})
    assert (result.exit_code, "expected the environment variable KAFKA_PASSWORD, it is not set" in result.stderr) == (
        2,
        True,
    )


def test_a_secret_is_never_shown() -> None:
    result = kshadow(*TOLD, "-X", "sasl.password=${WORD}", env={"WORD": "hunter2"})
    assert (result.exit_code, "hunter2" in result.stdout + result.stderr) == (0, False)
    assert "<hidden>" in result.stdout
