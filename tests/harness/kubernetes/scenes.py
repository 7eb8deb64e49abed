"""Every origin once, as components write it: scenes, each of which says what it expects of which member.

A scene is a generator: it yields the seconds to wait for. So all of them run beside each other, in memory on a clock
that is set, against an API server in its own time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from agent.core.inference.origins import Origin
from agent.core.shadow.views import Member
from tests.harness.kubernetes.components import Cluster, PodHandle, SetHandle

Scene = Generator[float, None, None]

REVISIONS = ("6d4f9c7b5d", "7c9b8d6f4c")


@dataclass(frozen=True, slots=True)
class Expected:
    """What is to be said of a member: `kind` None for nothing, `words` stand in the message."""

    scene: str
    member: Member
    kind: str | None
    shown_ms: int
    departed_ms: int | None = None
    joins: bool = False
    words: tuple[str, ...] = ()
    pod: str = ""

    def mistake(self, origin: Origin | None) -> str | None:
        """What is wrong with an answer; None: nothing."""
        came = None if origin is None else origin.kind
        if came != self.kind:
            return f"{self.scene}: expected {self.kind}, got {origin}"
        if origin is not None and (origin.pod != self.pod or any(it not in origin.message for it in self.words)):
            return f"{self.scene}: expected pod {self.pod} and {self.words}, got {origin}"
        return None


def member(pod: PodHandle | str, *, client_id: str = "consumer-orders-1", instance_id: str | None = None) -> Member:
    """One as a broker describes it, of a pod, or at an address."""
    address = pod if isinstance(pod, str) else pod.ip
    return Member(
        "m-1", client_id, f"/{address}", instance_id, session_timeout_ms=45_000, rebalance_timeout_ms=300_000
    )


class Scenes:
    """Scenes in one cluster; what they expect gathers in `expected`."""

    def __init__(self, cluster: Cluster, apps: Iterator[int] | None = None) -> None:
        """`apps`: numbers for names, where a cluster plays scenes more than once."""
        self.cluster, self.world = cluster, cluster.world
        self.expected: list[Expected] = []
        self._apps = apps or count(1)

    def all(self) -> dict[str, Callable[[], Scene]]:
        """Each by its name."""
        return {
            name: getattr(self, name) for name in dir(self) if name.startswith(("departs_", "joins_", "unknown_"))
        }

    # Departures: a container.

    def departs_oom_killed(self) -> Scene:
        pod = self._app()
        for _ in range(3):
            yield 5
            self.cluster.container_ends(pod, 137, "OOMKilled")
            died = pod.ended_ms
            yield 2
            self.cluster.container_restarts(pod)
        words = ("`app` was killed by the kernel at its memory limit of 512Mi", "third time within a day")
        self._left(pod, "oom_killed", died, 40_000, words)
        self._joined(pod, "restarted", ("restart 3", "OOM-killed"))

    def departs_exited(self) -> Scene:
        pod = self._app()
        yield 5
        self.cluster.container_ends(pod, 1, "Error")
        self._left(pod, "exited", pod.ended_ms - 300, 100, ("exit code 1",))
        yield 1

    def departs_of_two_containers(self) -> Scene:
        pod = self._app(containers=("app", "helper"))
        yield 5
        self.cluster.container_ends(pod, 1, "Error")
        self._left(pod, "exited", pod.ended_ms, 45_000, ("container `app`", "exit code 1"))
        yield 1

    def departs_beside_a_sidecar(self) -> Scene:
        pod = self._app(containers=("istio-proxy", "app"))
        yield 5
        self.cluster.container_ends(pod, 137, "OOMKilled", "app")
        self._left(pod, "oom_killed", pod.ended_ms, 45_000, ("container `app`",))
        yield 1

    def departs_liveness_killed(self) -> Scene:
        pod = self._app()
        yield 5
        left = self.world.now_ms()
        self.cluster.probe_fails(pod)
        yield 3
        self.cluster.container_ends(pod, 143, "Error")
        yield 1
        self.cluster.container_restarts(pod)
        self._left(
            pod, "liveness_killed", left, 500, ("`app`", "liveness probe failed (every 5 s, 3 times, timeout 2 s)")
        )

    # Departures: a pod that Kubernetes takes.

    def departs_evicted_by_kubelet(self) -> Scene:
        pod = self._app()
        yield 5
        self.cluster.evicted_by_kubelet(pod)
        self._left(pod, "evicted", pod.ended_ms, 500, ("the kubelet evicted", "low on resource: memory"))

    def departs_evicted_for_its_volume(self) -> Scene:
        pod = self._app()
        yield 5
        self.cluster.evicted_for_its_volume(pod)
        words = ("the kubelet evicted", 'exceeds the limit "8Mi"')
        self._left(pod, "evicted", self.world.now_ms() - 500, 500, words)

    def departs_evicted_for_its_volume_in_order(self) -> Scene:
        pod = self._app()
        yield 5
        self.cluster.evicted_for_its_volume(pod, in_order=True)
        words = ("the kubelet evicted", 'exceeds the limit "8Mi"')
        self._left(pod, "evicted", self.world.now_ms(), 500, words)

    def departs_evicted_by_api(self) -> Scene:
        pod = self._app()
        yield 5
        self.world.evict(pod.name)
        self._left(pod, "evicted", self.world.now_ms(), 500, ("eviction API",))
        yield 2
        self.cluster.finishes(pod)

    def departs_drained(self) -> Scene:
        node = self.cluster.node(f"drained-{next(self._apps)}")
        pod = self._app(node=node)
        yield 5
        self.cluster.cordon(node)
        yield 2
        self.world.evict(pod.name)
        self._left(pod, "drained", self.world.now_ms(), 500, (f"`{node}`", "drained"))
        yield 2
        self.cluster.finishes(pod)

    def departs_preempted(self) -> Scene:
        pod = self._app()
        yield 5
        self.cluster.preempted(pod)
        self._left(pod, "preempted", self.world.now_ms(), 500, ("higher priority",))
        yield 2
        self.cluster.finishes(pod)

    def departs_node_lost(self) -> Scene:
        node = self.cluster.node(f"silent-{next(self._apps)}")
        pod = self._app(node=node)
        yield 5
        died = self.world.now_ms()
        yield 8
        self.cluster.node_silent(node)
        self._left(pod, "node_lost", died, 45_000, (f"`{node}`", "heard"))
        yield 2
        self.cluster.taint_evicts(pod)

    def departs_node_deleted(self) -> Scene:
        node = self.cluster.node(f"deleted-{next(self._apps)}")
        pod = self._app(node=node)
        yield 5
        died = self.world.now_ms()
        self.world.delete("nodes", node)
        yield 4
        self.cluster.collected(pod)
        self._left(pod, "node_lost", died, 45_000, (f"`{node}`",))

    def departs_tainted(self) -> Scene:
        pod = self._app()
        yield 5
        self.cluster.taint_evicts(pod)
        self._left(pod, "evicted", self.world.now_ms(), 500, ("NoExecute",))
        yield 2
        self.cluster.finishes(pod)

    # Departures: a pod that is no longer wanted.

    def departs_scaled_down_by_hpa(self) -> Scene:
        deployment, sets, pods = self._deployment(3)
        scaler = self.cluster.autoscaler(deployment)
        yield 5
        self.cluster.autoscaler_scales(scaler, deployment, 2, "All metrics below target")
        self.cluster.controller_scales(sets, 2)
        left = yield from self._deleted(pods[-1])
        words = (f"Deployment/{deployment.name} went from 3 to 2", "HorizontalPodAutoscaler", "below target")
        self._left(pods[-1], "scaled_down", left, 300, words)

    def departs_scaled_down_by_keda(self) -> Scene:
        sets = self.cluster.stateful_set(self._name("keda"), 3, "5b8d7f9c6b")
        node = self.cluster.node(f"n-{sets.name}")
        pods = [self.cluster.pod(sets, node, ordinal=it) for it in range(3)]
        scaler = self.cluster.autoscaler(sets, scaled_object=sets.name)
        yield 5
        self.cluster.autoscaler_scales(scaler, sets, 2, "external metric s0-kafka-orders below target")
        left = yield from self._deleted(pods[2])
        words = ("from 3 to 2", f"KEDA's ScaledObject `{sets.name}`", "s0-kafka")
        self._left(pods[2], "scaled_down", left, 300, words)

    def departs_scaled_down_by_hand(self) -> Scene:
        deployment, sets, pods = self._deployment(3)
        yield 5
        self.cluster.scale(deployment, 2, "kubectl")
        self.cluster.controller_scales(sets, 2)
        left = yield from self._deleted(pods[0])
        self._left(pods[0], "scaled_down", left, 300, ("from 3 to 2", "by hand (kubectl)"))

    def departs_rolled_out(self) -> Scene:
        deployment, old, pods = self._deployment(2)
        yield 5
        new = self.cluster.replica_set(deployment, REVISIONS[1], 2, 1)
        fresh = self.cluster.pod(new, pods[0].node)
        self._joined(fresh, "rolled_out", (f"revision {REVISIONS[0]} → {REVISIONS[1]}",))
        yield 2
        self.cluster.controller_scales(old, 1)
        left = yield from self._deleted(pods[0])
        words = (f"Deployment/{deployment.name}", f"revision {REVISIONS[0]} → {REVISIONS[1]}")
        self._left(pods[0], "rolled_out", left, 300, words)

    def departs_rolled_out_recreated(self) -> Scene:
        deployment, old, pods = self._deployment(1)
        yield 5
        self.cluster.controller_scales(old, 0)
        left = yield from self._deleted(pods[0])
        self._left(pods[0], "rolled_out", left, 300, (f"revision {REVISIONS[0]} → {REVISIONS[1]}",))
        yield 2
        new = self.cluster.replica_set(deployment, REVISIONS[1], 2, 1)
        self._joined(self.cluster.pod(new, pods[0].node), "rolled_out", (REVISIONS[1],))

    def departs_rolled_out_stateful(self) -> Scene:
        sets = self.cluster.stateful_set(self._name("ledger"), 2, "5b8d7f9c6b")
        node = self.cluster.node(f"n-{sets.name}")
        pods = [self.cluster.pod(sets, node, ordinal=it) for it in range(2)]
        yield 5
        self.cluster.update_revision(sets, "6c9d8f7b5d")
        words = (f"revision {sets.name}-5b8d7f9c6b → {sets.name}-6c9d8f7b5d",)
        left = yield from self._deleted(pods[1])
        self._left(pods[1], "rolled_out", left, 300, words)
        yield 2
        # Under its old address, as some networks give them.
        again = self.cluster.pod(sets, node, ordinal=1, ip=pods[1].ip)
        self._joined(again, "rolled_out", words)

    def departs_deleted(self) -> Scene:
        _, sets, pods = self._deployment(2)
        yield 5
        left = yield from self._deleted(pods[0])
        self._left(pods[0], "deleted", left, 300, ("neither a rollout",))
        yield 1
        again = self.cluster.pod(sets, pods[0].node)
        self._joined(again, "restarted", (f"took the place of `{pods[0].name}`",))

    def departs_at_the_end_of_grace(self) -> Scene:
        deployment, old, (pod,) = self._deployment(1, grace_s=6)
        yield 5
        self.cluster.replica_set(deployment, REVISIONS[1], 2, 1)
        self.cluster.controller_scales(old, 0)
        self.world.delete("pods", pod.name)
        yield 6
        self.cluster.finishes(pod, 137)
        self._left(pod, "rolled_out", pod.ended_ms, 20_000, ("killed at the end of its grace period of 6 s",))

    # Joins.

    def joins_scaled_up(self) -> Scene:
        deployment, sets, pods = self._deployment(1)
        scaler = self.cluster.autoscaler(deployment)
        yield 5
        self.cluster.autoscaler_scales(scaler, deployment, 2, "cpu resource utilization above target")
        self.cluster.controller_scales(sets, 2)
        made = self.cluster.pod(sets, pods[0].node)
        self._joined(made, "scaled_up", ("from 1 to 2", "HorizontalPodAutoscaler", "above target"))

    def joins_scaled_up_amid_others(self) -> Scene:
        """Within a minute of the pods' beginning, of a deletion and of a scaling down: as on a real node."""
        deployment, sets, pods = self._deployment(3)
        yield 5
        yield from self._deleted(pods[0])
        self.cluster.pod(sets, pods[0].node)
        yield 5
        self.cluster.scale(deployment, 2, "kubectl")
        self.cluster.controller_scales(sets, 2)
        left = yield from self._deleted(pods[1])
        self._left(pods[1], "scaled_down", left, 300, ("from 3 to 2",))
        yield 12
        self.cluster.scale(deployment, 3, "kubectl")
        self.cluster.controller_scales(sets, 3)
        made = self.cluster.pod(sets, pods[0].node)
        self._joined(made, "scaled_up", ("from 2 to 3",))
        yield 5
        yield from self._deleted(pods[2])
        again = self.cluster.pod(sets, pods[0].node)
        self._joined(again, "restarted", (f"took the place of `{pods[2].name}`",))

    def joins_restarted(self) -> Scene:
        pod = self._app()
        yield 5
        self.cluster.container_ends(pod, 3, "Error")
        yield 2
        self.cluster.container_restarts(pod)
        self._joined(pod, "restarted", ("restart 1", "exit code 3"))

    # What is not known, or not this.

    def unknown_host_network(self) -> Scene:
        _, sets, pods = self._deployment(1)
        first = self.cluster.pod(sets, pods[0].node, host_network=True)
        second = self.cluster.pod(sets, pods[0].node, host_network=True)
        yield 5
        self.cluster.container_ends(first, 137, "OOMKilled")
        now = first.ended_ms
        self._expect(member(first), None, now + 100, now)
        named = member(first, client_id=f"orders-{first.name}")
        self._expect(named, "oom_killed", now + 100, now, pod=first.name)
        self._expect(member(second, client_id=second.name), None, now + 100, now)

    def unknown_nat(self) -> Scene:
        self._app()
        yield 1
        now = self.world.now_ms()
        self._expect(member("172.31.9.9"), None, now + 100, now)

    def unknown_alive(self) -> Scene:
        """Its poll loop stalled: the pod has nothing to do with it."""
        pod = self._app()
        yield 8
        now = self.world.now_ms()
        self._expect(member(pod), None, now + 1000, now)

    def unknown_other_container(self) -> Scene:
        """One that ended long before the member went is not why."""
        pod = self._app()
        self.cluster.container_ends(pod, 1, "Error")
        self.cluster.container_restarts(pod)
        yield 12
        now = self.world.now_ms()
        self._expect(member(pod), None, now + 1000, now)

    def unknown_sidecar_ended(self) -> Scene:
        """Its poll loop stalled as the sidecar was killed, and is started again: neither is the member's."""
        pod = self._app(containers=("app", "istio-proxy"))
        yield 5
        self.cluster.container_ends(pod, 137, "OOMKilled", "istio-proxy")
        self._expect(member(pod), None, pod.ended_ms + 100, pod.ended_ms)
        yield 2
        self.cluster.container_restarts(pod, "istio-proxy")
        yield 2
        now = self.world.now_ms()
        self._expect(member(pod), None, now, joins=True)

    def unknown_helper_ended_later(self) -> Scene:
        """It went silent long before another container ended, within its session timeout."""
        pod = self._app(containers=("app", "helper"))
        yield 5
        silent = self.world.now_ms()
        yield 14
        self.cluster.container_ends(pod, 1, "Error", "helper")
        self._expect(member(pod), None, silent + 45_000, silent)
        self._expect(member(pod), None, silent + 45_000)

    def unknown_another_than_the_default_container(self) -> Scene:
        pod = self._app(containers=("helper", "app"), default_container="app")
        yield 5
        self.cluster.container_ends(pod, 1, "Error", "helper")
        self._expect(member(pod), None, pod.ended_ms + 100, pod.ended_ms)

    def unknown_used_again(self) -> Scene:
        """An address whose pod was scaled down and gone, and then another's that is alive: time decides."""
        deployment, sets, pods = self._deployment(2)
        yield 5
        self.cluster.scale(deployment, 1, "kubectl")
        self.cluster.controller_scales(sets, 1)
        left = yield from self._deleted(pods[0])
        yield 5
        other = self._app(ip=pods[0].ip)
        self._expect(member(pods[0].ip), "scaled_down", left + 500, left, pod=pods[0].name)
        yield 6
        now = self.world.now_ms()
        self._expect(member(other), None, now + 100, now)
        yield 12
        self.cluster.container_ends(other, 2, "Error")
        self._left(other, "exited", other.ended_ms, 500, ("exit code 2",))
        # A dead one's session runs out when its address is long another's.
        self._expect(member(pods[0].ip), "scaled_down", left + 45_000, left, pod=pods[0].name)

    # What scenes are made of.

    def _name(self, app: str) -> str:
        return f"{app}{next(self._apps)}"

    def _deployment(self, replicas: int, *, grace_s: int = 30) -> tuple[SetHandle, SetHandle, list[PodHandle]]:
        name = self._name("orders")
        node = self.cluster.node(f"n-{name}")
        deployment = self.cluster.deployment(name, replicas)
        sets = self.cluster.replica_set(deployment, REVISIONS[0], 1, replicas)
        return deployment, sets, [self.cluster.pod(sets, node, grace_s=grace_s) for _ in range(replicas)]

    def _app(self, *, node: str | None = None, ip: str | None = None, **more: Any) -> PodHandle:
        name = self._name("payments")
        node = node or self.cluster.node(f"n-{name}")
        sets = self.cluster.replica_set(self.cluster.deployment(name, 1), REVISIONS[0], 1, 1)
        return self.cluster.pod(sets, node, ip=ip, **more)

    def _deleted(self, pod: PodHandle) -> Generator[float, None, int]:
        """Somebody deletes it; the kubelet ends it, and then has it gone. When it was told to end."""
        self.world.delete("pods", pod.name)
        left = self.world.now_ms()
        yield 1.5
        self.cluster.finishes(pod)
        return left

    def _left(self, pod: PodHandle, kind: str, departed_ms: int, shown_after_ms: int, words: tuple[str, ...]) -> None:
        self._expect(member(pod), kind, departed_ms + shown_after_ms, departed_ms, words=words, pod=pod.name)

    def _joined(self, pod: PodHandle, kind: str, words: tuple[str, ...]) -> None:
        shown = self.world.now_ms() + 3000
        self._expect(member(pod), kind, shown, joins=True, words=words, pod=pod.name)

    def _expect(
        self,
        who: Member,
        kind: str | None,
        shown_ms: int,
        departed_ms: int | None = None,
        *,
        joins: bool = False,
        words: tuple[str, ...] = (),
        pod: str = "",
    ) -> None:
        import sys

        scene = sys._getframe(1).f_code.co_name
        if scene.startswith("_"):
            scene = sys._getframe(2).f_code.co_name
        self.expected.append(Expected(scene, who, kind, shown_ms, departed_ms, joins, words, pod))
