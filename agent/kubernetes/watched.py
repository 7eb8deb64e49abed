"""The kinds that are watched, and nothing else: the rights of the chart's role are these rows."""

from __future__ import annotations

from typing import NamedTuple

from agent.kubernetes.objects import AnyObject, Autoscaler, Event, Node, Pod, Workload


class Watched(NamedTuple):
    """A kind: its API group and version, its plural in paths and rights, what is read of its objects, and whether it
    lies in namespaces."""

    kind: str
    group: str
    version: str
    plural: str
    type: type[AnyObject]
    without: str
    """What is not known without it, for people."""
    is_namespaced: bool = True
    fields: str | None = None
    """A field selector: what is not of use is not sent."""

    def path(self, namespace: str | None) -> str:
        """Of all of them, or of those of a namespace."""
        prefix = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace is None or not self.is_namespaced:
            return f"{prefix}/{self.plural}"
        return f"{prefix}/namespaces/{namespace}/{self.plural}"


_LITTLE_SAID = ("Scheduled", "Pulling", "Pulled", "Created", "Started", "Unhealthy", "BackOff")
"""Reasons of events of which there are many and none is needed."""

_ROLLOUTS = "rollouts and scaling of {} are told as deleted pods, or not"

WATCHED = (
    Watched("Node", "", "v1", "nodes", Node, "drains and lost nodes are not told", is_namespaced=False),
    Watched("Deployment", "apps", "v1", "deployments", Workload, _ROLLOUTS.format("Deployments")),
    Watched("StatefulSet", "apps", "v1", "statefulsets", Workload, _ROLLOUTS.format("StatefulSets")),
    Watched("ReplicaSet", "apps", "v1", "replicasets", Workload, _ROLLOUTS.format("Deployments")),
    Watched(
        "HorizontalPodAutoscaler",
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        Autoscaler,
        "which autoscaler gave a workload its replicas is not told",
    ),
    Watched("Pod", "", "v1", "pods", Pod, "no origin is known"),
    Watched(
        "Event",
        "",
        "v1",
        "events",
        Event,
        "failed probes are told as exits, and who scaled is not told",
        fields=",".join(f"reason!={it}" for it in _LITTLE_SAID),
    ),
)
"""What pods refer to before pods, and events, which refer to all."""
