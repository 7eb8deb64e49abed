"""What a client cannot fetch or unpack, and the way past it.

librdkafka asks again and again for a batch that it cannot take apart, and tells each time where the batch begins. It
tells nowhere where it ends, so that is searched for: an offset within the batch gives the same error, one behind it
another answer. Owns that search, and what is remembered of what was passed over. Refuses to know records.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from msgspec import Struct
from msgspec.structs import replace

from agent.kafka.client import ignore_error, new_consumer
from agent.kafka.source.client import is_lost_offset

MAX_PIECES = 100
"""How many pieces are remembered, the newest; all are counted."""

_SEARCH_S = 5.0  # a search stops the reader for so long at most


class QuarantineReason(StrEnum):
    """Why records were passed over; a metric's label."""

    UNPACK = "unpack"  # damaged within, or unpacked larger than `receive.message.max.bytes`
    CORRUPT = "corrupt"  # other bytes than were written
    FORMAT = "format"  # a batch format or a codec that the client does not know
    SIZE = "size"  # larger than any fetch


_REASONS = {
    KafkaError._BAD_COMPRESSION: QuarantineReason.UNPACK,
    KafkaError._BAD_MSG: QuarantineReason.CORRUPT,
    KafkaError.INVALID_MSG: QuarantineReason.CORRUPT,
    KafkaError._NOT_IMPLEMENTED: QuarantineReason.FORMAT,
    KafkaError.MSG_SIZE_TOO_LARGE: QuarantineReason.SIZE,
}

_ADVICE = {
    QuarantineReason.UNPACK: (
        "it is damaged, or unpacked larger than receive.message.max.bytes: --property receive.message.max.bytes=BYTES"
        " takes larger ones, and as much memory"
    ),
    QuarantineReason.CORRUPT: "its checksum is not that of its bytes: look at the disks of the partition's leader",
    QuarantineReason.FORMAT: "this version of kshadow's client does not know its form",
    QuarantineReason.SIZE: "--property receive.message.max.bytes=BYTES takes larger ones",
}

_ANY_OFFSET = frozenset({KafkaError.INVALID_MSG, KafkaError.MSG_SIZE_TOO_LARGE})
"""The codes that come with the offset that was asked for, not with the batch's."""


def quarantine_reason(error: KafkaError) -> QuarantineReason | None:
    """Why a client cannot read on here; None for an error that is no property of the records."""
    return _REASONS.get(error.code())


class PassedOver(Struct, frozen=True):
    """Records that are in the log and were not read: offsets from `first` up to before `end`, of one partition."""

    partition: int
    first: int
    end: int
    reason: QuarantineReason
    detail: str
    """What the client said."""

    @property
    def advice(self) -> str:
        """What is the matter, and which setting would read it."""
        return _ADVICE[self.reason]

    def __str__(self) -> str:
        last = "" if self.end - self.first == 1 else f" to {self.end - 1}"
        return (
            f"partition {self.partition} offset {self.first}{last}: passed over ({self.reason}): {self.detail};"
            f" {self.advice}"
        )


class Quarantine:
    """What one reader has passed over. Its fields are replaced, not changed: other threads read them."""

    def __init__(self) -> None:
        self.pieces: tuple[PassedOver, ...] = ()
        """The newest, oldest first."""
        self.records: Mapping[QuarantineReason, int] = {}
        """How many offsets, by reason, since the start; what is read anew is counted anew."""

    def add(self, piece: PassedOver) -> None:
        """Remember and count it. What goes on where a search ran out of time makes one piece with what that found."""
        before = next((it for it in self.pieces if _goes_on(it, piece)), piece)
        others = [it for it in self.pieces if it is not before]
        self.pieces = (*others[-MAX_PIECES + 1 :], replace(piece, first=before.first))
        self.records = {**self.records, piece.reason: self.records.get(piece.reason, 0) + piece.end - piece.first}

    def forget(self, partition: int | None = None) -> None:
        """What was remembered of a partition, or of all, is of a log that is no more."""
        self.pieces = tuple(it for it in self.pieces if partition is not None and it.partition != partition)


def _goes_on(before: PassedOver, piece: PassedOver) -> bool:
    return before.partition == piece.partition and before.end == piece.first and before.reason is piece.reason


class _Unreadable(NamedTuple):
    offset: int
    code: int
    detail: str


class WayPast:
    """Looks for what can be read again, by a client of its own: so no other partition waits with it."""

    def __init__(self, properties: Mapping[str, object], topic: str) -> None:
        """`properties` are those of the reader's consumer."""
        self._topic = topic
        self._properties = {
            **properties,
            "error_cb": ignore_error,
            "fetch.error.backoff.ms": "1",
            "fetch.message.max.bytes": "65536",
            "queued.min.messages": "1",
        }
        self._consumer: Consumer | None = None

    def search(self, partition: int, position: int) -> list[PassedOver] | None:
        """The pieces from `position` on that cannot be read: empty where it can be, None where nobody answers.

        Batches that follow each other and are alike in why make one piece. It takes two requests for each doubling
        of a batch's records, and `_SEARCH_S` at most: what is found by then is a beginning.
        """
        deadline = time.monotonic() + _SEARCH_S
        found = self._ask(partition, position, deadline)
        if not isinstance(found, _Unreadable):
            return None if found is None else []
        pieces: list[PassedOver] = []
        while isinstance(found, _Unreadable):
            # What stands in damaged bytes may be no offset at all.
            first = max(found.offset, position) if found.offset < position + (1 << 31) else position
            reason = _REASONS[found.code]
            passed = self._end(partition, first, found, deadline)
            if passed is None:
                break
            position, following = passed
            piece = PassedOver(partition, first, position, reason, found.detail)
            if pieces and _goes_on(pieces[-1], piece):
                pieces[-1] = replace(pieces[-1], end=position)
            else:
                pieces.append(piece)
            found = following
        return pieces or None

    def close(self) -> None:
        """Let go of the connections."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _end(
        self, partition: int, first: int, found: _Unreadable, deadline: float
    ) -> tuple[int, _Unreadable | int] | None:
        """Where a batch ends in which `first` is, and what is found there; None where it was not found in time."""
        inside, outside, step = first, None, 1
        behind: _Unreadable | int = first
        while outside is None or outside - inside > 1:
            asked = inside + step if outside is None else (inside + outside) // 2
            answer = self._ask(partition, asked, deadline)
            if answer is None:
                return None
            if isinstance(answer, _Unreadable) and _is_same(answer, found):
                inside, step = asked, step * 2
            else:
                outside, behind = asked, answer
        return outside, behind

    def _ask(self, partition: int, offset: int, deadline: float) -> _Unreadable | int | None:
        """What is met first from an offset on: the offset itself where that can be read or is the end, what cannot
        be read, or None: nobody answers."""
        if self._consumer is None:
            try:
                self._consumer = new_consumer(self._properties)
            except KafkaException:  # no token now
                return None
        # Where the log begins may not be known yet.
        self._consumer.assign([TopicPartition(self._topic, partition, offset or OFFSET_BEGINNING)])
        try:
            while (left_s := deadline - time.monotonic()) > 0:
                message = self._consumer.poll(left_s)
                if message is None or message.topic() != self._topic:
                    continue
                error = message.error()
                if error is None or error.code() == KafkaError._PARTITION_EOF or is_lost_offset(error):
                    return offset
                if quarantine_reason(error) is not None:
                    at = message.offset()
                    return _Unreadable(offset if at is None or at < 0 else at, error.code(), error.str())
            return None
        finally:
            self._consumer.unassign()


def _is_same(answer: _Unreadable, found: _Unreadable) -> bool:
    """Whether two answers are of one batch."""
    return answer.code == found.code and (answer.code in _ANY_OFFSET or answer.offset == found.offset)
