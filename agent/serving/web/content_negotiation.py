"""What a client accepts, by its headers: which exposition format, and whether gzip.

Prometheus says, for example, `application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,
text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2`.
"""

from __future__ import annotations

from typing import NamedTuple

ESCAPINGS = ("allow-utf-8", "underscores", "dots", "values")
"""Ways to write metric names that are no identifiers. Ours all are, so that each way writes them alike."""
MAX_MEDIA_RANGES = 50
"""Media ranges that are looked at."""
MAX_PARAMETERS = 20
"""Parameters of a media range that are looked at."""


class Exposition(NamedTuple):
    """How metrics are to be written, and the `Content-Type` that says so."""

    openmetrics: bool
    content_type: str


TEXT_EXPOSITION = Exposition(openmetrics=False, content_type="text/plain; version=0.0.4; charset=utf-8")
"""What is sent to who does not say what they want, or wants what there is not."""


def negotiate_exposition(accept: str) -> Exposition:
    """The best of what an `Accept` header allows: the weightiest, of equals the first that it names."""
    best, weight = TEXT_EXPOSITION, 0.0
    for kind, parameters in _ranges(accept):
        offered = _offered(kind, parameters)
        q = _weight(parameters)
        if offered is not None and q > weight:
            best, weight = offered, q
    return best


def _offered(kind: str, parameters: dict[str, str]) -> Exposition | None:
    version = parameters.get("version")
    escaping = parameters.get("escaping", "")
    escaped = f"; escaping={escaping}" if escaping in ESCAPINGS else ""
    match kind:
        case "application/openmetrics-text" if version in (None, "1.0.0", "0.0.1"):
            said = version or "1.0.0"
            return Exposition(True, f"application/openmetrics-text; version={said}; charset=utf-8{escaped}")
        case "text/plain" if version == "1.0.0":
            return Exposition(False, f"text/plain; version=1.0.0; charset=utf-8{escaped}")
        case "text/plain" if version in (None, "0.0.4"):
            return TEXT_EXPOSITION
        case "text/*" | "*/*":
            return TEXT_EXPOSITION
    return None


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an `Accept-Encoding` header allows gzip."""
    weights = {kind: _weight(parameters) for kind, parameters in _ranges(accept_encoding)}
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


def _ranges(header: str) -> list[tuple[str, dict[str, str]]]:
    """`a;x=1;q=0.5, b` as kinds with their parameters, in small letters."""
    out = []
    for item in header.lower().split(",", MAX_MEDIA_RANGES)[:MAX_MEDIA_RANGES]:
        kind, *rest = (part.strip() for part in item.split(";", MAX_PARAMETERS)[:MAX_PARAMETERS])
        pairs = (part.partition("=") for part in rest)
        out.append((kind, {name.strip(): value.strip().strip('"') for name, _, value in pairs}))
    return out


def _weight(parameters: dict[str, str]) -> float:
    try:
        q = float(parameters.get("q", "1"))
    except ValueError:
        return 0.0
    return q if 0 <= q <= 1 else 0.0
