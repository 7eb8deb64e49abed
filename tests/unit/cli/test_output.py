"""The streams themselves: full, of another encoding, a terminal."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
import yaml

from agent.cli import output
from agent.cli.output import UnwritableOutput, echo, print_rows, print_table
from agent.cli.tables import Column
from tests import ROOT
from tests.unit.cli.hostile import LETTERS, TEXTS
from tests.unit.cli.running import COMMAND, environment

COLUMNS = {"a": Column("A"), "b": Column("B", spare=1)}


@contextmanager
def printed(encoding: str = "utf-8") -> Iterator[BytesIO]:
    sink = BytesIO()
    with redirect_stdout(TextIOWrapper(sink, encoding=encoding, write_through=True)) as stream:
        yield sink
        stream.detach()


@pytest.mark.parametrize(
    ("output", "encoding", "expected"),
    [
        ("ndjson", "utf-8", '{"a":"größe"}\n'.encode()),  # 1: letters as they are
        ("ndjson", "latin-1", b'{"a":"gr\\u00f6\\u00dfe"}\n'),  # 2: JSON is UTF-8 or ASCII
        ("json", "latin-1", b'[\n  {\n    "a": "gr\\u00f6\\u00dfe"\n  }\n]\n'),  # 3
        ("yaml", "utf-8", "- a: größe\n".encode()),  # 4
        ("yaml", "ascii", b'- a: "gr\\xF6\\xDFe"\n'),  # 5: quoted, so that the escape is one
        ("table", "latin-1", "A      B\ngröße  -\n".encode("latin-1")),  # 6: what the terminal can show
        ("table", "ascii", b"A      B\ngr\\xf6\\xdfe  -\n"),  # 7: what it cannot
    ],
)
def test_encodings(output: str, encoding: str, expected: bytes) -> None:
    with printed(encoding) as sink:
        print_rows(iter([{"a": "größe"}]) if output != "table" else [{"a": "größe"}], output, COLUMNS)
    assert sink.getvalue() == expected


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("text", [*TEXTS.values(), *LETTERS.values(), "\U0001f600", "\\U0001f600", "\udcff", "null"])
def test_yaml_is_what_python_s_own_dumper_writes(text: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PyYAML has no libyaml, the text is the same, but for keys that are long or have lines."""
    rows = [{"a": text, "b": [text, {"a": text, "b": [None, True, 1.5, -3]}, [], {}]}]
    with printed(encoding) as fast:
        print_rows(rows, "yaml", COLUMNS)
    with monkeypatch.context() as patch, printed(encoding) as slow:
        patch.delattr(yaml, "CSafeDumper", raising=False)
        output._yaml_dumper.cache_clear()
        print_rows(rows, "yaml", COLUMNS)
    output._yaml_dumper.cache_clear()
    assert fast.getvalue() == slow.getvalue()
    if text == "\U0001f600" and encoding == "utf-8":
        assert text.encode() in fast.getvalue()


def test_headings_may_be_plain_text() -> None:
    with printed() as sink:
        print_table([["x", 1], ["y", None]], ["NAME", "COUNT"])
    assert sink.getvalue() == b"NAME  COUNT\nx         1\ny         -\n"


def test_nothing_to_show(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([], ["NAME"], empty="no names")
    assert capsys.readouterr() == ("", "no names\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full: Linux has it")
@pytest.mark.parametrize("size", [1, 100_000])
def test_a_full_disk(size: int) -> None:
    with (
        open("/dev/full", "w") as full,
        redirect_stdout(full),
        pytest.raises(UnwritableOutput, match="No space left"),
    ):
        echo("x" * size)


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments", ["--help", "run --help", "--version", "sidecar inject {} --bootstrap-server b:1 --group g --image i"]
)
def test_a_full_disk_under_what_others_print(arguments: str, unbuffered: str, tmp_path: Path) -> None:
    """The image has PYTHONUNBUFFERED, with which each write fails at once."""
    pod = tmp_path / "pod.yaml"
    pod.write_text("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: b}]}}")
    command = [*COMMAND, *arguments.format(pod).split()]
    env = environment(PYTHONUNBUFFERED=unbuffered)
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, cwd=ROOT, env=env, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr) == (3, "Error: cannot write the output: No space left on device\n")


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize(
    ("arguments", "code"), [("decode nothing-here", 2), ("groups --agent http://127.0.0.1:1", 3)]
)
def test_an_error_that_nobody_reads_is_none_the_less_one(arguments: str, code: int) -> None:
    """As of `2>&1 | head`, whose reader is gone, or a log on a full disk."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as gone, open("/dev/full", "w") as full:
        for unread in (gone, full):
            ended = subprocess.run(
                [*COMMAND, *arguments.split()], cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=unread
            )
            assert ended.returncode == code


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("arguments", ["groups --from tests/data/cli/segments", "--help", "groups --help"])
def test_a_closed_standard_output_is_told(arguments: str) -> None:
    line = f"exec {shlex.join(COMMAND)} {arguments} >&-"
    ended = subprocess.run(["sh", "-c", line], cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (3, "Error: cannot write the output: Bad file descriptor\n")


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize(
    "arguments",
    [
        "groups --from -",
        "decode -",
        "replay -",
        "assign -",
        "sidecar inject - --bootstrap-server b:1 --group g --image i",
    ],
)
def test_a_closed_standard_input_is_told(arguments: str) -> None:
    line = f"exec {shlex.join(COMMAND)} {arguments} <&-"
    ended = subprocess.run(["sh", "-c", line], cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "Bad file descriptor" in ended.stdout + ended.stderr


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_reader_that_went_away(size: int) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    with redirect_stdout(stream), pytest.raises(BrokenPipeError):
        echo("x" * size)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), writing)
    stream.close()


@pytest.mark.parametrize(
    ("env", "bold"),
    [
        ({"TERM": "xterm"}, True),  # 1
        ({"TERM": "xterm", "NO_COLOR": ""}, True),  # 2: set to nothing is not set, says no-color.org
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),  # 3
        ({"TERM": "dumb"}, False),  # 4
    ],
)
def test_a_terminal(
    env: dict[str, str], bold: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"COLUMNS": "10", **env}.items():
        monkeypatch.setenv(name, value)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        with redirect_stdout(terminal):
            print_table([["abcdefgh", "x"]], [Column("A"), Column("B", spare=1)])
        terminal.flush()
        sent = ""
        while sent.count("\n") < 2:
            sent += os.read(ours, 1000).decode()
    os.close(ours)
    assert sent == ("\x1b[1mA\x1b[0m" if bold else "A") + "\r\nabcdefgh\r\n"
    assert capsys.readouterr().err == "(no room at 10 columns for B; a wider terminal or -o wide shows all)\n"
