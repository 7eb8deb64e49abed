"""Origins from what Kubernetes' own controllers and scheduler write: only the kubelets are imitated.

`python -m tests.harness.kubernetes controllers`. Deployments and StatefulSets are rolled out, scaled by hand and by a
HorizontalPodAutoscaler (whose bounds are moved: that needs no metrics), drained, evicted, tainted and preempted;
nodes fall silent and are deleted. Of every pod that was taken away or came, the origin is asked for and compared with
what was done to its workload. What the kubelet itself writes (ends of containers, probes, its own evictions) is
played on a real node: `tests.harness.node`.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from unittest.mock import patch

from agent.common.clock import now_ms
from agent.core.inference.origins import Origin
from agent.core.shadow.views import Member
from agent.kubernetes.connection import find_connection
from agent.kubernetes.watcher import KubernetesWatcher
from agent.tools.embedded import ProcessReaper
from tests.harness.kubernetes.api_world import ApiWorld
from tests.harness.kubernetes.components import NAMESPACE, Manifest, stamp
from tests.harness.tools import need
from tests.live.helm.kube.server import Programs, child, running
from tests.waiting import until

NODES = 4
ENDS_S = 1.5
"""So long a pod's containers take to end."""
CONTROLLERS = (
    "deployment-controller,replicaset-controller,statefulset-controller,horizontal-pod-autoscaler-controller,"
    "node-lifecycle-controller,taint-eviction-controller,pod-garbage-collector-controller,disruption-controller"
)


@dataclass(slots=True)
class Lived:
    """A pod as the kubelet had it; times are epoch milliseconds, None: it still runs."""

    name: str
    app: str
    ip: str
    started_ms: int
    told_to_end_ms: int | None = None
    gone: bool = False


@dataclass
class Kubelets:
    """All nodes' kubelets: pods run a moment after they are bound, and end when they are told to."""

    world: ApiWorld
    pods: dict[str, Lived] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    nodes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop, self._ips = threading.Event(), count(1)

    def add(self, name: str) -> None:
        self.world.create(
            "nodes", {"metadata": {"name": name, "labels": {"node": name if name in PINNED else "any"}}}
        )
        self.nodes.append(name)
        self._beat(name)

    def run(self) -> None:
        beat_s = 0.0
        while not self._stop.wait(0.3):
            if time.monotonic() > beat_s:
                beat_s = time.monotonic() + 2
                for name in set(self.nodes) - self.silent:
                    self._beat(name)
            for it in self.world.list("pods"):
                self._look(it)

    def stop(self) -> None:
        self._stop.set()

    def _beat(self, name: str) -> None:
        now = stamp(now_ms())
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting"}
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        status = {"conditions": [{**ready, "lastHeartbeatTime": now}], "capacity": amounts, "allocatable": amounts}
        self.world.patch("nodes", name, {"status": status}, sub="status")

    def _look(self, it: Manifest) -> None:
        meta, node = it["metadata"], it["spec"].get("nodeName")
        if node is None or node in self.silent:
            return
        known = self.pods.get(meta["uid"])
        if known is None:
            number = next(self._ips)
            known = Lived(meta["name"], meta["labels"]["app"], f"10.2.{number // 250}.{number % 250 + 1}", now_ms())
            self._write(known, {"running": {"startedAt": stamp(known.started_ms)}}, phase="Running")
            self.pods[meta["uid"]] = known
        elif "deletionTimestamp" in meta and not known.gone:
            if known.told_to_end_ms is None:
                known.told_to_end_ms = now_ms()
            elif now_ms() - known.told_to_end_ms > 1000 * ENDS_S:
                ended = {"exitCode": 143, "reason": "Error", "finishedAt": stamp(now_ms())}
                self._write(known, {"terminated": {**ended, "startedAt": stamp(known.started_ms)}})
                self.world.delete("pods", known.name, 0)
                known.gone = True

    def _write(self, pod: Lived, state: Manifest, **more: str) -> None:
        one = {"name": "app", "image": "app:1", "imageID": "", "ready": "running" in state, "restartCount": 0}
        ready = {"type": "Ready", "status": str("running" in state), "lastTransitionTime": stamp(now_ms())}
        status: Manifest = {**more, "containerStatuses": [{**one, "state": state}], "conditions": [ready]}
        status |= {"podIP": pod.ip, "podIPs": [{"ip": pod.ip}], "hostIP": "192.168.0.7"}
        self.world.patch("pods", pod.name, {"status": {**status, "startTime": stamp(pod.started_ms)}}, sub="status")


@dataclass(frozen=True, slots=True)
class Act:
    """What was done to a workload, and what is to be told of its pods that went, and of those that came after."""

    at_ms: int
    app: str
    left: str | None
    joined: str | None
    words: str = ""


class Play:
    """One cluster, and what is done in it."""

    def __init__(self, world: ApiWorld, kubelets: Kubelets) -> None:
        self.world, self.kubelets = world, kubelets
        self.acts: dict[str, Act] = {}

    def deployment(self, name: str, replicas: int, **more: Manifest) -> None:
        self._workload("deployments", name, replicas, more)

    def stateful_set(self, name: str, replicas: int) -> None:
        self._workload("statefulsets", name, replicas, {}, serviceName=name)

    def _workload(self, kind: str, name: str, replicas: int, more: Manifest, **spec: str) -> None:
        limits = {"limits": {"cpu": "100m", "memory": "64Mi"}}
        pod = {"containers": [{"name": "app", "image": "app:1", "resources": limits}]}
        pod |= {"nodeSelector": {"node": "any"}, **more.pop("pod", {})}
        template = {"metadata": {"labels": {"app": name}}, "spec": pod}
        body = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
            **more,
            **spec,
        }
        self.world.create(kind, {"metadata": {"name": name}, "spec": body})

    def pods(self, app: str) -> list[Lived]:
        return [it for it in self.kubelets.pods.values() if it.app == app and it.told_to_end_ms is None]

    def act(self, app: str, left: str | None, joined: str | None, words: str = "") -> None:
        self.acts[app] = Act(now_ms(), app, left, joined, words)

    def begin(self) -> None:
        for app in ("rolled", "recreated", "byhand", "byhpa", "evicted", "deleted", "drained", "tainted", "small"):
            strategy = {"strategy": {"type": "Recreate"}} if app == "recreated" else {}
            pin = {"nodeSelector": {"node": f"n-{app}"}} if f"n-{app}" in PINNED else {}
            self.deployment(app, 1 if pin else 3, **strategy, pod=pin)
        self.stateful_set("ledger", 3)
        self.stateful_set("keyed", 3)
        soon = [
            {"key": f"node.kubernetes.io/{it}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
            for it in ("unreachable", "not-ready")
        ]
        for app in ("silent", "vanished"):
            pin = {"nodeSelector": {"node": f"n-{app}"}}
            self.deployment(app, 1, pod={**pin, "tolerations": soon})
        scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "byhpa"}
        bounds = {"minReplicas": 1, "maxReplicas": 9}
        self.world.create(
            "horizontalpodautoscalers", {"metadata": {"name": "byhpa"}, "spec": {"scaleTargetRef": scaled, **bounds}}
        )

    def disturb(self) -> None:
        world = self.world
        newer = {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}}}
        for app in ("rolled", "recreated"):
            self.act(app, "rolled_out", "rolled_out", "→" if app == "rolled" else "rolled out")
            world.patch("deployments", app, newer)
        self.act("ledger", "rolled_out", "rolled_out", "→")
        world.patch("statefulsets", "ledger", newer)
        self.act("byhand", "scaled_down", None, "from 3 to 1 replicas, by hand (kubectl)")
        world.patch("deployments", "byhand", {"spec": {"replicas": 1}}, sub="scale", manager="kubectl")
        self.act("keyed", "scaled_down", None, "from 3 to 1 replicas")
        world.patch("statefulsets", "keyed", {"spec": {"replicas": 1}}, sub="scale", manager="kubectl")
        self.act("byhpa", None, "scaled_up", "by HorizontalPodAutoscaler `byhpa`")
        world.patch("horizontalpodautoscalers", "byhpa", {"spec": {"minReplicas": 5}})
        self.act("evicted", "evicted", "restarted", "eviction API")
        world.evict(self.pods("evicted")[0].name)
        self.act("deleted", "deleted", "restarted")
        world.delete("pods", self.pods("deleted")[0].name)
        self.act("drained", "drained", None, "n-drained")
        world.patch("nodes", "n-drained", {"spec": {"unschedulable": True}})
        time.sleep(0.5)
        world.evict(self.pods("drained")[0].name)
        self.act("tainted", "evicted", None, "NoExecute")
        taint = {"key": "maintenance", "effect": "NoExecute"}
        world.patch("nodes", "n-tainted", {"spec": {"taints": [taint]}})
        self.act("small", "preempted", None, "higher priority")
        world.make_class("urgent", 1_000_000)
        large = {"nodeSelector": {"node": "n-small"}, "priorityClassName": "urgent"}
        amounts = {"requests": {"cpu": "3950m"}}
        large["containers"] = [{"name": "app", "image": "app:1", "resources": amounts}]
        self.deployment("large", 1, pod=large)
        self.act("silent", "node_lost", None, "n-silent")
        self.kubelets.silent.add("n-silent")
        self.act("vanished", "node_lost", None, "n-vanished")
        self.kubelets.silent.add("n-vanished")
        world.delete("nodes", "n-vanished")
        for app in ("silent", "vanished"):
            for it in self.pods(app):
                # Its process ended as the node did; nobody was there to tell.
                it.told_to_end_ms = now_ms()

    def rescale(self) -> None:
        """The other way."""
        self.act("byhpa", "scaled_down", None, "by HorizontalPodAutoscaler `byhpa`")
        self.world.patch("horizontalpodautoscalers", "byhpa", {"spec": {"minReplicas": 1, "maxReplicas": 2}})


def check() -> int:
    """Play and print; the exit code."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(running(Programs(need("etcd"), need("kube-apiserver")), directory))
        leash = stack.enter_context(closing(ProcessReaper()))
        conf = [f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", "--secure-port=0"]
        manager = [str(need("kube-controller-manager")), *conf, f"--controllers={CONTROLLERS}"]
        manager += ["--node-monitor-period=1s", "--node-monitor-grace-period=8s"]
        manager += ["--horizontal-pod-autoscaler-sync-period=2s"]
        stack.enter_context(child(leash, manager, directory / "controllers.log"))
        scheduler = [str(need("kube-scheduler")), *conf]
        stack.enter_context(child(leash, scheduler, directory / "scheduler.log"))
        with patch.dict(os.environ, {"KUBECONFIG": str(server.kubeconfig)}):
            watcher = KubernetesWatcher(find_connection(), NAMESPACE)
        watcher.start()
        stack.callback(watcher.stop)
        kubelets = Kubelets(ApiWorld(server.api))
        for name in [*(f"n{it}" for it in range(NODES)), *PINNED]:
            kubelets.add(name)
        thread = threading.Thread(target=kubelets.run, daemon=True)
        thread.start()
        stack.callback(kubelets.stop)
        play = Play(kubelets.world, kubelets)
        play.begin()
        until(lambda: len(kubelets.pods) == STARTED, 90, lambda: f"expected {STARTED} pods, got {[*kubelets.pods]}")
        time.sleep(5)
        play.disturb()
        time.sleep(12)
        failed = _judge(play, watcher, ["byhpa"])
        play.rescale()
        # podgc waits 40 s before it believes that a node is gone, and looks every 20.
        time.sleep(75)
        failed += _judge(play, watcher, list(play.acts))
        print(
            f"requests {dict(watcher.reading().requests)}; {sum(watcher.reading().watching.values())} kinds watched"
        )
        return 1 if failed else 0


PINNED = ("n-drained", "n-tainted", "n-small", "n-silent", "n-vanished")
"""Nodes of one workload each."""
STARTED = 6 * 3 + 3 + 2 + 2 * 3


def _judge(play: Play, watcher: KubernetesWatcher, apps: list[str]) -> int:
    failed = 0
    for app in apps:
        act = play.acts[app]
        lived = [it for it in play.kubelets.pods.values() if it.app == app]
        went = [it for it in lived if it.told_to_end_ms is not None and it.told_to_end_ms >= act.at_ms]
        came = [it for it in lived if it.started_ms >= act.at_ms]
        left = [_departure(watcher, it) for it in went] if act.left else []
        joined = (
            [watcher.evidence.join_origin(_member(it), it.started_ms + 3000) for it in came] if act.joined else []
        )
        wrong = [_wrong(it, act.left, act.words) for it in left] + [
            _wrong(it, act.joined, act.words) for it in joined
        ]
        wrong = [it for it in wrong if it is not None]
        if (act.left and not left) or (act.joined and not joined):
            wrong.append("no pod went or came")
        kinds = [f"{len(left)} {act.left}" for _ in left[:1]] + [f"{len(joined)} {act.joined}" for _ in joined[:1]]
        shown = next((it.message for it in (*left, *joined) if it is not None), "")
        print(
            f"{'WRONG' if wrong else 'ok':5} {app:10} {', '.join(kinds):34} {shown}",
            *wrong,
            sep="\n      ",
            flush=True,
        )
        failed += len(wrong)
    return failed


def _member(pod: Lived) -> Member:
    return Member("m-1", "consumer-1", f"/{pod.ip}", None, session_timeout_ms=45_000, rebalance_timeout_ms=300_000)


def _departure(watcher: KubernetesWatcher, pod: Lived) -> Origin | None:
    assert pod.told_to_end_ms is not None
    return watcher.evidence.departure_origin(_member(pod), pod.told_to_end_ms, pod.told_to_end_ms + 300)


def _wrong(origin: Origin | None, kind: str | None, words: str) -> str | None:
    if origin is not None and origin.kind == kind and (kind == "restarted" or words in origin.message):
        return None
    return f"expected {kind} ({words!r}), got {origin}"
