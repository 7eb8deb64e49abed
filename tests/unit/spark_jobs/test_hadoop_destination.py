"""A file that cannot be written whole, on an object store in memory: there a stream that is closed is published."""

from __future__ import annotations

import pytest

from spark_jobs.report.hadoop_destination import _put


class Store:
    """Takes so many bytes. Of Hadoop's streams those to object stores hold all until they are closed."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.objects: dict[str, bytes] = {"page": b"yesterday's"}

    def create(self, path: str, overwrite: bool) -> Store:
        assert overwrite
        self._path, self._held = path, b""
        return self

    def write(self, content: bytearray) -> None:
        self._held += bytes(content[: self.room])
        if len(content) > self.room:
            raise OSError("No space left on device")

    def close(self) -> None:
        self.objects[self._path] = self._held


def test_what_cannot_be_written_whole_takes_no_place() -> None:
    with pytest.raises(OSError, match="No space left"):
        _put(store := Store(3), "page", b"today's")
    assert store.objects == {"page": b"yesterday's"}
    _put(store := Store(7), "page", b"today's")
    assert store.objects == {"page": b"today's"}
