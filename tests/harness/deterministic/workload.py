"""The log of a seed: an hour of a small cluster's groups, as brokers would have appended it.

Owns what is written and when. Groups, their members and what becomes of them come from `agent.simulation.generator`;
here they get transactions, records that are no records of a coordinator, and times that are wrong.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

from agent.core.records import RawRecord
from agent.simulation.generator.histories import generate_by_partition
from agent.simulation.generator.settings import GeneratorSettings, IntegerRange
from tests.harness.deterministic.cluster import Entry, PartitionLog, Transaction

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Workload:
    """What is written. `quirks` are names of what is wrong with it; a seed that fails is tried with fewer."""

    seed: int
    groups: int
    partitions: int
    duration_ms: int = HOUR_MS
    quirks: frozenset[str] = frozenset()
    commits_ms: int = 60_000
    """How often members commit."""


QUIRKS = ("transactions", "aborted", "poison", "ahead")
"""Commits within transactions; some of those are aborted; records that cannot be decoded; times an hour ahead."""
RARE_QUIRKS = ("clock_jumps", "large")
"""A broker's clock is wrong by seconds, for minutes; records as large as brokers take. By half an hour an agent that
starts meanwhile takes the wall's time: it finds otherwise than who reads the log, as where its own wall is wrong."""
LARGE_BYTES = 1_000_000


def choose(seed: int) -> Workload:
    """A seed's."""
    rng = random.Random(f"workload {seed}")
    quirks = frozenset(it for it in QUIRKS if rng.random() < 0.3)
    rare = random.Random(f"rare quirks {seed}")
    quirks |= {it for it in RARE_QUIRKS if rare.random() < 0.1}
    groups, partitions = rng.randint(1, 6), rng.choice((1, 2, 2, 4))
    return Workload(seed, groups, partitions, quirks=quirks, commits_ms=rng.choice((60_000, 120_000, 300_000)))


def make(workload: Workload, starts_s: float) -> dict[int, PartitionLog]:
    """The logs by partition. `starts_s`: when the hour begins, on the steady clock."""
    settings = GeneratorSettings(
        start_ms=START_MS,
        groups=workload.groups,
        members=IntegerRange(1, 4),
        topics=4,
        partitions=IntegerRange(1, 4),
        commit_interval_ms=workload.commits_ms,
        offsets_partitions=workload.partitions,
        seed=workload.seed,
    )
    logs = {number: PartitionLog([]) for number in range(workload.partitions)}
    for records in generate_by_partition(settings):
        rows = [it for it in records if it.timestamp_ms < START_MS + workload.duration_ms]
        if rows:
            logs[rows[0].partition] = _Writer(workload, rows[0].partition, starts_s).written(rows)
    return logs


class _Writer:
    """Appends to one partition."""

    def __init__(self, workload: Workload, partition: int, starts_s: float) -> None:
        self._quirks, self._partition, self._starts_s = workload.quirks, partition, starts_s
        self._random = random.Random(f"written {workload.seed} {partition}")
        self._entries: list[Entry] = []
        self._transactions: list[Transaction] = []
        self._open: list[_Open] = []
        self._at_s = starts_s
        self._jumps = _jumps(workload, partition) if "clock_jumps" in workload.quirks else []

    def written(self, rows: list[RawRecord]) -> PartitionLog:
        """The log of these, with what the quirks put between."""
        number = 0
        large = random.Random(f"large {self._partition} {len(rows)}").sample(range(len(rows)), min(3, len(rows)))
        while number < len(rows):
            self._end_transactions(self._written_s(rows[number]))
            if "transactions" in self._quirks and self._random.random() < 0.01:
                number += self._in_transaction(rows[number : number + self._random.randint(1, 12)])
                continue
            self._append(rows[number])
            number += 1
            if "large" in self._quirks and number in large:
                self._append(rows[number - 1]._replace(key=b"\0\1large", value=bytes(LARGE_BYTES)))
            if "poison" in self._quirks and self._random.random() < 0.005:
                self._append(poison(self._random, rows[number - 1]))
            if "ahead" in self._quirks and self._random.random() < 0.005 and number + 8 < len(rows):
                it = rows[number - 1]
                self._append(it._replace(timestamp_ms=it.timestamp_ms + HOUR_MS), it)
        self._end_transactions(float("inf"))
        return PartitionLog(self._entries, self._transactions)

    def _written_s(self, record: RawRecord) -> float:
        return self._starts_s + (record.timestamp_ms - START_MS) / 1000

    def _append(self, record: RawRecord, timed: RawRecord | None = None, *, is_given: bool = True) -> None:
        """`timed`: whose time tells when it is appended."""
        self._at_s = max(self._at_s, self._written_s(timed or record) + self._random.random() * 0.05)
        timestamp_ms = record.timestamp_ms + self._clock_ms()
        self._entries.append(
            Entry(record._replace(offset=len(self._entries), timestamp_ms=timestamp_ms), self._at_s, is_given)
        )

    def _clock_ms(self) -> int:
        """By how much the broker's clock is wrong now."""
        return sum(it.by_ms for it in self._jumps if it.begins_s <= self._at_s - self._starts_s < it.ends_s)

    def _in_transaction(self, rows: list[RawRecord]) -> int:
        """Some records of a transaction, whose marker comes later; the number of those that were written."""
        is_aborted = "aborted" in self._quirks and self._random.random() < 0.5
        first = len(self._entries)
        for row in rows:
            self._append(row, is_given=not is_aborted)
        lasts_s = self._random.choice((0.01, 0.3, 3.0, 20.0, 90.0))
        self._open.append(_Open(self._at_s + lasts_s, first, self._entries[first].at_s, rows if is_aborted else []))
        self._open.sort()
        return len(rows)

    def _end_transactions(self, until_s: float) -> None:
        """Write the markers that are due by then."""
        while self._open and self._open[0].ends_s <= until_s:
            ends_s, first, begin_s, again = self._open.pop(0)
            self._at_s = max(self._at_s, ends_s)
            now_ms = START_MS + round((self._at_s - self._starts_s) * 1000)
            marker = RawRecord(self._partition, 0, now_ms, b"\0\0\0\1", b"\0\0\0\0\0\0", control=True)
            self._entries.append(Entry(marker._replace(offset=len(self._entries)), self._at_s, is_given=False))
            self._transactions.append(Transaction(first, begin_s, self._at_s))
            for row in again:
                # What was aborted its producer writes once more.
                self._append(row._replace(timestamp_ms=now_ms))


class _Open(NamedTuple):
    """An open transaction, and what is to be written again if it is aborted."""

    ends_s: float
    first: int
    begin_s: float
    again: list[RawRecord]


class _ClockJump(NamedTuple):
    """A broker's clock is wrong for a time; seconds since the hour began."""

    begins_s: float
    ends_s: float
    by_ms: int


def _jumps(workload: Workload, partition: int) -> list[_ClockJump]:
    rng = random.Random(f"clock jumps {workload.seed} {partition}")
    out = []
    for _ in range(rng.randint(0, 3)):
        begins_s = rng.uniform(0, workload.duration_ms / 1000)
        out.append(_ClockJump(begins_s, begins_s + rng.uniform(1, 600), rng.choice((2_000, -1_000, -3_000))))
    return out


def poison(rng: random.Random, like: RawRecord) -> RawRecord:
    """A record that is none of a coordinator's."""
    match rng.randrange(4):
        case 0:
            return like._replace(key=rng.randbytes(12), value=rng.randbytes(40))
        case 1:
            return like._replace(key=None, value=b"no key")
        case 2:
            return like._replace(value=(like.value or b"\0")[: rng.randrange(6)])
        case _:
            return like._replace(key=b"\0\1\0\1g", value=rng.randbytes(3000))
