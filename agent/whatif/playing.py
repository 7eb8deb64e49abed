"""Plays of scripts, as far as the model goes."""

from __future__ import annotations

from agent.coordinator.assignors import ASSIGNORS
from agent.coordinator.play import Played, play
from agent.coordinator.script import Script
from agent.coordinator.world import Endless
from agent.whatif.changes import starts

MOST_MOMENTS = 20_000
"""Of one play; a day of storms comes to 500. Records that claim timeouts of a millisecond would make it billions, and
all of them are remembered."""


class NotPlayed(ValueError):
    """The model cannot play a script; the message says why."""


def played(script: Script) -> Played:
    """Play a script. Raises `NotPlayed`."""
    settings = [it.settings for it in starts(script)]
    unknown = {name for it in settings for name in it.assignors} - ASSIGNORS.keys()
    if unknown:
        raise NotPlayed(f"the model has no assignor {' or '.join(sorted(unknown))}")
    try:
        return play(script, MOST_MOMENTS)
    except Endless as error:
        raise NotPlayed(f"too much happens in this group to be played again: {error}") from None
