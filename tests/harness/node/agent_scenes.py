"""What happens to kshadow itself in its pods: the chart's agent and the sidecars. Each returns what was seen."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import yaml

from agent.kubernetes.watched import WATCHED
from tests.harness.node import node, workloads
from tests.harness.node.shop import Shop, until
from tests.harness.node.workloads import AGENTS, GROUP, Manifest
from tests.live.helm.kube.helm import Helm
from tests.live.helm.kube.places import CHART


@dataclass(frozen=True, slots=True)
class Stage:
    """All that runs. `directory` is for files."""

    cluster: node.Cluster
    shop: Shop
    helm: Helm
    brokers: str
    directory: Path

    def install(self, action: str, **values: Manifest) -> None:
        """`helm install` or `helm upgrade` of the agent, with values over those of `workloads.chart_values`."""
        file = self.directory / "values.yaml"
        file.write_text(yaml.safe_dump(workloads.chart_values(self.brokers) | values))
        self.helm(action, "kshadow", CHART, "--namespace", AGENTS, "--values", file)

    def agent_pod(self) -> Manifest:
        """The one that is ready."""
        return until("the agent's pod is ready", lambda: self.shop.pods(AGENTS))[0]

    def in_agent(self, *command: str) -> str:
        """Run a command in the agent's container, as `kubectl exec` does; its standard output."""
        return node.ctr(
            self.cluster.directory, "tasks", "exec", "--exec-id", f"it-{time.time_ns()}", self._task(), *command
        )

    def kill_agent(self, signal_number: int) -> None:
        """A signal to the agent's process."""
        node.ctr(self.cluster.directory, "tasks", "kill", "-s", str(signal_number), self._task())

    def _task(self) -> str:
        (status,) = self.agent_pod()["status"]["containerStatuses"]
        return str(status["containerID"]).removeprefix("containerd://")


def agent_probed(stage: Stage) -> str:
    """It runs as the chart says, and the kubelet found it ready."""
    pod = stage.agent_pod()
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()
    (status,) = pod["status"]["containerStatuses"]
    assert (status["ready"], status["started"], status["restartCount"]) == (True, True, 0), status
    script = "import os; print(os.getuid(), os.access('/opt', os.W_OK), os.access('/var/lib/kshadow', os.W_OK))"
    said = stage.in_agent("python", "-c", script).split()
    assert said == ["65532", "False", "True"], said
    return "ready by its probes, as user 65532, with a read-only root and a state that it can write"


def agent_doctor(stage: Stage) -> str:
    """In its pod, by the chart's settings and its service account, all is well."""
    checks = [json.loads(line) for line in stage.in_agent("kshadow", "doctor", "-o", "ndjson").splitlines()]
    wrong = [it for it in checks if it["outcome"] not in ("ok", "warning")]
    assert not wrong, wrong
    kinds = [it["on"] for it in checks if it["check"] == "right: list, watch"]
    assert len(kinds) == 7, kinds
    return f"{len(checks)} checks, none failed; may list and watch {', '.join(sorted(kinds))}"


def agent_restarted(stage: Stage) -> str:
    """Killed, it is started again by the kubelet in the same pod, and goes on from its state."""
    before, began = stage.agent_pod(), stage.shop.ask(f"/api/v1/groups/{GROUP}/timeline")
    time.sleep(5)
    stage.kill_agent(signal.SIGKILL)

    def again() -> Manifest | None:
        (pod,) = stage.shop.pods(AGENTS) or [None]
        return pod if pod is not None and pod["status"]["containerStatuses"][0]["restartCount"] == 1 else None

    after = until("the agent is started again and ready", again)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    (status,) = after["status"]["containerStatuses"]
    assert status["lastState"]["terminated"]["exitCode"] == 137, status
    known = {it["event_id"] for it in stage.shop.ask(f"/api/v1/groups/{GROUP}/timeline")}
    lost = {it["event_id"] for it in began} - known
    assert not lost, f"{len(lost)} of {len(began)} events are not known any more"
    return f"SIGKILL: in the same pod again, ready, and knows all {len(began)} events of before"


def agent_upgraded(stage: Stage) -> str:
    """To rights in one namespace, and back: another pod each time, which sees what it may."""
    seen = []
    for namespace in (workloads.NAMESPACE, ""):
        before = stage.agent_pod()["metadata"]["uid"]
        stage.install("upgrade", kubernetes={"enabled": True, "namespace": namespace})
        until(
            "another pod is ready",
            lambda before=before: [it for it in stage.shop.pods(AGENTS) if it["metadata"]["uid"] != before],
        )

        def watching() -> dict[str, str] | None:
            status = stage.shop.ask("/api/v1/status")["kubernetes"]
            states = {name: it["state"] for name, it in status["kinds"].items()}
            return states if set(states.values()) == {"watching"} else None

        states = until("all kinds are watched", watching)
        seen.append(f"{len(states)} kinds watched of {namespace or 'all namespaces'}")
    return f"helm upgrade: {', then '.join(seen)}"


def sidecars(stage: Stage) -> str:
    """Each reads the group of its pod and watches its namespace, which enforces the restricted standard."""
    pods = stage.shop.pods()
    kinds = {"nodes": "denied"} | {it.plural: "watching" for it in WATCHED if it.is_namespaced}
    for pod in pods:
        base = f"http://{pod['status']['podIP']}:9308"
        groups = until("the sidecar knows its group", lambda base=base: stage.shop.ask("/api/v1/groups", base))
        assert GROUP in json.dumps(groups), groups
        told = stage.shop.ask("/api/v1/status", base)["kubernetes"]
        states = {name: it["state"] for name, it in told["kinds"].items()}
        assert (states, told["namespace"]) == (kinds, workloads.NAMESPACE), told
        (status,) = pod["status"]["initContainerStatuses"]
        assert status["restartCount"] == 0, status
    return f"{len(pods)} know their group, watch their namespace by its account's rights, none was restarted"


AGENT_SCENES: Mapping[str, Callable[[Stage], str]] = MappingProxyType(
    {it.__name__: it for it in (agent_probed, agent_doctor, sidecars, agent_restarted, agent_upgraded)}
)
