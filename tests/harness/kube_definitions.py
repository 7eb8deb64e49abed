"""Custom resource definitions of others, as their makers publish them, and schemas made of them.

Owns which version of which; where they come from (Go modules, and Strimzi's own generator; none is kept in this
repository); and where they lie: in kshadow's cache, by version, beside the tools. `python -m
tests.harness.kube_definitions` fetches what is missing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import yaml

from agent.tools.embedded import EmbeddedError, fetch_jars
from agent.tools.embedded.jars import cache_directory
from agent.tools.embedded.java import find_java

_TIMEOUT_S = 300


class Module(NamedTuple):
    """A Go module that carries definitions, and the files that are wanted of it."""

    path: str
    version: str
    folder: str
    files: tuple[str, ...]


MODULES: Mapping[str, Module] = MappingProxyType(
    {
        "prometheus-operator": Module(
            "github.com/prometheus-operator/prometheus-operator",
            "v0.85.0",
            "example/prometheus-operator-crd",
            tuple(f"monitoring.coreos.com_{it}.yaml" for it in ("podmonitors", "prometheusrules", "servicemonitors")),
        ),
        "spark-operator": Module(
            "github.com/kubeflow/spark-operator/v2",
            "v2.3.0",
            "config/crd/bases",
            tuple(f"sparkoperator.k8s.io_{it}.yaml" for it in ("scheduledsparkapplications", "sparkapplications")),
        ),
        "argo-rollouts": Module(
            "github.com/argoproj/argo-rollouts", "v1.8.3", "manifests/crds", ("analysis-template-crd.yaml",)
        ),
        "keda": Module("github.com/kedacore/keda/v2", "v2.17.2", "config/crd/bases", ("keda.sh_scaledobjects.yaml",)),
        "flagger": Module("github.com/fluxcd/flagger", "v1.41.0", "artifacts/flagger", ("crd.yaml",)),
    }
)

STRIMZI = "0.49.0"
"""Whose definitions are published as Java classes and as a generator that reads them; the last generator is 0.45.0,
and the classes have grown another version of their API since."""
_GENERATOR = "io.strimzi:crd-generator:0.45.0"
_KINDS = MappingProxyType(
    {f"io.strimzi.api.kafka.model.{it.lower()}.Kafka{it}": f"kafka{it.lower()}s.yaml" for it in ("Topic", "User")}
)

LABELS: Mapping[str, str] = MappingProxyType(
    {**{name: it.version.removeprefix("v") for name, it in MODULES.items()}, "strimzi": STRIMZI}
)
"""Whose definitions there are, and of which version."""


class Missing(Exception):
    """Definitions that are not there and cannot be fetched: why."""


def need_definitions(name: str) -> list[dict[str, Any]]:
    """The definitions, fetched if they are not there yet; a test is skipped, with the reason, where that fails."""
    try:
        return definitions(name)
    except Missing as missing:
        pytest.skip(str(missing))


def definitions(name: str) -> list[dict[str, Any]]:
    """The definitions, fetched if they are not there yet. Raises `Missing`."""
    place = cache_directory() / "tools" / f"crds-{name}-{LABELS[name]}"
    if not place.is_dir():
        if name in MODULES:
            _fetch(MODULES[name], place)
        else:
            _generate(place)
    return [json.loads(it.read_text()) for it in sorted(place.glob("*.json"))]


def _fetch(module: Module, place: Path) -> None:
    if shutil.which("go") is None:
        raise Missing(f"{place.name} are not there: Go is needed to fetch them, and is not on PATH")
    got = subprocess.run(
        ["go", "mod", "download", "-json", f"{module.path}@{module.version}"],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
        cwd="/",
    )
    if got.returncode:
        raise Missing(f"{place.name} are not there, and {module.path} {module.version} cannot be downloaded")
    folder = Path(json.loads(got.stdout)["Dir"]) / module.folder
    with whole(place) as partial:
        for name in module.files:
            _write(partial / name, (folder / name).read_text())


def _generate(place: Path) -> None:
    """Strimzi's KafkaTopic and KafkaUser, by Strimzi's generator."""
    try:
        jars = fetch_jars(extra=(_GENERATOR, f"io.strimzi:api:{STRIMZI}"))
        java = find_java()
    except EmbeddedError as error:
        raise Missing(f"{place.name} are not there: {error}") from error
    with whole(place) as partial:
        files = {name: partial / file for name, file in _KINDS.items()}
        command = [java, "-cp", jars.classpath, "io.strimzi.crdgenerator.CrdGenerator"]
        ended = subprocess.run(
            [*command, "--yaml", *(f"{name}={file}" for name, file in files.items())],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if ended.returncode or not all(it.is_file() for it in files.values()):
            raise Missing(f"{place.name} are not there, and Strimzi's generator failed: {ended.stderr[-500:]}")
        for file in files.values():
            _write(file, file.read_text())


def _write(path: Path, text: str) -> None:
    """As JSON, a file for each: one of the Spark operator takes YAML's parser five seconds."""
    for number, definition in enumerate(yaml.safe_load_all(text)):
        name = path.stem if not number else f"{path.stem}-{number}"
        path.with_name(f"{name}.json").write_text(json.dumps(definition))


@contextmanager
def whole(place: Path) -> Iterator[Path]:
    """A directory that is there whole or not at all: made beside `place`, and moved there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        yield partial
        try:
            os.rename(partial, place)
        except OSError:
            if not place.is_dir():  # or else another process was first
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def schemas(definition: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """`kind_version` and the strict JSON schema of each version that is served."""
    spec = definition["spec"]
    for version in spec["versions"]:
        if version["served"]:
            schema = _strict(version["schema"]["openAPIV3Schema"])
            properties = schema["properties"]
            properties["apiVersion"] = {"type": "string", "enum": [f"{spec['group']}/{version['name']}"]}
            properties["kind"] = {"type": "string", "enum": [spec["names"]["kind"]]}
            yield f"{spec['names']['kind'].lower()}_{version['name']}", schema


def _strict(schema: Any) -> Any:
    """OpenAPI as Kubernetes has it → JSON schema without a field that is not named, as the server reads it."""
    if isinstance(schema, list):
        return [_strict(it) for it in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            out[key] = {name: _strict(it) for name, it in value.items()}
        elif key not in ("default", "description", "example") and not key.startswith("x-kubernetes-"):
            out[key] = _strict(value)
    if "properties" in out and not schema.get("x-kubernetes-preserve-unknown-fields"):
        out.setdefault("additionalProperties", False)
    if out.pop("nullable", False) and isinstance(out.get("type"), str):
        out["type"] = [out["type"], "null"]
    return out


if __name__ == "__main__":
    for each, label in LABELS.items():
        try:
            print(f"{each:20} {label:8} {len(definitions(each))} definitions")
        except Missing as missing:
            sys.exit(str(missing))
