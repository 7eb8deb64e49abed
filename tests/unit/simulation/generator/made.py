"""What members want, with the fields that a consumer's subscription has."""

from __future__ import annotations

from dataclasses import dataclass

from agent.core.protocol.assignors import Slot


@dataclass(frozen=True)
class Wants:
    topics: frozenset[str]
    owned: tuple[Slot, ...] = ()
    generation: int = -1
    rack: str | None = None
