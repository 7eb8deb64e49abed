"""A page's tables as a reader sees them."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Cells = dict[str, str]


class Page(HTMLParser):
    """Text of cells by caption and column, a blank is None; `text` is all that is shown, `tags` every tag."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source, self.text, self.tags = source, "", set[str]()
        self.tables: dict[str, list[dict[str, str | None]]] = {}
        self._cell: str | None = None
        self._row: list[str | None] = []
        self._rows: list[list[str | None]] = []
        self._caption = ""
        self._blank = False
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "table":
            self._rows = []
        elif tag == "tr":
            self._row = []
        elif tag in ("td", "th", "caption"):
            self._cell, self._blank = "", False
        elif tag == "small" and self._cell:
            self._cell += " | "
        elif ("title", "not known") in attrs:
            self._blank = True

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._cell is not None:
            self._cell += data

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            assert self._cell is not None
            self._row.append(None if self._blank else " ".join(self._cell.split()))
            self._cell = None
        elif tag == "caption":
            self._caption, self._cell = self._cell or "", None
        elif tag == "tr":
            self._rows.append(self._row)
        elif tag == "table":
            heads = [str(it) for it in self._rows[0]]
            # Two columns may have one name: the second is told by its number.
            names = [f"{it} {at}" if it in heads[:at] else it for at, it in enumerate(heads)]
            self.tables[self._caption] = [dict(zip(names, row, strict=True)) for row in self._rows[1:]]

    def table(self, begins: str) -> list[dict[str, str | None]]:
        """The one whose caption begins so."""
        (found,) = [rows for caption, rows in self.tables.items() if caption.startswith(begins)]
        return found


def summary(where: Path, table: str) -> list[dict[str, Any]]:
    """Rows of a table of the summary."""
    rows: list[dict[str, Any]] = pq.read_table(where / table).to_pylist()
    return rows
