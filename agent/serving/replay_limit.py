"""Which groups an agent replays at all, beside its own work: a play cannot be stopped in the middle."""

from __future__ import annotations

from agent.simulation.whatif.recorder import GroupRecording

MAX_MEMBERS = 3_000
"""Members of all states together: what has more takes too long for one play alone."""

TOO_LARGE = "the group is too large to be replayed by the agent"
"""Why there are no numbers of such a group."""


def is_too_large(recording: GroupRecording) -> bool:
    """Whether it is one."""
    return sum(len(it.members) for it in recording.states) > MAX_MEMBERS
