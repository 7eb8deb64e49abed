"""The spool: order, what a crash leaves, a full disk, damage."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent.persistence.export.errors import SpoolLocked, SpoolUnusable
from agent.persistence.export.spool import PAGE_BYTES, Spool
from tests import examples

MANY = 1 << 20


def open_spool(directory: Path, size: int = MANY) -> Spool:
    return Spool(directory, size)


def payloads(first: int, count: int) -> list[bytes]:
    return [b"event %d" % number for number in range(first, first + count)]


def drained(spool: Spool) -> list[bytes]:
    out: list[bytes] = []
    while spool.has_more:
        some, end = spool.read(3, MANY)
        out += some
        spool.acknowledge(end)
    return out


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A directory with 40 events, and nobody at it."""
    spool = open_spool(tmp_path / "spool")
    assert spool.append(0, payloads(0, 40)) == 40
    spool.close()
    return tmp_path / "spool"


def test_what_was_appended_is_read_in_order_and_deleted_when_done(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    assert spool.append(0, payloads(0, 2_000)) == 2_000
    spool.acknowledge(0)
    assert spool.peek() == b"event 0"
    assert spool.size_bytes > 10 * PAGE_BYTES
    assert drained(spool) == payloads(0, 2_000)
    assert spool.size_bytes == 0
    assert spool.append(2_000, payloads(2_000, 2)) == 2, "and goes on"
    assert spool.size_bytes < 10 * PAGE_BYTES, "in the room that was freed"
    assert drained(spool) == payloads(2_000, 2)
    spool.close()
    assert (tmp_path / "spool.sqlite").stat().st_size < 20 * PAGE_BYTES


def test_a_restart_goes_on_where_it_was(kept: Path) -> None:
    spool = open_spool(kept)
    first, end = spool.read(7, MANY)
    assert first == payloads(0, 7)
    spool.acknowledge(end)
    second, _ = spool.read(7, MANY)
    assert second == payloads(7, 7), "read and not acknowledged"
    assert spool.append(40, payloads(40, 5)) == 5
    spool.close()

    again = open_spool(kept)
    assert (again.start, again.end) == (7, 45)
    assert drained(again) == payloads(7, 38)
    again.close()
    empty = open_spool(kept)
    assert (empty.start, empty.end, empty.has_more) == (45, 45, False)
    empty.close()


def test_who_still_reads_when_it_is_closed_finds_nothing_and_loses_nothing(
    kept: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = open_spool(kept)
    spool.read(7, MANY)
    spool.close()
    assert not spool.has_more
    assert spool.peek() is None
    assert drained(spool) == []
    assert caplog.text == ""
    again = open_spool(kept)
    assert drained(again) == payloads(0, 40)
    again.close()


def test_an_acknowledgement_of_what_was_not_read_passes_over_it(kept: Path) -> None:
    spool = open_spool(kept)
    spool.acknowledge(33)
    assert drained(spool) == payloads(33, 7)
    spool.close()


def test_a_batch_is_as_large_as_asked_and_has_one_at_least(kept: Path) -> None:
    spool = open_spool(kept)
    assert spool.read(10, 1)[0] == payloads(0, 1)
    assert spool.read(10, 15)[0] == payloads(1, 2)
    spool.close()


def test_two_processes_do_not_write_to_one_spool(kept: Path) -> None:
    spool = open_spool(kept)
    with pytest.raises(SpoolLocked, match="expected to be alone, another process writes there"):
        open_spool(kept)
    spool.close()
    open_spool(kept).close()


def test_a_directory_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolUnusable, match="expected a directory to write to"):
        open_spool(tmp_path / "file")


def test_a_file_system_without_locks_is_not_said_to_have_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))  # as of NFS without its lock manager

    monkeypatch.setattr("agent.persistence.export.spool.fcntl.flock", refuses)
    with pytest.raises(SpoolUnusable, match="No locks available"):
        open_spool(tmp_path)


def test_its_bound_is_kept_and_what_is_consumed_makes_room(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, size=100_000)
    large = [it + bytes(1_000) for it in payloads(0, 200)]
    taken = sum(spool.append(at, large[at : at + 10]) for at in range(0, 70, 10))
    taken += spool.append(taken, large[taken:])
    assert 50 < taken < 100
    assert spool.size_bytes <= 100_000 + PAGE_BYTES
    assert (spool.error or "").startswith("the spool is full: ")
    assert drained(spool) == large[:taken]
    assert spool.error is None, "there is room, whoever asks first"
    assert spool.append(taken, large[taken : taken + 3]) == 3
    spool.close()


def test_a_full_disk_takes_nothing_and_nothing_is_torn(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert spool.append(0, payloads(0, 10)) == 10
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "spool.sqlite-wal").stat().st_size + 20, before[1]))
    try:
        assert spool.append(10, payloads(10, 1_000)) == 0
        assert spool.error is not None
        assert spool.read(5, MANY)[0] == payloads(0, 5), "what is there is given meanwhile"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert spool.append(10, payloads(10, 10)) == 10
    assert spool.error is None
    assert drained(spool) == payloads(5, 15)
    spool.close()


def test_who_was_killed_goes_on_where_the_disk_is_full(tmp_path: Path) -> None:
    """Nothing is written until there is something to write, and no other file is made."""
    spool = open_spool(tmp_path / "spool")
    assert spool.append(0, payloads(0, 10)) == 10
    left = Path(shutil.copytree(tmp_path / "spool", tmp_path / "left"))
    spool.close()
    files = {it.name: it.stat().st_size for it in left.iterdir()}
    assert files.keys() == {"lock", "spool.sqlite", "spool.sqlite-wal"}
    again = open_spool(left)
    assert {it.name: it.stat().st_size for it in left.iterdir()} == files
    assert drained(again) == payloads(0, 10)
    again.close()


@pytest.fixture
def large(tmp_path: Path) -> tuple[Path, list[bytes]]:
    """A directory with 200 events of a quarter of a page, and nobody at it."""
    events = [it + bytes(1_000) for it in payloads(0, 200)]
    spool = open_spool(tmp_path / "spool")
    assert spool.append(0, events) == 200
    spool.close()
    return tmp_path / "spool", events


def test_a_damaged_event_costs_itself(large: tuple[Path, list[bytes]], caplog: pytest.LogCaptureFixture) -> None:
    directory, events = large
    file = directory / "spool.sqlite"
    file.write_bytes(file.read_bytes().replace(b"event 57\0", b"event 75\0"))
    spool = open_spool(directory)
    assert drained(spool) == events[:57] + events[58:]
    assert spool.lost == 1
    assert "damaged and lost: 1 event\n" in caplog.text
    assert spool.append(200, events[:1]) == 1
    assert drained(spool) == events[:1]
    spool.close()


@pytest.mark.parametrize("filling", [b"\0", b"\xff"])
def test_a_damaged_page_costs_the_events_on_it(large: tuple[Path, list[bytes]], filling: bytes) -> None:
    directory, events = large
    file = directory / "spool.sqlite"
    data = bytearray(file.read_bytes())
    page = data.index(b"event 57\0") // PAGE_BYTES * PAGE_BYTES
    data[page : page + PAGE_BYTES] = filling * PAGE_BYTES
    file.write_bytes(data)
    spool = open_spool(directory)
    found = drained(spool)
    assert 1 <= spool.lost <= 4
    assert len(found) + spool.lost == 200
    assert found == [it for it in events if it in found]
    assert spool.append(200, events[:1]) == 1, "in a new database"
    assert drained(spool) == events[:1]
    spool.close()


def test_a_database_that_is_none_is_kept_aside(kept: Path, caplog: pytest.LogCaptureFixture) -> None:
    (kept / "spool.sqlite").write_bytes(b"x" * 10_000)
    spool = open_spool(kept)
    assert "is damaged, kept aside as spool.damaged" in caplog.text
    assert (kept / "spool.damaged").exists()
    assert (spool.start, spool.end) == (0, 0)
    assert spool.append(0, payloads(0, 3)) == 3
    assert drained(spool) == payloads(0, 3)
    spool.close()


def test_an_unfinished_write_is_not_there(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "spool")
    spool.append(0, payloads(0, 10))
    spool.append(10, payloads(10, 10))
    shutil.copytree(tmp_path / "spool", tmp_path / "crashed")
    spool.close()
    os.truncate(
        tmp_path / "crashed" / "spool.sqlite-wal", (tmp_path / "crashed" / "spool.sqlite-wal").stat().st_size - 1
    )
    again = open_spool(tmp_path / "crashed")
    assert drained(again) == payloads(0, 10)
    assert again.lost == 0
    again.close()


def crashed(directory: Path, to: Path) -> list[bytes]:
    """What the next process finds after a kill -9 now."""
    shutil.copytree(directory, to)
    again = open_spool(to)
    found = drained(again)
    assert again.lost == 0
    again.close()
    return found


@pytest.mark.parametrize("how", ["deleted", "moved", "log deleted", "lock deleted"])
def test_what_was_deleted_or_moved_is_put_there_again(tmp_path: Path, how: str) -> None:
    place = tmp_path / "state" / "spool"
    spool = open_spool(place)
    spool.append(0, payloads(0, 30))
    assert spool.read(10, MANY) == (payloads(0, 10), 10)
    spool.acknowledge(10)
    match how:
        case "deleted":
            shutil.rmtree(tmp_path / "state")
        case "moved":
            place.rename(tmp_path / "elsewhere")
        case "log deleted":
            (place / "spool.sqlite-wal").unlink()
        case _:
            (place / "lock").unlink()
    handle = spool.handle()
    assert handle is not None
    os.close(handle)
    with pytest.raises(SpoolLocked):
        open_spool(place)
    assert crashed(place, tmp_path / "first") == payloads(10, 20), "told to be safe"
    shutil.rmtree(place)
    assert spool.append(30, payloads(30, 10)) == 10
    assert crashed(place, tmp_path / "second") == payloads(10, 30)
    assert drained(spool) == payloads(10, 30), "and nothing comes twice, or out of order"
    spool.close()


def test_what_another_put_there_stays_and_nothing_is_told_to_be_safe(tmp_path: Path, kept: Path) -> None:
    spool = open_spool(tmp_path / "ours")
    spool.append(0, payloads(0, 3))
    (tmp_path / "ours").rename(tmp_path / "elsewhere")
    shutil.copytree(kept, tmp_path / "ours")
    with pytest.raises(OSError, match="another spool lies where ours was"):
        spool.handle()
    assert spool.append(3, payloads(3, 3)) == 0
    assert spool.error is not None
    assert "another spool lies" in spool.error
    assert drained(spool) == payloads(0, 3), "what it has is given all the same"
    spool.close()
    assert crashed(tmp_path / "ours", tmp_path / "again") == payloads(0, 40)


def test_who_took_the_directory_meanwhile_has_it(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "ours")
    shutil.rmtree(tmp_path / "ours")
    other = open_spool(tmp_path / "ours")
    other.append(0, payloads(0, 3))
    with pytest.raises(OSError, match="another process writes there"):
        spool.handle()
    assert spool.append(0, payloads(7, 1)) == 0
    assert drained(other) == payloads(0, 3)
    other.close()
    spool.close()


def test_its_log_stays_small(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, size=1 << 30)
    for first in range(0, 20_000, 1_000):
        spool.append(first, [bytes(1_000)] * 1_000)
    assert (tmp_path / "spool.sqlite-wal").stat().st_size < 16 << 20
    assert isinstance(spool._database, sqlite3.Connection)
    spool.close()


class Crashing(RuleBasedStateMachine):
    """The spool against a list, with crashes that leave any number of bytes of what was not synced."""

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="kshadow-test-"))
        self.model: list[bytes] = []  # by sequence
        self.synced = self.given = self.done = self.log_synced = 0
        self.spool = open_spool(self.directory)

    @rule(count=st.integers(1, 12), size=st.integers(0, 60))
    def append(self, count: int, size: int) -> None:
        first = len(self.model)
        new = [b"%d " % number + b"x" * size for number in range(first, first + count)]
        assert self.spool.append(first, new) == count
        self.model += new

    @rule()
    def sync(self) -> None:
        handle = self.spool.handle()
        if handle is not None:
            os.fsync(handle)
            os.close(handle)
        self.synced = len(self.model)
        self.log_synced = (self.directory / "spool.sqlite-wal").stat().st_size

    @rule(most=st.integers(1, 9))
    def read(self, most: int) -> None:
        if self.given > self.done:
            return  # one batch at a time
        found, end = self.spool.read(most, MANY)
        start = max(self.given, self.done)
        assert found == self.model[start : start + most]
        assert end == max(start + len(found), self.done)
        self.given = end

    @precondition(lambda self: self.given > self.done)
    @rule()
    def acknowledge(self) -> None:
        self.spool.acknowledge(self.given)
        self.done = self.given

    @rule(left=st.floats(0, 1))
    def crash(self, left: float) -> None:
        """What was not synced is there up to any byte: here, of the log."""
        after = Path(tempfile.mkdtemp(prefix="kshadow-test-"))
        shutil.copytree(self.directory, after, dirs_exist_ok=True)
        log = after / "spool.sqlite-wal"
        size = log.stat().st_size if log.exists() else 0
        left_size = self.log_synced + round(max(size - self.log_synced, 0) * left)
        if size > left_size:
            os.truncate(log, left_size)
        self.spool.close()
        shutil.rmtree(self.directory)
        self.directory = after
        self.spool = open_spool(self.directory)
        assert self.spool.lost == 0
        assert self.spool.end >= self.synced, "what was synced is there"
        del self.model[self.spool.end :]
        assert self.spool.start <= max(self.done, self.spool.end)
        self.done = self.given = self.spool.start
        self.synced = min(self.synced, len(self.model))
        self.log_synced = left_size

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.spool.lost == 0
        assert self.spool.end == len(self.model)
        assert self.spool.start == self.given

    def teardown(self) -> None:
        if hasattr(self, "spool"):
            rest = self.model[self.given :]
            assert drained(self.spool) == rest
            self.spool.close()
            shutil.rmtree(self.directory)


TestCrashing = Crashing.TestCase
TestCrashing.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
