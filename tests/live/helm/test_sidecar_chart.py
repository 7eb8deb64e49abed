"""The library chart and `kshadow sidecar` make the same container of the same values."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from agent.tools.sidecar.container import NAME, Sidecar, container, volumes
from tests import ROOT
from tests.harness.tools import need
from tests.unit.tools.sidecar.made import FULL_VALUES, PLAIN_VALUES

LIBRARY = ROOT / "helm" / "kshadow" / "charts" / "kshadow-lib"
PARENT = ROOT / "tests" / "live" / "helm" / "chart" / "sidecar-parent"


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A consumer's chart with the library in it, as `helm dependency update` makes it."""
    path = tmp_path_factory.mktemp("chart") / "parent"
    shutil.copytree(PARENT, path)
    shutil.copytree(LIBRARY, path / "charts" / LIBRARY.name, dirs_exist_ok=True)
    return path


def values_of(it: Sidecar) -> dict[str, Any]:
    """As the library wants them."""
    return {
        "native": it.native,
        "image": it.image,
        "cluster": it.cluster or "",
        "bootstrapServers": it.bootstrap_server,
        "properties": dict(it.properties),
        "secretEnv": {name: {"name": at.secret, "key": at.key} for name, at in it.secret_env.items()},
        "certificatesSecret": it.certificates_secret or "",
        "groups": list(it.groups),
        "groupPartitioner": it.group_partitioner,
        "brokerLog": {"path": it.broker_log or "", "volumeName": it.broker_log_volume or ""},
        "kubernetes": it.kubernetes,
        "admin": it.admin,
        "lag": it.lag,
        "port": it.port,
        "extraArgs": list(it.extra),
    }


@pytest.mark.parametrize("tool", ["helm", "helm3"])
@pytest.mark.parametrize("native", [True, False], ids=["native", "beside"])
@pytest.mark.parametrize("given", [PLAIN_VALUES, FULL_VALUES], ids=["plain", "full"])
def test_both_make_the_same(chart: Path, tmp_path: Path, given: Sidecar, native: bool, tool: str) -> None:
    it = replace(given, native=native)
    values = tmp_path / "values.json"
    values.write_text(json.dumps({"kshadow": values_of(it)}, ensure_ascii=False), encoding="utf-8")
    command = [need(tool), "template", "app", chart, "--values", values, "--kube-version", "1.31.0"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert told.returncode == 0, told.stderr
    (pod,) = (of["spec"]["template"]["spec"] for of in yaml.safe_load_all(told.stdout) if of["kind"] == "Deployment")
    key, other = ("initContainers", "containers") if native else ("containers", "initContainers")
    assert [of for of in pod[key] or () if of["name"] == NAME] == [container(it)]
    assert not [of for of in pod[other] or () if of["name"] == NAME]
    assert [of for of in pod["volumes"] if of["name"].startswith(NAME)] == volumes(it)
