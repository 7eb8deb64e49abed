"""Hashes of names: which partition, and so which broker, coordinates a group, and who leads it.

Kafka places groups by Java's hash of a string, Redpanda by xxHash64 and jump consistent hash. `group_placement.py`
tells from where groups stand which of the two a cluster uses.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import StrEnum

from agent.common.interning import remembered

OFFSETS_PARTITIONS = 50
"""Kafka's default for `offsets.topic.num.partitions`."""

REDPANDA_OFFSETS_PARTITIONS = 16
"""Redpanda's for `group_topic_partitions`."""

_INT_MIN = -(2**31)
_U64 = 2**64 - 1
_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
"""xxHash64's own; its name for the first is PRIME64_1."""


class GroupPartitioner(StrEnum):
    """Which rule a cluster places its groups by."""

    KAFKA = "kafka"
    REDPANDA = "redpanda"


@remembered(1 << 13)
def java_string_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 code units, in signed 32-bit arithmetic."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for_group(group: str, partitions: int, partitioner: GroupPartitioner = GroupPartitioner.KAFKA) -> int:
    """The partition that holds `group`, of `partitions` in all.

    Kafka (`GroupCoordinatorService.partitionFor`): the absolute value of Java's hash, where `Utils.abs` makes 0 of
    the smallest integer, whose absolute value does not fit. Redpanda (`coordinator_ntp_mapper::ntp_for`): jump
    consistent hash of the xxHash64 (seed 0) of the name's bytes in UTF-8; there is no lone surrogate in UTF-8, and
    Java's clients send a question mark in its place.
    """
    if partitions < 1:
        raise ValueError(f"a topic has one partition at least, {partitions} given")
    if partitioner is GroupPartitioner.REDPANDA:
        return jump_consistent_hash(_name_xxhash64(group), partitions)
    value = java_string_hash(group)
    return 0 if value == _INT_MIN else abs(value) % partitions


@remembered(1 << 13)
def _name_xxhash64(text: str) -> int:
    return xxhash64(text.encode("utf-8", "replace"))


def jump_consistent_hash(key: int, buckets: int) -> int:
    """The bucket of `key`, an unsigned 64-bit integer (Lamping and Veach, 2014)."""
    bucket, following = -1, 0
    while following < buckets:
        bucket = following
        key = (key * 2862933555777941757 + 1) & _U64
        following = int((bucket + 1) * (float(1 << 31) / float((key >> 33) + 1)))
    return bucket


def xxhash64(data: bytes) -> int:
    """xxHash64 with seed 0, an unsigned 64-bit integer."""
    first, second, third, fourth, fifth = _PRIMES
    at, size = 0, len(data)
    if size >= 32:
        lanes = [(first + second) & _U64, second, 0, -first & _U64]
        for at in range(0, size - 31, 32):
            lanes = [_xx_round(*it) for it in zip(lanes, struct.unpack_from("<4Q", data, at), strict=True)]
        at += 32
        value = sum(_rotated(it, by) for it, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _U64
        for lane in lanes:
            value = ((value ^ _xx_round(0, lane)) * first + fourth) & _U64
    else:
        value = fifth
    value = (value + size) & _U64
    while at + 8 <= size:
        value ^= _xx_round(0, int.from_bytes(data[at : at + 8], "little"))
        value = (_rotated(value, 27) * first + fourth) & _U64
        at += 8
    if at + 4 <= size:
        value ^= int.from_bytes(data[at : at + 4], "little") * first & _U64
        value = (_rotated(value, 23) * second + third) & _U64
        at += 4
    for byte in data[at:]:
        value ^= byte * fifth & _U64
        value = _rotated(value, 11) * first & _U64
    value = (value ^ value >> 33) * second & _U64
    value = (value ^ value >> 29) * third & _U64
    return value ^ value >> 32


def _xx_round(lane: int, word: int) -> int:
    return _rotated((lane + word * _PRIMES[1]) & _U64, 31) * _PRIMES[0] & _U64


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _U64


def hash_map_order(texts: Iterable[str], max_size: int = 0) -> list[str]:
    """The order in which Java's `HashMap` gives these keys, which were put into it in the order given.

    A broker elects the first member in that order. `max_size` is the greatest number of keys that the map ever held:
    it grows with them and never shrinks. (A bucket of nine and more keys becomes a tree; its order is not followed.)
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
