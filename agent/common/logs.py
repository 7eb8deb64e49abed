"""Logging: one record is one line, as text or as a JSON object, whatever the record holds.

Log records quote strangers: names of groups, what a broker answered, an exception's words. So a line break or an
escape sequence of theirs is shown as an escape, a line has at most `MAX_LINE_BYTES`, and what one place in the code
says again and again (a million records that cannot be decoded) is counted after `MAX_REPEATS` a minute.

Everything goes through here: `configure` takes over the root logger, Python's warnings, and exceptions that nobody
caught. librdkafka logs to `LIBRDKAFKA` where its client is given `logger=logging.getLogger(LIBRDKAFKA)`.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, NamedTuple, TextIO

from agent.common.sanitize import printable

LIBRDKAFKA = "librdkafka"

FORMATS = ("text", "json")
MAX_LINE_BYTES = 8192
"""Of one line, its end included: what a pipe or a collector of logs takes in one piece."""
MAX_REPEATS = 20
WINDOW_S = 60.0
"""How many lines of one place in the code there are in how long; further ones are counted."""
MAX_CALL_SITES = 1_000
"""How many such places are remembered at a time: the oldest is forgotten."""
MAX_CHAINED_EXCEPTIONS = 4
"""Exceptions of a chain that are told."""

CLUSTER: ContextVar[str | None] = ContextVar("cluster", default=None)
"""The cluster that log records are about, where a process reads several: each has it as a field."""

_MORE = "…"
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What each record has. Whatever else it has was passed as `extra`."""

CallSite = tuple[str, int, str, int, str]


class RepeatLimiter:
    """How often each place has logged in its window of time. Knows no clock."""

    def __init__(self, most: int = MAX_REPEATS, window_s: float = WINDOW_S, places: int = MAX_CALL_SITES) -> None:
        self._most, self._window_s, self._places = most, window_s, places
        # By when their window began, which is the order of a dict.
        self._began: dict[CallSite, float] = {}
        self._counts: dict[CallSite, int] = {}

    def admits(self, place: CallSite, now: float) -> bool:
        """Whether one more may be logged."""
        if place not in self._began:
            self._began[place] = now
            self._counts[place] = 0
        self._counts[place] += 1
        return self._counts[place] <= self._most

    def ended(self, now: float) -> Iterator[tuple[CallSite, int]]:
        """Places whose window is over, or that are too many, and how many each did not get to log (if any)."""
        while self._began:
            place, began = next(iter(self._began.items()))
            if now - began < self._window_s and len(self._began) <= self._places:
                return
            del self._began[place]
            suppressed = self._counts.pop(place) - self._most
            if suppressed > 0:
                yield place, suppressed


class LogHandler(logging.StreamHandler[TextIO]):
    """Writes records as lines to a stream; of one call site no more than `MAX_REPEATS` a minute."""

    def __init__(self, stream: TextIO, repeats: RepeatLimiter | None = None) -> None:
        super().__init__(stream)
        self._repeats = repeats or RepeatLimiter()
        # The last line of each place that was suppressed, until that is told.
        self._suppressed: dict[CallSite, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write it, unless its place has said enough. Details (`debug`) that someone asked for are not counted."""
        if (cluster := CLUSTER.get()) is not None:
            record.cluster = cluster
        now = time.monotonic()
        self._tell_suppressed(now)
        place = _call_site(record)
        if record.levelno <= logging.DEBUG or self._repeats.admits(place, now):
            super().emit(record)
        else:
            self._suppressed[place] = _message(record)

    def close(self) -> None:
        """Write how many lines were suppressed, then close."""
        with self.lock or threading.RLock():
            self._tell_suppressed(math.inf)
        super().close()

    def _tell_suppressed(self, now: float) -> None:
        for place, count in self._repeats.ended(now):
            name, level, _, _, _ = place
            made = logging.makeLogRecord({"name": name, "levelno": level, "levelname": logging.getLevelName(level)})
            made.msg, made.args = "suppressed %d more like: %s", (count, self._suppressed.pop(place, place[-1]))
            made.suppressed = count
            super().emit(made)

    def handleError(self, record: logging.LogRecord) -> None:
        """Python's own would print the record raw. A stream that takes no more has nobody to tell."""
        error = sys.exc_info()[1]
        if isinstance(error, OSError | ValueError) and not isinstance(error, UnicodeError):
            return
        said = f"a record of logger {record.name} could not be written: {type(error).__name__}: {record.msg!r}"
        self.stream.write(printable(said)[:1000] + self.terminator)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  # what it is about has no words
        return str(record.msg)


def _call_site(record: logging.LogRecord) -> CallSite:
    if record.name == LIBRDKAFKA and isinstance(record.args, tuple) and record.args:
        # Its lines come from wherever the client is polled or closed: only the facility (`FAIL`) tells them apart.
        return record.name, record.levelno, "", 0, str(record.args[0])
    return record.name, record.levelno, record.pathname, record.lineno, str(record.msg)[:200]


class _RecordParts(NamedTuple):
    """What a record says: time, message, `extra` fields, exception text or None."""

    ts: str
    message: str
    fields: dict[str, Any]
    exception: str | None


def _parts(record: logging.LogRecord) -> _RecordParts:
    moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    error = record.exc_info[1] if record.exc_info else None
    return _RecordParts(
        ts=moment.removesuffix("+00:00") + "Z",
        message=record.getMessage().rstrip("\n"),
        fields={key: _value(it) for key, it in vars(record).items() if key not in _OWN},
        exception=None if error is None else _exception_text(error),
    )


def _value(value: object) -> Any:
    """A field's value as JSON has it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)


def _exception_text(error: BaseException) -> str:
    """An exception and those it came from, each with the innermost of its frames."""
    told: list[str] = []
    link: BaseException | None = error
    while link is not None and len(told) < MAX_CHAINED_EXCEPTIONS:
        frames = "".join(traceback.format_tb(link.__traceback__))
        told.append(f"{type(link).__name__}: {_truncated(str(link), 500)}\n{frames[-1000:]}".rstrip())
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return "\nfrom ".join(told)


def _truncated(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + _MORE


class TextFormatter(logging.Formatter):
    """`2026-11-21T07:28:14.123Z WARNING kshadow: what happened field="value" exception="…"`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        it = _parts(record)
        fields = "".join(f" {key}={json.dumps(value, ensure_ascii=False)}" for key, value in it.fields.items())
        exception = "" if it.exception is None else " | " + " | ".join(map(str.strip, it.exception.split("\n")))
        # An escape may be ten times as long as its character: cut before and after.
        text = f"{it.ts} {record.levelname} {record.name}: {_truncated(it.message, MAX_LINE_BYTES)}"
        text += _truncated(fields, MAX_LINE_BYTES)
        line = printable(text + exception).encode("utf-8", "backslashreplace")
        if len(line) < MAX_LINE_BYTES:
            return line.decode()
        return line[: MAX_LINE_BYTES - 1 - len(_MORE.encode())].decode("utf-8", "ignore") + _MORE


class JsonFormatter(logging.Formatter):
    """One JSON object: `ts`, `level`, `logger`, `msg`, the fields passed as `extra`, and `exception`. All ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        it = _parts(record)
        most = MAX_LINE_BYTES
        while True:
            form = {
                "ts": it.ts,
                "level": record.levelname.lower(),
                "logger": record.name,
                "msg": _truncated(it.message, most),
            }
            for key, value in it.fields.items():
                form.setdefault(key, _truncated(value, most) if isinstance(value, str) else value)
            if it.exception is not None:
                form["exception"] = _truncated(it.exception, most)
            line = json.dumps(form).replace("\x7f", "\\u007f")
            if len(line) < MAX_LINE_BYTES or most < 16:
                return line
            most //= 2


_FORMATTERS = {"text": TextFormatter, "json": JsonFormatter}


def configure(form: str = "text", level: str = "info", stream: TextIO | None = None) -> LogHandler:
    """Log to `stream` (standard error unless told) from now on, and nowhere else. `form` is one of `FORMATS`."""
    handler = LogHandler(stream or sys.stderr)
    handler.setFormatter(_FORMATTERS[form]())
    logging.basicConfig(handlers=[handler], force=True)
    set_level(level)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.unraisablehook = _unraisable
    return handler


def set_level(level: str) -> None:
    """How much is logged from now on: `debug`, `info`, `warning` or `error`."""
    logging.getLogger().setLevel(level.upper())


_log = logging.getLogger("kshadow")


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    _log.critical("nobody caught this; the process ends", exc_info=(kind, error, trace))


def _uncaught_in_thread(it: threading.ExceptHookArgs) -> None:
    if it.exc_value is not None and it.exc_type is not SystemExit:
        name = it.thread.name if it.thread else "?"
        _log.error("thread %s ended: nobody caught this", name, exc_info=it.exc_value)


def _unraisable(it: sys.UnraisableHookArgs) -> None:
    _log.error("%s %r", it.err_msg or "an exception was ignored in", it.object, exc_info=it.exc_value)
