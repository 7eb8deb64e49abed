"""Plays of scripts, as far as the model goes."""

from __future__ import annotations

from agent.coordinator.assignors import ASSIGNORS
from agent.coordinator.play import Played, play
from agent.coordinator.script import Script
from agent.whatif.changes import starts


class NotPlayed(ValueError):
    """The model cannot play a script; the message says why."""


def played(script: Script) -> Played:
    """Play a script. Raises `NotPlayed`."""
    settings = [it.settings for it in starts(script)]
    unknown = {name for it in settings for name in it.assignors} - ASSIGNORS.keys()
    if unknown:
        raise NotPlayed(f"the model has no assignor {' or '.join(sorted(unknown))}")
    return play(script)
