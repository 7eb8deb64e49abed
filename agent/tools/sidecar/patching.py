"""The container into pod templates: what there is of it already goes, the rest of the text stays. No I/O."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import yaml
from yaml import MappingNode, Node

from agent.tools.sidecar.container import NAME, Sidecar, container, scrape_annotations, volumes
from agent.tools.sidecar.edits import YamlEdits
from agent.tools.sidecar.manifests import (
    KINDS,
    ManifestError,
    PodTemplate,
    child,
    is_null,
    names_in,
    others,
    parse,
    templates,
    text_of,
)

PLAIN, NATIVE = "containers", "initContainers"


class PatchResult(NamedTuple):
    """The manifests with the container in them, what was patched, and what may not be meant."""

    text: str
    patched: tuple[str, ...]
    warnings: tuple[str, ...]


def inject(
    text: str,
    sidecar: Sidecar,
    *,
    kinds: Collection[str] = (),
    names: Collection[str] = (),
    annotates: bool = False,
) -> PatchResult:
    """Put the container into every pod template, or those of objects of the `kinds` and `names`.

    `annotates`: also tell Prometheus of it. Raises `ManifestError`, and `SidecarError` for the values.
    """
    documents = parse(text)
    found = list(templates(documents))
    if not found:
        raise ManifestError(f"no pod template found: expected one of {', '.join(KINDS)}")
    chosen = [of for of in found if (not kinds or of.kind in kinds) and (not names or of.name in names)]
    if not chosen:
        there = ", ".join(map(str, found))
        raise ManifestError(f"nothing of that kind and name has a pod template; there is {there}")
    edits = YamlEdits(text)
    # One that is written once and meant twice is patched once.
    for of in {id(of.pod): of for of in chosen}.values():
        _put(edits, of, sidecar, annotates=annotates)
    out = edits.apply()
    _check_result(out, sidecar, len(chosen))
    left = [it for it in others(documents) if (not kinds or it[0] in kinds) and (not names or it[1] in names)]
    return PatchResult(out, tuple(map(str, chosen)), (*_warnings(chosen, sidecar), *map(_left_alone, left)))


def _put(edits: YamlEdits, of: PodTemplate, sidecar: Sidecar, *, annotates: bool) -> None:
    main = child(of.pod, PLAIN)
    if main is None or is_null(main):
        raise ManifestError(f"line {of.pod.start_mark.line + 1}: {of} has no containers")
    _check_names(of, sidecar)
    _check_volume(of, sidecar)
    here, there = (NATIVE, PLAIN) if sidecar.native else (PLAIN, NATIVE)
    edits.remove_item(of.pod, there, NAME)
    edits.put_item(of.pod, here, container(sidecar), behind=PLAIN)
    for volume in volumes(sidecar):
        edits.put_item(of.pod, "volumes", volume, behind=PLAIN)
    if annotates:
        _annotate(edits, of.template, scrape_annotations(sidecar))


def _check_names(of: PodTemplate, sidecar: Sidecar) -> None:
    """A container of that name must be ours; where it is one of two, the other would be the pod's own."""
    for key in (PLAIN, NATIVE):
        items = child(of.pod, key)
        for node in items.value if isinstance(items, yaml.SequenceNode) else ():
            image = text_of(child(node, "image")) or ""
            if text_of(child(node, "name")) == NAME and _repository(image) != _repository(sidecar.image):
                raise ManifestError(
                    f"line {node.start_mark.line + 1}: {of} has a container {NAME!r} of another image, {image!r};"
                    " --image names ours, if that is it"
                )
    if names_in(child(of.pod, PLAIN)) == [NAME]:
        raise ManifestError(f"line {of.pod.start_mark.line + 1}: {of} is kshadow itself: it has no other container")


def _repository(image: str) -> str:
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def _check_volume(of: PodTemplate, sidecar: Sidecar) -> None:
    there = [*names_in(child(of.pod, "volumes")), *of.claims]
    if sidecar.broker_log_volume is not None and sidecar.broker_log_volume not in there:
        has = f"it has {', '.join(map(repr, there))}" if there else "it has none"
        raise ManifestError(f"{of} has no volume {sidecar.broker_log_volume!r}; {has}")


def _annotate(edits: YamlEdits, template: MappingNode, wanted: dict[str, str]) -> None:
    metadata = child(template, "metadata")
    if not isinstance(metadata, MappingNode) or is_null(metadata):
        edits.put_mapping(template, "metadata", {"annotations": wanted})
        return
    there = child(metadata, "annotations")
    if not isinstance(there, MappingNode) or is_null(there):
        edits.put_mapping(metadata, "annotations", wanted)
        return
    for key, value in wanted.items():
        edits.put_text(there, key, value)


def _check_result(text: str, sidecar: Sidecar, count: int) -> None:
    """Raises `ManifestError` where the container is not in the text as often as it should be: then the manifest is
    written in a way that we do not understand, and nothing of ours must be believed."""
    wanted, key = container(sidecar), NATIVE if sidecar.native else PLAIN
    try:
        seen = sum(_ours(child(of.pod, key)) == wanted for of in templates(parse(text)))
    except ManifestError:
        seen = 0
    if seen < count:
        raise ManifestError("these manifests are written in a way that cannot be patched; write out their aliases")


def _ours(node: Node | None) -> object:
    """The container in a list; None where there is none. Nothing is made of the others, whatever they hold."""
    items = node.value if isinstance(node, yaml.SequenceNode) else ()
    item = next((it for it in items if text_of(child(it, "name")) == NAME), None)
    return None if item is None else yaml.SafeLoader("").construct_document(item)


def _warnings(chosen: list[PodTemplate], sidecar: Sidecar) -> list[str]:
    return [
        *(
            f"{of}: its pods are not done before kshadow is, which never ends by itself: --native is for jobs"
            for of in chosen
            if not sidecar.native and of.kind in ("Job", "CronJob")
        ),
        *(
            f"{of}: its container {name!r} has port {sidecar.port} too, and a pod's containers share ports: --port"
            for of in chosen
            for name in _with_port(of, sidecar.port)
        ),
    ]


def _left_alone(of: tuple[str, str]) -> str:
    kind, name = of
    return f"{kind} {name!r} has a pod's spec and is left as it is: known are {', '.join(KINDS)}"


def _with_port(of: PodTemplate, port: int) -> list[str]:
    """The names of the other containers that say they listen there."""
    out = []
    for key in (PLAIN, NATIVE):
        items = child(of.pod, key)
        for node in items.value if isinstance(items, yaml.SequenceNode) else ():
            ports, name = child(node, "ports"), text_of(child(node, "name")) or ""
            there = ports.value if isinstance(ports, yaml.SequenceNode) else ()
            if name != NAME and str(port) in (text_of(child(it, "containerPort")) for it in there):
                out.append(name)
    return out
