"""Helm, of either major version, with nothing of the user's: no configuration, cache, plugin or context."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml


class HelmError(Exception):
    """What Helm said as it failed."""


class Helm:
    """One Helm. Without `kubeconfig` it can render and lint, and reaches no server."""

    def __init__(self, program: Path, home: Path, kubeconfig: Path | None = None) -> None:
        self.program = program
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE"))}
        places = {f"HELM_{it}_HOME": str(home / it.lower()) for it in ("CACHE", "CONFIG", "DATA")}
        self._environment = {**kept, **places, "KUBECONFIG": str(kubeconfig or home / "no-such-kubeconfig")}

    def __call__(self, *arguments: object) -> str:
        """Run it; its standard output. Raises `HelmError`. What the server warned of is an error as well."""
        ended = subprocess.run(
            [str(self.program), *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=60,
            env=self._environment,
            check=False,
        )
        if ended.returncode or "warning" in ended.stderr.lower():
            raise HelmError(ended.stderr)
        return ended.stdout

    def render(self, chart: Path, *arguments: object, kubernetes: str | None = None) -> str:
        """The manifests that it would install, as one stream of YAML."""
        version = () if kubernetes is None else ("--kube-version", kubernetes)
        return self("template", "kshadow", chart, *version, *arguments)

    def status(self, release: str, namespace: str) -> dict[str, Any]:
        """Of a release, as Helm tells it."""
        said: dict[str, Any] = json.loads(self("status", release, "--namespace", namespace, "--output", "json"))
        return said


def documents(manifests: str) -> list[dict[str, Any]]:
    """Those of a stream of YAML that are not empty."""
    return [it for it in yaml.safe_load_all(manifests) if it]
