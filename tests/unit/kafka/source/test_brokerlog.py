"""Brokers' logs as witnesses: read whole, and followed."""

from __future__ import annotations

import gzip
import logging
import shutil
import threading
import time
from pathlib import Path

import pytest

from agent.core.causes import Cause
from agent.kafka.source import brokerlog
from agent.kafka.source.brokerlog import BrokerLogFollower, BrokerLogs
from agent.kafka.source.errors import SourceMisconfigured, SourcePathError
from agent.kafka.source.time_zones import time_zone
from tests.unit.core.brokerlog.test_lines import REAL
from tests.unit.core.brokerlog.test_rebalances import T0, preparing, stabilized
from tests.waiting import until

UTC = time_zone("UTC")
JAVA, JAVA_ENDED_MS = "ads-java-2784", 1_795_256_248_059


# 1-9: what a clock on the wall shows at some moment, and what it means.
@pytest.mark.parametrize(
    ("zone", "local_h"),
    [
        ("UTC", 12.0),  # 1
        ("utc", 12.0),  # 2
        ("+02:00", 14.0),  # 3
        ("-0530", 6.5),  # 4
        ("Europe/Berlin", 13.0),  # 5: winter
        ("America/St_Johns", 8.5),  # 6
        ("Asia/Kolkata", 17.5),  # 7
    ],
)
def test_zones(zone: str, local_h: float) -> None:
    noon_ms = 1_795_262_400_123
    utc = time_zone(zone)
    assert utc(noon_ms + round((local_h - 12) * 3_600_000)) == noon_ms


def test_a_zone_changes_over_the_year() -> None:
    utc = time_zone("Europe/Berlin")
    july_ms = 1_782_907_200_000
    assert july_ms - utc(july_ms) == 2 * 3_600_000


def test_the_local_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        utc = time_zone("local")
        assert utc(T0) - T0 == 5 * 3_600_000
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../../etc/passwd", "+24:00", "+2", "Europe"])
def test_no_zone(zone: str) -> None:
    with pytest.raises(SourceMisconfigured, match="time zone: expected"):
        time_zone(zone)


# Whole.


def split(directory: Path) -> Path:
    """The real 3.9.2 log as a broker with rotation leaves it."""
    lines = (REAL / "3.9.2.log").read_text().splitlines(keepends=True)
    (directory / "server.log.2026-11-21-09.gz").write_bytes(gzip.compress("".join(lines[:7]).encode()))
    (directory / "server.log.2026-11-21-10").write_text("".join(lines[7:12]))
    (directory / "server.log").write_text("".join(lines[12:]))
    return directory


@pytest.mark.parametrize("name", ["", "server.log"])
def test_a_log_is_read_with_what_was_rotated_away(tmp_path: Path, name: str) -> None:
    logs = BrokerLogs([split(tmp_path) / name], UTC)
    told = logs.rebalance_report(JAVA, 3, JAVA_ENDED_MS)
    assert told is not None
    assert (told.cause, told.began_ms) == (Cause.SESSION_TIMEOUT, JAVA_ENDED_MS - 1942)
    said: list[str] = []
    logs.report(said.append)
    assert said == []


def test_each_broker_has_its_own(tmp_path: Path) -> None:
    """The group moves from one to the other in the middle; files that are named twice are read once."""
    one, two = tmp_path / "1.log", tmp_path / "2.log"
    one.write_text(
        preparing(1, 3, "Adding new member m-1 with") + stabilized(2, 4) + preparing(9, 4, "Adding new member m")
    )
    two.write_text(preparing(11, 4, "removing member m-2 on heartbeat expiration") + stabilized(12, 5))
    logs = BrokerLogs([two, one, one], UTC)
    first, second = logs.rebalance_report("g", 4, T0 + 2000), logs.rebalance_report("g", 5, T0 + 12_000)
    assert first is not None
    assert second is not None
    assert (first.cause, second.cause) == (Cause.MEMBER_JOINED, Cause.SESSION_TIMEOUT)
    assert logs.rebalance_report("g", 6, T0 + 13_000) is None
    with pytest.raises(SourcePathError):
        BrokerLogs([one, tmp_path / "3.log"], UTC)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_log_without_a_word_of_the_coordinator_is_told(tmp_path: Path, encoding: str) -> None:
    """Else who names the wrong file takes what is inferred for what it states."""
    wrong, right = tmp_path / "controller.log", tmp_path / "server.log"
    line = stabilized(2, 4) if encoding == "utf-16" else "[2026-11-21 10:00:00,000] INFO Started (kafka.Kafka)\n"
    wrong.write_text(line, encoding=encoding)
    right.write_text(stabilized(2, 4))
    said: list[str] = []
    BrokerLogs([wrong, right, right], UTC).report(said.append)
    (words,) = said
    assert words.startswith(f"broker log {wrong}: no line of the group coordinator was found in it: ")


def test_what_is_wrong_with_a_log_is_said(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(preparing(1, 3, "x") + stabilized(2, 4) + stabilized(3, 5)[:70] + "\n")
    logs = BrokerLogs([path], time_zone("+01:30"))
    assert logs.rebalance_report("g", 4, T0 + 2000) is None
    said: list[str] = []
    logs.report(said.append)
    zone, torn = said
    assert "its times are 1 h 30 min before those of the records" in zone
    assert "--broker-log-timezone" in zone
    assert "not understood: 1, such as 'Stabil" in torn
    # Where it fits more often than not, a group that was made anew is the better explanation.
    logs = BrokerLogs([path], UTC)
    assert logs.rebalance_report("g", 4, T0 + 2000) is not None
    assert logs.rebalance_report("g", 4, T0 + 2000 - 3_600_000) is None
    said.clear()
    logs.report(said.append)
    assert "times" not in "".join(said)
    assert logs.rebalance_report("g", 4, T0 + 2000 - 3_600_000) is None
    logs.report(said.append)
    assert "1 h 0 min after those" in "".join(said)


# Followed.


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text(preparing(1, 3, "Adding new member m-1 with") + stabilized(2, 4))
    return path


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_lines_are_known_when_they_are_asked_for(log: Path) -> None:
    follower = BrokerLogFollower([log], UTC)
    follower.start()
    try:
        assert follower.rebalance_report("g", 4, T0 + 2000) is not None
        assert follower.rebalance_report("g", 5, T0 + 12_000) is None
        add(log, preparing(11, 4, "removing member m-2 on heartbeat expiration") + stabilized(12, 5))
        told = follower.rebalance_report("g", 5, T0 + 12_000)
        assert told is not None
        assert told.cause is Cause.SESSION_TIMEOUT
    finally:
        follower.stop()
    with pytest.raises(SourcePathError):
        BrokerLogFollower([log.parent / "nothing"], UTC)


def test_fresh_lines_that_are_late_are_waited_for(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment, and not again at once; what is old, or of others, not at all."""
    monkeypatch.setattr(time, "time", lambda: T0 / 1000 + 12)
    follower = BrokerLogFollower([log], UTC)
    follower.start()

    def took(group: str, generation: int, end_ms: int) -> tuple[float, bool]:
        began = time.monotonic()
        told = follower.rebalance_report(group, generation, end_ms)
        return time.monotonic() - began, told is not None

    try:
        late = preparing(11, 4, "removing member m-2 on heartbeat expiration") + stabilized(12, 5)
        timer = threading.Timer(0.08, add, (log, late))
        timer.start()
        seconds, known = took("g", 5, T0 + 12_000)
        timer.join()
        assert known
        assert seconds < brokerlog.WAIT_S
        # It waited just now.
        seconds, known = took("g", 6, T0 + 12_000)
        assert not known
        assert seconds < brokerlog.WAIT_S
        follower._next_patience = 0.0
        assert took("g", 6, T0 + 12_000)[0] >= brokerlog.WAIT_S
        for group, generation, end_ms in (("g", 6, T0), ("g", 8, T0 + 12_000), ("h", 6, T0 + 12_000)):
            follower._next_patience = 0.0
            assert took(group, generation, end_ms)[0] < brokerlog.WAIT_S
    finally:
        follower.stop()


def test_trouble_is_said_once_and_again_when_it_comes_back(
    log: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokerlog, "POLL_S", 0.01)
    caplog.set_level(logging.INFO, "kshadow")

    def said(times: int) -> None:
        line = "No such file or directory; until it is back"
        until(lambda: caplog.text.count(line) >= times, said=lambda: caplog.text)

    follower = BrokerLogFollower([log], UTC)
    follower.start()
    try:
        assert "2 lines of the group coordinator" not in caplog.text
        assert "3 lines of the group coordinator" in caplog.text
        shutil.move(log, log.with_suffix(".old"))
        said(1)
        time.sleep(0.1)
        said(1)
        assert caplog.text.count("until it is back") == 1
        log.write_text(preparing(21, 5, "Adding new member m-1 with") + stabilized(22, 6))
        until(lambda: not follower._warned)
        assert follower.rebalance_report("g", 6, T0 + 22_000) is not None
        log.unlink()
        said(2)
    finally:
        follower.stop()
