"""How the watches go: what a scrape, `/api/v1/status` and `/readyz` tell of them. Knows no connection and no thread.

A watch that is broken makes nothing unready: origins come late or are not known, and everything else is as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from agent.kubernetes.watched import Watched

BROKEN_WORRIES_MS = 15_000
"""A watch that is broken for less is nothing to tell: API servers restart one after the other."""


class WatchState(StrEnum):
    """Of the watch of a kind."""

    LISTING = "listing"
    """What there is comes first."""
    WATCHING = "watching"
    DENIED = "denied"
    """No right to, or the API server does not have the kind: asked again seldom."""
    BROKEN = "broken"
    """No answer: asked again soon."""


class KindHealth(Struct):
    """Of the watch of one kind. `known_ms` is up to when all is known of it, None: nothing yet."""

    watched: Watched
    state: WatchState = WatchState.LISTING
    since_ms: int = 0
    known_ms: int | None = None
    error: str | None = None
    """Why it is broken or denied."""
    changes: int = 0
    """Lines of watches that were read."""
    unreadable: int = 0
    """Objects that were not what their kind is."""


class KubernetesReading(NamedTuple):
    """What a scrape exports: by kind whether its watch goes on; requests by outcome; pods that are known, those that
    are gone as well; objects for which there was no room."""

    watching: Mapping[str, bool]
    requests: Mapping[str, int]
    pods: int
    left_out: int


def worries(kinds: Iterable[KindHealth], namespace: str | None, now_ms: int) -> Iterator[str]:
    """What is not as it should be, a sentence each. Of what lies in no namespace, a right to one gives nothing."""
    broken: dict[str, list[KindHealth]] = {}
    for it in kinds:
        if it.state is WatchState.DENIED and (namespace is None or it.watched.is_namespaced):
            yield f"Kubernetes: {it.watched.plural} cannot be listed and watched ({it.error}): {it.watched.without}"
        elif it.state is WatchState.BROKEN and now_ms - it.since_ms >= BROKEN_WORRIES_MS:
            broken.setdefault(it.error or "", []).append(it)
    for error, several in broken.items():
        plurals = ", ".join(it.watched.plural for it in several)
        seconds = (now_ms - min(it.since_ms for it in several)) // 1000
        yield f"Kubernetes: no news of {plurals} for {seconds} s ({error}): origins come late or are not known"
