"""A member of a classic group, as its coordinator keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent.coordinator.requests import MemberImage, Offer, Token


@dataclass(slots=True)
class ClassicMember:
    """`awaits_join` and `awaits_sync` are the tokens of requests that are not answered yet.

    `is_new` until its first join is answered: a new member may be expired while it waits.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    offers: tuple[Offer, ...]
    assignment: Any = ()
    is_new: bool = False
    awaits_join: Token | None = None
    awaits_sync: Token | None = None

    @property
    def names(self) -> list[str]:
        """The protocols it supports, in its order of preference."""
        return [offer.name for offer in self.offers]

    @property
    def is_excused(self) -> bool:
        """Whether its silence means nothing: it waits for an answer, and has been in a generation before."""
        return not self.is_new and (self.awaits_join is not None or self.awaits_sync is not None)

    def metadata(self, protocol: str | None) -> Any:
        """What it said of itself for `protocol`."""
        return next((offer.metadata for offer in self.offers if offer.name == protocol), None)

    def vote(self, candidates: set[str]) -> str:
        """Its first preference among the candidates, all of which it supports."""
        return next(name for name in self.names if name in candidates)

    def image(self, protocol: str | None, assignment: Any) -> MemberImage:
        """As it goes into the log."""
        return MemberImage(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            self.metadata(protocol),
            assignment,
        )
