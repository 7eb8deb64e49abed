"""Files that cannot be written whole, on stores in memory. Of Hadoop's streams that to S3 holds all until it is
closed, and publishes it then; HDFS and Azure's stores have a file from its beginning on."""

from __future__ import annotations

import pytest

from spark_jobs.errors import JobFailed
from spark_jobs.writing import put_whole


class Store:
    """Takes so many bytes; a rename says whether it was done, as Hadoop's do."""

    def __init__(self, scheme: str, room: int, *, renames: bool = True) -> None:
        self.scheme, self.room, self._renames = scheme, room, renames
        self.objects: dict[str, bytes] = {"lake/page": b"yesterday's"}

    def getUri(self) -> Store:
        return self

    def getScheme(self) -> str:
        return self.scheme

    def create(self, path: str, overwrite: bool) -> Store:
        assert overwrite
        self._path, self._held = path, b""
        if self.scheme != "s3a":
            self.objects[path] = b""
        return self

    def write(self, content: bytearray) -> None:
        self._held += bytes(content[: self.room])
        if len(content) > self.room:
            raise OSError("No space left on device")

    def close(self) -> None:
        self.objects[self._path] = self._held

    def delete(self, path: str, recursive: bool) -> None:
        assert not recursive
        del self.objects[path]

    def rename(self, path: str, to: str) -> bool:
        assert to not in self.objects, "HDFS moves nothing over a file"
        if self._renames:
            self.objects[to] = self.objects.pop(path)
        return self._renames


@pytest.mark.parametrize("scheme", ["s3a", "hdfs", "abfss"])
def test_what_cannot_be_written_whole_takes_no_place(scheme: str) -> None:
    store = Store(scheme, 3)
    with pytest.raises(OSError, match="No space left"):
        put_whole(store, str, "lake/page", b"today's")
    assert store.objects["lake/page"] == b"yesterday's"
    store.room = 7
    put_whole(store, str, "lake/page", b"today's")
    assert store.objects == {"lake/page": b"today's"}


def test_what_was_not_renamed_is_not_taken_for_written() -> None:
    with pytest.raises(JobFailed, match="lake/page could not be written"):
        put_whole(Store("hdfs", 7, renames=False), str, "lake/page", b"today's")


def test_what_lies_in_the_users_own_directory_stays_there() -> None:
    store = Store("hdfs", 7)
    store.objects["page"] = b"yesterday's"
    with pytest.raises(OSError, match="No space left"):
        put_whole(store, str, "page", b"the day after")
    assert [*store.objects] == ["lake/page", "page", ".page.writing"]
