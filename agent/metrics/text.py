"""Lines of the text formats, for the families that have a sample or more for each group: prometheus_client takes some
10 µs for a sample. What is written here is what it would write, to the byte; a test holds the two together."""

from __future__ import annotations

import math

from agent.metrics.table import Metric

_PLAIN_BELOW = 1_000_000
"""From here on numbers have an exponent, as Go writes them."""

_EXACT_BELOW = 10**15
"""A float holds every whole number below, and Python writes it with all its digits."""


def number(value: float) -> str:
    """A sample's value."""
    if type(value) is int and 0 <= value < _EXACT_BELOW:
        return f"{value}.0" if value < _PLAIN_BELOW else _shifted(str(value), 0)
    return _as_go_writes(float(value))


def seconds(milliseconds: int) -> str:
    """A time or duration in milliseconds as a value in seconds."""
    if _PLAIN_BELOW * 1000 <= milliseconds < _EXACT_BELOW:
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
    mantissa = f"{digits[0]}.{digits[1:]}".rstrip("0").rstrip(".")
    return f"{mantissa}e+{len(digits) - 1 - fraction:02d}"


def escaped(value: str) -> str:
    """A label's value, between its quotes."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def sample_name(metric: Metric) -> str:
    """The name of its samples."""
    return f"{metric.name}_total" if metric.kind == "counter" else metric.name


def head(metric: Metric, *, openmetrics: bool) -> str:
    """What stands before a family's samples."""
    name = metric.name if openmetrics else sample_name(metric)
    return f"# HELP {name} {_help(metric.help)}\n# TYPE {name} {metric.kind}\n"


def _help(text: str) -> str:
    # The table's texts have no quotes, which only OpenMetrics escapes.
    return text.replace("\\", r"\\").replace("\n", r"\n")
