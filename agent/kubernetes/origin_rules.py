"""Why a pod's member left or came, from what is remembered of the cluster. Pure: times are arguments.

*A departure.* D is the time from when the member went (as inferred; else the earliest it can have) to when the topic
showed it. A rule holds where its fact touches D. A container that ended before anybody asked for its pod to go, ended
by itself: then the last three rows come first. Otherwise the first row that holds is taken.

    preempted        DisruptionTarget is PreemptionByScheduler; or the kubelet failed the pod as Preempting; or an
                     event says Preempted
    drained          DisruptionTarget is EvictionByEvictionAPI, and the node was cordoned, or tainted by an autoscaler
                     that removes it; or the kubelet ended the pod as its node shut down
    node_lost        DisruptionTarget is DeletionByPodGC, or DeletionByTaintManager with a node of which nothing was
                     heard; or no row holds, and nothing is heard of the node, or it was deleted
    evicted          DisruptionTarget is EvictionByEvictionAPI, DeletionByTaintManager or TerminationByKubelet, with
                     none of the above; or the kubelet failed the pod as Evicted
    rolled_out       deleted as its ReplicaSet shrank, which was not its owner's newest, or whose owner was to have no
                     fewer; of a StatefulSet, as the pod's revision was not the one to bring pods to
    scaled_down      deleted as its Deployment, ReplicaSet or StatefulSet was given fewer replicas, and among as many
                     as were too many
    deleted          deleted, and none of the above did it
    liveness_killed  a container ended after the kubelet said that its liveness or startup probe failed
    oom_killed       a container ended as OOMKilled
    exited           a container ended otherwise

A pod is only taken where it was deleted or has failed, or went unseen: then what the watch missed may have been a
disruption, and only what is positively known of its workload is told. Of several ends of containers, the first in
time counts; a member of which it is not known when it went has an origin only if all of them are of one kind. With
exit code 137 at the end of a deletion, the message says that the grace period ran out.

*A join* is told if a container of the pod started in the `START_MS` before it, and it is among the first of that
start (`FIRST_JOINS_MS`): whoever joins later has another reason.

    restarted        a container that had run before in the pod started again; or the pod took the place of one of the
                     same revision
    rolled_out       the pod's set grew while one of an older revision of the same owner had pods; of a StatefulSet,
                     the pod of that name before it was of another revision
    scaled_up        made as its workload was given more replicas, and among as many as were too few

`deleted` and `exited`, a pod that took another's place, and what the node's state tells apart (`drained` and
`evicted`, `evicted` and `node_lost`), are told once what would say more (another watch brings it) has had
`SETTLE_MS`: agents ask for ten seconds. Who scaled: the autoscaler whose event SuccessfulRescale is of that time and
size, else the program that wrote `spec.replicas`.

A member is in the container that the annotation kubectl.kubernetes.io/default-container names, else in one that is no
known sidecar (`records.SIDECARS`; what Kubernetes itself calls a sidecar is an init container, and not looked at).
Where several are left, an end counts only close to when the member went (`LATE_MS`), and not at all of a member of
which that is not known.

Known not to be told apart: several such containers that end within those seconds (the OOM-killed one, else the first,
is named), and a deletion by hand within a minute of a change of replicas from the controller's own, where the count
does not.
"""

from __future__ import annotations

from typing import NamedTuple

from agent.common.text import truncated
from agent.core.inference.origins import (
    GRACE_WORDS,
    LIMIT_WORDS,
    MAX_MESSAGE_CHARACTERS,
    PROBE_WORDS,
    Origin,
    OriginKind,
)
from agent.core.shadow.views import Member
from agent.kubernetes.history import ClusterHistory, end_kind
from agent.kubernetes.members import CLOCKS_MS, pod_of
from agent.kubernetes.records import (
    ContainerRecord,
    PodRecord,
    ReplicaChange,
    Span,
    Termination,
    WorkloadRecord,
)

SESSION_MS = 45_000
"""Kafka's default session timeout, where the group type writes none."""
SETTLE_MS = 4_000
LATE_MS = 10_000
"""So long after the topic showed it, a process may end that had closed its consumer."""
GRACE_MS = 30_000
"""Kubernetes' default grace period."""
CONTROLLERS_MS = 60_000
"""How long a controller may take to delete or make pods after replicas changed."""
START_MS = 600_000
"""A program may take so long from its start to the rebalance that shows it."""
START_OF_SEVERAL_MS = 120_000
"""The same where several containers may have the member: one that started long before is not why."""
FIRST_JOINS_MS = 60_000
_BY_KUBELET = ("TerminationByKubelet", "Evicted")
"""The condition's reason, and the event's."""
UNREPORTED_MS = 3_600_000
"""So long after its node was not ready a pod may be evicted for that: by default pods bear it for five minutes."""
SILENT_MS = 60_000
"""How long it takes until a node is called silent: node-monitor-grace-period is 50 s at most by default."""


_BY_NODE = ("EvictionByEvictionAPI", "DeletionByTaintManager", "TaintManagerEviction")
"""Reasons of disruptions that are of one kind or another by what the node was."""


class Departed(NamedTuple):
    """A member that went: at a time of `span`, which ends when the topic showed it."""

    span: Span
    is_dated: bool
    """Whether it was inferred when."""


def departed_of(member: Member, departed_ms: int | None, shown_ms: int) -> Departed:
    """When a member went, as narrow as is known."""
    if departed_ms is not None:
        return Departed(Span(min(departed_ms, shown_ms), shown_ms), True)
    session = SESSION_MS if member.session_timeout_ms is None else member.session_timeout_ms
    return Departed(Span(shown_ms - session - (member.rebalance_timeout_ms or 0), shown_ms), False)


def departure_origin(history: ClusterHistory, member: Member, gone: Departed, now_ms: int) -> Origin | None:
    """Why a member's pod went; None: not known. See the module's table."""
    where = Span.at(gone.span.from_ms) if gone.is_dated else gone.span
    pod = pod_of(history, member, where)
    if pod is None:
        return None
    return _Departure(history, pod, gone, now_ms).origin()


class _Departure:
    """The rules, of one member in one pod."""

    def __init__(self, history: ClusterHistory, pod: PodRecord, gone: Departed, now_ms: int) -> None:
        self.history, self.pod, self.gone, self.now_ms = history, pod, gone, now_ms
        self.consumers = pod.consumers
        self.end = self._end(self._near_span())

    def origin(self) -> Origin | None:
        taken = self._taken()
        if self.end is not None and (taken is None or self._ended_first(taken)):
            return self._ended(*self.end)
        if taken is not None:
            return None if self._awaits_node() else self._disrupted() or self._unwanted(taken)
        return self._probed() or self._node_lost()

    def _has_settled(self, seen_ms: int) -> bool:
        return _has_settled(self.history, seen_ms, self.now_ms)

    def _awaits_node(self) -> bool:
        """Whether the pod was taken in a way of which the node says why, and that may yet come."""
        pod, said = self.pod, self.pod.disruption
        if said is None or said.reason not in _BY_NODE:
            return False
        return not self._has_settled(pod.deleted_seen_ms if pod.deleted is not None else pod.gone_ms or self.now_ms)

    # Ends of containers.

    def _near_span(self) -> Span | None:
        """When the container of the member ended, if that is why it went. Where several may be the one, it did so
        just then, or another's end may be taken for it; None: it is not known when."""
        span = self.gone.span
        if len(self.consumers) < 2:
            return Span(span.from_ms - CLOCKS_MS, span.to_ms + LATE_MS)
        return Span(span.from_ms - CLOCKS_MS, span.from_ms + LATE_MS) if self.gone.is_dated else None

    def _end(self, span: Span | None) -> tuple[ContainerRecord, Termination] | None:
        """The first end of a container at which the member may have gone; of an undated one, the only kind of end."""
        if span is None:
            return None
        ends = [
            (it, ended)
            for it in self.consumers
            for ended in it.terminations
            if span.from_ms <= ended.finished_ms <= span.to_ms
        ]
        if not ends:
            return None
        if not self.gone.is_dated and len({end_kind(ended) for _, ended in ends}) > 1:
            return None
        first = min(ended.finished_ms for _, ended in ends)
        near = [it for it in ends if it[1].finished_ms - first <= CLOCKS_MS]
        return min(near, key=lambda it: (it[1].reason != "OOMKilled", it[1].finished_ms))

    def _ended_first(self, taken: Span) -> bool:
        assert self.end is not None, "asked where one ended"
        ended = self.end[1]
        if ended.reason == "OOMKilled" and ended.finished_ms <= taken.to_ms:
            return True
        return ended.finished_ms < taken.from_ms - 1000

    def _ended(self, container: ContainerRecord, ended: Termination) -> Origin | None:
        if ended.reason == "OOMKilled":
            at_limit = "at its memory limit" if container.limit is None else f"{LIMIT_WORDS}{container.limit}"
            text = f"container `{container.name}` was killed by the kernel {at_limit}"
            return self._of_container(OriginKind.OOM_KILLED, container, ended, text)
        if (probed := self._probed(ended)) is not None:
            return probed
        if not self._has_settled(ended.seen_ms):
            # The event of a failed probe comes by another watch.
            return None
        lived = "" if ended.started_ms is None else f" after {_duration(ended.finished_ms - ended.started_ms)}"
        text = f"container `{container.name}` ended with exit code {ended.exit_code}{_signal(ended)}{lived}"
        return self._of_container(OriginKind.EXITED, container, ended, text)

    def _probed(self, ended: Termination | None = None) -> Origin | None:
        """A probe failed: of an end, or where none is known yet."""
        grace, near = _grace_ms(self.pod) + LATE_MS, self._near_span()
        consumers = {it.name for it in self.consumers}
        for kill in self.pod.probe_kills:
            if kill.container not in consumers:
                continue
            if ended is not None:
                holds = kill.at_ms - CLOCKS_MS <= ended.finished_ms <= kill.at_ms + grace
                holds = holds and self.end is not None and self.end[0].name == kill.container
            else:
                holds = near is not None and Span(kill.at_ms - CLOCKS_MS, kill.at_ms + grace).overlaps(near)
            if not holds:
                continue
            container = self.pod.containers.get(kill.container) or ContainerRecord(kill.container)
            text = f"the kubelet restarted container `{kill.container}`: its {kill.probe} {PROBE_WORDS}"
            if (settings := container.probes[kill.probe == "startup"]) is not None:
                text += f" ({settings})"
            if ended is not None and ended.exit_code == 137:
                text += f"; it did not end within {GRACE_WORDS}{_grace_ms(self.pod) // 1000} s"
            return self._of_container(OriginKind.LIVENESS_KILLED, container, ended, text, kill.at_ms)
        return None

    def _of_container(
        self,
        kind: OriginKind,
        container: ContainerRecord,
        ended: Termination | None,
        text: str,
        at_ms: int | None = None,
    ) -> Origin:
        if ended is not None:
            count = self.history.ends_within_day(self.pod, container.name, end_kind(ended), ended.finished_ms)
            if count > 1:
                text += f"; {_ordinal(count)} time within a day"
        at = at_ms if at_ms is not None else (0 if ended is None else ended.finished_ms)
        code = None if ended is None else ended.exit_code
        return _origin(self.history, self.pod, kind, at, text, container=container.name, exit_code=code)

    # What took the pod.

    def _dated_span(self) -> Span:
        return self.gone.span.widened(CLOCKS_MS, CLOCKS_MS)

    def _taken(self) -> Span | None:
        """When the pod was taken away, if the member may have gone by that."""
        pod = self.pod
        begins = [it.at_ms for it in (pod.failed, pod.disruption) if it is not None]
        # A preemption or eviction that is only announced takes nothing away before it deletes.
        if pod.deleted is not None:
            begins += [pod.deleted.from_ms]
        elif pod.failed is None and not self._ended_by_kubelet():
            begins = [] if pod.gone_since_ms is None else [pod.gone_since_ms]
        if not begins:
            return None
        taken = Span(min(begins), pod.deleted.to_ms if pod.deleted is not None else max(begins))
        if pod.deleted is None and pod.failed is None and pod.gone_ms is not None:
            taken = Span(taken.from_ms, pod.gone_ms)
        until = taken.to_ms + _grace_ms(pod) + LATE_MS
        last = pod.last_sign_ms
        return (
            taken
            if Span(taken.from_ms, until if last is None else max(until, last)).overlaps(self._dated_span())
            else None
        )

    def _ended_by_kubelet(self) -> bool:
        """Evicted for a volume over its size, and all containers ended in order: then the pod has succeeded, and its
        event alone says why (as a kubelet 1.36.3 writes it)."""
        said = self.pod.disruption
        return self.pod.ended_ms is not None and said is not None and said.reason in _BY_KUBELET

    def _disrupted(self) -> Origin | None:
        """Kubernetes itself took it, and says so."""
        pod, said = self.pod, self.pod.disruption
        reason = "" if said is None else said.reason
        failed = "" if pod.failed is None else pod.failed.reason
        on = "" if pod.node is None else f" from node `{pod.node}`"
        if reason in ("PreemptionByScheduler", "Preempted") or failed == "Preempting":
            return self._taken_by(OriginKind.PREEMPTED, f"the pod was preempted{on} for one of a higher priority")
        if failed in ("NodeShutdown", "Terminated", "Shutdown"):
            return self._taken_by(OriginKind.DRAINED, f"node `{pod.node}` shut down and ended its pods")
        if failed == "Evicted" or reason in _BY_KUBELET:
            text, quoted = f"the kubelet evicted the pod{on}", pod.failed or said
            return self._taken_by(OriginKind.EVICTED, text, quoted.message if quoted is not None else "")
        if reason == "EvictionByEvictionAPI":
            node = None if pod.node is None else self.history.nodes.get(pod.node)
            assert said is not None, "a reason was said"
            if node is not None and node.was_closed(Span.at(said.at_ms).widened(CLOCKS_MS, CLOCKS_MS)):
                by = f" by {node.closed_by}" if node.closed_by else ""
                return self._taken_by(
                    OriginKind.DRAINED, f"the pod was evicted as node `{pod.node}`, closed to pods, was drained{by}"
                )
            return self._taken_by(OriginKind.EVICTED, f"the pod was evicted{on} by a call of the eviction API")
        if reason == "DeletionByPodGC":
            return self._taken_by(OriginKind.NODE_LOST, f"the pod was removed as its node `{pod.node}` is gone")
        if reason in ("DeletionByTaintManager", "TaintManagerEviction"):
            assert said is not None, "a reason was said"
            since = None if pod.unreported_ms is None else said.at_ms - pod.unreported_ms
            if self._silence(Span.at(said.at_ms)) is not None or (since is not None and since <= UNREPORTED_MS):
                return self._taken_by(
                    OriginKind.NODE_LOST, f"nothing was heard of node `{pod.node}`, and its pods were deleted"
                )
            return self._taken_by(OriginKind.EVICTED, f"the pod was evicted{on} by a NoExecute taint of the node")
        return None

    def _unwanted(self, taken: Span) -> Origin | None:
        """It was deleted: for a new revision, for fewer replicas, or by somebody."""
        pod, history = self.pod, self.history
        work = None if pod.owner is None else history.workloads.get(pod.owner)
        if work is not None and work.kind == "ReplicaSet":
            told = self._set_shrank(work, taken)
        elif work is not None and work.kind == "StatefulSet":
            told = self._stateful_shrank(work, taken)
        else:
            told = None
        if told is not None:
            return told
        if _changed_unseen(history, work, taken) or _others_unseen(history, work, taken):
            return None
        if pod.deleted is None or not self._has_settled(pod.deleted_seen_ms):
            # It went unseen, or what says why is on its way.
            return None
        owner = history.workloads.get(work.owner) if work is not None and work.owner is not None else work
        if work is not None and work.owner is not None and _shrank(history, work, pod, taken) is not None:
            # By a controller that is not followed (a Rollout), or may not be, or by somebody past it: by what is not
            # known.
            return None
        if owner is not None and owner.deleted is not None:
            return self._taken_by(OriginKind.DELETED, f"the pod was deleted with its {owner.label}")
        if pod.owner_name is not None and work is None:
            if history.looked_ms is None:
                # It may be on a later page of the first list.
                return None
            return self._taken_by(
                OriginKind.DELETED, f"the pod was deleted; why is not known, as its {pod.owner_name} is not"
            )
        if history.looked_ms is not None and taken.from_ms < history.looked_ms:
            return self._taken_by(
                OriginKind.DELETED, "the pod was deleted; why is not known, as it was before kshadow looked"
            )
        return self._taken_by(
            OriginKind.DELETED, "the pod was deleted, and neither a rollout nor fewer replicas did it"
        )

    def _set_shrank(self, work: WorkloadRecord, taken: Span) -> Origin | None:
        shrank = _shrank(self.history, work, self.pod, taken)
        if shrank is None:
            return None
        owner = None if work.owner is None else self.history.workloads.get(work.owner)
        sets = [] if work.owner is None else list(self.history.sets_of(work.owner))
        newest = max(sets, key=lambda it: it.revision_number, default=work)
        if newest.revision_number > work.revision_number:
            return self._taken_by(OriginKind.ROLLED_OUT, _rollout(work, work.revision, newest.revision))
        scaled = work if work.owner is None else owner
        lessened = None if scaled is None else _change_near(scaled, shrank.span, down=True)
        if lessened is not None and scaled is not None:
            by = _scaled_by(self.history, scaled, lessened)
            return self._taken_by(
                OriginKind.SCALED_DOWN, f"{scaled.label} went from {lessened.before} to {lessened.after} replicas{by}"
            )
        if owner is not None and owner.replicas > work.replicas and self.now_ms - shrank.span.to_ms >= SETTLE_MS:
            # Recreate: the old set goes before the new one is made.
            return self._taken_by(OriginKind.ROLLED_OUT, _rollout(work, work.revision, None))
        return None

    def _stateful_shrank(self, work: WorkloadRecord, taken: Span) -> Origin | None:
        lessened = _change_near(work, taken, down=True)
        ordinal = _ordinal_of(self.pod.name, work.name)
        if lessened is not None and ordinal is not None and ordinal >= work.first_ordinal + lessened.after:
            by = _scaled_by(self.history, work, lessened)
            return self._taken_by(
                OriginKind.SCALED_DOWN, f"{work.label} went from {lessened.before} to {lessened.after} replicas{by}"
            )
        if work.revision is not None and self.pod.revision not in (None, work.revision):
            return self._taken_by(OriginKind.ROLLED_OUT, _rollout(work, self.pod.revision, work.revision))
        return None

    def _taken_by(self, kind: OriginKind, text: str, quote: str = "") -> Origin:
        pod = self.pod
        at = [it.at_ms for it in (pod.failed, pod.disruption) if it is not None]
        if pod.deleted is not None:
            at.append(pod.deleted.from_ms)
        code, container = None, None
        # All containers of a pod end with it, each up to the grace period later.
        end = self.end or self._end(self.gone.span.widened(CLOCKS_MS, LATE_MS))
        if end is not None:
            container, code = end[0].name, end[1].exit_code
            if code == 137 and pod.deleted is not None and pod.failed is None:
                grace = _grace_ms(pod)
                if end[1].finished_ms >= pod.deleted.from_ms + grace - 2000:
                    text += f"; container `{container}` was killed at the end of {GRACE_WORDS}{grace // 1000} s"
        if quote := quote.strip().rstrip("."):
            text += f": {quote}"
        taken = min(at) if at else (pod.gone_ms or self.gone.span.to_ms)
        return _origin(self.history, pod, kind, taken, text, container=container, exit_code=code)

    # The node.

    def _silence(self, span: Span) -> bool | None:
        node = None if self.pod.node is None else self.history.nodes.get(self.pod.node)
        if node is None:
            return None
        return True if node.silence(span.widened(0, SILENT_MS)) is not None else None

    def _node_lost(self) -> Origin | None:
        pod, span = self.pod, self._dated_span()
        node = None if pod.node is None else self.history.nodes.get(pod.node)
        silent = None if node is None else node.silence(span.widened(0, SILENT_MS))
        if silent is not None and silent.from_ms + CLOCKS_MS >= self.gone.span.from_ms:
            return _origin(
                self.history,
                pod,
                OriginKind.NODE_LOST,
                silent.from_ms,
                f"nothing was heard any more of node `{pod.node}`",
            )
        if pod.unreported_ms is not None and span.widened(0, SILENT_MS).overlaps(Span.at(pod.unreported_ms)):
            return _origin(
                self.history, pod, OriginKind.NODE_LOST, pod.unreported_ms, f"node `{pod.node}` was no longer ready"
            )
        if (
            node is not None
            and node.gone_ms is not None
            and span.widened(0, SILENT_MS).overlaps(Span.at(node.gone_ms))
        ):
            return _origin(self.history, pod, OriginKind.NODE_LOST, node.gone_ms, f"node `{pod.node}` was deleted")
        return None


def join_origin(history: ClusterHistory, member: Member, shown_ms: int, now_ms: int) -> Origin | None:
    """Why a member's pod came; None: not known, or it did not just start. See the module's table."""
    pod = pod_of(history, member, Span.at(shown_ms))
    if pod is None:
        return None
    consumers = pod.consumers
    starts = [
        (start, it, before)
        for it in consumers
        for start, before in _starts(it)
        if shown_ms - (START_MS if len(consumers) < 2 else START_OF_SEVERAL_MS) <= start <= shown_ms + CLOCKS_MS
    ]
    if not starts:
        return None
    start, container, before = max(starts, key=lambda it: it[0])
    if pod.first_join_ms is None:
        pod.first_join_ms = {}
    first = min(pod.first_join_ms.get(start, shown_ms), shown_ms)
    pod.first_join_ms[start] = first
    if len(pod.first_join_ms) > 8:
        del pod.first_join_ms[min(pod.first_join_ms)]
    if shown_ms - first > FIRST_JOINS_MS:
        return None
    if before is not None or container.restarts > len(container.terminations):
        text = f"container `{container.name}` was started again (restart {container.restarts})"
        if before is not None:
            ended = "being OOM-killed" if before.reason == "OOMKilled" else f"exit code {before.exit_code}"
            text += f", after {ended}"
        return _origin(history, pod, OriginKind.RESTARTED, start, text, container=container.name)
    told = _made(history, pod)
    if told is None or told.kind != OriginKind.RESTARTED:
        return told
    # That its workload grew may be on its way, or have gone by unseen.
    work = None if pod.owner is None else history.workloads.get(pod.owner)
    is_known = _has_settled(history, pod.seen_ms, now_ms)
    return told if is_known and not _changed_unseen(history, work, Span.at(pod.created_ms)) else None


def _starts(container: ContainerRecord) -> list[tuple[int, Termination | None]]:
    """When a container started, and how its run before had ended."""
    ends = list(container.terminations)
    out = [(it.started_ms, ends[at - 1] if at else None) for at, it in enumerate(ends) if it.started_ms is not None]
    if container.started_ms is not None and all(container.started_ms != start for start, _ in out):
        before = [it for it in ends if it.finished_ms <= container.started_ms + 1000]
        out.append((container.started_ms, before[-1] if before else None))
    return out


def _made(history: ClusterHistory, pod: PodRecord) -> Origin | None:
    """Why a pod was made."""
    work = None if pod.owner is None else history.workloads.get(pod.owner)
    made = Span.at(pod.created_ms)
    if work is None:
        return None
    if work.kind == "StatefulSet":
        return _stateful_made(history, pod, work, made)
    grew = _grew(history, work, pod)
    if grew is None:
        return _replacement(history, pod, work, made)
    owner = None if work.owner is None else history.workloads.get(work.owner)
    others = [] if work.owner is None else [it for it in history.sets_of(work.owner) if it is not work]
    older = [it for it in others if it.revision_number < work.revision_number and _had_pods(it, made)]
    if older:
        before = max(older, key=lambda it: it.revision_number)
        return _origin(
            history, pod, OriginKind.ROLLED_OUT, pod.created_ms, _rollout(work, before.revision, work.revision)
        )
    scaled = work if work.owner is None else owner
    raised = None if scaled is None else _change_near(scaled, grew.span, down=False)
    if raised is not None and scaled is not None:
        by = _scaled_by(history, scaled, raised)
        text = f"{scaled.label} went from {raised.before} to {raised.after} replicas{by}"
        return _origin(history, pod, OriginKind.SCALED_UP, pod.created_ms, text)
    return _replacement(history, pod, work, made)


def _stateful_made(history: ClusterHistory, pod: PodRecord, work: WorkloadRecord, made: Span) -> Origin | None:
    raised = _change_near(work, made, down=False)
    ordinal = _ordinal_of(pod.name, work.name)
    if raised is not None and ordinal is not None and ordinal >= work.first_ordinal + raised.before:
        by = _scaled_by(history, work, raised)
        text = f"{work.label} went from {raised.before} to {raised.after} replicas{by}"
        return _origin(history, pod, OriginKind.SCALED_UP, pod.created_ms, text)
    before = _predecessor(history, pod)
    if before is not None and pod.revision is not None and before.revision not in (None, pod.revision):
        return _origin(
            history, pod, OriginKind.ROLLED_OUT, pod.created_ms, _rollout(work, before.revision, pod.revision)
        )
    return _replacement(history, pod, work, made)


def _predecessor(history: ClusterHistory, pod: PodRecord) -> PodRecord | None:
    """The pod of the same name before it."""
    named = history.pods_named(pod.name)
    older = [it for it in named if it.namespace == pod.namespace and it.created_ms < pod.created_ms]
    return max(older, key=lambda it: it.created_ms, default=None)


def _replacement(history: ClusterHistory, pod: PodRecord, work: WorkloadRecord, made: Span) -> Origin | None:
    """A pod of the same revision in place of one that was taken away shortly before."""
    lost = [
        it
        for it in history.pods_of(work.uid)
        if it is not pod
        and it.revision == pod.revision
        and (since := _taken_at(it)) is not None
        and made.widened(CONTROLLERS_MS + _grace_ms(it), CLOCKS_MS).overlaps(Span.at(since))
    ]
    if not lost:
        return None
    before = max(lost, key=lambda it: _taken_at(it) or 0)
    text = f"the pod took the place of `{before.name}`"
    if before.name == pod.name:
        text = "the pod took the place of the one before it"
    return _origin(history, pod, OriginKind.RESTARTED, pod.created_ms, text)


def _taken_at(pod: PodRecord) -> int | None:
    if pod.deleted is not None:
        return pod.deleted.from_ms
    return pod.ended_ms if pod.ended_ms is not None else pod.gone_ms


def _had_pods(work: WorkloadRecord, at: Span) -> bool:
    """Whether a ReplicaSet had pods then, or just before."""
    near = at.widened(START_MS, CONTROLLERS_MS)
    return work.replicas > 0 or any(it.span.overlaps(near) and it.before > it.after for it in work.changes)


def _changes_near(work: WorkloadRecord, span: Span, *, down: bool) -> list[ReplicaChange]:
    """Changes of its replicas in one direction after which, as it seems, pods went or came at a time of a span."""
    near = Span(span.from_ms - CONTROLLERS_MS, span.to_ms + CLOCKS_MS)
    return [it for it in work.changes if (it.after < it.before) is down and it.span.overlaps(near)]


def _last(changes: list[ReplicaChange]) -> ReplicaChange | None:
    """The last of them, as who says most of it has it."""
    return max(changes, key=lambda it: (it.span.to_ms, bool(it.manager)), default=None)


def _change_near(work: WorkloadRecord, span: Span, *, down: bool) -> ReplicaChange | None:
    return _last(_changes_near(work, span, down=down))


def _shrank(history: ClusterHistory, work: WorkloadRecord, pod: PodRecord, taken: Span) -> ReplicaChange | None:
    """By which a controller deleted a pod: it deletes as many as it has too many, and others are not its doing."""
    others = (_taken_at(it) for it in history.pods_of(work.uid) if it is not pod)
    times = [it for it in others if it is not None]
    return _owed_to(_changes_near(work, taken, down=True), times, taken.from_ms)


def _grew(history: ClusterHistory, work: WorkloadRecord, pod: PodRecord) -> ReplicaChange | None:
    """The same of a pod that was made: others take the place of some that went."""
    times = [it.created_ms for it in history.pods_of(work.uid) if it is not pod]
    return _owed_to(_changes_near(work, Span.at(pod.created_ms), down=False), times, pod.created_ms)


def _owed_to(changes: list[ReplicaChange], others_ms: list[int], at_ms: int) -> ReplicaChange | None:
    """The change by which a controller made or deleted a pod at a time, after `others_ms` of its other pods: the
    newest change, or it and those before, that had as many to come or go."""
    newest = sorted(_dated_best(changes), key=lambda it: it.span.to_ms, reverse=True)
    for count in range(1, len(newest) + 1):
        some = newest[:count]
        since = min(it.span.from_ms for it in some) - CLOCKS_MS
        if sum(since <= it < at_ms for it in others_ms) < _difference(some):
            return _last([it for it in changes if any(_are_one(it, one) for one in some)])
    return None


def _dated_best(changes: list[ReplicaChange]) -> list[ReplicaChange]:
    """Each change once, as who knows best when it was tells it: an event does to the second, a watch that was broken
    does not."""
    out: list[ReplicaChange] = []
    for it in sorted(changes, key=lambda it: it.span.to_ms - it.span.from_ms):
        if not any(_are_one(it, one) for one in out):
            out.append(it)
    return out


def _are_one(one: ReplicaChange, other: ReplicaChange) -> bool:
    near = one.span.widened(CLOCKS_MS, CLOCKS_MS).overlaps(other.span)
    return near and (one.before, one.after) == (other.before, other.after)


def _difference(changes: list[ReplicaChange]) -> int:
    """By how many pods changes in one direction differ in all; a watch and an event may tell the same one."""
    if not changes:
        return 0
    every = [count for it in changes for count in (it.before, it.after)]
    return max(every) - min(every)


def _scaled_by(history: ClusterHistory, work: WorkloadRecord, change: ReplicaChange) -> str:
    """By whom: ", by …"; empty where that is not known."""
    near = change.span.widened(CONTROLLERS_MS, CONTROLLERS_MS)
    own = [it for it in history.autoscalers.values() if it.namespace == work.namespace and it.target == work.label]
    for scaler in own:
        rescales = [it for it in scaler.rescales if it.size == change.after and near.overlaps(Span.at(it.at_ms))]
        if rescales:
            who = (
                f"KEDA's ScaledObject `{scaler.scaled_object}`"
                if scaler.scaled_object is not None
                else f"HorizontalPodAutoscaler `{scaler.name}`"
            )
            why = f" ({rescales[-1].reason})" if rescales[-1].reason else ""
            return f", by {who}{why}"
    manager = change.manager
    if not manager:
        return ""
    if manager == "kube-controller-manager" and change.scaled:
        return ", by a HorizontalPodAutoscaler"
    if manager.startswith("keda"):
        return ", by KEDA"
    return f", by hand ({manager})" if manager.startswith("kubectl") else f", by `{manager}`"


def _rollout(work: WorkloadRecord, before: str | None, after: str | None) -> str:
    label = work.label if work.owner_name is None else work.owner_name
    if after is None:
        return f"{label} was rolled out anew, from revision {before}"
    return f"{label} was rolled out: revision {before or '?'} → {after}"


def _origin(
    history: ClusterHistory,
    pod: PodRecord,
    kind: OriginKind,
    at_ms: int,
    text: str,
    *,
    container: str | None = None,
    exit_code: int | None = None,
) -> Origin:
    work = None if pod.owner is None else history.workloads.get(pod.owner)
    label = pod.owner_name if work is None or work.owner_name is None else work.owner_name
    return Origin(
        kind=str(kind),
        at_ms=at_ms,
        namespace=pod.namespace,
        pod=pod.name,
        container=container,
        node=pod.node,
        workload=label,
        revision=pod.revision,
        exit_code=exit_code,
        message=truncated(text, MAX_MESSAGE_CHARACTERS),
    )


def _changed_unseen(history: ClusterHistory, work: WorkloadRecord | None, at: Span) -> bool:
    """Whether replicas of a workload or its owner may have been changed, just before, and back again."""
    owner = None if work is None or work.owner is None else history.workloads.get(work.owner)
    near = at.widened(CONTROLLERS_MS, CLOCKS_MS)
    return any(span.overlaps(near) for it in (work, owner) if it is not None for span in it.unseen)


def _others_unseen(history: ClusterHistory, work: WorkloadRecord | None, taken: Span) -> bool:
    """Whether pods of a workload that got fewer went at a time that is not known: who of them was too many is not."""
    changes = [] if work is None else _changes_near(work, taken, down=True)
    if work is None or not changes:
        return False
    near = Span(min(it.span.from_ms for it in changes), taken.to_ms).widened(CONTROLLERS_MS, CLOCKS_MS)
    went = (it for it in history.pods_of(work.uid) if it.gone_since_ms is not None and it.gone_ms is not None)
    return any(Span(it.gone_since_ms or 0, it.gone_ms or 0).overlaps(near) for it in went)


def _has_settled(history: ClusterHistory, seen_ms: int, now_ms: int) -> bool:
    """Whether the other watches had their time to bring what says more of what was seen then."""
    return now_ms - seen_ms >= SETTLE_MS or (history.looked_ms is not None and seen_ms <= history.looked_ms)


def _grace_ms(pod: PodRecord) -> int:
    return GRACE_MS if pod.grace_s is None else 1000 * pod.grace_s


def _ordinal_of(pod: str, workload: str) -> int | None:
    text = pod.removeprefix(f"{workload}-")
    return int(text) if text != pod and text.isascii() and text.isdigit() and len(text) < 10 else None


def _signal(ended: Termination) -> str:
    names = {134: "SIGABRT", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}
    return f" ({names[ended.exit_code]})" if ended.exit_code in names else ""


def _duration(ms: int) -> str:
    seconds = max(ms, 0) // 1000
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


def _ordinal(count: int) -> str:
    words = ("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
    return words[count] if count < len(words) else f"{count}th"
