"""Words of the domain in a sentence: causes (by `agent.core.causes`), group types, and what they call their parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.core.causes import cause_info
from agent.core.protocol.states import GroupState
from agent.presentation.narrative.words import count

GROUP_TYPES = {
    "classic": "classic group",
    "connect": "Connect group",
    "consumer": "KIP-848 consumer group",
    "share": "share group",
    "streams": "Streams group",
}

EAGER = ("range", "roundrobin", "sticky")
"""Assignors of Kafka's consumers under which every member gives up all its partitions before it rejoins."""


NO_PROBLEM = "No problem was found in {group}"
"""How an explanation begins where nothing is found to be wrong."""


def because(cause: str) -> str:
    """Why a rebalance of that cause happened: `because a member joined`."""
    return cause_info(cause).because


def went(cause: str, members: int = 1) -> str:
    """How members went by that cause: `left` of one, or of several."""
    departed = cause_info(cause).departed
    return f"left, cause {cause}" if departed is None else departed[members != 1]


def is_sampled(form: Mapping[str, Any]) -> bool:
    """Whether a group (its form) is looked at through the Admin API: nothing tells how often rebalances failed."""
    return form.get("generations_skipped", 0) is None


def known_generation(form: Mapping[str, Any]) -> int | None:
    """The generation or epoch of a group (its form); None where it is not known, as of one that only commits."""
    generation: int = form["generation"]
    return generation if generation >= 0 else None


def is_simple(form: Mapping[str, Any]) -> bool:
    """Whether a group (its form) only commits offsets."""
    # Whoever may write to the topic makes members of any generation.
    return form["generation"] < 0 and not form["members"] and not is_sampled(form)


def may_have_rebalanced(form: Mapping[str, Any], since_ms: int) -> bool:
    """Whether a group's form leaves room for a rebalance since then: most rebalances give its state a new time.

    Those of share groups do not, which are Stable as long as they have members, nor those of a group that is
    Assigning or NotReady before and after. Looks through the Admin API miss most states in between.
    """
    if not 0 <= form["state_since_ms"] < since_ms:
        return True
    keeps_state = (
        form["group_type"] not in ("classic", "connect", "consumer", "streams")
        or form["state"] in (GroupState.ASSIGNING, GroupState.NOT_READY)
        or is_sampled(form)
    )
    return keeps_state and form.get("rebalances") != 0


def generation_phrase(group_type: str | None, generation: int | None, otherwise: str = "") -> str:
    """`generation 8`; `otherwise` where it is not known which."""
    return otherwise if generation is None else f"{epochs(group_type)} {generation}"


def unknown_costs(unknown: int, rebalances: int) -> str:
    """Of how many rebalances, one at least, the cost is not known."""
    of = f"{unknown:,} of {rebalances:,} rebalances" if unknown < rebalances else count(unknown, "rebalance")
    return f"the cost of {of} is not known"


def epochs(group_type: str | None) -> str:
    """What the group type calls its generations."""
    return "generation" if group_type in ("classic", "connect", None) else "epoch"


def work(group_type: str | None) -> str:
    """What its members are given."""
    return "task" if group_type in ("connect", "streams") else "partition"
