"""What no coordinator writes into its topic: one record of each kind."""

from __future__ import annotations

import struct


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


COMMIT_KEY = struct.pack(">h", 1) + text("poisoned") + text("topic") + struct.pack(">i", 0)
GROUP_KEY = struct.pack(">h", 2) + text("poisoned")
COMMIT = struct.pack(">hqi", 3, 5, -1) + text("") + struct.pack(">q", 1)
MEMBER_KEY = struct.pack(">h", 5) + text("poisoned") + text("member")

# (key, value): no client can write a record without a key, since the topic is compacted.
POISON: list[tuple[bytes, bytes | None]] = [
    (b"", b""),  # 1: not even a type
    (b"\x00", COMMIT),  # 2: half a type
    (struct.pack(">h", 999), COMMIT),  # 3: an unknown type
    (struct.pack(">h", -1), COMMIT),  # 4: a type below all
    (struct.pack(">h", 999), None),  # 5: an unknown type, deleted
    (COMMIT_KEY[:-1], COMMIT),  # 6: a key that ends early
    (COMMIT_KEY + b"x", COMMIT),  # 7: a key that goes on
    (struct.pack(">hh", 1, 2) + b"\xff\xfe" + text("topic") + struct.pack(">i", 0), COMMIT),  # 8: no UTF-8
    (struct.pack(">hh", 1, -1) + text("topic") + struct.pack(">i", 0), COMMIT),  # 9: null where none may be
    (struct.pack(">hh", 2, 32767) + b"x", COMMIT),  # 10: a length that lies
    (COMMIT_KEY, b""),  # 11: a value without a version
    (COMMIT_KEY, struct.pack(">h", 99) + COMMIT[2:]),  # 12: an unknown version
    (COMMIT_KEY, struct.pack(">h", -5) + COMMIT[2:]),  # 13: a version below all
    (COMMIT_KEY, COMMIT[:-3]),  # 14: a value that ends early
    (GROUP_KEY, struct.pack(">h", 3) + text("consumer") + b"\x7f" * 40),  # 15: members beyond all bounds
    (MEMBER_KEY, struct.pack(">h", 0) + b"\xff" * 30),  # 16: a varint without an end
    (b"\x89PNG\r\n\x1a\n", b"\x00" * 5000),  # 17: something else altogether
]
