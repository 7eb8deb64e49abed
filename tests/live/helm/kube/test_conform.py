"""All that the chart makes, and all examples, against the schemas of several versions of Kubernetes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.live.helm.chart.rendering import sidecar_parent
from tests.live.helm.kube.helm import Helm
from tests.live.helm.kube.places import CHART, EXAMPLES
from tests.live.helm.kube.schemas import VERSIONS, Conformity
from tests.live.helm.kube.test_server import POD, RULE, changed

APIS = [
    f"--api-versions={it}"
    for it in (
        "monitoring.coreos.com/v1/PodMonitor",
        "monitoring.coreos.com/v1/PrometheusRule",
        "monitoring.coreos.com/v1/ServiceMonitor",
    )
]
SCENARIOS = {it.name.removesuffix("-values.yaml"): it for it in sorted((CHART / "ci").glob("*-values.yaml"))}
DIGITS = {
    "fullnameOverride": "on",
    "kafka": {
        "bootstrapServers": "kafka:9092",
        "certificatesSecret": "101",
        "secretEnv": {"N": {"name": "102", "key": "103"}},
    },
    "webConfig": {"secretName": "104", "key": "105"},
    "imagePullSecrets": [{"name": "106"}],
    "priorityClassName": "107",
    "serviceAccount": {"name": "108"},
    "persistence": {"existingClaim": "109"},
    "kubernetes": {"enabled": True, "namespace": "110"},
    "networkPolicy": {"enabled": True},
    "podDisruptionBudget": {"enabled": True},
    "serviceMonitor": {"namespace": "111"},
    "sidecarMonitor": {"enabled": True},
    "prometheusRule": {"namespace": "112"},
    "dashboards": {"namespace": "113"},
    "spark": {
        "image": "spark:1",
        "data": {"existingClaim": "114"},
        "cronJobs": {
            "rollup": {"command": "rollup", "schedule": "@daily", "options": {"history": ["/a"], "out": "/b"}}
        },
    },
}
"""Names that Kubernetes takes, and that YAML reads as numbers, or as yes or no."""
EXAMPLE_VALUES = {f"{it.parent.name}-{it.stem}": it for it in sorted(EXAMPLES.glob("*/values*.yaml"))}


@pytest.fixture(scope="module")
def rendered(rendering: Helm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of manifests for each scenario, and for each example."""
    folder = tmp_path_factory.mktemp("rendered")
    for name, values in (SCENARIOS | EXAMPLE_VALUES).items():
        (folder / f"{name}.yaml").write_text(rendering.render(CHART, "--values", values, *APIS))
    digits = tmp_path_factory.mktemp("digits") / "values.json"
    digits.write_text(json.dumps(DIGITS))
    made = rendering("template", "123", CHART, "--namespace", "456", "--values", digits, *APIS)
    (folder / "digits.yaml").write_text(made)
    parent = sidecar_parent(tmp_path_factory.mktemp("parent"))
    for native in ("true", "false"):
        text = rendering.render(parent, "--set", f"kshadow.native={native}")
        (folder / f"sidecar-native-{native}.yaml").write_text(text)
    for example in EXAMPLES.glob("*/kafka-*.yaml"):
        (folder / f"{example.parent.name}-{example.stem}.yaml").write_text(example.read_text())
    return folder


def test_there_are_scenarios_and_examples() -> None:
    assert len(SCENARIOS) > 5
    assert len(EXAMPLE_VALUES) == 5


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_chart_makes_conforms(conformity: Conformity, rendered: Path, version: str) -> None:
    assert conformity.complaints(rendered, version) == []


@pytest.mark.parametrize("values", EXAMPLE_VALUES)
def test_helm_finds_nothing_to_say_against_the_examples(rendering: Helm, values: str) -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in rendering(
        "lint", "--strict", CHART, "--values", EXAMPLE_VALUES[values]
    )


WRONG = {"Pod": (POD, "spec.containers.0.imagePolicy"), "PrometheusRule": (RULE, "spec.groups.0.rules.0.four")}


@pytest.mark.parametrize(("right", "path"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_does_not(conformity: Conformity, right: dict[str, Any], path: str, tmp_path: Path) -> None:
    for version in VERSIONS:
        (tmp_path / "it.yaml").write_text(json.dumps(right))
        assert conformity.complaints(tmp_path, version) == []
        (tmp_path / "it.yaml").write_text(json.dumps(changed(right, path, "x")))
        (wrong,) = conformity.complaints(tmp_path, version)
        assert "additional properties" in wrong
        assert path.rpartition(".")[2] in wrong
        (tmp_path / "it.yaml").write_text('{"apiVersion": "v9", "kind": "Pod", "metadata": {"name": "it"}}')
        (unknown,) = conformity.complaints(tmp_path, version)
        assert "could not find schema" in unknown
