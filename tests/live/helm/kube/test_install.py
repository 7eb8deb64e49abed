"""The chart in a real API server: installed, upgraded, rolled back and gone again, by Helm 4 and Helm 3.

What stays unproven without kubelet and controllers stands in this package's docstring.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.kubernetes.watched import WATCHED
from agent.tools.sidecar.container import KUBERNETES
from tests.live.helm.chart.rendering import sidecar_parent
from tests.live.helm.kube.api import Api, Manifest, namespace
from tests.live.helm.kube.conftest import RESTRICTED
from tests.live.helm.kube.helm import Helm, HelmError, documents
from tests.live.helm.kube.places import CHART, EXAMPLES
from tests.live.helm.kube.server import Server
from tests.live.helm.kube.test_server import POD
from tests.unit.cli.running import kshadow

pytestmark = pytest.mark.usefixtures("kafka")

KINDS = {"deployment": "Deployment", "statefulset": "StatefulSet"}
ALWAYS = {
    "ConfigMap/kshadow",
    "NetworkPolicy/kshadow",
    "PrometheusRule/kshadow",
    "Service/kshadow",
    "ServiceAccount/kshadow",
    "ServiceMonitor/kshadow",
}
MADE = {
    "deployment": {"Deployment/kshadow", "PersistentVolumeClaim/kshadow"},
    "statefulset": {"StatefulSet/kshadow", "Service/kshadow-headless", "PodDisruptionBudget/kshadow"},
}
VALUES: dict[str, dict[str, Any]] = {
    "deployment": {"persistence": {"type": "claim"}},
    "statefulset": {"mode": "statefulset", "shards": 3},
}
"""Beside `COMMON`, by mode."""
COMMON: dict[str, Any] = {"kafka": {"bootstrapServers": "kafka:9092"}, "networkPolicy": {"enabled": True}}
CHANGED: dict[str, Any] = {
    "config": {"lag-interval": "1m"},
    "image": {"tag": "9.9.9"},
    "commonLabels": {"team": "streaming"},
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
}


def values(directory: Path, *parts: dict[str, Any]) -> Path:
    """A values file."""
    merged: dict[str, Any] = {}
    for part in parts:
        merged |= part
    path = directory / f"values-{len(list(directory.iterdir()))}.yaml"
    path.write_text(yaml.safe_dump(merged))
    return path


def of(manifest: Manifest) -> tuple[str, str]:
    """What of a workload changes with its configuration, and its image."""
    template = manifest["spec"]["template"]
    checksum: str = template["metadata"]["annotations"]["checksum/config"]
    image: str = template["spec"]["containers"][0]["image"]
    return checksum, image


@pytest.mark.parametrize(
    ("helm", "mode"),
    [
        ("helm", "deployment"),
        ("helm3", "statefulset"),
        pytest.param("helm", "statefulset", marks=pytest.mark.thorough),
        pytest.param("helm3", "deployment", marks=pytest.mark.thorough),
    ],
    indirect=["helm"],
)
def test_a_release_from_its_beginning_to_its_end(
    server: Server, helm: Helm, space: str, mode: str, tmp_path: Path
) -> None:
    def workload() -> Manifest:
        return server.api.get("apps/v1", KINDS[mode], space, "kshadow")

    def config() -> str:
        data: str = server.api.get("v1", "ConfigMap", space, "kshadow")["data"]["config.yaml"]
        return data

    here = ("--namespace", space)
    assert server.api.objects(space) == set()
    helm("install", "kshadow", CHART, *here, "--values", values(tmp_path, COMMON, VALUES[mode]))
    made = server.api.objects(space)
    dashboards = {f"ConfigMap/{it.stem}-dashboard" for it in (CHART / "files" / "dashboards").glob("*.json")}
    release = "Secret/sh.helm.release.v1.kshadow.v1"
    assert dashboards
    assert made == ALWAYS | MADE[mode] | dashboards | {release}
    first, first_config = of(workload()), config()

    helm("upgrade", "kshadow", CHART, *here, "--values", values(tmp_path, COMMON, VALUES[mode], CHANGED))
    second = of(workload())
    assert second[0] != first[0]
    assert second[1].endswith(":9.9.9")
    assert yaml.safe_load(config())["run"]["lag-interval"] == "1m"
    assert workload()["metadata"]["generation"] == 2

    helm("rollback", "kshadow", "1", *here)
    assert (of(workload()), config()) == (first, first_config)
    assert helm.status("kshadow", space)["version"] == 3

    helm("uninstall", "kshadow", *here)
    assert server.api.objects(space) == set()


@pytest.fixture(scope="module")
def installed(
    server: Server, tmp_path_factory: pytest.TempPathFactory, counted: Callable[[], int], rendering: Helm
) -> str:
    """A namespace with a release of each mode: `kshadow-deployment` and `kshadow-statefulset`."""
    name = f"it-{counted()}"
    server.api.make(namespace(name, RESTRICTED))
    directory = tmp_path_factory.mktemp("installed")
    helm = Helm(rendering.program, directory / "home", server.kubeconfig)
    for mode in KINDS:
        given = values(directory, COMMON, VALUES[mode])
        helm("install", f"kshadow-{mode}", CHART, "--namespace", name, "--values", given)
    return name


def pod(workload: Manifest, name: str) -> Manifest:
    """The Pod that the controller would make of a workload: the template, and a claim for each claim template."""
    template = copy.deepcopy(workload["spec"]["template"])
    claims = [it["metadata"]["name"] for it in workload["spec"].get("volumeClaimTemplates", ())]
    template["spec"].setdefault("volumes", []).extend(
        {"name": it, "persistentVolumeClaim": {"claimName": f"{it}-{name}"}} for it in claims
    )
    metadata = {"name": name, **{key: template["metadata"].get(key) for key in ("labels", "annotations")}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def is_admitted(api: Api, space: str, manifest: Manifest, container: str) -> None:
    """Under the restricted standard; and with one right more it is not."""
    api.make(manifest, space)
    for kind in ("containers", "initContainers"):
        for index, it in enumerate(manifest["spec"].get(kind) or ()):
            if it["name"] == container:
                worse = copy.deepcopy(manifest)
                worse["metadata"]["name"] += "-worse"
                context = worse["spec"][kind][index]["securityContext"]
                context |= {"privileged": True, "allowPrivilegeEscalation": True}
                refused = api.create(worse, space, dry_run=True)
                assert refused.status_code == 403
                assert 'violates PodSecurity "restricted:latest": privileged' in refused.json()["message"]
                return
    raise LookupError(container)


@pytest.mark.parametrize("mode", KINDS)
def test_its_pods_are_admitted(server: Server, installed: str, mode: str) -> None:
    workload = server.api.get("apps/v1", KINDS[mode], installed, f"kshadow-{mode}")
    is_admitted(server.api, installed, pod(workload, f"kshadow-{mode}-0"), "kshadow")


def test_a_template_that_would_not_be_admitted_is_warned_of(helm: Helm, space: str, tmp_path: Path) -> None:
    """So that no warning in the other tests says something."""
    given = values(tmp_path, COMMON, {"securityContext": {"capabilities": {"drop": []}}})
    with pytest.raises(HelmError, match=r"would violate PodSecurity .*unrestricted capabilities"):
        helm("install", "kshadow", CHART, "--namespace", space, "--values", given)


@pytest.mark.parametrize("mode", KINDS)
def test_its_account_may_do_nothing(server: Server, installed: str, mode: str) -> None:
    account = f"kshadow-{mode}"
    server.api.get("v1", "ServiceAccount", installed, account)
    assert server.api.rules(installed, account) == server.api.rules(installed, None), "what everybody may"
    for verb, resource in (("get", "secrets"), ("list", "pods"), ("create", "pods"), ("get", "configmaps")):
        assert not server.api.may(installed, account, verb, resource)


@pytest.mark.parametrize("watched", ["shop", ""], ids=["a namespace", "all"])
def test_with_kubernetes_it_may_watch_what_the_agent_watches(
    server: Server, helm: Helm, space: str, watched: str, counted: Callable[[], int], tmp_path: Path
) -> None:
    """By the server's own word, there and elsewhere: each right that the code needs, and none beside."""
    name = f"{watched}-{counted()}" if watched else ""
    if name:
        server.api.make(namespace(name, RESTRICTED))
    given = values(tmp_path, COMMON, {"kubernetes": {"enabled": True, "namespace": name}})
    helm("install", "kshadow", CHART, "--namespace", space, "--values", given)
    template = server.api.get("apps/v1", "Deployment", space, "kshadow")["spec"]["template"]["spec"]
    assert template["automountServiceAccountToken"] is False, "other containers would have the token, too"
    assert KUBERNETES in {it["name"] for it in template["volumes"]}
    everybody = server.api.rules(space, None)
    everywhere = {(it.group, it.plural) for it in WATCHED if not name or not it.is_namespaced}
    for place, expected in {
        name or space: {(it.group, it.plural) for it in WATCHED},
        "default": everywhere,
    }.items():
        own = [it for it in server.api.rules(place, "kshadow", space) if it not in everybody]
        rights = {(g, r) for it in own for g in it["apiGroups"] for r in it["resources"]}
        assert rights == expected
        assert {tuple(it["verbs"]) for it in own} == {("get", "list", "watch")}
    helm("uninstall", "kshadow", "--namespace", space)
    assert server.api.rules(name or space, "kshadow", space) == everybody


def test_the_agents_are_who_the_services_and_rules_mean(server: Server, installed: str) -> None:
    """By their labels, which no controller compares here: none of one release are those of the other."""
    services = {
        mode: server.api.get("v1", "Service", installed, f"kshadow-{mode}")["spec"]["selector"] for mode in KINDS
    }
    for mode, kind in KINDS.items():
        workload = server.api.get("apps/v1", kind, installed, f"kshadow-{mode}")
        labels = workload["spec"]["template"]["metadata"]["labels"].items()
        policy = server.api.get("networking.k8s.io/v1", "NetworkPolicy", installed, f"kshadow-{mode}")
        chosen = policy["spec"]["podSelector"]["matchLabels"]
        for selector in (services[mode], chosen, workload["spec"]["selector"]["matchLabels"]):
            assert selector.items() <= labels
        assert not any(it.items() <= labels for other, it in services.items() if other != mode)


def test_what_cannot_change_in_a_release_is_refused_by_the_server(
    server: Server, installed: str, rendering: Helm, tmp_path: Path
) -> None:
    helm = Helm(rendering.program, tmp_path / "home", server.kubeconfig)
    given = values(tmp_path, COMMON, VALUES["statefulset"], {"persistence": {"size": "8Gi"}})
    with pytest.raises(HelmError, match="updates to statefulset spec for fields other than"):
        helm("upgrade", "kshadow-statefulset", CHART, "--namespace", installed, "--values", given)


@pytest.mark.parametrize("native", [True, False], ids=["native", "plain"])
def test_the_librarys_sidecar_in_a_consumers_pod(
    server: Server, helm: Helm, space: str, native: bool, tmp_path: Path
) -> None:
    parent = sidecar_parent(tmp_path)
    server.api.make({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, space)
    helm("install", "orders", parent, "--namespace", space, "--set", f"kshadow.native={str(native).lower()}")
    workload = server.api.get("apps/v1", "Deployment", space, "orders")
    spec = workload["spec"]["template"]["spec"]
    assert [it["name"] for it in spec["initContainers" if native else "containers"]][-1] == "kshadow"
    is_admitted(server.api, space, pod(workload, "orders-0"), "kshadow")


CONSUMER: Manifest = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "orders"},
    "spec": {
        "selector": {"matchLabels": {"app": "orders"}},
        "template": {"metadata": {"labels": {"app": "orders"}}, "spec": POD["spec"]},
    },
}
INJECTED = [
    "sidecar inject - --bootstrap-server kafka:9093 --group orders --native --annotate --kubernetes",
    "sidecar inject - --bootstrap-server kafka:9093 --group a$(b)c --no-native --admin"
    " -X sasl.password=${KAFKA_PASSWORD} --secret-env KAFKA_PASSWORD=user/password --certificates-secret ca",
]


@pytest.mark.parametrize("command", INJECTED, ids=["native", "plain"])
def test_the_injected_sidecar(server: Server, space: str, command: str) -> None:
    patched = kshadow(*command.split(), stdin=yaml.safe_dump(CONSUMER))
    assert patched.exit_code == 0, patched.output
    (manifest,) = documents(patched.stdout)
    server.api.make({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, space)
    answer = server.api.create(manifest, space)
    assert (answer.status_code, answer.headers.get("Warning")) == (201, None), answer.text
    is_admitted(server.api, space, pod(answer.json(), "orders-0"), "kshadow")


@pytest.mark.parametrize("file", ["kafka-user.yaml", "kafka-user-tls.yaml", "kafka-topic.yaml"])
@pytest.mark.parametrize("version", ["v1", "v1beta2"])
def test_strimzi_takes_the_examples(server: Server, space: str, file: str, version: str) -> None:
    manifest = yaml.safe_load((EXAMPLES / "strimzi" / file).read_text())
    manifest["apiVersion"] = f"kafka.strimzi.io/{version}"
    manifest["metadata"]["namespace"] = space
    server.api.make(manifest, space)
