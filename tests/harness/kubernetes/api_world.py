"""A world that is a real API server: scenes write to it as a cluster's components do, and wait while it is away."""

from __future__ import annotations

import time
from typing import Any

import httpx

from agent.kubernetes.watched import WATCHED
from tests.harness.kubernetes.components import NAMESPACE, Manifest
from tests.live.helm.kube.api import Api

AWAY_S = 120.0
"""For so long an API server may be away before a scene gives up."""
_KINDS = {it.plural: it for it in WATCHED}


class ApiWorld:
    """Objects of a namespace that is made here. Every method may be called from any thread."""

    def __init__(self, api: Api) -> None:
        self._http = api.http
        self._make("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
        self._make(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def create(self, kind: str, manifest: Manifest) -> Manifest:
        return self._make(_KINDS[kind].path(NAMESPACE), manifest)

    def patch(self, kind: str, name: str, body: Manifest, *, sub: str = "", manager: str = "") -> Manifest:
        # The scale is no type of its own to which lists could be merged.
        form = "merge-patch" if sub == "scale" else "strategic-merge-patch"
        path = f"{_KINDS[kind].path(NAMESPACE)}/{name}" + (f"/{sub}" if sub else "")
        headers = {"Content-Type": f"application/{form}+json"}
        return self._ask("PATCH", path, body, params={"fieldManager": manager or "kubelet"}, headers=headers)

    def delete(self, kind: str, name: str, grace_s: int | None = None) -> None:
        options = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        self._ask("DELETE", f"{_KINDS[kind].path(NAMESPACE)}/{name}", options, fine=(404,))

    def list(self, kind: str) -> list[Manifest]:
        found: list[Manifest] = self._ask("GET", _KINDS[kind].path(NAMESPACE), None)["items"]
        return found

    def make_class(self, name: str, value: int) -> None:
        """A PriorityClass."""
        self._make("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value})

    def evict(self, name: str) -> None:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}
        self._ask("POST", f"{_KINDS['pods'].path(NAMESPACE)}/{name}/eviction", body)

    def _make(self, path: str, manifest: Manifest) -> Manifest:
        """One, even if the server made it and went away before it could say so."""
        made = self._ask("POST", path, manifest, fine=(409,))
        return made if made["kind"] != "Status" else self._ask("GET", f"{path}/{manifest['metadata']['name']}", None)

    def _ask(
        self, method: str, path: str, body: Manifest | None, *, fine: tuple[int, ...] = (), **more: Any
    ) -> Manifest:
        deadline = time.monotonic() + AWAY_S
        while True:
            try:
                answer = self._http.request(method, path, json=body, **more)
                if answer.status_code < 500 and answer.status_code != 429:
                    break
                trouble = answer.text
            except httpx.HTTPError as error:
                trouble = repr(error)
            assert time.monotonic() < deadline, trouble
            time.sleep(0.2)
        assert answer.is_success or answer.status_code in fine, f"{method} {path}: {answer.json()['message']}"
        told: Manifest = answer.json()
        return told
