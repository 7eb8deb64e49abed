"""What each cause of the contract is called in a sentence. A cause that is not here is named as it is."""

from __future__ import annotations

BECAUSE = {
    "member_joined": "because a member joined",
    "member_left": "because a member left by itself",
    "session_timeout": "because a member's session timed out",
    "poll_timeout": "because a member did not poll in time",
    "subscription_changed": "because a subscription changed",
    "partitions_changed": "because the topics or their partitions changed",
    "cooperative_followup": "as the second round of a cooperative rebalance",
    "leader_rejoined": "because the leader asked for it",
    "protocol_migrated": "because the group changed its protocol",
    "admin_removed": "because an admin removed a member",
    "unknown_departure": "because a member went, nobody knows how",
    "unknown": "for an unknown reason",
}
"""A rebalance happened … ."""

WENT = {
    "member_left": "left by itself",
    "session_timeout": "was thrown out because its session timed out",
    "poll_timeout": "dropped out because it did not poll in time",
    "admin_removed": "was removed by an admin",
    "unknown_departure": "went, unknown how",
}
"""A member … . Where several went the same way: `WENT_ALL`."""

WENT_ALL = {
    "member_left": "left by themselves",
    "session_timeout": "were thrown out because their sessions timed out",
    "poll_timeout": "dropped out because they did not poll in time",
    "admin_removed": "were removed by an admin",
    "unknown_departure": "went, unknown how",
}

REASONS = {
    "subscription_changed": "a subscription changed",
    "partitions_changed": "the topics or their partitions changed",
    "cooperative_followup": "second round of a cooperative rebalance",
    "leader_rejoined": "the leader asked for it",
    "protocol_migrated": "the group changed its protocol",
    "unknown": "cause unknown",
    "unknown_departure": "cause unknown",
}
"""What set a rebalance off that nobody's coming or going explains."""

FIRST = {
    "member_joined": "the join came first",
    "member_left": "the goodbye came first",
    "session_timeout": "the session timeout came first",
    "poll_timeout": "the poll timeout came first",
    "admin_removed": "the removal came first",
    "unknown_departure": "the departure that nobody can explain came first",
    "unknown": "which came first is unknown",
}
"""Which of several causes set a rebalance off."""

GROUP_TYPES = {
    "classic": "classic group",
    "connect": "Connect group",
    "consumer": "KIP-848 consumer group",
    "share": "share group",
    "streams": "Streams group",
}

EAGER = ("range", "roundrobin", "sticky")
"""Assignors of Kafka's consumers under which every member gives up all its partitions before it rejoins."""


def because(cause: str) -> str:
    """Why a rebalance happened."""
    return BECAUSE.get(cause, f"because of {cause}")


def went(cause: str, members: int = 1) -> str:
    """How members went."""
    table = WENT if members == 1 else WENT_ALL
    return table.get(cause, f"went, cause {cause}")


def epochs(group_type: str | None) -> str:
    """What the group type calls its generations."""
    return "generation" if group_type in ("classic", "connect", None) else "epoch"


def work(group_type: str | None) -> str:
    """What its members are given."""
    return "task" if group_type in ("connect", "streams") else "partition"
