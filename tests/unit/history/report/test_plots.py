"""Pictures are drawn once, and have the colours of the scheme that shows them."""

from __future__ import annotations

import re
from base64 import b64decode

from matplotlib.figure import Figure

from agent.history.report.page import plots as p
from agent.history.report.page.markup import Markup


def draw(figure: Figure, ink: p.Palette, is_wide: bool) -> None:
    """All that the report's plots draw with."""
    at = p.axes(figure, (1, 1, 1), ink, "rebalances")
    p.stack(at, ink, [(family, [1, 2, 3]) for family in p.FAMILIES])
    p.legend(at, ink, 5 if is_wide else 2)
    p.gaps(at, ink, [1])
    p.ticks(at, ["a", "b", "c"], 3)


def test_a_picture_has_the_colours_of_its_scheme() -> None:
    made = str(p.picture(draw, "about", Markup("caption"), wide=(1240, 460), narrow=(340, 430)))
    found = re.findall(r'<img class="(\w+) (\w+)" src="data:image/svg\+xml;base64,([^"]+)"', made)
    assert [it[:2] for it in found] == [(size, ink) for size in ("wide", "narrow") for ink in ("light", "dark")]
    of_plots = {p.GREY, p.BLUE, p.ORANGE, *p._COLORS.values()}
    for _, scheme, encoded in found:
        colors = set(re.findall(r"#[0-9a-f]{6}\b", b64decode(encoded).decode()))
        ink = {"light": p.LIGHT, "dark": p.DARK}[scheme]
        assert set(ink) <= colors <= {*ink, *of_plots}, scheme
