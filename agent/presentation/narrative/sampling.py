"""What looks at groups can miss, in words: for groups that are read through the Admin API, and not from the topic."""

from __future__ import annotations

from agent.presentation.narrative.words import count

LIMITATIONS = (
    "looking at groups through the Admin API, as the topic is not read: Connect, share and streams groups, "
    "generations, timeouts and what happened before are not known, and what comes and goes between two looks is not "
    "seen"
)
"""What is said at the start, in /readyz and on the page."""

COUNTED_AS_LAG = "what the group has committed since counts as lag"
"""What is said beside the time at which committed offsets were read."""

UNLISTED = (
    "groups are read through the Admin API, which does not list Connect, share and streams groups, "
    "nor groups on which this agent has no ACL operation Describe"
)
"""Why a group that is not known may be there."""

SHORT_JOIN_PHASES_MS = (100, 1_000)
"""Join phases that missing one is told of: the shortest that clients in one process have, and a short one of many."""

NOTHING_LISTED = (
    "no group is listed: there is none, or ACL operation Describe on the groups is missing, which kshadow doctor "
    "--source admin tells"
)
"""Why no group is there."""


def withheld_phrase(groups: int) -> str:
    """How many groups were seen and cannot be seen now."""
    return f"{count(groups, 'group')} cannot be seen any more: ACL operation Describe is needed"


def unanswered_phrase(groups: int) -> str:
    """How many groups were seen, and are not now, as nobody answers for them."""
    return f"{count(groups, 'group')} cannot be seen any more: no answer from the brokers that coordinate them"


def missed_share(every_ms: int, lasts_ms: int) -> float:
    """How probable it is that something that lasts so long falls between two looks."""
    return max(0.0, 1 - lasts_ms / max(every_ms, 1))


def missed_phrase(every_ms: int) -> str:
    """The same as a clause, for join phases."""
    said = [
        f"{missed_share(every_ms, lasts_ms) * 100:.0f} % of those of {lasts_ms / 1000:g} s"
        for lasts_ms in SHORT_JOIN_PHASES_MS
    ]
    return (
        f"rebalances are looked for every {every_ms / 1000:.2f} s: a join phase that is shorter may be missed, "
        f"{' and '.join(said)}"
    )
