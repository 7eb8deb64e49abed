"""Plots: matplotlib's objects → SVG within the page, in a light and a dark form, for wide and narrow screens.

No text in them is a stranger's: names of groups stand in tables. Nothing here has a state of its own.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from html import escape
from io import BytesIO
from typing import Any, NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from agent.core.causes import UNKNOWN_CAUSES, Cause
from agent.history.report.page.markup import Markup

INCH = 96


class Palette(NamedTuple):
    """Colours on a ground. Those of causes are Okabe and Ito's, which people tell apart who see few colours."""

    text: str
    line: str
    ground: str
    black: str


LIGHT = Palette("#1b1f24", "#c4ccd4", "#ffffff", "#1b1f24")
DARK = Palette("#e4e7eb", "#4a535e", "#14171b", "#f4f6f8")
_MARKED = Palette("#010101", "#020202", "#030303", "#040404")
"""Nothing else has these: pictures are drawn once, in them, since drawing takes most of a report's time."""

BLUE, ORANGE, GREY = "#0072b2", "#e69f00", "#999999"

_BARS = {str(cause): cause.info.plot_bar for cause in Cause if cause.info.plot_bar is not None}
_COLORS = {cause: bar.color for cause, bar in sorted(_BARS.items(), key=lambda item: item[1].position)}
UNKNOWN, OTHERS = "unknown", "others"

Draw = Callable[[Figure, Palette, bool], None]
"""Draws into an empty figure; the last says whether it is wide."""


def cause_family(cause: str | None) -> str:
    """The cause as plots tell it: what has no colour of its own is one of the others."""
    return UNKNOWN if cause in UNKNOWN_CAUSES else cause if cause in _COLORS else OTHERS


FAMILIES = (*_COLORS, UNKNOWN, OTHERS)


def family_label(of_family: str) -> str:
    """As a legend says it."""
    return of_family.replace("_", " ")


def _color(of_family: str, ink: Palette) -> str:
    return ink.black if of_family == UNKNOWN else _COLORS.get(of_family, GREY)


def picture(draw: Draw, about: str, caption: Markup, *, wide: tuple[int, int], narrow: tuple[int, int]) -> Markup:
    """A figure with its caption; sizes in pixels. `about` tells those who do not see it what it shows."""
    # Of these the style sheet shows one: a browser would print that which it chose for the screen.
    forms = "".join(
        f'<img class="{size} {scheme}" src="{svg(_inked(drawn, ink))}" '
        f'width="{pixels[0]}" height="{pixels[1]}" alt="{escape(about)}">'
        for size, pixels in (("wide", wide), ("narrow", narrow))
        for drawn in (_drawn(draw, pixels, pixels == wide),)
        for scheme, ink in (("light", LIGHT), ("dark", DARK))
    )
    return Markup(f"<figure>{forms}<figcaption>{caption}</figcaption></figure>")


def _drawn(draw: Draw, size: tuple[int, int], is_wide: bool) -> bytes:
    # The same picture twice is the same text: no date, and identifiers by its own content.
    with rc_context(
        {"svg.hashsalt": "kshadow", "font.size": 10 if is_wide else 9, "axes.formatter.use_mathtext": False}
    ):
        figure = Figure(figsize=(size[0] / INCH, size[1] / INCH), dpi=INCH, layout="constrained", facecolor="none")
        draw(figure, _MARKED, is_wide)
        out = BytesIO()
        FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None, "Creator": None})
    return out.getvalue()


def _inked(drawn: bytes, ink: Palette) -> bytes:
    for mark, color in zip(_MARKED, ink, strict=True):
        drawn = drawn.replace(mark.encode(), color.encode())
    return drawn


def svg(text: bytes) -> str:
    """As an address."""
    return f"data:image/svg+xml;base64,{b64encode(text).decode()}"


def axes(figure: Figure, place: tuple[int, int, int], ink: Palette, label: str, shared: Axes | None = None) -> Axes:
    """Axes with a quiet frame and numbers with thousands separators."""
    out = figure.add_subplot(*place, facecolor="none", sharex=shared)
    for side, spine in out.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(ink.line)
    out.tick_params(colors=ink.text, length=3)
    out.grid(visible=True, axis="y", color=ink.line, linewidth=0.6)
    out.set_axisbelow(True)
    out.set_ylabel(label, color=ink.text, parse_math=False)
    out.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value == int(value) else f"{value:,.1f}")
    return out


def legend(at: Axes, ink: Palette, columns: int) -> None:
    """Above the axes."""
    made: Any = at.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, frameon=False, labelcolor=ink.text, borderaxespad=0,
        handlelength=1.1, columnspacing=1.2,
    )  # fmt: skip
    for text in made.get_texts():
        text.set_parse_math(False)


def stack(at: Axes, ink: Palette, series: Sequence[tuple[str, Sequence[float]]]) -> None:
    """Bars of causes upon each other, a thin line of the ground between them."""
    steps = range(len(series[0][1]) if series else 0)
    below = [0.0] * len(steps)
    edge = 0.6 if len(steps) <= 62 else 0.0
    for of_family, values in series:
        at.bar(
            steps, values, 0.86, bottom=below, color=_color(of_family, ink), edgecolor=ink.ground, linewidth=edge,
            label=family_label(of_family),
        )  # fmt: skip
        below = [one + more for one, more in zip(below, values, strict=True)]


def gaps(at: Axes, ink: Palette, unknown: Sequence[int]) -> None:
    """Steps of which nothing is known, hatched."""
    for step in unknown:
        at.axvspan(step - 0.5, step + 0.5, facecolor="none", edgecolor=ink.line, hatch="////", linewidth=0)


def ticks(at: Axes, names: Sequence[str], most: int) -> None:
    """At most so many of the names below the axis."""
    every = max(1, -(-len(names) // most))
    places = list(range(0, len(names), every))
    at.set_xticks(places, [names[place] for place in places], parse_math=False)
    at.set_xlim(-0.6, len(names) - 0.4)


def sparkline(values: Sequence[float | None], about: str) -> Markup:
    """Small bars, the same height for the most of each row; what is not known is left out."""
    most = max((value for value in values if value), default=0)
    width, height = 3, 40
    bars = "".join(
        f"M{at * width} {height}v{-max(value / most * height, 1.5):.1f}h{width - 0.6:.1f}V{height}z"
        for at, value in enumerate(values)
        if value
    )
    whole = f"{max(len(values), 1) * width} {height}"
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole}" preserveAspectRatio="none">'
        f'<path d="M0 {height}H{len(values) * width}" stroke="#888" stroke-width=".8"/>'
        f'<path d="{bars}" fill="#3a8fc8"/></svg>'
    )
    return Markup(f'<img src="{svg(text.encode())}" alt="{escape(about)}" title="{escape(about)}">')
