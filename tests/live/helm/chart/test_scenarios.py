"""Every scenario under ci/, by Helm 4 and 3: linted, rendered, and its configuration read by the agent."""

from __future__ import annotations

import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.tools import need
from tests.live.helm.chart.rendering import (
    CHART,
    KUBERNETES,
    LIBRARY,
    SCENARIOS,
    STRANGE,
    Refused,
    helm,
    only,
    pod_of,
    rendered,
)
from tests.unit.cli.running import kshadow

_OPERATOR = [
    f"--api-versions=monitoring.coreos.com/v1/{kind}" for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule")
]
_BROKERS = {"kafka": {"bootstrapServers": "kafka:9092"}}


def _scenario(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@cache
def _of(program: Path, scenario: Path) -> list[dict[str, Any]]:
    return rendered(program, CHART, _scenario(scenario), _OPERATOR)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda it: it.name)
def test_a_scenario_is_linted_strictly(any_helm: Path, scenario: Path) -> None:
    said = helm(any_helm, "lint", "--strict", "--kube-version", KUBERNETES, str(CHART), "--values", str(scenario))
    assert "0 chart(s) failed" in said
    assert "WARNING" not in said


def test_the_library_and_a_chart_that_takes_it_are_linted_strictly(any_helm: Path, parent: Path) -> None:
    for chart in (LIBRARY, parent):
        assert "0 chart(s) failed" in helm(any_helm, "lint", "--strict", "--kube-version", KUBERNETES, str(chart))


def test_both_helms_render_the_same(helm4: Path) -> None:
    for scenario in SCENARIOS:
        assert _of(helm4, scenario) == _of(need("helm3"), scenario)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda it: it.name)
def test_the_agent_takes_the_configuration(helm4: Path, scenario: Path, tmp_path: Path) -> None:
    manifests = _of(helm4, scenario)
    (container, *_) = pod_of(manifests)["containers"]
    file, password = tmp_path / "config.yaml", tmp_path / "password"
    password.write_text("of a key\n")
    config = next(it for it in manifests if it["kind"] == "ConfigMap" and "config.yaml" in it["data"])
    file.write_text(config["data"]["config.yaml"].replace("/run/extra/key-password", str(password)))
    environment = {it["name"]: it.get("value", "a secret") for it in container["env"]}
    said = kshadow(
        *("config", "show", "-o", "json", *container["args"][1:]), env={**environment, "KSHADOW_CONFIG": str(file)}
    )
    assert said.exit_code == 0, said.output
    assert "a secret" not in said.output
    shown = json.loads(said.stdout)
    values = _scenario(scenario)
    in_force = {it["option"]: it["value"] for it in shown if it.get("cluster") is None}
    assert in_force["listen"].endswith(f":{values.get('service', {}).get('port', 9308)}")
    if values.get("mode") == "statefulset":
        assert {it["value"] for it in shown if it["option"] == "shard"} == {f"auto/{values['shards']}"}
    assert {it["value"] for it in shown if it["option"] == "state-dir"} <= {
        "/var/lib/kshadow",
        "/var/lib/kshadow/eu",
        "/var/lib/kshadow/us",
    }


def test_names_of_strangers_come_through(helm4: Path) -> None:
    names = [*STRANGE, "$(X)", "${X} "]
    config = only(rendered(helm4, CHART, {**_BROKERS, "config": {"deny-group": names}}), "ConfigMap", "it-kshadow")
    assert yaml.safe_load(config["data"]["config.yaml"])["run"]["deny-group"] == names
    with pytest.raises(Refused, match="expected text that YAML can hold"):
        rendered(helm4, CHART, {**_BROKERS, "config": {"deny-group": ["\x7f"]}})


def test_a_mounted_file_is_there_for_each_path(helm4: Path) -> None:
    """What the configuration names lies on a volume of the pod, and every mount has its volume."""
    for scenario in SCENARIOS:
        pod = pod_of(_of(helm4, scenario))
        volumes = {it["name"] for it in pod["volumes"]}
        if _scenario(scenario).get("mode") == "statefulset":
            volumes.add("state")
        mounts = pod["containers"][0]["volumeMounts"]
        assert {it["name"] for it in mounts} <= volumes
        assert len({it["mountPath"] for it in mounts}) == len(mounts)


def test_a_change_of_the_configuration_rolls_the_pods_and_nothing_else_does(helm4: Path) -> None:
    def checksum(**more: Any) -> str:
        (workload,) = (it for it in rendered(helm4, CHART, {**_BROKERS, **more}) if it["kind"] == "Deployment")
        found: str = workload["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        return found

    was = checksum()
    assert checksum(resources={}) == was
    assert checksum(config={"lag-interval": "1m"}) != was


def test_shards_and_replicas_cannot_differ(helm4: Path) -> None:
    for shards in (1, 4):
        workload = only(rendered(helm4, CHART, {**_BROKERS, "mode": "statefulset", "shards": shards}), "StatefulSet")
        assert workload["spec"]["replicas"] == shards
        assert f"--shard=auto/{shards}" in pod_of([workload])["containers"][0]["args"]
    with pytest.raises(Refused, match="additional properties 'replicas' not allowed"):
        rendered(helm4, CHART, {**_BROKERS, "mode": "statefulset", "replicas": 2})


def test_rules_and_dashboards_come_through_as_they_are(any_helm: Path) -> None:
    """What looks like a template in them is Prometheus' or Grafana's."""
    manifests = rendered(any_helm, CHART, _BROKERS, _OPERATOR)
    files = [CHART / "files" / name for name in ("rules.yaml", "alerts.yaml")]
    groups = [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
    assert only(manifests, "PrometheusRule")["spec"]["groups"] == groups
    boards = {key: text for it in manifests for key, text in it.get("data", {}).items() if key.endswith(".json")}
    assert boards == {it.name: it.read_text() for it in (CHART / "files" / "dashboards").glob("*.json")}


def test_a_package_holds_what_is_installed_and_nothing_else(helm4: Path, tmp_path: Path) -> None:
    helm(helm4, "package", str(CHART), "--destination", str(tmp_path))
    (package,) = tmp_path.glob("kshadow-*.tgz")
    with tarfile.open(package) as archive:
        names = {name.removeprefix("kshadow/") for name in archive.getnames()}
    roots = {name.split("/")[0] for name in names}
    assert roots == {"Chart.yaml", "README.md", "values.yaml", "values.schema.json", ".helmignore", "templates",
                     "files", "charts"}  # fmt: skip
    assert {"files/alerts.yaml", "files/rules.yaml", "charts/kshadow-lib/templates/_container.tpl"} <= names
    assert not any(name.endswith("_test.yaml") for name in names)
    assert rendered(helm4, package, _BROKERS, _OPERATOR) == rendered(helm4, CHART, _BROKERS, _OPERATOR)


def test_kubernetes_that_is_too_old_is_refused(any_helm: Path) -> None:
    with pytest.raises(Refused, match=r"chart requires kubeVersion: >=1\.25"):
        rendered(any_helm, CHART, _BROKERS, kubernetes="1.24.0")
