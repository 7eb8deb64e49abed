"""The text formats, for the metrics that have a sample or more for each group: prometheus_client takes some 10 µs for
a sample. What is written here is what it would write, to the byte; a test holds the two together."""

from __future__ import annotations

import math
import re
from hashlib import blake2b

from msgspec import Struct


class Metric(Struct, frozen=True):
    """A metric as it is exported. `kind` is Prometheus': counter names leave out the `_total` that is added."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str

    @property
    def sample_name(self) -> str:
        """The name of its samples."""
        return f"{self.name}_total" if self.kind == "counter" else self.name

    def header(self, *, openmetrics: bool) -> str:
        """What stands before its samples."""
        name = self.name if openmetrics else self.sample_name
        # The texts have no quotes, which only OpenMetrics escapes.
        text = self.help.replace("\\", r"\\").replace("\n", r"\n")
        return f"# HELP {name} {text}\n# TYPE {name} {self.kind}\n"


PLAIN_BELOW = 1_000_000
"""From here on numbers have an exponent, as Go writes them."""

_SMALLEST_PLAIN = 0.001
"""From here on Python writes no exponent."""

_EXACT_BELOW = 10**15
"""A float holds every whole number below, and Python writes it with all its digits."""


def format_number(value: float) -> str:
    """A sample's value as Go writes it: `3.0`, `1.5e+06`."""
    if type(value) is int and 0 <= value < _EXACT_BELOW:
        return f"{value}.0" if value < PLAIN_BELOW else _shifted(str(value), 0)
    if type(value) is float and _SMALLEST_PLAIN <= value < PLAIN_BELOW:
        return repr(value)
    return _as_go_writes(float(value))


def format_seconds(milliseconds: int) -> str:
    """A time or duration in milliseconds as a value in seconds."""
    if PLAIN_BELOW * 1000 <= milliseconds < _EXACT_BELOW:
        return _shifted(str(milliseconds), 3)
    return _as_go_writes(milliseconds / 1000)


def _as_go_writes(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    whole, _, fraction = text.partition(".")
    # What is smaller is left, and what has an exponent already: there, one digit is before the point.
    return _shifted(whole + fraction, len(fraction)) if fraction and value > 0 and len(whole) > 6 else text


def _shifted(digits: str, fraction: int) -> str:
    """With an exponent. So many of the digits are behind the point."""
    kept, exponent = digits.rstrip("0"), _EXPONENTS[len(digits) - 1 - fraction]
    return f"{kept[0]}.{kept[1:]}{exponent}" if len(kept) > 1 else f"{kept}{exponent}"


_EXPONENTS = [f"e+{exponent:02d}" for exponent in range(17)]
"""From 10**16 on Python writes an exponent itself."""


def escape_label(value: str) -> str:
    """A label's value, between its quotes."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


MAX_LABEL = 200
"""Characters of a label value. Group names may have 32,767, and stores refuse values far shorter than that."""


_SEEMS_CHANGED = re.compile(r"~[0-9a-f]{8}\Z")


def safe_label(text: str) -> str:
    """A stranger's text as a label value: printable, and of at most `MAX_LABEL` characters.

    What had to be changed ends in `~` and a hash of the original, and so does what ends like that as it is: so two
    groups never become one series, however one of them is called.
    """
    if text.isprintable() and len(text) <= MAX_LABEL and not _SEEMS_CHANGED.search(text):
        return text
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    shown = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text[:MAX_LABEL])
    return f"{shown[: MAX_LABEL - len(digest) - 1]}~{digest}"


class Escaped(dict[str, str]):
    """Strangers' texts as label values, each escaped once. One for each scrape: it grows with what is looked up."""

    def __missing__(self, text: str) -> str:
        self[text] = escaped = escape_label(safe_label(text))
        return escaped
