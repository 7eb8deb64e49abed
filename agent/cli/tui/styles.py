"""How each style of a line looks: colours that most people tell apart, and attributes where there are no colours."""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style

# Topics have the colours of Okabe and Ito, which colour-blind people tell apart; glyphs and letters say the same.
_COLOUR_STYLES = {
    "": "",
    "title": "bold #ffffff on #1f4e79",
    "head": "bold #8fb8de",
    "section": "bold #8fb8de",
    "bold": "bold #f2f2f2",
    "dim": "#9aa4b2",
    "faint": "#4b5563",
    "key": "bold #f0e442",
    "good": "#4cc38a",
    "warn": "#f5a623",
    "bad": "bold #ff6b5e",
    "info": "#6cb6ff",
    "ill": "#ffa198",
    "advice": "#c8d3df",
    "moved": "bold #ffffff on #a3286b",
    "topic0": "#56b4e9",
    "topic1": "#e69f00",
    "topic2": "#009e73",
    "topic3": "#cc79a7",
    "topic4": "#f0e442",
    "topic5": "#3f8fd2",
    "topic6": "#d55e00",
    "cursor": "on #264468",
}
_MONOCHROME_STYLES = {
    "title": "reverse",
    "head": "bold underline",
    "section": "bold underline",
    "bold": "bold",
    "key": "bold",
    "warn": "bold",
    "bad": "bold",
    "moved": "reverse",
    "cursor": "reverse",
}


def styles(coloured: bool) -> Mapping[str, Style]:
    """Every style by its name."""
    words = _COLOUR_STYLES if coloured else {name: _MONOCHROME_STYLES.get(name, "") for name in _COLOUR_STYLES}
    return {name: Style.parse(word) if word else Style() for name, word in words.items()}
