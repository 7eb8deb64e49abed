"""Log files as they are on disks: rotated, packed, cut, growing, away."""

from __future__ import annotations

import errno
import gzip
import os
from pathlib import Path

import pytest

from agent.kafka.source import logfile
from agent.kafka.source.errors import SourcePathError
from agent.kafka.source.logfile import FileTail, LineSplitter, broker_log_file, lines_of, with_siblings


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text("one\n")
    return path


# A file and its siblings.


def test_a_path_is_a_file_or_a_directory_with_one(log: Path) -> None:
    assert broker_log_file(log) == broker_log_file(log.parent) == log


def test_what_is_no_log(tmp_path: Path) -> None:
    for path, said in ((tmp_path, "a server.log"), (tmp_path / "nothing", "No such file")):
        with pytest.raises(SourcePathError, match=said) as error:
            broker_log_file(path)
        assert str(path) in str(error.value)
        assert "Kafka writes server.log" in str(error.value)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "server.log")
    with pytest.raises(SourcePathError, match="a file"):
        broker_log_file(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_log_that_may_not_be_read(log: Path) -> None:
    log.chmod(0)
    with pytest.raises(SourcePathError) as error:
        broker_log_file(log)
    assert isinstance(error.value.__cause__, PermissionError)


def test_siblings_come_in_the_order_of_time(log: Path) -> None:
    for age, name in enumerate(("server.log.1", "server.log.2026-11-21-09", "server.log.2.gz"), 1):
        (log.parent / name).write_text("")
        os.utime(log.parent / name, (1e9 - age, 1e9 - age))
    for other in ("server.logs", "controller.log", "server-2.log"):
        (log.parent / other).write_text("")
    (log.parent / "server.log.d").mkdir()
    names = [path.name for path in with_siblings(log)]
    assert names == ["server.log.2.gz", "server.log.2026-11-21-09", "server.log.1", "server.log"]


def test_a_name_is_no_pattern(tmp_path: Path) -> None:
    for name in ("broker[1]*.log", "broker[1]*.log.1", "broker1x.log.1"):
        (tmp_path / name).write_text("")
    assert [path.name for path in with_siblings(tmp_path / "broker[1]*.log")] == [
        "broker[1]*.log.1",
        "broker[1]*.log",
    ]


def test_lines_of_a_file_packed_or_not(tmp_path: Path) -> None:
    text = "one\ntwo\r\n\nfür\udcff\nlast".encode("utf-8", "surrogateescape")
    (tmp_path / "plain").write_bytes(text)
    (tmp_path / "packed").write_bytes(gzip.compress(text))
    expected = ["one", "two", "", "für\ufffd", "last"]
    assert list(lines_of(tmp_path / "plain")) == list(lines_of(tmp_path / "packed")) == expected


def test_a_packed_file_that_was_cut_ends_there(tmp_path: Path) -> None:
    text = "".join(f"line {os.urandom(20).hex()}\n" for _ in range(20_000))
    packed = gzip.compress(text.encode())
    (tmp_path / "cut").write_bytes(packed[: len(packed) // 2])
    lines = list(lines_of(tmp_path / "cut"))
    assert lines[:-1] == text.splitlines()[: len(lines) - 1]
    assert len(lines) > 1_000
    (tmp_path / "broken").write_bytes(packed[:1000] + b"x" * 1000)
    assert list(lines_of(tmp_path / "broken"))[:1] in ([], text.splitlines()[:1])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourcePathError, match="No such file"):
        list(lines_of(tmp_path / "nothing"))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_do_not_depend_on_chunks(size: int) -> None:
    data = "one\ntwo\n\ndrei und für\nrest".encode()
    splitter = LineSplitter()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    lines = [line for chunk in chunks for line in splitter.split(chunk)]
    assert [*lines, *splitter.rest()] == ["one", "two", "", "drei und für", "rest"]
    assert not list(splitter.rest())


def test_a_line_without_an_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfile, "LONGEST_LINE", 10)
    splitter = LineSplitter()
    assert [line for _ in range(100) for line in splitter.split(b"xyz")] == []
    assert list(splitter.split(b"\nnext\n")) == ["xyzxyzxyzx", "next"]


# Following.


def test_what_is_there_and_what_comes(log: Path) -> None:
    tail = FileTail(log)
    assert list(tail.lines()) == ["one"]
    assert list(tail.lines()) == []
    add(log, "two\nthr")
    assert list(tail.lines()) == ["two"]
    add(log, "ee\n")
    assert list(tail.lines()) == ["three"]
    assert tail.problem is None
    tail.close()


def test_rotation_by_renaming_loses_no_line(log: Path) -> None:
    tail = FileTail(log)
    assert list(tail.lines()) == ["one"]
    with log.open("a") as writer:
        log.rename(log.with_suffix(".log.1"))
        writer.write("two, written to the old file\nthree, without its end")
        writer.flush()
        log.write_text("four\n")
        assert list(tail.lines()) == ["two, written to the old file", "three, without its end", "four"]
    tail.close()


def test_a_renamed_file_is_followed_until_there_is_a_new_one(log: Path) -> None:
    tail = FileTail(log)
    list(tail.lines())
    with log.open("a") as writer:
        log.rename(log.with_suffix(".log.1"))
        assert list(tail.lines()) == []
        assert tail.problem == "No such file or directory"
        writer.write("two\n")
        writer.flush()
        assert list(tail.lines()) == ["two"]
    log.write_text("three\n")
    assert list(tail.lines()) == ["three"]
    assert tail.problem is None
    tail.close()


def test_rotation_by_truncation(log: Path) -> None:
    tail = FileTail(log)
    add(log, "partial, longer than what follows")
    assert list(tail.lines()) == ["one"]
    log.write_text("two\n")
    assert list(tail.lines()) == ["partial, longer than what follows", "two"]
    log.write_text("")
    assert list(tail.lines()) == []
    add(log, "three\n")
    assert list(tail.lines()) == ["three"]
    tail.close()


def test_a_file_that_comes_late(tmp_path: Path) -> None:
    tail = FileTail(tmp_path / "server.log")
    assert list(tail.lines()) == []
    assert tail.problem == "No such file or directory"
    (tmp_path / "server.log").write_text("one\n")
    assert (list(tail.lines()), tail.problem) == (["one"], None)
    tail.close()
    tail.close()


def test_of_a_long_file_the_end_is_read(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfile, "MOST_AT_START", 12)
    log.write_text("".join(f"line {number}\n" for number in range(9)))
    tail = FileTail(log)
    assert list(tail.lines()) == ["line 8"]
    tail.close()


def test_a_file_that_cannot_be_read_any_more(tmp_path: Path) -> None:
    """A directory opens, on some systems, and then cannot be read; here it does not even open."""
    tail = FileTail(tmp_path)
    assert list(tail.lines()) == []
    assert tail.problem == "Is a directory"


def test_a_file_that_its_server_has_forgotten_is_opened_again(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread ended, and evidence came from the log no more."""
    tail = FileTail(log)
    assert list(tail.lines()) == ["one"]

    def forgotten(handle: int) -> os.stat_result:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", forgotten)
        assert list(tail.lines()) == []
        assert tail.problem == "Stale file handle"
        assert list(tail.lines()) == [], "nor as it is opened"
    log.write_text("two\n")
    assert (list(tail.lines()), tail.problem) == (["two"], None)
    tail.close()


def test_a_pipe_that_takes_the_name_is_not_waited_for(log: Path) -> None:
    tail = FileTail(log)
    assert list(tail.lines()) == ["one"]
    log.unlink()
    os.mkfifo(log)
    assert list(tail.lines()) == []
    log.unlink()
    log.write_text("two\n")
    assert list(tail.lines()) == ["two"]
    tail.close()
