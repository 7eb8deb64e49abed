"""Markdown, written for the generated pages and read for the checks of all of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from agent.cli.commands import LISTINGS
from tests import ROOT

_NAMES, _INNER = "|".join(LISTINGS), "backfill|check|inject|render|rollup|show|stream"
_CODE = re.compile(
    r"(?<![\w`])("
    r"`[^`]+`"  # what is written as code already
    r"|\$\{\w+\}"  # a reference; as plain text two of them in a line are taken for a formula
    rf"|kshadow(?: (?:{_NAMES}))*(?: --[a-z-]+(?: [A-Z]+)?)+|kshadow (?:{_NAMES})(?: (?:{_INNER}))?\b"
    r"|--[a-z][a-z-]+"
    r"|(?:[A-Za-z]\w*\.)+\w+=[\w.]+"
    r"|__\w+(?:-N)?"
    r"|\$?[A-Za-z]+(?:_[A-Za-z]+)+"
    r"|(?:[a-z]+\.)+(?:config|id|log|ms|protocol)\b"
    r"|/(?:metrics|healthz|readyz|api/v1/\w+)"
    r")"
)
_SPECIAL = re.compile(r"([<>*`|\\])")
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)(?:\s+\"[^\"]*\")?\)|!\[[^\]]*\]\(([^()\s]+)\)")
_SOURCE = re.compile(r"<(?:img|source|a)\s[^>]*?(?:src|srcset|href)=\"([^\"]+)\"")
_FENCE = re.compile(r"^(```+|~~~+).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_LEFT_OUT = {"build", "dist", "node_modules"}


def pages() -> list[Path]:
    """Every page of Markdown in the repository."""
    found = ROOT.rglob("*.md")
    inside = (path for path in found if not any(_is_left_out(part) for part in path.relative_to(ROOT).parts))
    return sorted(inside)


def _is_left_out(part: str) -> bool:
    return part.startswith(".") or part in _LEFT_OUT


def prose(text: str) -> str:
    """A line of plain text: what looks like code becomes code, and nothing else becomes markup."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(code(it.strip("`")) if at % 2 else _SPECIAL.sub(r"\\\1", it) for at, it in enumerate(parts))


def code(text: str) -> str:
    """Code within a line; also right in a table."""
    return f"`{text}`".replace("|", "\\|")


def fenced(text: str, language: str = "") -> str:
    """A block of code."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def anchor(heading: str) -> str:
    """What a heading is linked to by."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Every anchor of a page."""
    seen: Counter[str] = Counter()
    found = set()
    for match in _HEADING.finditer(_FENCE.sub("", text)):
        name = anchor(match[2])
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


class Link(NamedTuple):
    """What a page links to, as it is written."""

    page: Path
    target: str


def links(page: Path) -> Iterator[Link]:
    """Every link and picture of a page, of Markdown and of HTML."""
    text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", page.read_text(encoding="utf-8")))
    for match in _LINK.finditer(text):
        yield Link(page, match[1] or match[2])
    for match in _SOURCE.finditer(text):
        yield Link(page, match[1])


def problem(link: Link) -> str | None:
    """What is wrong with a link within the repository, None if nothing is, or it leads elsewhere."""
    if re.match(r"[a-z]+:", link.target):
        return None
    path, _, name = link.target.partition("#")
    there = (link.page.parent / path).resolve() if path else link.page
    if not there.is_relative_to(ROOT) or not there.exists():
        return f"{link.page.relative_to(ROOT)}: {link.target}: there is no such file"
    if name and name not in anchors(there.read_text(encoding="utf-8")):
        return f"{link.page.relative_to(ROOT)}: {link.target}: there is no such heading"
    return None
