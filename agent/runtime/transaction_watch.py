"""The watch over open transactions: which partitions of the topic they hold back, since when, and whose they are.

Owns for how long each has been there, when brokers are asked about it, and the lines of the log. While nothing is
held back it looks at what the reader knows anyway, and asks nobody.

Since when a transaction is open: a partition that was seen to be read to its end, a second before it was held back,
says so itself. Of one that was held back when it was seen first (after a restart, or where the reader was behind) the
first record that is hidden says it, and is believed only where it lies between the two.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from agent.common.pacing import Backoff
from agent.common.threads import BackgroundThread
from agent.core.open_transactions import GRACE_MS, OpenTransaction
from agent.kafka.source.errors import SourceDenied, SourceError
from agent.kafka.source.open_transactions import NEEDED, first_records, transactional_ids
from agent.presentation.narrative.staleness import ended_sentence, hidden_sentence

log = logging.getLogger("kshadow")

LOOK_S = 1.0
UNSEEN_S = 2.0
"""For so long one may be open before it is seen: the high watermark is that of the last fetch's answer."""
IDS_EVERY_S, SUSPENDED_S = 10.0, 600.0
"""How often transactional ids are asked for at most, and for how long they are not where the right is missing."""


class HeldBackReader(Protocol):
    """What the watch needs of a reader of the topic: see `agent.kafka.source.topic.TopicReader`."""

    @property
    def held_back(self) -> Mapping[int, int]:
        """By partition the offsets of the first records that are hidden."""

    @property
    def read_until_s(self) -> Mapping[int, float]:
        """By partition up to when all is known to be read."""

    @property
    def positions(self) -> Mapping[int, int]:
        """Its keys are the partitions that are read."""

    def is_stopped(self, partition: int) -> bool:
        """Whether it is not known what is written to a partition."""


class _Watched(Struct):
    """One open transaction. `since_s` is on the steady clock, as `seen_s`, when it was seen first."""

    known: OpenTransaction
    seen_s: float
    since_s: float
    free_s: float | None
    """When its partition was last known to be read to its end."""
    is_asked: bool = False
    is_told: bool = False

    def age_ms(self, now_s: float) -> int:
        return round((now_s - self.since_s) * 1000)


class TransactionWatch(BackgroundThread):
    """Started and stopped with the agent. Answers are of its last look."""

    STOP_S = 1.0

    def __init__(
        self,
        conf: Mapping[str, str],
        reader: HeldBackReader,
        *,
        wall_ms: Callable[[], int],
        groups_in: Callable[[int], int],
    ) -> None:
        """`conf`: librdkafka properties. `groups_in` says how many groups a partition has. Connects to nothing
        yet."""
        super().__init__("transactions")
        self._conf, self._reader, self._wall_ms, self._groups_in = conf, reader, wall_ms, groups_in
        self._watched: dict[int, _Watched] = {}
        self._free_s: dict[int, float] = {}
        self._backoff = Backoff[None]()
        self._tell_at_s = self._ids_at_s = 0.0
        self._unnamed = ""
        """Why no transactional id is known."""

    def open(self) -> dict[int, OpenTransaction]:
        """The oldest of each partition, however young."""
        return {number: it.known for number, it in list(self._watched.items())}

    def hiding(self) -> dict[int, OpenTransaction]:
        """Those behind which groups are stale."""
        now_s = time.monotonic()
        return {number: it.known for number, it in list(self._watched.items()) if it.age_ms(now_s) >= GRACE_MS}

    def ages_s(self) -> dict[int, float]:
        """For each partition that is read, for how long its oldest transaction has been open; 0 where none is. Absent
        where reading has stopped: it may have ended since, or another have begun. Likewise all, while the watch
        fails."""
        if self.failure is not None:
            return {}
        watched, now_s = dict(self._watched), time.monotonic()
        return {
            number: round(max(watched[number].age_ms(now_s), 0) / 1000, 3) if number in watched else 0.0
            for number in sorted(self._reader.positions)
            if not self._reader.is_stopped(number)
        }

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            self.look(time.monotonic())
            self.tell(time.monotonic())

    def look(self, now_s: float) -> None:
        """Look once, at `now_s` of the steady clock. Not by two threads at a time."""
        reader = self._reader
        read = reader.positions
        # Where the reading went on it has ended, asked or not.
        held = {it: offset for it, offset in reader.held_back.items() if it in read and read[it] <= offset}
        for number in [it for it, of in self._watched.items() if held.get(it) != of.known.offset]:
            self._end(number, now_s, is_read=number in read)
        self._free_s.update(reader.read_until_s)
        self._free_s = {number: at for number, at in self._free_s.items() if number in read}
        for number, offset in held.items():
            if number not in self._watched:
                self._add(number, OpenTransaction(offset, self._wall_ms()), now_s)
        if self._watched:
            self._ask_when(now_s)

    def _add(self, number: int, it: OpenTransaction, now_s: float) -> None:
        self._watched = {**self._watched, number: _Watched(it, now_s, now_s, self._free_s.get(number))}

    def _end(self, number: int, now_s: float, *, is_read: bool) -> None:
        ended = self._watched[number]
        self._watched = {it: of for it, of in self._watched.items() if it != number}
        if ended.is_told and is_read:
            log.info("%s", ended_sentence(number, ended.known, ended.age_ms(now_s)))

    def _ask_when(self, now_s: float) -> None:
        """Ask for the first records, where nothing else tells since when, or once they are worth telling of."""
        due = {
            number: it.known.offset
            for number, it in self._watched.items()
            if not it.is_asked and (it.free_s is None or it.age_ms(now_s) >= GRACE_MS)
        }
        if not due or self._backoff.remaining_s(None, now_s):
            return
        try:
            found = first_records(self._conf, due, self._wall_ms())
        except SourceError:
            found = {}
        if len(found) < len(due):
            self._backoff.failed(None, now_s)
        else:
            self._backoff.succeeded(None)
        for number, said in found.items():
            it = self._watched[number]
            it.is_asked = True
            seen_ms = it.known.since_ms
            since_s = it.seen_s - (seen_ms - min(said.since_ms, seen_ms)) / 1000
            it.since_s = since_s if it.free_s is None else max(since_s, it.free_s - UNSEEN_S)
            it.known = it.known._replace(since_ms=seen_ms - round((it.seen_s - it.since_s) * 1000), group=said.group)

    def tell(self, now_s: float) -> None:
        """A line for each that has come to hide something, once."""
        if now_s < self._tell_at_s:
            return
        new = {number: it for number, it in self._watched.items() if not it.is_told and it.age_ms(now_s) >= GRACE_MS}
        if not new:
            return
        self._tell_at_s = now_s + IDS_EVERY_S
        for number, names in self._ask_ids({number: it.known.since_ms for number, it in new.items()}, now_s).items():
            new[number].known = new[number].known._replace(transactional_ids=names)
        for number, it in new.items():
            it.is_told = True
            text = hidden_sentence(number, it.known, it.age_ms(now_s), self._groups_in(number))
            log.warning("%s%s", text, "" if it.known.transactional_ids else self._unnamed)

    def _ask_ids(self, since_ms: Mapping[int, int], now_s: float) -> Mapping[int, tuple[str, ...]]:
        """Which transactions they are, where that can be learned."""
        if now_s < self._ids_at_s:
            return {}
        try:
            found = transactional_ids(self._conf, since_ms)
        except SourceDenied:
            self._ids_at_s = now_s + SUSPENDED_S
            self._unnamed = f"; the transactional id is not known: needed: {NEEDED}"
            return {}
        except SourceError as error:
            self._unnamed = f"; the transactional id is not known: {error}"
            return {}
        self._unnamed = "; the transactional id is not known"
        return found
