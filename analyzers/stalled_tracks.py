"""Tracks of a group's positions: one block of bytes for all of them while nobody looks at them.

There are more tracks than anything else, two of each position. As objects they take seven times as much, and as
bytes of their own, in a dict, four times as much. Most of the block is the same from track to track, such as the
upper bytes of times: lz4 halves it, in an eighth of the time that packing takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import cramjam
import msgspec

from analyzers.api import TopicPartition
from analyzers.stalled_rules import PartitionTrack, ProgressTrack

Track = TypeVar("Track", PartitionTrack, ProgressTrack)

packed = msgspec.msgpack.Encoder().encode
"""The bytes of a track, or of several."""

partition_track = msgspec.msgpack.Decoder(PartitionTrack).decode
"""A track again. Raises `msgspec.MsgspecError` for other bytes."""

_each = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_of_type = {cls: msgspec.msgpack.Decoder(list[cls]).decode for cls in (PartitionTrack, ProgressTrack)}  # type: ignore[valid-type]


def _block_of(tracks: Sequence[object]) -> bytes:
    return bytes(cramjam.lz4.compress_block(packed(tracks)))


def _unpacked(block: bytes) -> bytes:
    # As bytes: what msgspec leaves as it is (`Raw`) goes on reading there.
    return bytes(cramjam.lz4.decompress_block(block))


_NONE = _block_of([])


class TracksByPosition(Generic[Track]):
    """Tracks of one type by position, in an order that is kept."""

    __slots__ = ("_block", "_opened", "_slots", "_type")

    def __init__(self, of: type[Track]) -> None:
        self._type: type[Track] = of
        self._slots: tuple[TopicPartition, ...] = ()
        self._block = _NONE
        self._opened: dict[TopicPartition, Track] | None = None

    def read(self) -> dict[TopicPartition, Track]:
        """All tracks. What is changed in them is kept if it is given back by `keep`."""
        if self._opened is not None:
            return self._opened
        return dict(zip(self._slots, _of_type[self._type](_unpacked(self._block)), strict=True))

    def keep(self, tracks: dict[TopicPartition, Track]) -> None:
        """Have these, and no others."""
        self._slots, self._block, self._opened = tuple(tracks), _block_of(list(tracks.values())), None

    def drop(self, slot: TopicPartition) -> None:
        """Have none of a position. Where many go, one by one, the others stay as they are read until `keep`."""
        if self._opened is None:
            self._opened = self.read()
        self._opened.pop(slot, None)

    def as_bytes(self) -> dict[TopicPartition, bytes]:
        """By position the bytes of each track."""
        if self._opened is not None:
            return {slot: packed(track) for slot, track in self._opened.items()}
        return dict(zip(self._slots, map(bytes, _each(_unpacked(self._block))), strict=True))

    def keep_bytes(self, tracks: Mapping[TopicPartition, bytes]) -> None:
        """Have those of which these are the bytes."""
        raw = [msgspec.Raw(it) for it in tracks.values()]
        self._slots, self._block, self._opened = tuple(tracks), _block_of(raw), None
