"""Kubernetes' own schemas, of several versions, laid out for kubeconform; those of custom resources beside them."""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import version
from pathlib import Path

import kubernetes_validate

from agent.tools.embedded.jars import cache_directory
from tests.harness.kube_definitions import LABELS, need_definitions, schemas, whole

VERSIONS = ("1.28.0", "1.33.0", "1.36.0")
"""Of Kubernetes: one whose support has ended but that clouds still run, one in between, and the newest that all of
the tools here know. Each is checked."""

OF_CHART = ("prometheus-operator", "spark-operator", "strimzi")
"""Whose kinds the chart and the examples of values have."""

_CUSTOM = "{{.ResourceKind}}_{{.ResourceAPIVersion}}.json"


class Conformity:
    """kubeconform, strict and offline."""

    def __init__(self, program: Path) -> None:
        self._program = program
        root = cache_directory() / "tools"
        self._native = root / f"kube-schemas-{version('kubernetes-validate')}"
        labels = "-".join(LABELS[it] for it in OF_CHART)
        self._custom = root / f"crd-schemas-{labels}"
        if not self._native.is_dir():
            _make_native(self._native)
        if not self._custom.is_dir():
            _make_custom(self._custom)

    def complaints(self, folder: Path, kubernetes: str) -> list[str]:
        """What is wrong with the manifests in a folder's `.yaml` files, a line each, the file's name first.

        None is skipped: a kind without a schema is wrong as well.
        """
        ended = subprocess.run(
            [
                str(self._program),
                "-strict",
                "-output=json",
                "-summary",
                f"-kubernetes-version={kubernetes}",
                f"-schema-location={self._native}",
                f"-schema-location={self._custom}/{_CUSTOM}",
                str(folder),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.stdout, ended.stderr
        said = json.loads(ended.stdout)
        assert said["summary"]["valid"] + said["summary"]["invalid"] + said["summary"]["errors"], (
            "nothing was checked"
        )
        assert said["summary"]["skipped"] == 0, said
        wrong = [
            f"{Path(it['filename']).stem}: {it['kind']}/{it['name']}: {it['status']}: {it['msg']}"
            for it in said.get("resources", [])
        ]
        assert bool(wrong) == bool(ended.returncode), (said, ended.stderr)
        return wrong


def _make_native(place: Path) -> None:
    """The package has them with addresses of a web server's root; kubeconform looks for files side by side."""
    source = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    with whole(place) as partial:
        for it in VERSIONS:
            folder = partial / f"v{it}-standalone-strict"
            folder.mkdir()
            for file in (source / f"v{it}-local-strict").glob("*.json"):
                schema = json.loads(file.read_text().replace('"/api/_definitions.json', '"_definitions.json'))
                schema.pop("$id", None)
                (folder / file.name).write_text(json.dumps(schema))


def _make_custom(place: Path) -> None:
    with whole(place) as partial:
        for name in OF_CHART:
            for definition in need_definitions(name):
                for kind, schema in schemas(definition):
                    (partial / f"{kind}.json").write_text(json.dumps(schema))
