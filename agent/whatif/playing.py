"""Plays of scripts, as far as the model goes."""

from __future__ import annotations

from agent.coordinator.assignors import ASSIGNORS
from agent.coordinator.play import Played, play
from agent.coordinator.requests import GroupImage
from agent.coordinator.script import GroupProtocol, Script
from agent.whatif.changes import starts


class NotPlayed(ValueError):
    """The model cannot play a script; the message says why."""


def played(script: Script) -> Played:
    """Play a script. Raises `NotPlayed`."""
    settings = [it.settings for it in starts(script)]
    unknown = {name for it in settings for name in it.assignors} - ASSIGNORS.keys()
    if unknown:
        raise NotPlayed(f"the model has no assignor {' or '.join(sorted(unknown))}")
    out = play(script)
    wants_modern = any(it.group_protocol is GroupProtocol.CONSUMER for it in settings)
    if wants_modern and any(isinstance(image, GroupImage) for image in out.images):
        raise NotPlayed("the model plays no KIP-848 groups")
    return out
