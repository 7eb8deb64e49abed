"""Text that strangers wrote, with whatever could move a cursor, end a line or hide itself shown as an escape.

Group names, client ids, metadata and what brokers answer come from anyone who may use the cluster. Everything that
is shown to people (terminal, page, log) goes through here; formats with escapes of their own use those.
"""

from __future__ import annotations

import re

# Python's own idea of what is printable decides (all but controls, formats such as bidirectional marks,
# surrogates, separators, unassigned); this pattern spares it plain ASCII.
_CANDIDATE = re.compile(r"[^\x20-\x7e]")


def printable(text: str) -> str:
    """One line of text that shows what it holds, and does nothing."""
    return text if text.isprintable() else _CANDIDATE.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    char = match[0]
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
