"""What there is to play."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.harness.faults.scene import Scale
from tests.harness.faults.truth import Verdict

Play = Callable[[Path, Scale], Verdict]
FAULTS: dict[str, Play] = {}


def fault(play: Play) -> Play:
    """Registers a scene under its name."""
    FAULTS[play.__name__.replace("_", "-")] = play
    return play
