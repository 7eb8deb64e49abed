"""What to do about an origin: one advice for each kind, with the value that was in force, and its price.

One place for findings (`analyzers`) and explanations (`agent.presentation.narrative`). Names in the texts come from
strangers: whoever shows them cleans them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.common.text import truncated
from agent.core.inference.origins import Origin, OriginKind, origin_info, origin_words

REPEATED_FROM = 2
"""From how many drains on it is worth a budget."""
MAX_NAME = 60


def origin_advice(origins: Sequence[Origin], *, without_goodbye: bool = False) -> str | None:
    """What to do about departures of one kind, the latest last; None: nothing. `without_goodbye`: the group had to
    wait for their sessions to end."""
    latest = origins[-1]
    write = _WRITERS.get(latest.kind)
    if write is not None and latest.is_trouble:
        return write(latest)
    if without_goodbye and origin_info(latest.kind).is_planned:
        return _close_first(latest)
    if latest.kind == OriginKind.DRAINED and len(origins) >= REPEATED_FROM:
        return f"{_budget(latest)} lets a drain take one member at a time; a drain then takes longer."
    return None


def _quoted(text: str) -> str:
    return f"`{truncated(text, MAX_NAME)}`"


def _container(origin: Origin) -> str:
    """Container `app` of `Deployment/payments`."""
    of = f" of {_quoted(origin.workload or origin.pod)}"
    return f"container {_quoted(origin.container)}{of}" if origin.container is not None else f"the container{of}"


def _now(value: str | None) -> str:
    return "" if value is None else f" (now {value})"


def _budget(origin: Origin) -> str:
    return f"A PodDisruptionBudget for {_quoted(origin.workload or origin.pod)}"


def _oom_killed(it: Origin) -> str:
    return (
        f"Raise the memory limit of {_container(it)}{_now(it.limit)} above what it uses, or find what grows; its "
        "nodes then need that much more memory."
    )


def _exited(it: Origin) -> str:
    grace = "" if it.grace is None else f", or raise terminationGracePeriodSeconds{_now(it.grace)}"
    code = "" if it.exit_code is None else f" with code {it.exit_code}"
    return (
        f"Find why {_container(it)} exited{code}: read its log from before (kubectl logs --previous, pod "
        f"{_quoted(it.pod)}){grace}."
    )


def _liveness_killed(it: Origin) -> str:
    grace = ""
    if it.grace is not None:
        grace = f" Raise terminationGracePeriodSeconds{_now(it.grace)} above the time that closing takes."
    return (
        f"Raise failureThreshold or timeoutSeconds of the liveness probe of {_container(it)}{_now(it.probe)}, or "
        f"answer it from a thread that processes no records; a hung process is then restarted later.{grace}"
    )


def _evicted(it: Origin) -> str:
    return (
        f"Request as much memory and disk for {_container(it)} as it uses: the kubelet evicts first what uses more; "
        f"fewer pods then fit on a node. {_budget(it)} lets calls of the eviction API take one member at a time."
    )


def _preempted(it: Origin) -> str:
    return (
        f"Give {_quoted(it.workload or it.pod)} a priorityClassName that is not below what preempts it; others then "
        "wait for room."
    )


def _node_lost(it: Origin) -> str:
    node = "its node" if it.node is None else f"node {_quoted(it.node)}"
    return (
        f"Find why {node} stopped reporting, and spread {_quoted(it.workload or it.pod)} over nodes "
        "(topologySpreadConstraints); one node then takes fewer members along."
    )


def _close_first(origin: Origin) -> str:
    """It was to stop, and the group heard of it only when its session had ended."""
    words = origin_words(origin.kind, origin.exit_code)
    return (
        f"Close the consumer on SIGTERM, and raise terminationGracePeriodSeconds{_now(origin.grace)} above the time "
        f"that takes: pods of {_quoted(origin.workload or origin.pod)} were {words}, and the group waited for their "
        "sessions to time out; pods then stop later."
    )


_WRITERS: dict[str, Callable[[Origin], str]] = {
    OriginKind.OOM_KILLED: _oom_killed,
    OriginKind.EXITED: _exited,
    OriginKind.LIVENESS_KILLED: _liveness_killed,
    OriginKind.EVICTED: _evicted,
    OriginKind.PREEMPTED: _preempted,
    OriginKind.NODE_LOST: _node_lost,
}
