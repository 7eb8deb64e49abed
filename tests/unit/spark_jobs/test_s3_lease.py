"""The lease on S3 where an answer is lost, on a store in memory: `tests.harness.spark.commits` has S3's client."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.errors import JobError
from spark_jobs.formats import s3_lease
from spark_jobs.formats.s3_lease import S3Lease


class Store:
    """An object with conditional writes. Of writings that are numbered in `lost` the client hears no answer, makes
    them again, as S3's does, and is refused."""

    def __init__(self, *lost: int) -> None:
        self.text: str | None = None
        self.writings = 0
        self._lost = lost

    def put(self, text: str, condition: str, value: str) -> str | None:
        if not (self.text is None if condition == "If-None-Match" else self.text == value):
            return None
        self.text = text
        self.writings += 1
        return None if self.writings in self._lost else text

    def get(self) -> tuple[str, str] | None:
        return None if self.text is None else (self.text, self.text)

    def delete(self) -> None:
        self.text = None


def lease(store: Store, monkeypatch: pytest.MonkeyPatch) -> S3Lease:
    def stored(spark: Any, path: str) -> Store:
        return store

    monkeypatch.setattr(s3_lease, "_S3Object", stored)
    return S3Lease(None, "s3a://lake/_lease", "the holder")  # type: ignore[arg-type]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_writing_whose_answer_was_lost_is_the_holders(lost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(lost)
    held = lease(store, monkeypatch)
    with held.held(0):
        for _ in range(4):
            held.check()
    assert store.writings == 6
    assert store.text is None, "and is given back"


def test_what_another_wrote_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    held, other = lease(store, monkeypatch), lease(store, monkeypatch)
    with held.held(0):
        store.text = other._text()
        with pytest.raises(JobError, match="another job has taken over"):
            held.check()
    assert store.text is not None, "the other one's stays"


def test_who_was_stopped_for_long_removes_no_other_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    held, other = lease(store, monkeypatch), lease(store, monkeypatch)
    with held.held(0):
        store.text = others = other._text()
    assert store.text == others
