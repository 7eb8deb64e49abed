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
    is_namespaced: bool = True
    fields: str | None = None
    """A field selector: what is not of use is not sent."""

    def path(self, namespace: str | None) -> str:
        """Of all of them, or of those of a namespace."""
        prefix = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return (
            f"{prefix}/namespaces/{namespace}/{self.plural}" if namespace is not None else f"{prefix}/{self.plural}"
        )


_LITTLE_SAID = ("Scheduled", "Pulling", "Pulled", "Created", "Started", "Unhealthy", "BackOff")
"""Reasons of events of which there are many and none is needed."""

WATCHED = (
    Watched("Node", "", "v1", "nodes", Node, is_namespaced=False),
    Watched("Deployment", "apps", "v1", "deployments", Workload),
    Watched("StatefulSet", "apps", "v1", "statefulsets", Workload),
    Watched("ReplicaSet", "apps", "v1", "replicasets", Workload),
    Watched("HorizontalPodAutoscaler", "autoscaling", "v2", "horizontalpodautoscalers", Autoscaler),
    Watched("Pod", "", "v1", "pods", Pod),
    Watched("Event", "", "v1", "events", Event, fields=",".join(f"reason!={it}" for it in _LITTLE_SAID)),
)
"""In the order in which they are first listed: what pods refer to before pods, and events, which refer to all."""
