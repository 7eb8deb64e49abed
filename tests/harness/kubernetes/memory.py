"""How much memory an agent takes for Kubernetes, and what it asks: many pods, and many events a minute, for minutes.

`python -m tests.harness.kubernetes memory`. The objects are what a cluster has, with fields that nobody reads
(`managedFields`, probes, volumes), in a real API server; a program of its own watches them, so that its memory is its
own. The API server's audit log says what was asked.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agent.common.clock import now_ms
from tests.harness.kubernetes.api_world import ApiWorld
from tests.harness.kubernetes.components import NAMESPACE, Manifest, stamp
from tests.harness.tools import need
from tests.live.helm.kube.server import Programs, restartable

MOST_MIB = 40.0
EVENTS_A_MINUTE = 200
PODS_A_WORKLOAD = 25
MINUTES = 3.0

_WATCHING = """
import sys, time
from pathlib import Path
def mib():
    lines = Path("/proc/self/status").read_text().splitlines()
    return {name: int(value.split()[0]) / 1024 for name, value in (it.split(":", 1) for it in lines)
            if name in ("VmRSS", "VmHWM")}
# What every agent has.
import agent.runtime.process, agent.serving.server, agent.serving.metrics.exporter
print(mib()["VmRSS"], flush=True)
from agent.config.settings import KubernetesSettings
from agent.runtime.factory import make_watcher
watcher = make_watcher(KubernetesSettings(enabled=True))
watcher.start()
assert watcher.await_first_look(120)
for line in sys.stdin:
    now, it = mib(), watcher.reading()
    print(now["VmRSS"], now["VmHWM"], it.pods, sum(it.watching.values()), flush=True)
"""


def measure(pods: int = 5000) -> int:
    """Print what it takes; the exit code is 1 where that is more than it may be, or anything else is asked."""
    with tempfile.TemporaryDirectory() as directory:
        audit = Path(directory) / "audit.log"
        policy = Path(directory) / "policy.yaml"
        policy.write_text(
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
        )
        more = [f"--audit-policy-file={policy}", f"--audit-log-path={audit}"]
        with restartable(Programs(need("etcd"), need("kube-apiserver")), Path(directory), more) as server:
            world = ApiWorld(server.server.api)
            began = time.monotonic()
            names = _fill(world, pods)
            print(
                f"{pods} pods in {pods // PODS_A_WORKLOAD} Deployments made in {time.monotonic() - began:.0f} s",
                flush=True,
            )
            return _watched(world, names, server.server.kubeconfig, audit)


def _watched(world: ApiWorld, pods: list[tuple[str, str]], kubeconfig: Path, audit: Path) -> int:
    command = [sys.executable, "-c", _WATCHING]
    environment = {"KUBECONFIG": str(kubeconfig), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=Path.cwd()
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        before = float(process.stdout.readline())

        def told() -> tuple[float, float, int, int]:
            process.stdin.write("\n")
            process.stdin.flush()
            now, most, known, kinds = process.stdout.readline().split()
            return float(now), float(most), int(known), int(kinds)

        listed, most, known, kinds = told()
        print(
            f"before {before:.1f} MiB; listed +{listed - before:.1f} (at most +{most - before:.1f}), {known} pods",
            flush=True,
        )
        _live(world, pods)
        now, most, known, kinds = told()
        process.stdin.close()
    asked = _asked(audit)
    print(
        f"after {MINUTES:.0f} min of {EVENTS_A_MINUTE} events a minute +{now - before:.1f} MiB (at most "
        f"+{most - before:.1f}), {known} pods, {kinds} kinds watched; asked: {dict(asked)}"
    )
    return int(most - before >= MOST_MIB or set(asked) - {"list", "watch"} != set() or known < len(pods))


def _asked(audit: Path) -> Counter[str]:
    told = (json.loads(line) for line in audit.read_text().splitlines())
    return Counter(it["verb"] for it in told if it["userAgent"].startswith("kshadow/"))


def _fill(world: ApiWorld, pods: int) -> list[tuple[str, str]]:
    for at in range(20):
        world.create("nodes", {"metadata": {"name": f"n{at}"}})
    names: list[tuple[str, str]] = []

    def workload(number: int) -> None:
        name = f"app{number}"
        labels = {"app": name, "pod-template-hash": f"{number:x}d4f9c7b5d"[:10]}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}}
        spec = {"replicas": PODS_A_WORKLOAD, "selector": {"matchLabels": labels}, "template": template}
        deployment = world.create("deployments", {"metadata": {"name": name}, "spec": spec})
        owner = _owner("Deployment", deployment)
        made = world.create(
            "replicasets",
            {"metadata": {"name": f"{name}-{number:x}", "labels": labels, "ownerReferences": [owner]}, "spec": spec},
        )
        for at in range(PODS_A_WORKLOAD):
            names.append(_pod(world, f"{name}-{number:x}-{at:05}", labels, _owner("ReplicaSet", made), number, at))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(workload, range(pods // PODS_A_WORKLOAD)))
    return names


def _owner(kind: str, made: Manifest) -> Manifest:
    meta = made["metadata"]
    return {"apiVersion": "apps/v1", "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}


def _pod(
    world: ApiWorld, name: str, labels: dict[str, str], owner: Manifest, number: int, at: int
) -> tuple[str, str]:
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10}
    env = [{"name": f"SETTING_{it}", "value": "x" * 40} for it in range(20)]
    container = {"name": "app", "image": "registry.example/app:1", "env": env, "livenessProbe": probe}
    container |= {"readinessProbe": probe, "resources": {"limits": {"memory": "512Mi"}}}
    sidecar = {"name": "proxy", "image": "registry.example/proxy:1", "env": env[:5]}
    made = world.create(
        "pods",
        {
            "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
            "spec": {"nodeName": f"n{at % 20}", "containers": [container, sidecar]},
        },
    )
    started = stamp(now_ms())
    statuses = [
        {"name": it, "image": f"registry.example/{it}:1", "imageID": "sha256:" + "0" * 64, "ready": True}
        | {"restartCount": 0, "state": {"running": {"startedAt": started}}, "containerID": "containerd://" + "0" * 64}
        for it in ("app", "proxy")
    ]
    address = f"10.{number // 250 + 1}.{number % 250}.{at + 1}"
    conditions = [
        {"type": it, "status": "True", "lastTransitionTime": started}
        for it in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "hostIP": "192.168.0.7"}
    status |= {"startTime": started, "conditions": conditions, "containerStatuses": statuses}
    world.patch("pods", name, {"status": status}, sub="status")
    return name, made["metadata"]["uid"]


def _live(world: ApiWorld, pods: list[tuple[str, str]]) -> None:
    """Events as the kubelet writes them, most of them of kinds that are asked for, each with a new status."""
    dice, until = random.Random(3), time.monotonic() + 60 * MINUTES
    count = 0
    while time.monotonic() < until:
        count += 1
        name, uid = dice.choice(pods)
        at = stamp(now_ms())
        reason = dice.choice(["Killing", "Killing", "FailedMount", "Unhealthy", "BackOff"])
        involved = {"kind": "Pod", "namespace": NAMESPACE, "name": name, "uid": uid}
        involved["fieldPath"] = "spec.containers{app}"
        text = "Container app failed liveness probe, will be restarted"
        world.create(
            "events",
            {"metadata": {"name": f"{name}.{count:x}"}, "involvedObject": involved, "reason": reason, "message": text}
            | {"source": {"component": "kubelet"}, "type": "Normal", "firstTimestamp": at, "lastTimestamp": at},
        )
        ended = {"exitCode": 143, "reason": "Error", "startedAt": at, "finishedAt": at}
        one = {"name": "app", "image": "a", "imageID": "", "ready": True, "restartCount": count}
        one |= {"state": {"running": {"startedAt": at}}, "lastState": {"terminated": ended}}
        world.patch("pods", name, {"status": {"containerStatuses": [one]}}, sub="status")
        time.sleep(60 / EVENTS_A_MINUTE)
