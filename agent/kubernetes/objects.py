"""Kubernetes' objects, with the fields that kshadow reads and no others: the rest is passed over as JSON.

Owns what is read of the API server's answers (API versions v1, apps/v1, autoscaling/v2). Names are the API's. Times
are RFC 3339, mostly whole seconds. `resource_version` stands for a place in a watch, and means nothing else.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct, field


class _Object(Struct, rename="camel", frozen=True, gc=False):
    pass


class OwnerReference(_Object, frozen=True):
    """Who made an object; of several, the one that is the `controller`."""

    kind: str
    name: str
    uid: str
    controller: bool | None = None


class _OfSpec(Struct, frozen=True, gc=False):
    replicas: dict[str, Any] | None = field(name="f:replicas", default=None)


class _Fields(Struct, frozen=True, gc=False):
    spec: _OfSpec | None = field(name="f:spec", default=None)


class ManagedFields(_Object, frozen=True):
    """Which program wrote which fields last, and when."""

    manager: str = ""
    subresource: str = ""
    time: datetime | None = None
    fields: _Fields | None = field(name="fieldsV1", default=None)

    @property
    def wrote_replicas(self) -> bool:
        """Whether `spec.replicas` is what this program wrote it to be."""
        return self.fields is not None and self.fields.spec is not None and self.fields.spec.replicas is not None


class Labels(Struct, frozen=True, gc=False):
    """Labels by which controllers tell revisions and owners."""

    template_hash: str | None = field(name="pod-template-hash", default=None)
    rollout_hash: str | None = field(name="rollouts-pod-template-hash", default=None)
    controller_hash: str | None = field(name="controller-revision-hash", default=None)
    scaled_object: str | None = field(name="scaledobject.keda.sh/name", default=None)

    @property
    def revision(self) -> str | None:
        """A pod's revision, as `kubectl get pods --show-labels` shows it."""
        return self.template_hash or self.rollout_hash or self.controller_hash


class Annotations(Struct, frozen=True, gc=False):
    """Annotations by which the Deployment controller, and Argo's, number revisions; and of pods, which of the
    containers kubectl takes where none is named."""

    deployment_revision: str | None = field(name="deployment.kubernetes.io/revision", default=None)
    rollout_revision: str | None = field(name="rollout.argoproj.io/revision", default=None)

    default_container: str | None = field(name="kubectl.kubernetes.io/default-container", default=None)

    @property
    def revision_number(self) -> int:
        """1, 2, …; 0 where it is not numbered."""
        text = self.deployment_revision or self.rollout_revision or ""
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


class Metadata(_Object, frozen=True):
    """What every object has. Of pods `managed_fields` are not read: they are most of the bytes."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Labels = Labels()
    annotations: Annotations = Annotations()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """Who made it and looks after it."""
        return next((it for it in self.owner_references if it.controller), None)


class WorkloadMetadata(Metadata, frozen=True):
    """The same of what has replicas. `generation` counts changes of what is wanted."""

    generation: int = 0
    managed_fields: tuple[ManagedFields, ...] = ()


class _Limits(Struct, frozen=True, gc=False):
    memory: str | int | None = None


class _Resources(Struct, frozen=True, gc=False):
    limits: _Limits = _Limits()


class Probe(_Object, frozen=True):
    """How often the kubelet asks, how long it waits, and how often in turn that may fail; an API server fills in what
    was left out."""

    period_seconds: int = 10
    timeout_seconds: int = 1
    failure_threshold: int = 3


class Container(_Object, frozen=True):
    """A container as it is wanted."""

    name: str
    resources: _Resources = _Resources()
    liveness_probe: Probe | None = None
    startup_probe: Probe | None = None


class PodSpec(_Object, frozen=True):
    """A pod as it is wanted."""

    containers: tuple[Container, ...] = ()
    node_name: str | None = None
    host_network: bool = False
    termination_grace_period_seconds: int | None = None


class Running(_Object, frozen=True):
    """Of a container that runs."""

    started_at: datetime | None = None


class Terminated(_Object, frozen=True):
    """Of one that ended: with 128 + N, a signal N ended it, as a rule."""

    exit_code: int
    reason: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(_Object, frozen=True):
    """One of the two, or neither: it waits."""

    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(_Object, frozen=True):
    """A container as it is: `last_state` is how its run before ended."""

    name: str
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class Condition(_Object, frozen=True):
    """What somebody found of an object: `status` is True, False or Unknown."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class PodAddress(_Object, frozen=True):
    """One of a pod's addresses."""

    ip: str = ""


class PodStatus(_Object, frozen=True):
    """A pod as it is."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str | None = field(name="podIP", default=None)
    pod_ips: tuple[PodAddress, ...] = field(name="podIPs", default=())
    host_ip: str | None = field(name="hostIP", default=None)
    start_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(_Object, frozen=True):
    """v1 Pod."""

    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class _Ordinals(Struct, frozen=True, gc=False):
    start: int = 0


class WorkloadSpec(_Object, frozen=True):
    """What is wanted of pods of one template."""

    replicas: int | None = None
    ordinals: _Ordinals = _Ordinals()


class WorkloadStatus(_Object, frozen=True):
    """Of StatefulSets, to which revision pods are brought."""

    update_revision: str | None = None


class Workload(_Object, frozen=True):
    """apps/v1 ReplicaSet, Deployment or StatefulSet."""

    metadata: WorkloadMetadata
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class _Taint(Struct, frozen=True, gc=False):
    key: str


class NodeSpec(_Object, frozen=True):
    """Whether pods may be put on a node."""

    unschedulable: bool = False
    taints: tuple[_Taint, ...] = ()


class NodeStatus(_Object, frozen=True):
    """What its kubelet, or who misses that, says."""

    conditions: tuple[Condition, ...] = ()


class Node(_Object, frozen=True):
    """v1 Node."""

    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class _Target(_Object, frozen=True):
    kind: str
    name: str


class AutoscalerSpec(_Object, frozen=True):
    """What it scales."""

    scale_target_ref: _Target


class Autoscaler(_Object, frozen=True):
    """autoscaling/v2 HorizontalPodAutoscaler."""

    metadata: Metadata
    spec: AutoscalerSpec


class Involved(_Object, frozen=True):
    """What an event is about; `field_path` names a container."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    field_path: str = ""


class _Series(_Object, frozen=True):
    last_observed_time: datetime | None = None


class Event(_Object, frozen=True):
    """v1 Event: of the older form with first and last timestamps, of the newer with its time and a series."""

    metadata: Metadata
    involved_object: Involved = Involved()
    reason: str = ""
    message: str = ""
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: _Series | None = None

    @property
    def at(self) -> datetime | None:
        """When it last happened."""
        again = None if self.series is None else self.series.last_observed_time
        return again or self.last_timestamp or self.event_time or self.first_timestamp


AnyObject = Pod | Workload | Node | Autoscaler | Event


class _Bare(_Object, frozen=True):
    resource_version: str = ""
    continue_: str | None = field(name="continue", default=None)


class ListAnswer(Struct, frozen=True, gc=False):
    """A list, or a part of one, its objects as they came."""

    metadata: _Bare
    items: tuple[msgspec.Raw, ...] | None = None


class WatchLine(Struct, frozen=True, gc=False):
    """A line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: msgspec.Raw


class _WithVersion(Struct, frozen=True, gc=False):
    metadata: _Bare


class Status(Struct, frozen=True, gc=False):
    """Why the API server refuses."""

    code: int = 0
    reason: str = ""
    message: str = ""


def resource_version(raw: msgspec.Raw) -> str:
    """That of an object of any kind."""
    return msgspec.json.decode(raw, type=_WithVersion).metadata.resource_version


def epoch_ms(time: datetime | None) -> int | None:
    """A time as epoch milliseconds."""
    return None if time is None else int(time.timestamp() * 1000)
