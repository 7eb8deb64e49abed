"""Which pod a member is in: by its host's address in the time that a pod had it, or by the pod's name in its ids.

An address tells where it is a pod's own, and one pod had it at that time: addresses are used again.
Of pods in the host's network, and behind NAT, it tells nothing; there only the name does, where a client was given
it: as (the beginning of) its
`group.instance.id` or `client.id`, or anywhere in these if it ends in a suffix that Kubernetes made (`-x7k2p`).
`payments-2` anywhere else may as well be a client's own count. What is not unique is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from agent.core.shadow.views import Member
from agent.kubernetes.history import ClusterHistory, plain_address
from agent.kubernetes.records import PodRecord, Span

CLOCKS_MS = 3_000
"""How far clocks of brokers and nodes may be apart."""
WHOLE_SECOND_MS = 999
"""So much later than it says may be what Kubernetes writes in whole seconds."""
MAX_ID = 256
"""Characters of an id in which a name is looked for."""

# apimachinery's util/rand, SafeEncodeString: the alphabet of generated suffixes, which have five of them.
_GENERATED = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\Z")
_WORDS = re.compile(r"[a-z0-9]+")


def pod_of(history: ClusterHistory, member: Member, span: Span) -> PodRecord | None:
    """The one pod that a member was in at some time of a span, as narrow as is known. None: not known."""
    address = plain_address(member.client_host)
    known = _there(() if address is None else history.pods_at(address), span)
    if len(known) == 1:
        return known[0]
    named = _named(history, member, span)
    if known:
        # Several had the address in turn: the name may tell which, and only that.
        named = [it for it in named if it in known]
    return named[0] if len(named) == 1 else None


def _there(pods: Iterable[PodRecord], span: Span) -> list[PodRecord]:
    """Those that were there at some time of a span: by clocks that differ, unless that leaves several."""
    near = [it for it in pods if _was_there(it, span, CLOCKS_MS)]
    return near if len(near) < 2 else [it for it in near if _was_there(it, span, 0)] or near


def _named(history: ClusterHistory, member: Member, span: Span) -> list[PodRecord]:
    """Pods whose name stands in the ids: of the first id, and the longest name, that tells."""
    for text in (member.instance_id, member.client_id):
        for name in _names_in(text or ""):
            found = _there(history.pods_named(name), span)
            if found:
                return found
    return []


def _names_in(text: str) -> Iterator[str]:
    """Parts of an id that may be a pod's name, the longest first."""
    words = list(_WORDS.finditer(text[:MAX_ID].lower()))[:24]
    parts = [(first.start(), last.end()) for at, first in enumerate(words) for last in words[at:]]
    for start, end in sorted(parts, key=lambda it: it[0] - it[1]):
        part = text[start:end].lower()
        if start == 0 or _GENERATED.search(part) is not None:
            yield part


def _was_there(pod: PodRecord, span: Span, slack_ms: int) -> bool:
    since = pod.running_since_ms
    if since is None:
        since = pod.started_ms if pod.started_ms is not None else pod.created_ms
    until = pod.last_sign_ms
    return since - slack_ms <= span.to_ms and (until is None or span.from_ms <= until + WHOLE_SECOND_MS + slack_ms)
