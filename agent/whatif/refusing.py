"""Which groups cannot be replayed, and why."""

from __future__ import annotations

from agent.whatif.recorder import Recording

REFUSED = {
    "connect": "Connect shares out its tasks by a protocol of its own, which whatif does not replay",
    "consumer": "a KIP-848 group has no join phases to save; whatif replays classic groups",
    "share": "a share group's members share partitions: none stands still for a rebalance",
    "streams": "a Streams group is assigned tasks by its broker; whatif replays classic groups of consumers",
}
"""Why, by the type of group."""


def refused(recording: Recording) -> str | None:
    """Why a group cannot be replayed, if it cannot."""
    if not recording.seen:
        return "the log shows no member of it"
    last = recording.seen[-1]
    types = {seen.protocol_type for seen in recording.seen if seen.members} - {None}
    if last.group_type != "classic":
        return REFUSED[last.group_type]
    if any(seen.protocol == "stream" for seen in recording.seen):
        return "Kafka Streams assigns tasks by an assignor of its own, which whatif does not know"
    if types - {"consumer"}:
        return f"its protocol type is {' or '.join(sorted(map(repr, types)))}; whatif replays groups of consumers"
    return None
