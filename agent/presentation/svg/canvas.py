"""What the strips, the lanes and the legend are drawn on, and the signs that they share."""

from __future__ import annotations

from msgspec import Struct, field

from agent.presentation.markup import escape, fitting, width_of
from agent.presentation.svg.scale import Scale
from agent.presentation.svg.shapes import text

SEVERITY_LETTERS = {"critical": "C", "warning": "W", "info": "i"}
TIMES_SIGN = "\u00d7"


class Canvas(Struct):
    """What is drawn so far, and down to where. Names have `gutter` pixels to the left of the time."""

    width: float
    gutter: float
    scale: Scale
    y: float = 4.0
    out: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    """Keys of the legend."""

    def add(self, *pieces: str) -> None:
        """Draw on top of all that was drawn."""
        self.out += [piece for piece in pieces if piece]

    def heading(self, said: str, under: str = "") -> None:
        """The name of a strip, and a word about it: beside it, or above where there is no room."""
        if self.gutter:
            self.add(text("strong", 2, self.y + 12, escape(said)))
            self.add(text("small", 2, self.y + 25, escape(fitting(under, 10.5, self.gutter - 10))))
        else:
            self.add(text("strong", 2, self.y + 11, escape(said)))
            after = width_of(said, 12.5) + 10
            self.add(text("small", after, self.y + 11, escape(fitting(under, 10.5, self.width - after))))
            self.y += 16
