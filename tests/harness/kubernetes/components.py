"""What the kubelet, the controllers, the scheduler and people write in each case, field by field.

Where a shape is from, in Kubernetes' source (1.36), stands beside it. `World` is where it is written to: a real API
server, or memory.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

Manifest = dict[str, Any]

NAMESPACE = "shop"
PROBE = {"tcpSocket": {"port": 8080}, "periodSeconds": 5, "timeoutSeconds": 2, "failureThreshold": 3}
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class World(Protocol):
    """Where objects are written: kinds by their plural (`pods`), of group and version as usual."""

    def now_ms(self) -> int: ...
    def create(self, kind: str, manifest: Manifest) -> Manifest: ...
    def patch(self, kind: str, name: str, body: Manifest, *, sub: str = "", manager: str = "") -> Manifest: ...
    def delete(self, kind: str, name: str, grace_s: int | None = None) -> None: ...
    def evict(self, name: str) -> None: ...


def stamp(at_ms: int) -> str:
    """As Kubernetes writes most times: whole seconds."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(slots=True)
class PodHandle:
    """A pod that a scene knows."""

    name: str
    uid: str
    ip: str
    node: str
    containers: tuple[str, ...]
    started_ms: int = 0
    restarts: int = 0
    ended_ms: int = 0
    """When a container of it ended last: what is written of that may have to wait for the API server."""
    last: Manifest | None = None
    conditions: list[Manifest] = field(default_factory=list)


@dataclass(slots=True)
class SetHandle:
    """A ReplicaSet, StatefulSet or Deployment that a scene knows."""

    kind: str
    name: str
    uid: str
    revision: str = ""
    owner: SetHandle | None = None
    replicas: int = 0


class Cluster:
    """The components of a cluster, each a method or a few."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._ips = itertools.count(10)
        self._names = itertools.count(1)
        self._events = itertools.count(1)

    # Nodes. The kubelet registers them (pkg/kubelet/kubelet_node_status.go).

    def node(self, name: str) -> str:
        self.world.create("nodes", {"metadata": {"name": name}, "spec": {}})
        self.node_ready(name, "True", "KubeletReady", "kubelet is posting ready status")
        return name

    def node_ready(self, name: str, status: str, reason: str, message: str) -> None:
        condition = {"type": "Ready", "status": status, "reason": reason, "message": message}
        condition |= {
            "lastTransitionTime": stamp(self.world.now_ms()),
            "lastHeartbeatTime": stamp(self.world.now_ms()),
        }
        self.world.patch("nodes", name, {"status": {"conditions": [condition]}}, sub="status")

    def node_silent(self, name: str) -> None:
        """pkg/controller/nodelifecycle/node_lifecycle_controller.go, tryUpdateNodeHealth."""
        self.node_ready(name, "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")

    def cordon(self, name: str) -> None:
        """kubectl's pkg/drain/cordon.go; the controller manager adds the taint (TaintNodesByCondition)."""
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        self.world.patch("nodes", name, {"spec": {"unschedulable": True, "taints": [taint]}})

    # Workloads. pkg/controller/deployment/sync.go getNewReplicaSet; pkg/controller/statefulset.

    def deployment(self, name: str, replicas: int) -> SetHandle:
        made = self.world.create(
            "deployments",
            {
                "metadata": {"name": name},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": name}},
                    "template": _template({"app": name}),
                },
            },
        )
        return SetHandle("Deployment", name, made["metadata"]["uid"], replicas=replicas)

    def replica_set(self, owner: SetHandle, revision: str, number: int, replicas: int) -> SetHandle:
        name = f"{owner.name}-{revision}"
        labels = {"app": owner.name, "pod-template-hash": revision}
        made = self.world.create(
            "replicasets",
            {
                "metadata": {
                    "name": name,
                    "labels": labels,
                    "annotations": {"deployment.kubernetes.io/revision": str(number)},
                    "ownerReferences": [_owner(owner)],
                },
                "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": _template(labels)},
            },
        )
        out = SetHandle("ReplicaSet", name, made["metadata"]["uid"], revision, owner, replicas)
        if replicas:
            self._scaled_event(owner, out, "up", replicas, 0)
        return out

    def stateful_set(self, name: str, replicas: int, revision: str) -> SetHandle:
        spec = {"replicas": replicas, "serviceName": name, "selector": {"matchLabels": {"app": name}}}
        made = self.world.create(
            "statefulsets", {"metadata": {"name": name}, "spec": {**spec, "template": _template({"app": name})}}
        )
        out = SetHandle("StatefulSet", name, made["metadata"]["uid"], f"{name}-{revision}", replicas=replicas)
        self.update_revision(out, revision)
        return out

    def update_revision(self, sets: SetHandle, revision: str) -> None:
        sets.revision = f"{sets.name}-{revision}"
        status = {"replicas": sets.replicas, "updateRevision": sets.revision}
        self.world.patch("statefulsets", sets.name, {"status": status}, sub="status")

    def scale(self, sets: SetHandle, replicas: int, manager: str) -> None:
        """Anybody, by the subresource: kubectl scale, the HPA controller, KEDA."""
        plural = {"Deployment": "deployments", "StatefulSet": "statefulsets", "ReplicaSet": "replicasets"}[sets.kind]
        self.world.patch(plural, sets.name, {"spec": {"replicas": replicas}}, sub="scale", manager=manager)
        sets.replicas = replicas

    def controller_scales(self, sets: SetHandle, replicas: int) -> None:
        """The Deployment controller, one of its ReplicaSets: pkg/controller/deployment/sync.go scaleReplicaSet."""
        body = {"spec": {"replicas": replicas}}
        self.world.patch("replicasets", sets.name, body, manager="kube-controller-manager")
        assert sets.owner is not None
        self._scaled_event(sets.owner, sets, "down" if replicas < sets.replicas else "up", replicas, sets.replicas)
        sets.replicas = replicas

    def _scaled_event(self, owner: SetHandle, sets: SetHandle, way: str, to: int, before: int | None) -> None:
        text = f"Scaled {way} replica set {sets.name} " + (f"to {to}" if before is None else f"from {before} to {to}")
        self.event(("Deployment", owner.name, owner.uid), "ScalingReplicaSet", text, "deployment-controller")

    # Autoscalers: pkg/controller/podautoscaler/horizontal.go; KEDA's scaledobject hpa.go.

    def autoscaler(self, sets: SetHandle, scaled_object: str | None = None) -> tuple[str, str]:
        name = sets.name if scaled_object is None else f"keda-hpa-{scaled_object}"
        labels = {} if scaled_object is None else {"scaledobject.keda.sh/name": scaled_object}
        target = {"apiVersion": "apps/v1", "kind": sets.kind, "name": sets.name}
        made = self.world.create(
            "horizontalpodautoscalers",
            {
                "metadata": {"name": name, "labels": labels},
                "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 20},
            },
        )
        return name, made["metadata"]["uid"]

    def autoscaler_scales(self, scaler: tuple[str, str], sets: SetHandle, replicas: int, reason: str) -> None:
        self.scale(sets, replicas, "kube-controller-manager")
        about = ("HorizontalPodAutoscaler", *scaler)
        text = f"New size: {replicas}; reason: {reason}"
        self.event(about, "SuccessfulRescale", text, "horizontal-pod-autoscaler")

    # Pods. pkg/controller/controller_utils.go makes them; the kubelet writes their status
    # (pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses, generateAPIPodStatus).

    def pod(
        self,
        sets: SetHandle,
        node: str,
        *,
        ordinal: int | None = None,
        ip: str | None = None,
        host_network: bool = False,
        containers: tuple[str, ...] = ("app",),
        default_container: str | None = None,
        grace_s: int = 30,
    ) -> PodHandle:
        """One that runs."""
        name = f"{sets.name}-{_suffix(next(self._names)) if ordinal is None else ordinal}"
        label = "pod-template-hash" if ordinal is None else "controller-revision-hash"
        made = self.world.create(
            "pods",
            {
                "metadata": {
                    "name": name,
                    "labels": {"app": sets.name, label: sets.revision},
                    "annotations": {"kubectl.kubernetes.io/default-container": default_container}
                    if default_container is not None
                    else {},
                    "ownerReferences": [_owner(sets)],
                },
                "spec": {
                    "nodeName": node,
                    "hostNetwork": host_network,
                    "terminationGracePeriodSeconds": grace_s,
                    "containers": [
                        {
                            "name": it,
                            "image": "app:1",
                            "resources": {"limits": {"memory": "512Mi"}},
                            "livenessProbe": PROBE,
                        }
                        for it in containers
                    ],
                },
            },
        )
        count = next(self._ips)
        address = ip or ("192.168.0.7" if host_network else f"10.1.{count // 250}.{count % 250 + 1}")
        pod = PodHandle(name, made["metadata"]["uid"], address, node, containers)
        self.starts(pod)
        return pod

    def starts(self, pod: PodHandle, *, host_ip: str = "192.168.0.7") -> None:
        pod.started_ms = self.world.now_ms()
        status = {"phase": "Running", "podIP": pod.ip, "podIPs": [{"ip": pod.ip}], "hostIP": host_ip}
        self._status(pod, {**status, "startTime": stamp(pod.started_ms)}, running=True)

    def container_ends(self, pod: PodHandle, exit_code: int, reason: str, container: str | None = None) -> None:
        """It waits for its restart: kuberuntime_container.go toKubeContainerStatus gives code and reason, OOMKilled
        where the runtime says so."""
        pod.ended_ms = self.world.now_ms()
        pod.last = {
            "exitCode": exit_code,
            "reason": reason,
            "startedAt": stamp(pod.started_ms),
            "finishedAt": stamp(pod.ended_ms),
        }
        self._status(pod, {}, running=False, ended=container or pod.containers[0])

    def container_restarts(self, pod: PodHandle, container: str | None = None) -> None:
        pod.restarts += 1
        pod.started_ms = self.world.now_ms()
        self._status(pod, {}, running=True, ended=container or pod.containers[0])

    def _status(self, pod: PodHandle, more: Manifest, *, running: bool, ended: str | None = None) -> None:
        statuses = []
        for it in pod.containers:
            status: Manifest = {"name": it, "image": "app:1", "imageID": "", "ready": running, "restartCount": 0}
            state: Manifest = {"running": {"startedAt": stamp(pod.started_ms)}}
            if it == ended and pod.last is not None:
                status["restartCount"] = pod.restarts
                if running:
                    status["lastState"] = {"terminated": pod.last}
                else:
                    state = {"terminated": pod.last}
            statuses.append({**status, "state": state})
        body = {"status": {**more, "conditions": pod.conditions, "containerStatuses": statuses}}
        self.world.patch("pods", pod.name, body, sub="status")

    def probe_fails(self, pod: PodHandle) -> None:
        """kuberuntime_manager.go computePodActions."""
        container = pod.containers[0]
        text = f"Container {container} failed liveness probe, will be restarted"
        self.event(("Pod", pod.name, pod.uid), "Killing", text, "kubelet", path=f"spec.containers{{{container}}}")

    def disrupted(self, pod: PodHandle, reason: str, message: str, more: Manifest | None = None) -> None:
        """Whoever deletes a pod says so before: pkg/apis/core: DisruptionTarget."""
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
        pod.conditions = [{**condition, "lastTransitionTime": stamp(self.world.now_ms())}]
        body = {"status": {"conditions": pod.conditions, **(more or {})}}
        self.world.patch("pods", pod.name, body, sub="status")

    def preempted(self, pod: PodHandle) -> None:
        """pkg/scheduler/framework/preemption/executor.go."""
        text = "default-scheduler: preempting to accommodate a higher priority pod"
        self.disrupted(pod, "PreemptionByScheduler", text)
        self.world.delete("pods", pod.name)
        text = f"Preempted by pod 0c5f on node {pod.node}"
        self.event(("Pod", pod.name, pod.uid), "Preempted", text, "default-scheduler")

    def evicted_by_kubelet(self, pod: PodHandle) -> None:
        """pkg/kubelet/eviction/eviction_manager.go evictPod; the pod stays, Failed."""
        text = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 52Mi. "
        self.event(("Pod", pod.name, pod.uid), "Evicted", text, "kubelet")
        more = {"phase": "Failed", "reason": "Evicted", "message": text}
        self.disrupted(pod, "TerminationByKubelet", text, more)
        self.container_ends(pod, 137, "Error")

    def evicted_for_its_volume(self, pod: PodHandle, *, in_order: bool = False) -> None:
        """eviction_manager.go localStorageEviction, as a kubelet 1.36.3 wrote it (`tests.harness.node --record`): no
        condition says so, and of the container nothing is known but that it is gone. Where all of them ended
        `in_order`, with 0, the pod has succeeded, and no status says why."""
        container = pod.containers[0]
        text = 'Usage of EmptyDir volume "scratch" exceeds the limit "8Mi". '
        self.event(("Pod", pod.name, pod.uid), "Evicted", text, "kubelet")
        path = f"spec.containers{{{container}}}"
        self.event(("Pod", pod.name, pod.uid), "Killing", f"Stopping container {container}", "kubelet", path=path)
        if in_order:
            self.container_ends(pod, 0, "Completed")
            self.world.patch("pods", pod.name, {"status": {"phase": "Succeeded"}}, sub="status")
            return
        ended = {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}
        status = {"name": container, "image": "app:1", "imageID": "", "ready": False, "restartCount": 1}
        status |= {"state": {"terminated": ended}, "lastState": {"terminated": ended}}
        body = {"phase": "Failed", "reason": "Evicted", "message": text, "containerStatuses": [status]}
        self.world.patch("pods", pod.name, {"status": body}, sub="status")

    def taint_evicts(self, pod: PodHandle) -> None:
        """pkg/controller/tainteviction/taint_eviction.go: its event names no uid."""
        text = f"Marking for deletion Pod {NAMESPACE}/{pod.name}"
        self.event(("Pod", pod.name, ""), "TaintManagerEviction", text, "taint-eviction-controller")
        self.disrupted(pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
        self.world.delete("pods", pod.name)

    def collected(self, pod: PodHandle) -> None:
        """pkg/controller/podgc/gc_controller.go: of nodes that are gone."""
        self.disrupted(pod, "DeletionByPodGC", "PodGC: node no longer exists")
        self.world.delete("pods", pod.name, 0)

    def finishes(self, pod: PodHandle, exit_code: int = 143) -> None:
        """The kubelet ended a pod that was deleted: status_manager.go deletes it with no grace."""
        self.container_ends(pod, exit_code, "Error")
        self.world.delete("pods", pod.name, 0)

    def event(
        self, about: tuple[str, str, str], reason: str, text: str, component: str, *, path: str | None = None
    ) -> None:
        """client-go's tools/record/event.go makeEvent."""
        kind, name, uid = about
        now = stamp(self.world.now_ms())
        involved: Manifest = {"kind": kind, "namespace": NAMESPACE, "name": name}
        involved |= {"uid": uid} if uid else {}
        involved |= {"fieldPath": path} if path else {}
        self.world.create(
            "events",
            {
                "metadata": {"name": f"{name}.{next(self._events):x}"},
                "involvedObject": involved,
                "reason": reason,
                "message": text,
                "source": {"component": component},
                "type": "Normal",
                "count": 1,
                "firstTimestamp": now,
                "lastTimestamp": now,
            },
        )


def _owner(sets: SetHandle) -> Manifest:
    return {"apiVersion": "apps/v1", "kind": sets.kind, "name": sets.name, "uid": sets.uid, "controller": True}


def _template(labels: dict[str, str]) -> Manifest:
    return {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    }


def _suffix(count: int) -> str:
    out = ""
    for _ in range(5):
        count, digit = divmod(count, len(ALPHABET))
        out = ALPHABET[digit] + out
    return out
