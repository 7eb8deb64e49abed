"""Strangers' texts as label values."""

from __future__ import annotations

from hashlib import blake2b

MAX_LABEL = 200
"""Characters of a label value. Group names may have 32,767, and stores refuse values far shorter than that."""


def label(text: str) -> str:
    """A stranger's text as a label value: printable, and of at most `MAX_LABEL` characters.

    What had to be changed ends in `~` and a hash of the original, so that two groups never become one series.
    """
    if text.isprintable() and len(text) <= MAX_LABEL:
        return text
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    shown = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text[:MAX_LABEL])
    return f"{shown[: MAX_LABEL - len(digest) - 1]}~{digest}"
