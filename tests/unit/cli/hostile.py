"""Text as a stranger may write it wherever Kafka lets one, and a log full of it."""

from __future__ import annotations

import json
import re

from agent.core.wire.classic import MemberMetadata
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Pair

# 1-15: each may do something to a terminal, to a format, or to who reads it.
TEXTS = {
    "1 clears the screen": "\x1b[2J\x1b[H",
    "2 sets the window's title": "\x1b]0;owned\x07",
    "3 is a link": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "4 is a C1 control, one byte in some terminals": "\x9b31mred\x9d",
    "5 overwrites the line": "payments\r\x08\x08evil",
    "6 forges a line of output": "a\nb\u2028c\u2029d\x85e\x0bf\x0cg",
    "7 reads backwards": "\u202egnp.exe\u202c \u2066x\u2069 \u200f\u061c",
    "8 hides": "pay\u200bments\u2060\ufeff\u00ad\U000e0041",
    "9 is the markup of rich": "[bold red]x[/] [link=http://evil.example]y[/link] :smile:",
    "10 is markup": "<script>alert(1)</script>&amp;\"'`",
    "11 is YAML and JSON": '{"a": 1} - [*x] !!python/object:os.system # \\u001b "',
    "12 is a template": "{{ x }} ${HOME} $(id) %s %(a)s \\x1b[31m",
    "13 is NUL and DEL": "a\x00b\x7fc",
    "14 is long": "long " + "x\x1b" * 16_000,
    "15 is wide, and combines": "日本語" * 40 + "e\u0301" * 100,
}
LETTERS = {
    "16 is a name like others": "größe-日本",
}


def pairs(text: str) -> list[Pair]:
    """Records with `text` in every place that a client fills: a classic and a KIP-848 group, with offsets."""
    member = MemberMetadata(
        member_id=text,
        group_instance_id=text,
        client_id=text,
        client_host=text,
        rebalance_timeout=300_000,
        session_timeout=45_000,
        subscription=b.member("m", topics=[text]).subscription,
        assignment=b.member("m", {text: [0, 1]}).assignment,
    )
    modern = f"{text}848"
    return [
        b.new_group(text),
        b.classic_group(1, member, group=text, protocol=text, leader=text),
        b.classic_group(3, member, group=text, protocol=text, leader=text),  # a gap: an anomaly
        b.commit(text, 0, group=text, metadata=text),
        b.c_member(text, group=modern, instance_id=text, topics=[text], regex=text, assignor=text, host=text),
        b.c_epoch(1, group=modern),
        b.commit(text, 1, group=modern, metadata=text),
    ]


def ndjson_of(*texts: str) -> str:
    """A file of such records, one to a line; with lines that are no records, as hostile."""
    rows = [
        {"key": key.hex(), "value": value.hex() if value else None, "partition": 3, "timestamp": b.T0}
        for text in texts
        for key, value in pairs(text)
    ]
    for offset, row in enumerate(rows):
        row["offset"] = offset
    return "".join(json.dumps(row) + "\n" for row in rows)


BOLD = re.compile(r"\x1b\[(?:1|0)m")
"""What a table's headings are styled with on a terminal: all that kshadow itself ever sends."""


def raw(text: str, *, styled: bool = False) -> list[str]:
    """Characters that must not have come through."""
    if styled:
        text = BOLD.sub("", text)
    return [char for char in text if char != "\n" and not char.isprintable()]
