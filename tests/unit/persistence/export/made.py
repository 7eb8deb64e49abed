"""Events for the history's sinks."""

from __future__ import annotations

import json
from typing import Any

from agent.core.events.events import Event
from tests import DATA, SHARED

CAPTURE = SHARED / "captures" / "kafka-4.3.1" / "segments"
SEGMENTS = DATA / "cli" / "segments"

HOSTILE = [
    "", "\x00", "a\x00b", "\udc80", "\ud800x\\udc80\\", "\U0001f600", "\u202e right to left", "\x7f\x1b[31m",
    "é" * 16_000, '"', "\n\r\t", "\u2028", "../../etc", "date=1970-01-01", "\\", "\\u0041", "\ufffe\uffff", "null",
]  # fmt: skip


def event(number: int, group: str | None = "orders", **more: Any) -> Event:
    """The `number`th event of a group, as small as one is."""
    return {
        "schema": 1,
        "event_id": f"7-{number}-{number:012x}",
        "type": "group_emptied",
        "cluster": "c",
        "group": group,
        "group_type": "classic",
        "at_ms": 1_795_000_000_000 + number,
        "partition": 7,
        "offset": number,
        "generation": number,
        **more,
    }


def plain(value: Any) -> Any:
    """As JSON has it: tuples are lists."""
    return json.loads(json.dumps(value))
