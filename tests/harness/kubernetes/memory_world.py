"""A world in memory, of the few rules of the API server that scenes meet, with a clock that is set."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from agent.kubernetes.evidence import PodEvidence
from agent.kubernetes.records import Span
from agent.kubernetes.watched import WATCHED
from tests.harness.kubernetes.components import NAMESPACE, Manifest, stamp

START_MS = 1_795_000_000_000
_BY_PLURAL = {it.plural: it for it in WATCHED}


class MemoryWorld:
    """Objects, each change handed to the evidence at once, as a watch would bring it."""

    def __init__(self, without: frozenset[str] = frozenset()) -> None:
        """`without`: kinds, by their plural, of which nothing is heard."""
        self.ms = START_MS
        self.evidence = PodEvidence(self.now_ms)
        self._without = without
        self._held: list[tuple[str, Manifest, bool]] = []
        self._objects: dict[tuple[str, str], Manifest] = {}
        self._uids = itertools.count(1)

    def now_ms(self) -> int:
        return self.ms

    def passes(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)

    def bring(self, *kinds: str) -> None:
        """What was not heard so far of kinds."""
        self._without -= set(kinds)
        held, self._held = self._held, []
        for it in held:
            self._tell(it[0], it[1], is_gone=it[2])

    def create(self, kind: str, manifest: Manifest) -> Manifest:
        meta = {"namespace": NAMESPACE, "uid": f"u{next(self._uids)}", "creationTimestamp": stamp(self.ms)}
        made = {**manifest, "metadata": {**meta, **manifest["metadata"]}}
        assert (kind, made["metadata"]["name"]) not in self._objects, f"{kind} {made['metadata']['name']} is there"
        self._put(kind, made)
        return made

    def patch(self, kind: str, name: str, body: Manifest, *, sub: str = "", manager: str = "") -> Manifest:
        known = _merged(self._objects[kind, name], body)
        if "replicas" in body.get("spec", {}):
            fields = {"f:spec": {"f:replicas": {}}}
            # Of what was written by the subresource an API server (1.36) writes no time.
            when = {} if sub == "scale" else {"time": stamp(self.ms)}
            written = {"manager": manager, "subresource": sub, **when, "fieldsV1": fields}
            known["metadata"] = {**known["metadata"], "managedFields": [written]}
        self._put(kind, known)
        return known

    def delete(self, kind: str, name: str, grace_s: int | None = None) -> None:
        known = self._objects[kind, name]
        if kind == "pods" and grace_s != 0:
            grace = known["spec"]["terminationGracePeriodSeconds"]
            when = {"deletionTimestamp": stamp(self.ms + 1000 * grace), "deletionGracePeriodSeconds": grace}
            self._put(kind, {**known, "metadata": {**known["metadata"], **when}})
            return
        del self._objects[kind, name]
        self._tell(kind, known, is_gone=True)

    def evict(self, name: str) -> None:
        # pkg/registry/core/pod/storage/eviction.go addConditionAndDeletePod.
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        condition |= {"message": "Eviction API: evicting", "lastTransitionTime": stamp(self.ms)}
        self.patch("pods", name, {"status": {"conditions": [condition]}})
        self.delete("pods", name)

    def _put(self, kind: str, it: Manifest) -> None:
        it["metadata"]["resourceVersion"] = str(next(self._uids))
        self._objects[kind, it["metadata"]["name"]] = it
        self._tell(kind, it)

    def _tell(self, kind: str, it: Manifest, *, is_gone: bool = False) -> None:
        if kind in self._without:
            self._held.append((kind, it, is_gone))
            return
        watched = _BY_PLURAL[kind]
        told: Any = msgspec.json.decode(msgspec.json.encode(it), type=watched.type)
        self.evidence.apply(watched.kind, told, Span(self.ms - 200, self.ms), is_gone=is_gone)


def _merged(known: Manifest, body: Manifest) -> Manifest:
    """JSON merge patch (RFC 7396)."""
    out = dict(known)
    for key, value in body.items():
        out[key] = _merged(out.get(key, {}), value) if isinstance(value, dict) else value
    return out
