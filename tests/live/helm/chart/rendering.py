"""Charts, rendered by Helm: what tests of the chart and of whoever must agree with it look at."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests import ROOT

CHART = ROOT / "helm" / "kshadow"
LIBRARY = CHART / "charts" / "kshadow-lib"
_PARENT = Path(__file__).parent / "sidecar-parent"
SCENARIOS = sorted((CHART / "ci").glob("*-values.yaml"))
"""Values that the chart is tried with, a scenario a file."""
KUBERNETES = "1.36.0"
"""What charts are rendered for, unless told: a Helm that was built by Go alone would take an old one."""
STRANGE = ('say "hi": {{ .Values.x }} #', "groß \u2028\n\t😀", "-x", "1.0", "yes", "<&>", "'\\\\")
"""Names of groups that Kafka takes."""
_TIMEOUT_S = 60


class Refused(Exception):
    """What Helm said against a chart or its values."""


def sidecar_parent(into: Path) -> Path:
    """The example chart of a consumer, with the library in it, as a new directory in `into`."""
    made = into / "orders"
    shutil.copytree(_PARENT, made)
    shutil.copytree(LIBRARY, made / "charts" / LIBRARY.name)
    return made


def helm(program: Path, *arguments: str, stdin: str | None = None) -> str:
    """Run Helm; what it printed. Raises `Refused`."""
    done = subprocess.run(
        [str(program), *arguments], input=stdin, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise Refused(done.stdout + done.stderr)
    return done.stdout


def rendered(
    program: Path,
    chart: Path,
    values: Mapping[str, Any] | None = None,
    options: Sequence[str] = (),
    kubernetes: str = KUBERNETES,
) -> list[dict[str, Any]]:
    """The manifests that a chart makes of values, for a release called `it`. Raises `Refused`."""
    command = ("template", "it", str(chart), "--values", "-", "--kube-version", kubernetes, *options)
    out = helm(program, *command, stdin=yaml.safe_dump(dict(values or {})))
    # By libyaml: the one in Python takes longer than Helm.
    return [document for document in yaml.load_all(out, yaml.CSafeLoader) if document]


def only(manifests: Sequence[dict[str, Any]], kind: str, name: str | None = None) -> dict[str, Any]:
    """The one manifest of that kind (and name)."""
    (found,) = (it for it in manifests if it["kind"] == kind and name in (None, it["metadata"]["name"]))
    return found


def pod_of(manifests: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The pod's spec of the one Deployment or StatefulSet."""
    (workload,) = (it for it in manifests if it["kind"] in ("Deployment", "StatefulSet"))
    pod: dict[str, Any] = workload["spec"]["template"]["spec"]
    return pod


def sidecar(
    program: Path, parent: Path, values: Mapping[str, Any], kubernetes: str = KUBERNETES
) -> tuple[dict[str, Any], bool]:
    """The library's container for these values, and whether it is a native one (an init container)."""
    pod = pod_of(rendered(program, parent, {"kshadow": dict(values)}, kubernetes=kubernetes))
    for kind, native in (("initContainers", True), ("containers", False)):
        for container in pod.get(kind) or []:
            if container["name"] == "kshadow":
                return container, native
    raise LookupError("no kshadow container")
