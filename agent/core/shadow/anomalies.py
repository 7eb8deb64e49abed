"""What a group keeps of things that should not be: counted by kind, the latest few in full."""

from __future__ import annotations

from collections import Counter, deque
from typing import Annotated, ClassVar

from agent.common.text import truncated
from agent.core.shadow.transitions import LogPosition
from agent.core.shadow.views import Anomaly
from agent.core.state_fields import MaxLength, StateFields

MAX_ANOMALIES = 16
"""How many anomalies of one group are kept in full: enough to see a pattern, bounded whatever the log holds."""
MAX_MESSAGE = 500
"""Characters of what is said of one: it may name a member, whose name may be of any length."""

_NONE: deque[Anomaly] = deque(maxlen=MAX_ANOMALIES)
_NO_COUNTS: Counter[str] = Counter()
"""Stand for no anomalies, and stay empty."""


class AnomalyLog:
    """The anomalies of one group."""

    STATE: ClassVar = StateFields(
        {
            "counts": Counter[str],
            "latest": Annotated[deque[Anomaly], MaxLength(MAX_ANOMALIES)],
        }
    )

    __slots__ = ("counts", "latest")

    def __init__(self) -> None:
        self.counts: Counter[str] = _NO_COUNTS
        self.latest: deque[Anomaly] = _NONE

    def after_restore(self) -> None:
        """Who has none shares one: most groups have none, and a deque takes 600 bytes."""
        if not self.latest:
            self.latest, self.counts = _NONE, _NO_COUNTS

    def __copy__(self) -> AnomalyLog:
        out = AnomalyLog()
        if self.latest:
            out.latest, out.counts = self.latest.copy(), self.counts.copy()
        return out

    def add(self, kind: str, message: str, at: LogPosition) -> None:
        """Keep one. `kind` is from `ANOMALIES`."""
        assert kind in ANOMALIES, f"{kind} is not described in ANOMALIES"
        if self.latest is _NONE:
            self.latest, self.counts = deque(maxlen=MAX_ANOMALIES), Counter()
        self.counts[kind] += 1
        self.latest.append(Anomaly(kind, truncated(message, MAX_MESSAGE), at.offset, at.timestamp_ms))


ANOMALIES = {
    "generation_gap": "a generation follows one that is not the one before it: rebalances between never completed; "
    "or an epoch does: the log lacks those between",
    "generation_regressed": "a generation or epoch is lower than the one before it",
    "impossible_move": "a classic group is in a state that it cannot have come to in that generation",
    "assignment_changed_without_rebalance": "the same members hold other partitions within one generation",
    "members_changed_without_rebalance": "members of a classic group differ within one generation",
    "undecodable_payload": "a member's subscription or assignment bytes are not of the group's protocol",
    "tombstone_with_members": "a group was deleted while it had members, and was not migrated either",
    "wrong_group_type": "a record of one type of group came for a group of another type",
}
"""Every kind of anomaly and what it means."""
