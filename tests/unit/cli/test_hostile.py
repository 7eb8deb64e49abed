"""No text of a stranger moves a cursor, hides or forges a line, whatever the command and the format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import others_thorough
from tests.unit.cli.hostile import LETTERS, TEXTS, ndjson_of, raw
from tests.unit.cli.running import FORMATS, kshadow, lines, on_terminal, spawn

EVERY = [pytest.param(text, id=name) for name, text in {**TEXTS, **LETTERS}.items()]
ALL = [*TEXTS.values(), *LETTERS.values()]


def strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from strings(item)
        case dict():
            for key, item in value.items():
                yield key
                yield from strings(item)


def commands(path: Path, group: str) -> dict[str, list[str]]:
    return {
        "decode": ["decode", str(path)],
        "replay": ["replay", str(path)],
        "groups": ["groups", "--from", str(path)],
        "describe": ["describe", "--from", str(path), "--", group],
        "describe modern": ["describe", "--from", str(path), "--", f"{group}848"],
        "members": ["members", "--from", str(path), "--", group],
        "lag": ["lag", "--from", str(path), "--", group],
        "timeline": ["timeline", "--from", str(path), "--", group],
        "timeline modern": ["timeline", "--from", str(path), "--", f"{group}848"],
        "explain": ["explain", "--from", str(path), "--", group],
        "explain modern": ["explain", "--from", str(path), "--", f"{group}848"],
        "assign": ["assign", "--members", "--from", str(path), "--", group],
        "assign modern": ["assign", "--from", str(path), "--", f"{group}848"],
        "coordinator": ["coordinator", "--", group],
        "whatif": ["whatif", "--from", str(path), "--", group],
    }


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "all.ndjson"
    path.write_text(ndjson_of(*ALL), encoding="ascii")
    return path


@pytest.mark.parametrize("text", EVERY)
@pytest.mark.parametrize("output", FORMATS)
def test_piped(text: str, output: str, tmp_path: Path) -> None:
    path = tmp_path / "log.ndjson"
    path.write_text(ndjson_of(text), encoding="ascii")
    for name, command in commands(path, text).items():
        result = kshadow(*command[:1], "-o", output, *command[1:])
        assert result.exit_code == 0, (name, result.stderr)
        assert raw(result.stdout) == raw(result.stderr) == [], name
        said: list[Any]
        match output:
            case "json":
                said = [json.loads(result.stdout)]
            case "ndjson":
                said = [json.loads(it) for it in lines(result)]
            case "yaml":
                said = [yaml.load(result.stdout, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))]
            case _:
                assert max(map(len, lines(result))) < 3000, "a long name does not fill the screen"
                continue
        assert {text, f"{text}848"} & set(strings(said)), f"{name}: the text itself is what JSON and YAML hold"


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("output", others_thorough(FORMATS, "table", "yaml"))
def test_on_a_terminal(output: str, everything: Path) -> None:
    group = TEXTS["3 is a link"]
    for name, command in commands(everything, group).items():
        text, code = on_terminal(*command[:1], "-o", output, *command[1:])
        assert code == 0, name
        assert raw(text, styled=True) == [], name


@pytest.mark.parametrize("text", EVERY)
def test_in_errors(text: str, tmp_path: Path) -> None:
    log = tmp_path / "log.ndjson"
    log.write_text(ndjson_of(text), encoding="ascii")
    if "\0" in text:
        return  # no argument can hold it
    # 1-9: wherever an argument or the data is quoted.
    for command, code in (
        (["describe", "--from", str(log), "--", text[:200] + "!"], 1),  # 1: unknown group, and one like it
        (["timeline", "--from", str(log), "--", text[:200] + "!"], 1),
        (["explain", "--from", str(log), "--", text[:200] + "!"], 1),
        (["findings", "--from", str(log), "--since", text], 2),
        (["decode", f"/nothing/{text[:100]}"], 2),  # 2: no such path
        (["groups", "--agent", f"http://localhost:1/{text[:100].replace('#', '')}"], 3),  # 3: nobody answers
        (["groups", "--agent", text], 2),  # 4: no URL
        (["groups", "--from", str(log), "-o", text], 2),  # 5: no format
        ([f"x{text}"], 2),  # 6: no command
        (["groups", f"--{text}"], 2),  # 7: no option
        (["run", "--bootstrap-server", "x", "--listen", text], 2),  # 8: no address
        (["--config", f"/nothing/{text[:100]}", "groups"], 2),  # 9: no file
    ):
        result = kshadow(*command)
        assert result.exit_code == code, (command, result.stderr)
        assert raw(result.stdout) == raw(result.stderr) == [], command
        assert result.stderr.strip()


def test_in_the_data_that_is_wrong() -> None:
    bad = "\n".join(f'{{"key": {json.dumps(text)}, "value": null}}' for text in ALL)
    payloads = "\n".join(json.dumps({"name": text, "bytes": "0000"}) for text in [*ALL, "\ud800 \udfff"])
    broken = "\n".join(text.replace("\n", " ") for text in ALL)
    for output in FORMATS:
        for stdin in (bad, payloads, broken):
            for command in (["decode", "-"], ["replay", "-"], ["groups", "--from", "-"]):
                result = kshadow(*command, "-o", output, stdin=stdin.encode("utf-8", "surrogatepass"))
                assert result.exit_code in (0, 1)
                assert raw(result.stdout) == raw(result.stderr) == []


def test_lone_surrogates_come_back() -> None:
    text = "\ud800 \udfff"
    stdin = json.dumps({"name": text, "bytes": "0000"})
    assert json.loads(kshadow("decode", "-", stdin=stdin).stdout)["name"] == text
    assert yaml.safe_load(kshadow("decode", "-", "-o", "yaml", stdin=stdin).stdout)[0]["name"] == text


@pytest.mark.usefixtures("process")
def test_an_argument_that_is_no_text() -> None:
    for command in (["coordinator"], ["groups", "--from"], ["describe", "--agent", "http://localhost:1"]):
        with spawn(*command, b"\xff\x1b[31m") as process:
            out, err = process.communicate()
        assert process.returncode in (0, 1, 2, 3)
        assert b"Traceback" not in err
        assert raw(out.decode() + err.decode()) == []


@pytest.mark.usefixtures("process")
def test_a_terminal_of_another_encoding(everything: Path) -> None:
    for output in FORMATS:
        with spawn("groups", "-o", output, "--from", everything, env={"PYTHONIOENCODING": "latin-1"}) as process:
            out, err = process.communicate()
        assert (process.returncode, err) == (0, b"")
        assert raw(out.decode("latin-1")) == []
        text = out.decode("ascii" if output != "table" else "latin-1")
        match output:
            case "json":
                rows = json.loads(text)
            case "ndjson":
                rows = [json.loads(it) for it in text.splitlines()]
            case "yaml":
                rows = yaml.safe_load(text)
            case _:
                assert "größe-\\u65e5\\u672c " in text
                continue
        assert {row["group"] for row in rows} >= set(ALL)
