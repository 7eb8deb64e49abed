"""The cursor file of a spool: which sequence its sink wants next, replaced as a whole."""

from __future__ import annotations

import logging
from pathlib import Path
from zlib import crc32

log = logging.getLogger("kshadow.export")


def store(directory: Path, sequence: int) -> None:
    """Put it in the place of the one before. Raises OSError."""
    text = str(sequence).encode()
    new = directory / "cursor.new"
    new.write_bytes(b"%b %08x\n" % (text, crc32(text)))
    new.replace(directory / "cursor")


def load(directory: Path) -> int:
    """The stored one; 0 where there is none or it is damaged, which costs events sent twice. Raises OSError."""
    try:
        text, check = (directory / "cursor").read_bytes().split()
    except FileNotFoundError:
        return 0
    except ValueError:
        text, check = b"", b""
    if not text.isdigit() or check != b"%08x" % crc32(text):
        log.warning("spool %s: the cursor is damaged; all that is there is sent again", directory)
        return 0
    return int(text)
