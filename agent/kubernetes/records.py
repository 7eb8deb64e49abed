"""What is remembered of pods, workloads, nodes and autoscalers over time. All times are epoch milliseconds.

A `Span` is when something happened, as far as that is known: of what stands in an object both ends are the same time;
of what a watch missed, it lies between the last time that all was known and the time at which it was seen.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from msgspec import Struct, field

MAX_TERMINATIONS = 8
"""Remembered of each container: the newest."""
MAX_CHANGES = 16
"""Of replicas, and of a node's states, remembered of each: the newest."""
MAX_CONTAINERS = 24
"""Looked at of each pod."""
SIDECARS = frozenset(
    (
        *("cloud-sql-proxy", "config-reloader", "datadog-agent", "envoy", "filebeat", "fluent-bit", "fluentd"),
        *("istio-proxy", "jaeger-agent", "kshadow", "kuma-sidecar", "linkerd-proxy", "otc-container", "vault-agent"),
    )
)
"""Containers by the names that what puts them beside others gives them: no member of a consumer group is in one."""
MAX_MESSAGE = 200
"""Characters kept of what Kubernetes says."""


class Span(NamedTuple):
    """When something happened: between the two, both included."""

    from_ms: int
    to_ms: int

    @classmethod
    def at(cls, at_ms: int) -> Span:
        """At a time that is known."""
        return cls(at_ms, at_ms)

    def overlaps(self, other: Span) -> bool:
        """Whether both may be one time."""
        return self.from_ms <= other.to_ms and other.from_ms <= self.to_ms

    def widened(self, before_ms: int, after_ms: int) -> Span:
        """So much longer at its ends."""
        return Span(self.from_ms - before_ms, self.to_ms + after_ms)


class Termination(NamedTuple):
    """How a container's run ended; `seen_ms` is when we came to know."""

    exit_code: int
    reason: str
    started_ms: int | None
    finished_ms: int
    seen_ms: int


class ProbeKill(NamedTuple):
    """The kubelet ended a container because a probe failed: `probe` is liveness or startup."""

    container: str
    probe: str
    at_ms: int


class Disruption(NamedTuple):
    """Why Kubernetes itself took a pod away: the reason of its condition DisruptionTarget, or of an event."""

    reason: str
    message: str
    at_ms: int


class ContainerRecord(Struct):
    """A container of a pod. `limit` is its memory limit as it is written, `restarts` as the kubelet counts them;
    `probes` are the settings of liveness and startup in words, None for what it does not have."""

    name: str
    limit: str | None = None
    probes: tuple[str | None, str | None] = (None, None)
    restarts: int = 0
    started_ms: int | None = None
    terminations: tuple[Termination, ...] = ()


class PodRecord(Struct, eq=False):
    """A pod over time. `addresses` are its own: none where it uses its node's.

    `deleted` is when somebody asked for its deletion, `gone_ms` when it was no longer there.
    """

    namespace: str
    name: str
    uid: str
    created_ms: int
    seen_ms: int = 0
    """When we came to know of it."""
    addresses: tuple[str, ...] = ()
    node: str | None = None
    owner: str | None = None
    """The uid of its controller."""
    owner_name: str | None = None
    """`Job/name`: for those that are not followed."""
    revision: str | None = None
    default_container: str | None = None
    """The container that kubectl takes where none is named, if somebody said which."""
    started_ms: int | None = None
    """When the kubelet took it."""
    grace_s: int | None = None
    deleted: Span | None = None
    deleted_seen_ms: int = 0
    ended_ms: int | None = None
    """When it was seen that all of it has ended: its phase is Failed or Succeeded."""
    gone_ms: int | None = None
    gone_since_ms: int | None = None
    """When it was last there, where a watch missed how it went."""
    failed: Disruption | None = None
    """The kubelet's own reason why it failed: Evicted, NodeShutdown, …"""
    disruption: Disruption | None = None
    containers: dict[str, ContainerRecord] = field(default_factory=dict)
    probe_kills: tuple[ProbeKill, ...] = ()
    unreported_ms: int | None = None
    """When it was last said of it that its node is not ready."""
    first_join_ms: dict[int, int] | None = None
    """When the topic first showed a member of it, by when its container had started."""

    @property
    def consumers(self) -> list[ContainerRecord]:
        """The containers that a member may be in: the one that is named, else all that are no known sidecars."""
        named = None if self.default_container is None else self.containers.get(self.default_container)
        if named is not None:
            return [named]
        return [it for it in self.containers.values() if it.name not in SIDECARS] or [*self.containers.values()]

    @property
    def running_since_ms(self) -> int | None:
        """When its first container started, as far as that is known: no member is older."""
        starts = [
            start
            for it in self.containers.values()
            for start in (it.started_ms, *(ended.started_ms for ended in it.terminations))
            if start is not None
        ]
        if not starts:
            return None
        restarted = any(it.restarts > len(it.terminations) for it in self.containers.values())
        return self.started_ms if restarted and self.started_ms is not None else min(starts)

    @property
    def last_sign_ms(self) -> int | None:
        """When a process of it ran last: None while one may still."""
        over_ms = self.gone_ms if self.ended_ms is None else self.ended_ms
        if over_ms is None:
            return None
        ends = [it.terminations[-1].finished_ms for it in self.containers.values() if it.terminations]
        is_whole = len(ends) == len(self.containers) and all(
            it.started_ms is None or it.started_ms <= it.terminations[-1].finished_ms
            for it in self.containers.values()
        )
        return min(over_ms, max(ends)) if ends and is_whole else over_ms

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        texts = len(self.namespace) + len(self.name) + len(self.revision or "") + len(self.owner_name or "")
        said = sum(len(it.message) for it in (self.failed, self.disruption) if it is not None)
        inside = sum(320 + len(it.name) + 160 * len(it.terminations) for it in self.containers.values())
        return 1200 + texts + said + inside + 120 * len(self.probe_kills)


class ReplicaChange(NamedTuple):
    """A workload was given another number of replicas; `manager` is the program that wrote it, `scaled` whether it
    did so by the subresource for that."""

    span: Span
    before: int
    after: int
    manager: str = ""
    scaled: bool = False


class WorkloadRecord(Struct, eq=False):
    """A ReplicaSet, Deployment or StatefulSet over time."""

    kind: str
    namespace: str
    name: str
    uid: str
    created_ms: int
    owner: str | None = None
    owner_name: str | None = None
    revision: str | None = None
    """Of a ReplicaSet, that of its pods; of a StatefulSet, the one to which pods are brought."""
    revision_number: int = 0
    replicas: int = 0
    first_ordinal: int = 0
    changes: deque[ReplicaChange] = field(default_factory=lambda: deque(maxlen=MAX_CHANGES))
    generation: int = 0
    unseen: deque[Span] = field(default_factory=lambda: deque(maxlen=MAX_CHANGES))
    """When it was changed more than once while nothing was heard: so its replicas may have been, and back."""
    deleted: Span | None = None
    gone_ms: int | None = None

    @property
    def label(self) -> str:
        """`Deployment/payments`."""
        return f"{self.kind}/{self.name}"

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return 1100 + len(self.name) + len(self.revision or "") + 180 * len(self.changes)


class Period(NamedTuple):
    """A node was in a state from then to then: None, it still is."""

    from_ms: int
    to_ms: int | None

    def holds(self, span: Span) -> bool:
        """Whether it was so at any time of a span."""
        return self.from_ms <= span.to_ms and (self.to_ms is None or span.from_ms <= self.to_ms)


class NodeRecord(Struct, eq=False):
    """A node over time: when it was closed to pods (cordoned, for a drain), and when nothing was heard of it."""

    name: str
    uid: str
    closed: deque[Period] = field(default_factory=lambda: deque(maxlen=MAX_CHANGES))
    closed_by: str = ""
    silent: deque[Period] = field(default_factory=lambda: deque(maxlen=MAX_CHANGES))
    gone_ms: int | None = None

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return 2000 + len(self.name) + 130 * (len(self.closed) + len(self.silent))

    def was_closed(self, span: Span) -> bool:
        """Whether it was closed to pods at any time of a span."""
        return any(it.holds(span) for it in self.closed)

    def silence(self, span: Span) -> Period | None:
        """When nothing was heard of it, if that touches a span."""
        return next((it for it in reversed(self.silent) if it.holds(span)), None)


class Rescale(NamedTuple):
    """An autoscaler gave its workload another size."""

    at_ms: int
    size: int | None
    reason: str


class AutoscalerRecord(Struct, eq=False):
    """A HorizontalPodAutoscaler: what it scales (`Deployment/payments`), and KEDA's ScaledObject, if it is one's."""

    namespace: str
    name: str
    uid: str
    target: str
    scaled_object: str | None = None
    rescales: deque[Rescale] = field(default_factory=lambda: deque(maxlen=MAX_CHANGES))
