"""Each record is one line that shows what it holds and does nothing, in both forms."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from agent.common import logs
from agent.common.logs import MAX_LINE_BYTES, MAX_REPEATS, JsonFormatter, LogHandler, RepeatLimiter, TextFormatter
from tests.unit.cli.hostile import LETTERS, TEXTS, raw

EVERY = [pytest.param(text, id=name) for name, text in {**TEXTS, **LETTERS}.items()]
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ")


class Written:
    """A logger of its own, and what it wrote."""

    def __init__(self, form: str, **repeats: Any) -> None:
        self.stream = io.StringIO()
        self.handler = LogHandler(self.stream, RepeatLimiter(**repeats))
        self.handler.setFormatter({"text": TextFormatter, "json": JsonFormatter}[form]())
        self.log = logging.Logger("kshadow.test", logging.DEBUG)
        self.log.addHandler(self.handler)

    def lines(self) -> list[str]:
        text = self.stream.getvalue()
        assert text == "" or text.endswith("\n")
        return text.split("\n")[:-1]

    def line(self) -> str:
        (line,) = self.lines()
        assert raw(line) == []
        assert len(line.encode()) < MAX_LINE_BYTES
        return line

    def form(self) -> dict[str, Any]:
        line = self.line()
        assert line.isascii()
        form: dict[str, Any] = json.loads(line)
        return form


@pytest.mark.parametrize("text", EVERY)
def test_hostile_records(text: str) -> None:
    for kind in logs.FORMATS:
        it = Written(kind)
        it.log.warning("group %s left", text)
        it.line()
        it = Written(kind)
        it.log.warning(text, extra={"group": text, "more": [text], "count": 3})
        it.line()
        it = Written(kind)
        try:
            try:
                raise ValueError(text)
            except ValueError as error:
                raise RuntimeError(text) from error
        except RuntimeError:
            it.log.exception("failed: %s", text)
        it.line()
    it = Written("json")
    it.log.warning("group %s left", text, extra={"group": text})
    form = it.form()
    if len(text) < 1000:
        assert form["msg"] == f"group {text} left"
        assert form["group"] == text
    else:
        assert form["msg"].startswith("group long x\x1bx")
        assert form["msg"].endswith("…")


def test_the_fields_of_a_json_line() -> None:
    it = Written("json")
    it.log.info("took %d", 3, extra={"took_s": 0.5, "ok": True, "nothing": None, "nan": float("nan"), "level": "x"})
    form = it.form()
    assert re.fullmatch(STAMP, form.pop("ts") + " ")
    assert form == {
        "level": "info",
        "logger": "kshadow.test",
        "msg": "took 3",
        "took_s": 0.5,
        "ok": True,
        "nothing": None,
        "nan": "nan",
    }


def test_a_text_line() -> None:
    it = Written("text")
    it.log.warning("größe\n%s", "x", extra={"group": 'a" level=b', "n": 1})
    line = it.line()
    assert STAMP.match(line)
    assert line[25:] == 'WARNING kshadow.test: größe\\u000ax group="a\\" level=b" n=1'


def test_an_exception_keeps_its_words_and_where_it_was() -> None:
    for form in logs.FORMATS:
        it = Written(form)
        try:
            try:
                raise KeyError("inner")
            except KeyError as error:
                raise RuntimeError("outer") from error
        except RuntimeError:
            it.log.exception("failed")
        line = it.line()
        assert "RuntimeError: outer" in line
        assert "KeyError: 'inner'" in line
        assert "test_logs.py" in line
        assert "in test_an_exception_keeps_its_words" in line


def test_an_exception_that_hides_its_context() -> None:
    it = Written("json")
    try:
        try:
            raise KeyError("inner")
        except KeyError:
            raise RuntimeError("outer") from None
    except RuntimeError:
        it.log.exception("failed")
    assert "inner'" not in it.form()["exception"].replace('KeyError("inner', "")


def test_long_lines_are_cut_and_stay_whole_json() -> None:
    for text in ("x" * 100_000, "\x1b" * 100_000, "\U0001f600" * 100_000, "日" * 100_000):
        for form in logs.FORMATS:
            it = Written(form)
            it.log.info(text, extra={"group": text, "other": text})
            assert len(it.line()) > 500
        assert set(it.form()) == {"ts", "level", "logger", "msg", "group", "other"}


def test_what_repeats_is_counted() -> None:
    it = Written("json", most=3, window_s=3600)
    for number in range(1000):
        it.log.warning("offset %d: bad", number)
        if number % 500 == 0:
            it.log.warning("something else")
        it.log.debug("detail")
    it.handler.close()
    forms = [json.loads(line) for line in it.lines()]
    said = [form["msg"] for form in forms if form["level"] == "warning"]
    assert said == [
        "offset 0: bad",
        "something else",
        "offset 1: bad",
        "offset 2: bad",
        "something else",
        "suppressed 997 more like: offset 999: bad",
    ]
    assert forms[-1]["suppressed"] == 997
    assert sum(form["level"] == "debug" for form in forms) == 1000


def test_a_window_that_ends_tells_and_begins_anew() -> None:
    it = RepeatLimiter(most=2, window_s=60)
    place = ("l", 30, "f.py", 1, "m")
    assert [it.admits(place, 0.0) for _ in range(5)] == [True, True, False, False, False]
    assert list(it.ended(59.9)) == []
    assert list(it.ended(60.0)) == [(place, 3)]
    assert it.admits(place, 60.0)
    assert list(it.ended(120.0)) == []


def test_places_are_bounded() -> None:
    it = RepeatLimiter(most=1, window_s=60, places=10)
    for number in range(100):
        place = ("l", 30, "f.py", number, "m")
        it.admits(place, 0.0)
        it.admits(place, 0.0)
        assert len(list(it.ended(0.0))) == (number >= 10)


def test_librdkafka_repeats_by_facility() -> None:
    it = Written("text", most=1, window_s=3600)
    it.log.name = logs.LIBRDKAFKA
    for facility in ("FAIL", "FAIL", "MAXPOLL"):
        it.log.error("%s [%s] %s", facility, "k#consumer-1", "broker says\nno")
    assert [line.split(": ", 1)[1] for line in it.lines()] == [
        "FAIL [k#consumer-1] broker says\\u000ano",
        "MAXPOLL [k#consumer-1] broker says\\u000ano",
    ]
    it.log.error("%s [%s] %s", "FAIL", "k#consumer-1", "as the client is closed")
    assert len(it.lines()) == 2, "from wherever it comes"


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no\nwords")


def test_a_record_that_cannot_be_written_is_told_of() -> None:
    it = Written("text")
    it.log.warning("%s", Unspeakable())
    it.log.warning("a\nb %d", "x")
    assert it.lines() == [
        "a record of logger kshadow.test could not be written: RuntimeError: '%s'",
        "a record of logger kshadow.test could not be written: TypeError: 'a\\nb %d'",
    ]


def test_a_stream_that_takes_no_more() -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    handler = LogHandler(Full())
    handler.setFormatter(TextFormatter())
    log = logging.Logger("kshadow.test")
    log.addHandler(handler)
    log.warning("lost")


@pytest.fixture
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    before = root.level, list(root.handlers), sys.excepthook, sys.unraisablehook
    yield
    logging.captureWarnings(False)
    root.setLevel(before[0])
    root.handlers[:], sys.excepthook, sys.unraisablehook = before[1:]


@pytest.mark.usefixtures("as_before")
def test_the_level_changes_at_run_time() -> None:
    stream = io.StringIO()
    logs.configure("text", "warning", stream)
    log = logging.getLogger("kshadow.some")
    log.info("one")
    logs.set_level("info")
    log.info("two")
    logs.set_level("error")
    log.warning("three")
    assert [line.split(": ")[1] for line in stream.getvalue().splitlines()] == ["two"]


PROGRAM = """
import gc, logging, sys, threading, time, warnings
from agent.common import logs
logs.configure(sys.argv[1], "info")
warnings.warn("a warning\\nof \\x1b[2J two lines")
logging.getLogger("uvicorn.error").error("uvicorn\\nsays")
def fail(): raise ValueError("in a thread\\n\\x1b[2J")
thread = threading.Thread(target=fail, name="worker\\n")
thread.start(); thread.join()
class Ends:
    def __del__(self): raise ValueError("at the end\\n\\x1b[2J")
Ends()
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "client.id": "a\\n\\x1b[2J"},
    logger=logging.getLogger(logs.LIBRDKAFKA))
is_told = []
logging.getLogger(logs.LIBRDKAFKA).addFilter(lambda record: is_told.append(record) or True)
began = time.monotonic()
while time.monotonic() < began + (1 if is_told else 20):
    consumer.poll(0.05)
consumer.close()
raise RuntimeError("nobody catches\\n\\x1b[2J")
"""


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("form", logs.FORMATS)
def test_what_ends_up_in_the_log_by_itself(form: str) -> None:
    """Warnings, the web server, librdkafka, and exceptions that nobody caught, in a thread or at the end."""
    ended = subprocess.run(
        [sys.executable, "-W", "default", "-c", PROGRAM, form], capture_output=True, text=True, timeout=30
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    lines = ended.stderr.split("\n")[:-1]
    for line in lines:
        assert raw(line) == []
        assert json.loads(line)["ts"] + " " if form == "json" else STAMP.match(line), line
    for said in ("a warning", "uvicorn", "in a thread", "at the end", "Connect to ipv4", "nobody catches"):
        assert any(said in line for line in lines), (said, lines)
    # A library may say it more often than is written: then one more line says how many were not.
    of_brokers = [line for line in lines if "Connect to ipv4" in line]
    assert 1 <= sum("more like" not in line for line in of_brokers) <= MAX_REPEATS
    assert sum("more like" in line for line in of_brokers) <= 1
