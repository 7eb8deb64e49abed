"""The capture as a film: a source that answers as an agent would have at any time of it, with a lag made up."""

from __future__ import annotations

from collections.abc import Sequence
from math import sin
from typing import Any

from agent.core.queries import Capabilities, Health, Timeline
from agent.core.read_limits import UntilTime
from agent.presentation.json_views import NO_LAG
from agent.runtime.offline import OfflineGroups, load
from analyzers.registry import select_analyzers
from tests import SHARED

CAPTURE = SHARED / "captures" / "kafka-4.3.1" / "segments"
BEGAN_MS = 1_795_246_069_000
"""2026-11-21 07:27:49, when the capture's first group came."""

Form = dict[str, Any]


class Film:
    """A live source whose now is told."""

    capabilities = Capabilities(live=True)
    where = "at http://kshadow.example:9308"

    def __init__(self, seconds: float = 0, path: object = CAPTURE) -> None:
        self._path = path
        self.now_ms = 0
        self._loaded: OfflineGroups
        self.at(seconds)

    def at(self, seconds: float) -> None:
        """Go on to so long after the beginning."""
        self.now_ms = BEGAN_MS + round(seconds * 1000)
        self._loaded = load(
            [str(self._path)],
            on_problem=lambda _: None,
            keep_events=True,
            chosen=select_analyzers(),
            end=UntilTime(self.now_ms),
        )

    def ready(self) -> Health:
        return Health(True, "caught up")

    def groups(self) -> Sequence[Form]:
        return [{**form, "lag": self._lag(form["group"], form["partitions"])} for form in self._loaded.groups()]

    def _lag(self, group: str, partitions: int) -> int | None:
        """More where it rebalances, and over time; nothing of a group that has no member."""
        if not partitions:
            return None
        phase = (self.now_ms - BEGAN_MS) / 9_000 + sum(map(ord, group))
        return round(partitions * len(group) * (20 + 14 * sin(phase) + 5 * sin(3 * phase)))

    def describe(self, group: str) -> Form | None:
        found = self._loaded.describe(group)
        if found is None:
            return None
        found["lag"] = self._lag(group, found["partitions"])
        offsets = found["offsets"]
        for number, it in enumerate(offsets):
            share = (found["lag"] or 0) * (number + 1) * 2 // (len(offsets) * (len(offsets) + 1))
            it.update({**NO_LAG, "lag": share if found["lag"] else None})
        return found

    def timeline(self, group: str, since_ms: int | None = None) -> Timeline | None:
        events = self._loaded.timeline(group, since_ms)
        return None if events is None else Timeline(events)

    def findings(self, since_ms: int | None = None, *, group: str | None = None) -> list[Form]:
        return self._loaded.findings(since_ms, None, group)
