"""What the chart makes, held to a real Kubernetes API server and to Kubernetes' own schemas.

The server is real, with etcd behind it: it checks types and fields, sets defaults, applies role-based access and the
Pod Security standards. There is no kubelet, no scheduler and no controller. So nothing here shows that

- a Deployment, StatefulSet, CronJob or SparkApplication makes Pods (tests make the Pod of the template themselves),
- a Pod is placed, an image pulled, a container started, a probe answered or a volume mounted,
- a PersistentVolumeClaim is bound, a Service finds its endpoints, a NetworkPolicy holds anything up,
- a rollout waits for readiness, or a disruption budget for an eviction,
- Prometheus Operator, Strimzi or the Spark operator act on their objects: only that they are well formed.
"""
