"""The spool: order, what a crash at any byte leaves, a full disk, damage."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent.export.errors import SpoolLocked, SpoolUnusable
from agent.export.segment import HEADER, frame, records
from agent.export.spool import Spool

MANY = 1 << 20


def open_spool(directory: Path, size: int = MANY, segment: int = 200) -> Spool:
    return Spool(directory, size, segment_bytes=segment)


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
    """A directory with 40 records in several segments, and nobody at it."""
    spool = open_spool(tmp_path / "spool")
    assert spool.append(0, payloads(0, 40)) == 40
    spool.close()
    return tmp_path / "spool"


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.spool"))


def test_what_was_appended_is_read_in_order_and_deleted_when_done(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    assert spool.append(0, payloads(0, 25)) == 25
    assert len(segments(tmp_path)) > 3
    assert spool.peek() == b"event 0"
    assert drained(spool) == payloads(0, 25)
    assert not segments(tmp_path)
    assert spool.size_bytes == 0
    assert spool.append(25, payloads(25, 2)) == 2, "and goes on"
    assert drained(spool) == payloads(25, 2)
    spool.close()


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


def test_its_bound_is_kept_and_what_is_consumed_makes_room(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, size=600)
    taken = spool.append(0, payloads(0, 40))
    assert 0 < taken < 40
    assert sum(it.stat().st_size for it in segments(tmp_path)) == spool.size_bytes <= 600
    assert spool.error is not None
    assert spool.error.startswith("the spool is full: ")
    assert drained(spool) == payloads(0, taken)
    assert spool.append(taken, payloads(taken, 3)) == 3
    assert spool.error is None
    spool.close()


def test_a_full_disk_takes_what_it_can_and_nothing_is_torn(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, segment=100_000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert spool.append(0, payloads(0, 10)) == 10
    size = spool.size_bytes
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, before[1]))
    try:
        assert spool.append(10, payloads(10, 10)) == 0
        assert spool.error is not None
        assert "File too large" in spool.error
        assert segments(tmp_path)[0].stat().st_size == size
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert spool.append(10, payloads(10, 10)) == 10
    assert drained(spool) == payloads(0, 20)
    spool.close()


def test_the_torn_end_of_an_unfinished_write_is_cut(kept: Path, caplog: pytest.LogCaptureFixture) -> None:
    last = segments(kept)[-1]
    whole = last.stat().st_size
    with last.open("ab") as file:
        file.write(frame(40, b"event 40")[:-1])
    with caplog.at_level(logging.WARNING):
        spool = open_spool(kept)
    assert "cut 27 bytes of an unfinished write" in caplog.text
    assert last.stat().st_size == whole
    assert spool.append(40, payloads(40, 1)) == 1
    assert drained(spool) == payloads(0, 41)
    assert spool.lost == 0
    spool.close()


@pytest.mark.parametrize("damage", ["header", "bit", "zeros", "gone"])
def test_damage_costs_what_it_hit_and_no_more(kept: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    victim = segments(kept)[1]
    data = bytearray(victim.read_bytes())
    there = list(records(bytes(data)))
    middle = there[2]
    match damage:
        case "header":
            data[middle.end - 28 + 5] ^= 0xFF  # its length
            hit = [middle.sequence]
        case "bit":
            data[middle.end - 1] ^= 1
            hit = [middle.sequence]
        case "zeros":
            data[middle.end - 3 :] = bytes(len(data) - middle.end + 3)
            hit = [it.sequence for it in there[2:]]
        case _:
            hit = [it.sequence for it in there]
    victim.write_bytes(data)
    if damage == "gone":
        victim.write_bytes(b"")
    spool = open_spool(kept)
    assert drained(spool) == [it for number, it in enumerate(payloads(0, 40)) if number not in hit]
    assert spool.lost == len(hit)
    assert f"{len(hit)} events are damaged and lost" in caplog.text
    spool.close()


@pytest.mark.parametrize("cursor", [b"1000 00000000\n", b"", b"1 2 3"])
def test_a_damaged_cursor_costs_duplicates_only(kept: Path, cursor: bytes) -> None:
    spool = open_spool(kept)
    spool.acknowledge(spool.read(10, MANY)[1])
    spool.close()
    (kept / "cursor").write_bytes(cursor)
    again = open_spool(kept)
    assert drained(again)[-30:] == payloads(10, 30)
    assert again.lost == 0
    again.close()


class Crashing(RuleBasedStateMachine):
    """The spool against a list, with crashes that leave any number of bytes of what was not synced."""

    @initialize(segment=st.sampled_from([40, 200, 5_000]))
    def begin(self, segment: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="kshadow-test-"))
        self.segment = segment
        self.model: list[bytes] = []  # by sequence
        self.synced = self.given = self.done = 0
        self.spool = open_spool(self.directory, segment=segment)

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

    @rule(left=st.floats(0, 1), cursor=st.booleans())
    def crash(self, left: float, cursor: bool) -> None:
        stored = (self.directory / "cursor").read_bytes() if (self.directory / "cursor").exists() else None
        # What was not synced is there up to any byte.
        last = segments(self.directory)[-1] if segments(self.directory) else None
        self.spool.close()
        if stored is not None:
            (self.directory / "cursor").write_bytes(stored)
        if last is not None and len(self.model) > self.synced:
            data = last.read_bytes()
            sure = max([len(HEADER), *(it.end for it in records(data) if it.sequence < self.synced)])
            sure = min(sure, len(data))
            kept = sure + round((len(data) - sure) * left)
            last.write_bytes(data[:kept])
        self.spool = open_spool(self.directory, segment=self.segment)
        assert self.spool.lost == 0
        assert self.spool.end >= self.synced, "what was synced is there"
        del self.model[self.spool.end :]
        assert self.spool.start <= max(self.done, self.spool.end)
        self.done = self.given = self.spool.start
        self.synced = min(self.synced, len(self.model))

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
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
