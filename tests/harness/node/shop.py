"""The consumers and the agent on the node, asked and brought to harm: `Shop`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx

from tests import ROOT
from tests.harness.node.workloads import AGENTS, GROUP, NAMESPACE, Manifest
from tests.live.helm.kube.api import Api

T = TypeVar("T")

WAIT_S = 150.0
_RECORDED = {"pods": "v1", "events": "v1", "replicasets": "apps/v1", "deployments": "apps/v1"}


class Shop:
    """Deployment `payments` in its namespace, as its API server shows it, and what kshadow says of it."""

    def __init__(self, api: Api, recorded: Path | None = None) -> None:
        """What Kubernetes wrote in each scene goes below `recorded`."""
        self.api, self._recorded = api, recorded
        self._http = httpx.Client(timeout=20, trust_env=False)

    # Kubernetes.

    def request(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """Ask the API server. Raises `AssertionError` where it refuses."""
        content = None if body is None else json.dumps(body)
        answer = self.api.http.request(method, path, content=content, headers={"Content-Type": kind})
        assert answer.status_code < 300, f"{method} {path}: {answer.text}"
        return answer.json()

    def patch(self, path: str, body: Manifest) -> Any:
        """Change fields of an object."""
        return self.request("PATCH", path, body, "application/strategic-merge-patch+json")

    def pods(self, namespace: str = NAMESPACE) -> list[Manifest]:
        """Those that are ready and stay, by their names."""
        found = self.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        return sorted((it for it in found if _is_ready(it)), key=lambda it: str(it["metadata"]["name"]))

    def harm(self, pod: Manifest, what: str) -> None:
        """Tell a consumer to come to harm."""
        self._http.get(f"http://{pod['status']['podIP']}:8080/{what}")

    def record(self, scene: str) -> None:
        """Keep what Kubernetes has written by now."""
        if self._recorded is None:
            return
        self._recorded.mkdir(parents=True, exist_ok=True)
        out = {"nodes": self.request("GET", "/api/v1/nodes")["items"]}
        for plural, version in _RECORDED.items():
            prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
            out[plural] = self.request("GET", f"{prefix}/namespaces/{NAMESPACE}/{plural}")["items"]
        (self._recorded / f"{scene}.json").write_text(json.dumps(out, indent=1))

    # kshadow.

    @property
    def agent(self) -> str:
        """Where the chart's agent is, as its pod is now."""
        (pod,) = self.pods(AGENTS)
        return f"http://{pod['status']['podIP']}:9308"

    def ask(self, path: str, base: str | None = None) -> Any:
        """An answer of the agent's API, or of a sidecar's."""
        answer = self._http.get(f"{base or self.agent}{path}")
        answer.raise_for_status()
        return answer.json()

    def origins(self, pod: str, key: str, since_ms: int) -> Iterator[Manifest]:
        """The members of a pod that events since then say `left` or `joined`, with an origin."""
        told = self.ask(f"/api/v1/groups/{GROUP}/timeline")
        for event in told:
            if event["at_ms"] >= since_ms and event["type"] == "rebalance":
                for member in event[key]:
                    if (member.get("origin") or {}).get("pod") == pod:
                        yield {**member, "at_ms": event["at_ms"]}

    def explain(self) -> str:
        """What `kshadow explain` prints."""
        command = [sys.executable, "-m", "agent.cli.main", "explain", GROUP, "--agent", self.agent]
        told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert told.returncode == 0, told.stderr
        return told.stdout

    def page(self) -> str:
        """The text of the group's page up to its numbers: what it says first."""
        html = self._http.get(f"{self.agent}/groups/{GROUP}").text
        text = re.sub(r"<[^>]+>", "", html.partition("<h1")[2].partition("Generation")[0])
        assert text, html[:500]
        return text

    def metric(self, origin: str) -> float:
        """How many departures of an origin the agent has counted."""
        text = self._http.get(f"{self.agent}/metrics").text
        name = f'kshadow_group_departures_by_origin_total{{group="{GROUP}",origin="{origin}"}}'
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    def await_members(self, count: int) -> list[Manifest]:
        """Until so many pods are ready and the group has as many members and rests; the pods."""

        def settled() -> list[Manifest] | None:
            pods = self.pods()
            group = self.ask(f"/api/v1/groups/{GROUP}")
            members = {it["client_host"].lstrip("/") for it in group["members"]}
            here = {it["status"]["podIP"] for it in pods}
            return pods if group["state"] == "Stable" and len(pods) == count and members == here else None

        return until(f"{count} members in {count} pods", settled)


def until(what: str, look: Callable[[], T | None], wait_s: float = WAIT_S) -> T:
    """What a look finds, as soon as it finds something. Raises `AssertionError` where that takes too long."""
    deadline = time.monotonic() + wait_s
    while True:
        last: object = None
        try:
            found = look()
        except (httpx.HTTPError, KeyError, ValueError) as error:
            found, last = None, error
        if found:
            return found
        assert time.monotonic() < deadline, f"{what}: not within {wait_s:.0f} s; {last}"
        time.sleep(0.3)


def _is_ready(pod: Manifest) -> bool:
    conditions = pod["status"].get("conditions", ())
    return "deletionTimestamp" not in pod["metadata"] and any(
        it["type"] == "Ready" and it["status"] == "True" for it in conditions
    )
