"""Brokers' logs as witnesses: read whole before a replay, or followed while the agent runs.

Owns files, the thread and the waiting; `agent.core.brokerlog` knows what lines mean.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from agent.common.threads import BackgroundThread
from agent.core.brokerlog.lines import LineReader, LocalToEpochMs
from agent.core.brokerlog.rebalances import BrokerLog
from agent.core.inference.external_evidence import EvidenceSource, RebalanceReport
from agent.kafka.source.logfile import FileTail, broker_log_file, lines_of, with_siblings
from analyzers.formatting import count_text

log = logging.getLogger("kshadow")

POLL_S = 0.5
WAIT_S = 0.2
"""How long an answer waits for lines that are not there yet, at most once in `WAIT_EVERY_S`."""

WAIT_EVERY_S = 2.0
FRESH_MS = 10_000
"""Only what happened so recently is worth waiting for."""

_STEP_S = 0.02


class _BrokerLogFile:
    """One broker's log: its lines, and what they told."""

    def __init__(self, path: Path, utc: LocalToEpochMs) -> None:
        self.path = path
        self._reader = LineReader(utc)
        self.broker = BrokerLog()

    def take(self, lines: Iterable[str]) -> None:
        self.broker.apply_all(self._reader.parse_all(lines))

    @property
    def recognized(self) -> int:
        """Lines of the group coordinator that were understood."""
        return self._reader.recognized

    def problems(self) -> dict[str, str]:
        """What keeps the log from being of use, by its kind."""
        out = {}
        reader, broker = self._reader, self.broker
        for quarters, times in broker.time_offsets.most_common(1):
            if times > broker.answered:
                hours, minutes = divmod(abs(quarters) * 15, 60)
                way = "before" if quarters > 0 else "after"
                out["time zone"] = (
                    f"broker log {self.path}: its times are {hours} h {minutes} min {way} those of the records: it"
                    " has the broker host's local time; say which zone with --broker-log-timezone"
                )
        if reader.unrecognized:
            out["not understood"] = (
                f"broker log {self.path}: lines of the group coordinator that were not understood: "
                f"{reader.unrecognized}, such as {reader.examples[-1]!r}"
            )
        return out


class BrokerLogs(EvidenceSource):
    """An `EvidenceSource`: several brokers' logs, each read whole with its rotated siblings."""

    def __init__(self, paths: Iterable[str | Path], utc: LocalToEpochMs) -> None:
        """Reads. Raises `SourcePathError` for a PATH that is no log."""
        self._sources: list[_BrokerLogFile] = []
        taken: set[Path] = set()
        for source in [_BrokerLogFile(broker_log_file(Path(path)), utc) for path in paths]:
            files = [it for it in with_siblings(source.path) if it.resolve() not in taken]
            taken |= {it.resolve() for it in files}
            for each in files:
                source.take(lines_of(each))
            if files:
                self._sources.append(source)

    def rebalance_report(self, group: str, generation: int, end_ms: int) -> RebalanceReport | None:
        """What the broker says that coordinated it; the first that knows."""
        return _first_report(self._sources, group, generation, end_ms)

    def report(self, say: Callable[[str], None]) -> None:
        """Say what is wrong with the logs."""
        for source in self._sources:
            problems = source.problems()
            for words in problems.values():
                say(words)
            if not source.recognized and not problems:
                say(
                    f"broker log {source.path}: no line of the group coordinator was found in it: it is another log,"
                    " in an encoding other than UTF-8, or of a broker that coordinated no group"
                )


class BrokerLogFollower(BackgroundThread, EvidenceSource):
    """An `EvidenceSource`: brokers' logs that grow, followed in a thread; read again before each answer."""

    def __init__(self, paths: Iterable[str | Path], utc: LocalToEpochMs) -> None:
        """Raises `SourcePathError` for a PATH that is no log now; one that goes later is waited for."""
        super().__init__("broker-log")
        self._followed = [
            (FileTail(file), _BrokerLogFile(file, utc)) for file in [broker_log_file(Path(it)) for it in paths]
        ]
        self._sources = [source for _, source in self._followed]
        self._lock = threading.Lock()
        self._next_patience = 0.0
        self._warned: set[tuple[Path, str]] = set()

    def start(self) -> None:
        """Read what is there, then go on in a thread."""
        with self._lock:
            self._read()
        for source in self._sources:
            log.info("broker log %s: %s of the group coordinator", source.path, count_text(source.recognized, "line"))
        super().start()

    def stop(self) -> None:
        """End the thread and let go of the files."""
        super().stop()
        for tail, _ in self._followed:
            tail.close()

    def rebalance_report(self, group: str, generation: int, end_ms: int) -> RebalanceReport | None:
        """What the broker says that coordinated it. Waits for a moment where its lines are still to come."""
        told, awaited = self._ask(group, generation, end_ms)
        if told is not None or not awaited or not self._may_wait(end_ms):
            return told
        deadline = time.monotonic() + WAIT_S
        self._next_patience = deadline + WAIT_EVERY_S
        while told is None and time.monotonic() < deadline:
            time.sleep(_STEP_S)
            told, _ = self._ask(group, generation, end_ms)
        return told

    def _ask(self, group: str, generation: int, end_ms: int) -> tuple[RebalanceReport | None, bool]:
        """The answer, and whether a better one may come."""
        with self._lock:
            self._read()
            awaited = any(source.broker.expects_generation(group, generation) for source in self._sources)
            return _first_report(self._sources, group, generation, end_ms), awaited

    def _may_wait(self, end_ms: int) -> bool:
        # The coordinator logs before it writes the record, so that only a log that is written late is waited for.
        return time.monotonic() >= self._next_patience and time.time() * 1000 - end_ms < FRESH_MS

    def _run(self) -> None:
        while not self._stop.wait(POLL_S):
            with self._lock:
                self._read()
                now = dict(self._problems())
            for key in now.keys() - self._warned:
                log.warning("%s", now[key])
            self._warned = set(now)

    def _read(self) -> None:
        for tail, source in self._followed:
            source.take(tail.lines())

    def _problems(self) -> Iterator[tuple[tuple[Path, str], str]]:
        for tail, source in self._followed:
            if tail.problem is not None:
                until = "until it is back rebalances are explained from the topic alone"
                yield (source.path, "missing"), f"broker log {tail.path}: {tail.problem}; {until}"
            for kind, words in source.problems().items():
                yield (source.path, kind), words


def _first_report(
    sources: Iterable[_BrokerLogFile], group: str, generation: int, end_ms: int
) -> RebalanceReport | None:
    reports = (it.broker.rebalance_report(group, generation, end_ms) for it in sources)
    return next((it for it in reports if it is not None), None)
