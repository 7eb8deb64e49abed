"""The API server, asked by plain HTTPS: objects by their manifests, as whoever asks."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx

Manifest = dict[str, Any]


class Kind(NamedTuple):
    """Where objects of a kind are."""

    prefix: str
    """/apis/apps/v1"""
    plural: str
    namespaced: bool
    listable: bool

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Of one object, or of all of a namespace, or of all."""
        inside = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.prefix}{inside}/{self.plural}" + (f"/{name}" if name else "")


class Api:
    """A client that may do everything. What it is answered with an error is for the caller to look at."""

    def __init__(self, url: str, authority: Path, token: str) -> None:
        context = ssl.create_default_context(cafile=str(authority))
        headers = {"Authorization": f"Bearer {token}"}
        self.url = url
        self.http = httpx.Client(base_url=url, verify=context, headers=headers, timeout=20, trust_env=False)
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._learned: set[str] = set()

    @classmethod
    def is_ready(cls, url: str, authority: Path, token: str) -> bool:
        """Whether there is one that says that it is ready."""
        try:
            with cls(url, authority, token) as api:
                return api.http.get("/readyz").text == "ok"
        except (httpx.HTTPError, ssl.SSLError):
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def kind(self, api_version: str, kind: str) -> Kind:
        """Where the server has it. Raises `KeyError` for what it does not know."""
        self._learn(api_version)
        return self._kinds[api_version, kind]

    def get(self, api_version: str, kind: str, namespace: str | None, name: str) -> Manifest:
        """An object. Raises `httpx.HTTPStatusError` where there is none."""
        return self._read(self.kind(api_version, kind).path(namespace, name))

    def create(self, manifest: Manifest, namespace: str | None = None, *, dry_run: bool = False) -> httpx.Response:
        """Have it made, with no field that the server does not know; with `dry_run` all but stored."""
        kind = self.kind(manifest["apiVersion"], manifest["kind"])
        asked = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        return self.http.post(kind.path(namespace), json=manifest, params=asked)

    def make(self, manifest: Manifest, namespace: str | None = None) -> Manifest:
        """The same, of what nobody refuses."""
        answer = self.create(manifest, namespace)
        assert answer.status_code == 201, answer.text
        made: Manifest = answer.json()
        return made

    def objects(self, namespace: str) -> set[str]:
        """Everything in a namespace, `Kind/name`, but what is deleted and waits for a controller (a claim does)."""
        return {
            f"{kind}/{it['metadata']['name']}"
            for kind, path in self._listable(namespace)
            for it in self._read(path).get("items", ())
            if kind != "Event" and "deletionTimestamp" not in it["metadata"]
        }

    def rules(self, namespace: str, account: str | None, home: str | None = None) -> list[dict[str, Any]]:
        """What a service account may do in a namespace, as the server reviews it; None: one that nothing names. It is
        of that namespace, or of `home`."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        }
        answer = self._as_account(review, home or namespace, account or "nobody-by-this-name")
        rules: list[dict[str, Any]] = answer["status"]["resourceRules"]
        return sorted(rules, key=str)

    def may(self, namespace: str, account: str, verb: str, resource: str) -> bool:
        """`kubectl auth can-i`, as a service account."""
        asked = {"namespace": namespace, "verb": verb, "resource": resource}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        return bool(self._as_account(review, namespace, account)["status"]["allowed"])

    def _as_account(self, review: Manifest, namespace: str, account: str) -> Manifest:
        kind = self.kind(review["apiVersion"], review["kind"])
        headers = [
            ("Impersonate-User", f"system:serviceaccount:{namespace}:{account}"),
            ("Impersonate-Group", "system:serviceaccounts"),
            ("Impersonate-Group", f"system:serviceaccounts:{namespace}"),
            ("Impersonate-Group", "system:authenticated"),
        ]
        answer = self.http.post(kind.path(), json=review, headers=headers)
        assert answer.status_code == 201, answer.text
        said: Manifest = answer.json()
        return said

    def _listable(self, namespace: str) -> Iterator[tuple[str, str]]:
        groups = self._read("/apis")["groups"]
        for version in ["v1", *(it["preferredVersion"]["groupVersion"] for it in groups)]:
            self._learn(version)
        for (_, name), kind in self._kinds.items():
            if kind.namespaced and kind.listable:
                yield name, kind.path(namespace)

    def _learn(self, api_version: str) -> None:
        if api_version in self._learned:
            return
        prefix = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        for it in self._read(prefix)["resources"]:
            if "/" not in it["name"]:
                known = Kind(prefix, it["name"], it["namespaced"], "list" in it["verbs"])
                self._kinds[api_version, it["kind"]] = known
        self._learned.add(api_version)

    def _read(self, path: str) -> Manifest:
        answer = self.http.get(path)
        answer.raise_for_status()
        read: Manifest = answer.json()
        return read


def namespace(name: str, labels: Mapping[str, str]) -> Manifest:
    """The manifest of one."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels)}}
