"""Manifests as text and as nodes with their places in it; which pod templates are in them. No I/O.

Nothing is made of the values: `on`, `0123` or a number of thirty digits never become anything else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from agent.common.bounded_yaml import yaml_problem

_SPECS: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"), ("spec", "template")),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""By kind where the pod template is, of which `spec` is the pod's."""

KINDS = tuple(_SPECS)


class ManifestError(ValueError):
    """The manifests are not what they should be; says where."""


class PodTemplate(NamedTuple):
    """A pod template: of which object, and what of it is looked at. `claims` are a StatefulSet's own volumes."""

    kind: str
    name: str
    template: MappingNode
    pod: MappingNode
    claims: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


def parse(text: str) -> list[Node]:
    """The documents. Raises `ManifestError` where it is no YAML."""
    try:
        return list(yaml.compose_all(text, yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError) as error:
        raise ManifestError(yaml_problem(error)) from None


def templates(documents: Collection[Node]) -> Iterator[PodTemplate]:
    """Every pod template, those within lists too. Raises `ManifestError` for one that has no pod's spec."""
    for node in documents:
        if not isinstance(node, MappingNode):
            continue
        kind = text_of(child(node, "kind")) or ""
        items = child(node, "items")
        if kind.endswith("List") and isinstance(items, SequenceNode):
            yield from templates(items.value)
        elif kind in _SPECS:
            yield _template(kind, node)


def others(documents: Collection[Node]) -> Iterator[tuple[str, str]]:
    """Kind and name of what has a pod's spec where a Deployment has it, and is of no kind that is known here."""
    for node in documents:
        kind, items = text_of(child(node, "kind")) or "", child(node, "items")
        if kind.endswith("List") and isinstance(items, SequenceNode):
            yield from others(items.value)
        elif kind not in _SPECS and child(_at(node, ("spec", "template", "spec")), "containers") is not None:
            yield kind, _name(node)


def _template(kind: str, node: MappingNode) -> PodTemplate:
    name, found = _name(node), _at(node, _SPECS[kind])
    pod = child(found, "spec")
    if not isinstance(found, MappingNode) or not isinstance(pod, MappingNode):
        at = ".".join((*_SPECS[kind], "spec"))
        raise ManifestError(f"line {node.start_mark.line + 1}: {kind} {name!r}: expected {at}, there is none")
    claims = child(child(node, "spec"), "volumeClaimTemplates")
    return PodTemplate(kind, name, found, pod, tuple(names_in(claims, "metadata")))


def _name(node: Node) -> str:
    metadata = child(node, "metadata")
    return text_of(child(metadata, "name")) or text_of(child(metadata, "generateName")) or ""


def _at(node: Node, path: Collection[str]) -> Node | None:
    found: Node | None = node
    for key in path:
        found = child(found, key)
    return found


def names_in(node: Node | None, *below: str) -> list[str]:
    """The names of a list's items; each stands in the item, or `below` in it."""
    out = []
    for item in node.value if isinstance(node, SequenceNode) else ():
        out.append(text_of(child(_at(item, below), "name")) or "")
    return out


def child(node: Node | None, key: str) -> Node | None:
    """What a mapping has at a key; None where it has none, or is none."""
    return next((value for name, value in pairs(node) if text_of(name) == key), None)


def pairs(node: Node | None) -> list[tuple[Node, Node]]:
    """A mapping's keys and values; nothing of anything else."""
    return list(node.value) if isinstance(node, MappingNode) else []


def text_of(node: Node | None) -> str | None:
    """A scalar as it is written, without quotes."""
    return str(node.value) if isinstance(node, ScalarNode) else None


def is_null(node: Node) -> bool:
    """Whether it is null, or an empty collection."""
    if isinstance(node, ScalarNode):
        return node.style is None and node.value in ("", "~", "null", "Null", "NULL")
    return not node.value
