"""What other settings would have saved, for who explains a group: within a budget of time, and what tells more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agent.presentation.narrative.gains import Gains

if TYPE_CHECKING:
    from agent.simulation.whatif.recorder import GroupRecording

BUDGET_S = 10.0
"""Longer than that nobody waits for a paragraph; between two plays it is looked at."""


def gains_within_budget(
    recording: GroupRecording,
    since_ms: int | None,
    until_ms: int | None,
    now_ms: int,
    *,
    command: str = "",
    budget_s: float = BUDGET_S,
) -> Gains:
    """What other settings would have made of what was recorded in a range, as far as the budget goes.

    `command` is what tells more, for where it does not.
    """
    from agent.simulation.whatif.recommendations import recommend as gained

    over = time.monotonic() + budget_s
    end_ms = now_ms if until_ms is None else min(until_ms, now_ms)
    found = gained(recording, since_ms, until_ms, end_ms, lambda: time.monotonic() >= over)
    return replace(found, command=command) if found.is_cut_short else found
