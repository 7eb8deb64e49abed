"""The swim lanes of a group, where there is something to draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def picture(events: Sequence[dict[str, Any]], form: Mapping[str, Any] | None, since_ms: int, until_ms: int) -> str:
    """As markup."""
    return ""
