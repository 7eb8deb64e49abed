"""Words of the domain in a sentence: causes (by `agent.core.causes`), group types, and what they call their parts."""

from __future__ import annotations

from agent.core.causes import cause_info

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
    """Why a rebalance of that cause happened: `because a member joined`."""
    return cause_info(cause).because


def went(cause: str, members: int = 1) -> str:
    """How members went by that cause: `left` of one, or of several."""
    departed = cause_info(cause).departed
    return f"went, cause {cause}" if departed is None else departed[members != 1]


def epochs(group_type: str | None) -> str:
    """What the group type calls its generations."""
    return "generation" if group_type in ("classic", "connect", None) else "epoch"


def work(group_type: str | None) -> str:
    """What its members are given."""
    return "task" if group_type in ("connect", "streams") else "partition"
