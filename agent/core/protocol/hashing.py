"""Java's hash of a string: which partition, and so which broker, coordinates a group, and who leads it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

OFFSETS_PARTITIONS = 50
"""Kafka's default for `offsets.topic.num.partitions`."""

_INT_MIN = -(2**31)


@lru_cache(maxsize=1 << 13)
def java_string_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 code units, in signed 32-bit arithmetic."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for_group(group: str, partitions: int) -> int:
    """The partition that holds `group`, of `partitions` in all.

    Kafka's `Utils.abs` makes 0 of the smallest integer, whose absolute value does not fit.
    """
    if partitions < 1:
        raise ValueError(f"a topic has one partition at least, {partitions} given")
    value = java_string_hash(group)
    return 0 if value == _INT_MIN else abs(value) % partitions


def hash_map_order(texts: Iterable[str], max_size: int = 0) -> list[str]:
    """The order in which Java's `HashMap` gives these keys, which were put into it in the order given.

    A broker elects the first member in that order. `most` is the greatest number of keys that the map ever held: it
    grows with them and never shrinks. (A bucket of nine and more keys becomes a tree, whose order is not followed.)
    """
    keys = list(texts)
    size = hash_map_capacity(max(len(keys), max_size))
    return sorted(keys, key=lambda text: hash_map_bucket(java_string_hash(text), size))


def hash_map_capacity(items: int) -> int:
    """Buckets of a `HashMap` that has held as many items: a power of two, never filled above three quarters."""
    size = 16
    while items > size * 3 // 4:
        size *= 2
    return size


def hash_map_bucket(hashed: int, size: int) -> int:
    """The bucket of `size` in which a `HashMap` keeps a key with that hash."""
    return (hashed ^ (hashed & 0xFFFFFFFF) >> 16) & (size - 1)
