"""Topic ids for a model that knows topics by their names alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import blake2b

from agent.wire.primitives import Uuid

TopicIds = Callable[[str], Uuid]
"""A topic's id by its name."""


def topic_ids(seed: int = 0) -> TopicIds:
    """Ids that look drawn by chance (UUIDs of version 4, so never all zero): for the same name and seed the same."""

    @cache
    def topic_id(name: str) -> Uuid:
        drawn = bytearray(blake2b(f"{seed}\0{name}".encode("utf-8", "surrogatepass"), digest_size=16).digest())
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        return Uuid(bytes(drawn))

    return topic_id
