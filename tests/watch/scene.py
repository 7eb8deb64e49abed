"""The capture as a film: a source that answers as an agent would have at any time of it, with a lag made up."""

from __future__ import annotations

from collections.abc import Sequence
from math import sin
from typing import Any

from agent.cli.access import Past
from agent.diagnosis.registry import choose
from agent.ends import UpTo
from agent.forms import NO_LAG
from agent.offline import Loaded, load
from agent.watching.source import Health
from tests.wire.vectors import ROOT

CAPTURE = ROOT.parent / "shared" / "captures" / "kafka-4.3.1" / "segments"
BEGAN_MS = 1_795_246_069_000
"""2026-11-21 07:27:49, when the capture's first group came."""

Form = dict[str, Any]


class Film:
    """A live source whose now is told."""

    live = True
    where = "at http://kshadow.example:9308"

    def __init__(self, seconds: float = 0, path: object = CAPTURE) -> None:
        self._path = path
        self.now_ms = 0
        self._loaded: Loaded
        self.at(seconds)

    def at(self, seconds: float) -> None:
        """Go on to so long after the beginning."""
        self.now_ms = BEGAN_MS + round(seconds * 1000)
        self._loaded = load(
            [str(self._path)],
            on_problem=lambda _: None,
            keep_events=True,
            chosen=choose(),
            end=UpTo(self.now_ms),
        )

    def health(self) -> Health:
        return Health(True, "caught up")

    def groups(self) -> Sequence[Form]:
        return [{**form, "lag": self._lag(form["group"], form["partitions"])} for form in self._loaded.groups()]

    def _lag(self, group: str, partitions: int) -> int | None:
        """More where it rebalances, and over time; nothing of a group that has no member."""
        if not partitions:
            return None
        phase = (self.now_ms - BEGAN_MS) / 9_000 + sum(map(ord, group))
        return round(partitions * len(group) * (20 + 14 * sin(phase) + 5 * sin(3 * phase)))

    def describe(self, group: str, *, cluster: str | None = None) -> Form | None:
        found = self._loaded.describe(group)
        if found is None:
            return None
        found["lag"] = self._lag(group, found["partitions"])
        offsets = found["offsets"]
        for number, it in enumerate(offsets):
            share = (found["lag"] or 0) * (number + 1) * 2 // (len(offsets) * (len(offsets) + 1))
            it.update({**NO_LAG, "lag": share if found["lag"] else None})
        return found

    def past(self, group: str, since_ms: int | None = None, *, cluster: str | None = None) -> Past | None:
        events = self._loaded.timeline(group, since_ms)
        return None if events is None else Past(events, None)

    def findings(self, since_ms: int | None = None, *, group: str | None = None) -> list[Form]:
        return self._loaded.findings(since_ms, None, group)
