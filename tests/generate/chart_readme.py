"""The tables of values in the README of the chart and of the library in it, from each values.yaml and its comments.

A `## …` line begins a section. The comment right above a key describes it; a key that has described keys within is
shown by those. To write the tables anew: `python -m tests.generate.chart_readme`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.live.helm.chart.rendering import CHART, LIBRARY

BEGIN, END = "<!-- values: python -m tests.generate.chart_readme -->\n", "<!-- end of values -->\n"

_KEY = re.compile(r"( *)([A-Za-z][A-Za-z0-9_-]*):")


@dataclass(frozen=True, slots=True)
class Described:
    """A key of values.yaml: its path, what the comment above it says (or nothing), and its default."""

    section: str
    path: tuple[str, ...]
    comment: str
    default: Any

    @property
    def name(self) -> str:
        """As `--set` takes it."""
        return ".".join(self.path)


def described(file: Path) -> list[Described]:
    """Every key, in the order of the file."""
    text = file.read_text()
    values = yaml.safe_load(text)
    out: list[Described] = []
    section, comment, path = "", list[str](), list[str]()
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("## "):
            section, comment = stripped.removeprefix("## "), []
        elif stripped.startswith("#"):
            comment.append(stripped.removeprefix("#").strip())
        elif found := _KEY.match(line):
            path = [*path[: len(found[1]) // 2], found[2]]
            if isinstance(_at(values, path[:-1]), dict):  # not a key of a list's item
                out.append(Described(section, tuple(path), " ".join(comment), _at(values, path)))
            comment = []
        else:
            comment = []
    return out


def _at(values: Any, path: list[str]) -> Any:
    for key in path:
        values = values[key] if isinstance(values, dict) else None
    return values


def shown(keys: list[Described]) -> Iterator[Described]:
    """Those of which the table has a row: the ends of what is described."""
    for it in keys:
        within = [other for other in keys if other.path[: len(it.path)] == it.path and other is not it]
        if it.comment and not any(other.comment for other in within):
            yield it


def undescribed(keys: list[Described]) -> list[str]:
    """Keys that nobody says anything about: no comment above them, nor above a key that they are in, nor within."""
    rows = {it.path for it in shown(keys)}
    return [
        it.name
        for it in keys
        if not any(it.path[: len(row)] == row or row[: len(it.path)] == it.path for row in rows)
    ]


def table(chart: Path) -> str:
    """Markdown: for each section a table."""
    out: list[str] = []
    section = None
    for it in shown(described(chart / "values.yaml")):
        if it.section != section:
            section = it.section
            out += [*(["", f"### {section}", ""] if section else []), "| value | default | what |", "|---|---|---|"]
        default = json.dumps(it.default, ensure_ascii=False)
        out.append(
            " | ".join(
                ["", f"`{it.name}`", *(cell.replace("|", "\\|") for cell in (f"`{default}`", it.comment)), ""]
            ).strip()
        )
    return "\n".join(out).lstrip("\n") + "\n"


def text(chart: Path) -> str:
    """The whole README, with this table in it."""
    before, _, rest = (chart / "README.md").read_text().partition(BEGIN)
    return before + BEGIN + "\n" + table(chart) + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    for each in (CHART, LIBRARY):
        (each / "README.md").write_text(text(each))
