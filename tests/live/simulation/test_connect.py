"""Connect's workers as Kafka's own are now: what a leader assigns, and the bytes that members write."""

from __future__ import annotations

import pytest

from tests import seed
from tests.generate.connect_bytes import both, in_order
from tests.generate.kafka_connect.asking import compare

pytestmark = pytest.mark.usefixtures("kafka")

SEED = seed()
STORIES = 200


def test_as_kafkas_own_workers_do_now() -> None:
    same, total, others = compare(range(SEED * STORIES, (SEED + 1) * STORIES))
    print(f"Connect: {same}/{total} rounds as Kafka's own, seed {SEED}")
    assert total > STORIES
    assert not others, f"{same} of {total} with seed {SEED}; others (story, generation): {others[:5]}"


def test_our_workers_write_what_kafkas_own_write_now() -> None:
    found = list(both(range(SEED * STORIES, SEED * STORIES + STORIES // 5)))
    as_they_are = sum(it.theirs == it.ours for it in found)
    print(f"Connect: {as_they_are}/{len(found)} payloads as Kafka's own to the byte, seed {SEED}")
    assert len(found) > STORIES
    assert [it for it in found if len(set(in_order(it))) != 1] == []
