"""The cluster over time, from the objects that a watch brings: `ClusterHistory`.

Owns what is remembered, for how long and how much of it, and finding it again. Must not know how objects come
here nor what is concluded from them (`origin_rules.py`). Not safe for threads: `evidence.py` holds a lock.

Objects that are gone are kept for `KEEP_MS`, at most `MAX_GONE` of them and `MAX_GONE_BYTES`, the oldest go first.
Those that are there are kept up to `MAX_PODS`; what is beyond is counted and not known.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable
from ipaddress import ip_address
from sys import intern

from agent.common.units import DAY_MS
from agent.kubernetes.objects import (
    AnyObject,
    Autoscaler,
    Condition,
    Container,
    ContainerStatus,
    Event,
    Involved,
    Metadata,
    Node,
    Pod,
    Probe,
    Workload,
    epoch_ms,
)
from agent.kubernetes.records import (
    MAX_CONTAINERS,
    MAX_MESSAGE,
    MAX_TERMINATIONS,
    AutoscalerRecord,
    ContainerRecord,
    Disruption,
    NodeRecord,
    Period,
    PodRecord,
    ProbeKill,
    ReplicaChange,
    Rescale,
    Span,
    Termination,
    WorkloadRecord,
)

KEEP_MS = 6 * 3_600_000
"""How long what is gone is remembered."""
MAX_GONE = 10_000
MAX_GONE_BYTES = 16 << 20
MAX_PODS = 50_000
"""Pods at one time; so many workloads, nodes and autoscalers each."""
MAX_WAITING = 500
"""Events of what is not known yet, by what they are about: the newest. Each kind has a watch of its own, so an event
may come first, and does where a watch was broken."""
MAX_KILLS = 16
"""Ends of containers by kind that are counted of one pod's name."""

CLOSING_TAINTS = {
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler",
    "karpenter.sh/disrupted": "Karpenter",
    "karpenter.sh/disruption": "Karpenter",
}
"""Taints by which autoscalers close a node that they are about to remove, and whose they are."""

# kubelet's kuberuntime_manager.go: computePodActions writes the first half, killContainer's caller the second.
_PROBE_KILL = re.compile(r"Container (\S+) failed (liveness|startup) probe")
# The Deployment controller's sync.go, scaleReplicaSet: of several releases, the oldest without "from".
_SCALED_SET = re.compile(r"Scaled (up|down) replica set (\S+) (?:from (\d+) )?to (\d+)(?: from (\d+))?")
# podautoscaler/horizontal.go, reconcileAutoscaler.
_RESCALED = re.compile(r"New size: (\d+)(?:; reason: (.*))?", re.DOTALL)
_CONTAINER_PATH = re.compile(r"spec\.containers\{(.*)\}")


def plain_address(text: str) -> str | None:
    """An address in its one form: what brokers write (`/10.1.2.3`) and what Kubernetes does. None: it is none."""
    try:
        return ip_address(text.rpartition("/")[2].partition("%")[0]).compressed
    except ValueError:
        return None


class ClusterHistory:
    """Pods, and what may be the reason why they come and go, over time."""

    def __init__(self) -> None:
        self.pods: dict[str, PodRecord] = {}
        """By uid, those that are gone as well."""
        self.workloads: dict[str, WorkloadRecord] = {}
        self.nodes: dict[str, NodeRecord] = {}
        """By name."""
        self.autoscalers: dict[str, AutoscalerRecord] = {}
        self.left_out = 0
        """Objects that came when there was no room."""
        self.looked_ms: int | None = None
        """When all kinds had been listed for the first time."""
        self._addresses: dict[str, list[PodRecord]] = {}
        self._names: dict[str, list[PodRecord]] = {}
        self._owners: dict[str, list[PodRecord]] = {}
        self._workload_names: dict[tuple[str, str, str], WorkloadRecord] = {}
        self._of_owner: dict[str, dict[str, WorkloadRecord]] = {}
        self._gone: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """When what is gone went, and its size, by uid, in that order."""
        self._gone_bytes = 0
        self._live: dict[str, int] = {}
        self._ends: OrderedDict[tuple[str, str, str], list[tuple[int, str]]] = OrderedDict()
        self._waiting: OrderedDict[str, list[tuple[Event, Span]]] = OrderedDict()

    # Finding.

    def pods_at(self, address: str) -> list[PodRecord]:
        """Those that ever had an address, as `plain_address` gives it."""
        return self._addresses.get(address, [])

    def pods_named(self, name: str) -> list[PodRecord]:
        """Those that ever had a name, in any namespace."""
        return self._names.get(name, [])

    def pods_of(self, owner: str) -> list[PodRecord]:
        """Those that a controller ever made, by its uid."""
        return self._owners.get(owner, [])

    def workload_named(self, namespace: str, kind: str, name: str) -> WorkloadRecord | None:
        """The newest of that name."""
        return self._workload_names.get((namespace, kind, name))

    def sets_of(self, owner: str) -> Iterable[WorkloadRecord]:
        """The ReplicaSets that a controller made, by its uid."""
        return self._of_owner.get(owner, {}).values()

    def ends_within_day(self, pod: PodRecord, container: str, kind: str, until_ms: int) -> int:
        """How often a container of a pod of that name ended by a kind (reason or exit code) in the day before."""
        ends = self._ends.get((pod.namespace, pod.name, container), ())
        return sum(until_ms - DAY_MS < at_ms <= until_ms and it == kind for at_ms, it in ends)

    # Learning.

    def apply(self, kind: str, it: AnyObject, span: Span, *, is_gone: bool = False) -> None:
        """An object as it is now, or was as it was deleted. It changed at a time of `span`, which ends now."""
        match it:
            case Pod():
                self._apply_pod(it, span, is_gone)
            case Workload():
                self._apply_workload(kind, it, span, is_gone)
            case Node():
                self._apply_node(it, span, is_gone)
            case Autoscaler():
                self._apply_autoscaler(it, is_gone)
            case Event() if not is_gone:
                self._apply_event(it, span)

    def retain(self, kind: str, namespace: str | None, uids: Collection[str], span: Span) -> None:
        """What of a kind (and namespace) a new list lacks went at a time of `span`, unseen."""

        def lacks(it: PodRecord | WorkloadRecord | AutoscalerRecord) -> bool:
            return it.uid not in uids and (namespace is None or it.namespace == namespace)

        match kind:
            case "Pod":
                for pod in [it for it in self.pods.values() if it.gone_ms is None and lacks(it)]:
                    pod.gone_since_ms = span.from_ms
                    self._pod_gone(pod, span.to_ms)
            case "Node":
                for node in [it for it in self.nodes.values() if it.gone_ms is None and it.uid not in uids]:
                    self._node_gone(node, span.to_ms)
            case "HorizontalPodAutoscaler":
                for uid in [it.uid for it in self.autoscalers.values() if lacks(it)]:
                    del self.autoscalers[uid]
            case _:
                for work in [it for it in self.workloads.values() if it.kind == kind and it.gone_ms is None]:
                    if lacks(work):
                        work.deleted = work.deleted or span
                        self._workload_gone(work, span.to_ms)

    def drop(self, kind: str) -> None:
        """Nothing is heard of a kind any more: how workloads and nodes were would pass for how they are."""
        if kind == "Node":
            self.nodes.clear()
        for work in [it for it in self.workloads.values() if it.kind == kind]:
            if work.gone_ms is None:
                self._count(kind, -1)
            self._drop_workload(work)

    def _apply_pod(self, it: Pod, span: Span, is_gone: bool) -> None:
        meta, status, now = it.metadata, it.status, span.to_ms
        pod = self.pods.get(meta.uid)
        if pod is None:
            if not self._has_room("Pod"):
                return
            created = _at(meta, now)
            pod = self.pods[meta.uid] = PodRecord(intern(meta.namespace), meta.name, meta.uid, created, now)
            owner = meta.controller
            if owner is not None:
                pod.owner, pod.owner_name = intern(owner.uid), intern(f"{owner.kind}/{owner.name}")
                self._owners.setdefault(pod.owner, []).append(pod)
            if (main := meta.annotations.default_container) is not None:
                pod.default_container = intern(main[:253])
            pod.revision = None if meta.labels.revision is None else intern(meta.labels.revision[:MAX_MESSAGE])
            self._names.setdefault(pod.name, []).append(pod)
            self._count("Pod", 1)
        if pod.gone_ms is not None:
            return
        pod.node = pod.node if it.spec.node_name is None else intern(it.spec.node_name)
        pod.grace_s = it.spec.termination_grace_period_seconds
        pod.started_ms = epoch_ms(status.start_time) or pod.started_ms
        if not it.spec.host_network and status.pod_ip != status.host_ip:
            self._give_addresses(pod, [*(one.ip for one in status.pod_ips), status.pod_ip or ""])
        wanted = {one.name: one for one in it.spec.containers}
        for told in status.container_statuses[:MAX_CONTAINERS]:
            self._apply_container(pod, told, wanted.get(told.name), now)
        if status.phase in ("Failed", "Succeeded") and pod.ended_ms is None:
            pod.ended_ms = now
        self._apply_disruption(pod, it, now)
        if (asked := epoch_ms(meta.deletion_timestamp)) is not None and pod.deleted is None:
            # The timestamp is when the grace period ends (registry/core/pod/strategy.go, CheckGracefulDelete).
            pod.deleted = Span.at(asked - 1000 * (meta.deletion_grace_period_seconds or 0))
            pod.deleted_seen_ms = now
        if is_gone:
            self._pod_gone(pod, now)
        self._came(pod.uid, f"Pod/{pod.namespace}/{pod.name}")

    def _give_addresses(self, pod: PodRecord, texts: Iterable[str]) -> None:
        for text in texts:
            address = plain_address(text)
            if address is not None and address not in pod.addresses and len(pod.addresses) < 4:
                pod.addresses = (*pod.addresses, address)
                self._addresses.setdefault(address, []).append(pod)

    def _apply_container(self, pod: PodRecord, it: ContainerStatus, wanted: Container | None, now_ms: int) -> None:
        known = pod.containers.get(it.name)
        if known is None:
            known = pod.containers[intern(it.name)] = ContainerRecord(intern(it.name))
        if wanted is not None:
            limit = wanted.resources.limits.memory
            known.limit = None if limit is None else intern(str(limit)[:32])
            known.probes = _probe_words(wanted.liveness_probe), _probe_words(wanted.startup_probe)
        known.restarts = it.restart_count
        if it.state.running is not None:
            known.started_ms = epoch_ms(it.state.running.started_at)
        for ended in (it.last_state.terminated, it.state.terminated):
            if ended is None or (finished := epoch_ms(ended.finished_at)) is None or finished <= 0:
                continue
            new = Termination(
                ended.exit_code, intern(ended.reason[:64]), epoch_ms(ended.started_at), finished, now_ms
            )
            if any(one.finished_ms == finished and one.exit_code == new.exit_code for one in known.terminations):
                continue
            known.terminations = tuple(
                sorted((*known.terminations, new), key=lambda one: one.finished_ms)[-MAX_TERMINATIONS:]
            )
            self._count_end(pod, it.name, finished, end_kind(new))

    def _count_end(self, pod: PodRecord, container: str, at_ms: int, kind: str) -> None:
        key = (pod.namespace, pod.name, container)
        ends = self._ends.setdefault(key, [])
        ends.append((at_ms, kind))
        del ends[:-MAX_KILLS]
        self._ends.move_to_end(key)
        while len(self._ends) > MAX_GONE:
            self._ends.popitem(last=False)

    def _apply_disruption(self, pod: PodRecord, it: Pod, now_ms: int) -> None:
        target = _condition(it.status.conditions, "DisruptionTarget")
        if target is not None and target.status == "True":
            # Over what an event said: an API eviction, say, has no event of its own.
            at = epoch_ms(target.last_transition_time) or now_ms
            pod.disruption = Disruption(intern(target.reason[:64]), target.message[:MAX_MESSAGE], at)
        elif target is not None:
            # Tried and given up again (disruption.go, syncStalePodDisruption).
            pod.disruption = None
        if pod.failed is None and it.status.phase == "Failed" and it.status.reason:
            ends = [one.terminations[-1].finished_ms for one in pod.containers.values() if one.terminations]
            at = now_ms if pod.disruption is None else pod.disruption.at_ms
            at = min([at, *ends])
            pod.failed = Disruption(intern(it.status.reason[:64]), it.status.message[:MAX_MESSAGE], at)

    def _pod_gone(self, pod: PodRecord, now_ms: int) -> None:
        pod.gone_ms = now_ms
        self._count("Pod", -1)
        self._remember_gone(pod.uid, now_ms, pod.size)

    def _apply_workload(self, kind: str, it: Workload, span: Span, is_gone: bool) -> None:
        meta, now = it.metadata, span.to_ms
        work = self.workloads.get(meta.uid)
        # What the API leaves out is 1.
        replicas = 1 if it.spec.replicas is None else it.spec.replicas
        if work is None:
            if not self._has_room(kind):
                return
            work = WorkloadRecord(intern(kind), intern(meta.namespace), intern(meta.name), meta.uid, _at(meta, now))
            work.replicas, work.generation = replicas, meta.generation
            self.workloads[meta.uid] = work
            self._workload_names[work.namespace, work.kind, work.name] = work
            owner = meta.controller
            if owner is not None:
                work.owner, work.owner_name = intern(owner.uid), intern(f"{owner.kind}/{owner.name}")
                self._of_owner.setdefault(work.owner, {})[work.uid] = work
            self._count(kind, 1)
            if meta.generation > 1 and (self.looked_ms is not None or work.created_ms + 1000 > span.from_ms):
                # Made (in whole seconds) or dropped, and changed again, unseen: it may have had more replicas.
                work.unseen.append(Span(work.created_ms, now))
            if work.owner is not None and now - work.created_ms < (now - span.from_ms) + 5000 and replicas:
                # A new ReplicaSet was made with its first pods.
                work.changes.append(ReplicaChange(Span(work.created_ms, now), 0, replicas))
        if work.gone_ms is not None:
            return
        if meta.generation > work.generation + 1:
            work.unseen.append(span)
        work.generation = meta.generation
        if replicas != work.replicas:
            # What another program writes is no longer the first one's, so as a rule there is one. Of who wrote by the
            # subresource the API server tells no time.
            writer = max(
                (one for one in meta.managed_fields if one.wrote_replicas),
                key=lambda one: (one.time is None, epoch_ms(one.time) or 0),
                default=None,
            )
            manager, scaled = ("", False) if writer is None else (writer.manager[:64], writer.subresource == "scale")
            work.changes.append(ReplicaChange(span, work.replicas, replicas, manager, scaled))
            work.replicas = replicas
        work.revision_number = meta.annotations.revision_number
        work.first_ordinal = it.spec.ordinals.start
        revision = meta.labels.revision if kind == "ReplicaSet" else it.status.update_revision
        work.revision = None if revision is None else intern(revision[:MAX_MESSAGE])
        if meta.deletion_timestamp is not None and work.deleted is None:
            work.deleted = Span.at(epoch_ms(meta.deletion_timestamp) or now)
        if is_gone:
            work.deleted = work.deleted or span
            self._workload_gone(work, now)
        self._came(f"{kind}/{work.namespace}/{work.name}")

    def _workload_gone(self, work: WorkloadRecord, now_ms: int) -> None:
        work.gone_ms = now_ms
        self._count(work.kind, -1)
        self._remember_gone(work.uid, now_ms, work.size)

    def _apply_node(self, it: Node, span: Span, is_gone: bool) -> None:
        name, now = it.metadata.name, span.to_ms
        node = self.nodes.get(name)
        if node is None or node.uid != it.metadata.uid:
            if node is None and len(self.nodes) >= MAX_PODS:
                return
            node = self.nodes[intern(name)] = NodeRecord(intern(name), it.metadata.uid)
        closing = [one.key for one in it.spec.taints if one.key in CLOSING_TAINTS]
        if closing:
            node.closed_by = CLOSING_TAINTS[closing[0]]
        elif it.spec.unschedulable:
            node.closed_by = ""
        _follow(node.closed, bool(closing) or it.spec.unschedulable, span.from_ms, now)
        ready = _condition(it.status.conditions, "Ready")
        if ready is not None:
            # False says that its kubelet still talks; Unknown is written by whoever misses it.
            since = epoch_ms(ready.last_transition_time) or now
            _follow(node.silent, ready.status == "Unknown", since, since)
        if is_gone and node.gone_ms is None:
            self._node_gone(node, now)

    def _node_gone(self, node: NodeRecord, now_ms: int) -> None:
        node.gone_ms = now_ms
        self._remember_gone(node.uid, now_ms, node.size)

    def _apply_autoscaler(self, it: Autoscaler, is_gone: bool) -> None:
        meta, target = it.metadata, it.spec.scale_target_ref
        if is_gone:
            self.autoscalers.pop(meta.uid, None)
            return
        known = self.autoscalers.get(meta.uid)
        if known is None:
            if len(self.autoscalers) >= MAX_PODS:
                return
            known = self.autoscalers[meta.uid] = AutoscalerRecord(intern(meta.namespace), meta.name, meta.uid, "")
        known.target = f"{target.kind}/{target.name}"
        named = meta.name.removeprefix("keda-hpa-") if meta.name.startswith("keda-hpa-") else None
        known.scaled_object = meta.labels.scaled_object or named
        self._came(meta.uid)

    def _apply_event(self, it: Event, span: Span) -> None:
        at = epoch_ms(it.at) or epoch_ms(it.metadata.creation_timestamp) or span.to_ms
        about = it.involved_object
        if at < span.to_ms - KEEP_MS:
            return
        match it.reason:
            case "Killing" if (killed := _PROBE_KILL.search(it.message)) is not None:
                if (pod := self.pods.get(about.uid)) is None:
                    self._await(about.uid, it, span)
                else:
                    path = _CONTAINER_PATH.fullmatch(about.field_path)
                    kill = ProbeKill(intern((path or killed)[1][:253]), killed[2], at)
                    if kill not in pod.probe_kills:
                        pod.probe_kills = (*pod.probe_kills, kill)[-MAX_TERMINATIONS:]
            case "NodeNotReady" if about.kind == "Pod":
                if (pod := self._involved_pod(about, at)) is None:
                    self._await(about.uid or f"Pod/{about.namespace}/{about.name}", it, span)
                else:
                    pod.unreported_ms = at
            case "Preempted" | "TaintManagerEviction" | "Evicted":
                pod = self._involved_pod(about, at)
                if pod is None:
                    self._await(about.uid or f"Pod/{about.namespace}/{about.name}", it, span)
                # "Cancelling deletion of Pod" has the same reason (taint_eviction.go, emitCancelPodDeletionEvent).
                if pod is not None and pod.disruption is None and not it.message.startswith("Cancelling"):
                    pod.disruption = Disruption(it.reason, it.message[:MAX_MESSAGE], at)
            case "SuccessfulRescale":
                known = self.autoscalers.get(about.uid)
                if known is None:
                    self._await(about.uid, it, span)
                elif (size := _RESCALED.match(it.message)) is not None:
                    rescale = Rescale(at, int(size[1][:9]), (size[2] or "").strip()[:MAX_MESSAGE])
                    if rescale not in known.rescales:
                        known.rescales.append(rescale)
            case "ScalingReplicaSet" if (scaled := _SCALED_SET.match(it.message)) is not None:
                one = self.workload_named(about.namespace, "ReplicaSet", scaled[2])
                after, told = int(scaled[4][:9]), scaled[3] or scaled[5]
                if one is None:
                    self._await(f"ReplicaSet/{about.namespace}/{scaled[2]}", it, span)
                elif one.gone_ms is None:
                    guess = after + 1 if scaled[1] == "down" else 0
                    before = guess if told is None else int(told[:9])
                    change = ReplicaChange(Span.at(at), before, after)
                    if change not in one.changes:
                        one.changes.append(change)
            case _:
                pass

    def _await(self, about: str, it: Event, span: Span) -> None:
        """Remember an event until what it is about comes."""
        waiting = self._waiting.setdefault(about, [])
        if len(waiting) < MAX_TERMINATIONS:
            waiting.append((it, span))
        self._waiting.move_to_end(about)
        while len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)

    def _came(self, *abouts: str) -> None:
        for about in abouts:
            for it, span in self._waiting.pop(about, ()):
                self._apply_event(it, span)

    def _involved_pod(self, about: Involved, at_ms: int) -> PodRecord | None:
        """The pod that an event is about: the taint manager's name no uid, and one before may have had the name."""
        if about.uid:
            return self.pods.get(about.uid)
        live = (it for it in self.pods_named(about.name) if it.gone_ms is None and it.created_ms <= at_ms)
        named = [it for it in live if it.namespace == about.namespace]
        return named[-1] if len(named) == 1 else None

    # Forgetting.

    def _has_room(self, kind: str) -> bool:
        if self._live.get(kind, 0) < MAX_PODS:
            return True
        self.left_out += 1
        return False

    def _count(self, kind: str, change: int) -> None:
        self._live[kind] = self._live.get(kind, 0) + change

    def _remember_gone(self, uid: str, now_ms: int, size: int) -> None:
        self._gone[uid] = (now_ms, size)
        self._gone_bytes += size
        self.forget(now_ms)

    def forget(self, now_ms: int) -> None:
        """Let go of what went too long ago, or is too much."""

        def is_due(at_ms: int) -> bool:
            return at_ms < now_ms - KEEP_MS or len(self._gone) > MAX_GONE or self._gone_bytes > MAX_GONE_BYTES

        while self._gone:
            uid, (at_ms, size) = next(iter(self._gone.items()))
            if not is_due(at_ms):
                return
            del self._gone[uid]
            self._gone_bytes -= size
            if (pod := self.pods.pop(uid, None)) is not None:
                _drop(self._names, pod.name, pod)
                if pod.owner is not None:
                    _drop(self._owners, pod.owner, pod)
                for address in pod.addresses:
                    _drop(self._addresses, address, pod)
            elif (work := self.workloads.get(uid)) is not None:
                self._drop_workload(work)
            else:
                # One that was made anew has another uid.
                for name in [it.name for it in self.nodes.values() if it.uid == uid]:
                    del self.nodes[name]

    def _drop_workload(self, work: WorkloadRecord) -> None:
        del self.workloads[work.uid]
        key = work.namespace, work.kind, work.name
        if self._workload_names.get(key) is work:
            del self._workload_names[key]
        if work.owner is not None and (sets := self._of_owner.get(work.owner)) is not None:
            sets.pop(work.uid, None)
            if not sets:
                del self._of_owner[work.owner]


def end_kind(it: Termination) -> str:
    """By what ends of containers are counted: their reason, and their exit code where that says nothing."""
    return "OOMKilled" if it.reason == "OOMKilled" else f"exit {it.exit_code}"


def _at(meta: Metadata, otherwise_ms: int) -> int:
    return epoch_ms(meta.creation_timestamp) or otherwise_ms


def _condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    return next((it for it in conditions if it.type == type_), None)


def _follow(periods: deque[Period], holds: bool, from_ms: int, to_ms: int) -> None:
    """Begin or end a period in which something holds; it began after `from_ms`, and ended by `to_ms`."""
    is_open = bool(periods) and periods[-1].to_ms is None
    if holds and not is_open:
        periods.append(Period(from_ms, None))
    elif is_open and not holds:
        periods[-1] = periods[-1]._replace(to_ms=to_ms)


def _drop(index: dict[str, list[PodRecord]], key: str, pod: PodRecord) -> None:
    left = [it for it in index.get(key, ()) if it is not pod]
    if left:
        index[key] = left
    else:
        index.pop(key, None)


def _probe_words(probe: Probe | None) -> str | None:
    if probe is None:
        return None
    every, most, wait = probe.period_seconds, probe.failure_threshold, probe.timeout_seconds
    return intern(f"every {every} s, {most} times, timeout {wait} s"[:80])
