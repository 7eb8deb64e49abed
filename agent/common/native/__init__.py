"""The compiled part: `commits.c` as a shared library, where one was built for this platform.

It needs no headers, of Python or of librdkafka, so one file serves every Python of a platform. Everything that it
does Python does as well, which is what happens where there is none.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, Structure, c_int, c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

LIBRARY = Path(__file__).with_name("commits.so")
INTERFACE = 2
"""As in commits.c. One of an older source, which an editable installation may have, is not used."""


class Client(Structure):
    """librdkafka's functions that are needed; in C, `client`."""

    _fields_ = [
        (name, c_void_p)
        for name in ("consume_batch_queue", "consume_queue", "message_destroy", "message_timestamp", "leader_epoch")
    ]


class Run(Structure):
    """Consecutive records of one partition; in C, `run`."""

    _fields_ = [
        ("partition", c_int32),
        ("error", c_int32),
        ("count", c_int64),
        ("room", c_int64),
        ("error_offset", c_int64),
        ("offsets", c_void_p),
        ("times", c_void_p),
        ("epochs", c_void_p),
        ("hashes", c_void_p),
        ("keys", POINTER(c_uint64)),
        ("values", POINTER(c_uint64)),
        ("key_lengths", POINTER(c_int32)),
        ("value_lengths", POINTER(c_int32)),
        ("others", POINTER(c_int32)),
        ("data", c_void_p),
        ("used", c_uint64),
        ("size", c_uint64),
        ("others_count", c_int64),
        ("repeated", c_int64),
        ("in_time_order", c_int32),
        ("has_failed", c_int32),
    ]


_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "interface_number": (c_int64, []),
    "run_new": (c_void_p, [c_int64, c_uint64]),
    "run_free": (None, [c_void_p]),
    "reader_new": (c_void_p, [POINTER(Client), c_void_p, c_int64, c_int64, c_uint64, c_uint64]),
    "reader_free": (None, [c_void_p]),
    "reader_next": (None, [c_void_p, c_void_p, c_int]),
    "index_new": (c_void_p, [c_uint64, c_uint64]),
    "index_free": (None, [c_void_p]),
    "index_add": (c_int, [c_void_p, ctypes.c_char_p, c_int32, c_int32]),
    "index_remove": (None, [c_void_p, ctypes.c_char_p, c_int32]),
    "index_untouch": (None, [c_void_p]),
    "index_number_new": (c_int64, [c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p]),
    "index_put_known": (
        c_int64,
        [c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p, c_void_p, POINTER(c_int64)],
    ),
}

SEED = int.from_bytes(os.urandom(8)), int.from_bytes(os.urandom(8))
"""Of hashes of keys, which strangers choose: as Python has one for its own."""


@cache
def library() -> ctypes.CDLL | None:
    """The library; None where none was built for this platform. Its functions keep the interpreter's lock: they are
    short."""
    return _load(ctypes.PyDLL)


@cache
def unlocked_library() -> ctypes.CDLL | None:
    """The same, without the interpreter's lock while a function runs: for those that wait."""
    return _load(ctypes.CDLL)


def _load(kind: type[ctypes.CDLL]) -> ctypes.CDLL | None:
    try:
        found = kind(str(LIBRARY))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):
        return None
    return found if found.interface_number() == INTERFACE else None
