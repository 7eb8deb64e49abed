"""Sidecars and manifests for tests."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import yaml

from agent.tools.sidecar.container import CERTIFICATES, KUBERNETES, NAME, SecretKey, Sidecar

Form = dict[str, Any]

PLAIN_VALUES = Sidecar(image="kshadow:1", bootstrap_server="kafka:9092", groups=("payments",))
FULL_VALUES = Sidecar(
    image="registry.example/kshadow@sha256:" + "0" * 64,
    bootstrap_server="a:9093,b:9093",
    groups=("payments", 'it\'s "quoted"', "$(HOME) $$ $x", "grüße 🦊", "on", "0123"),
    group_partitioner="redpanda",
    cluster="eu",
    properties=(
        ("security.protocol", "SASL_SSL"),
        ("sasl.username", "${KAFKA_USER}"),
        ("sasl.password", "${KAFKA_PASSWORD}"),
        ("ssl.ca.location", "/etc/kshadow/certificates/ca.crt"),
    ),
    secret_env={"KAFKA_USER": SecretKey("kafka", "user"), "KAFKA_PASSWORD": SecretKey("kafka", "password")},
    certificates_secret="kafka-ca",
    broker_log="/opt/kafka/logs",
    broker_log_volume="logs",
    kubernetes=True,
    lag=False,
    port=9400,
    extra=("--granularity=partition",),
)

POD: Form = {
    "containers": [{"name": "app", "image": "app:1"}],
    "volumes": [{"name": "logs", "emptyDir": {}}],
}
SELECTED: Form = {"selector": {"matchLabels": {"app": "app"}}}
TEMPLATE: Form = {"metadata": {"labels": {"app": "app"}}, "spec": POD}
JOB_TEMPLATE: Form = {"metadata": {"labels": {"app": "app"}}, "spec": {**POD, "restartPolicy": "Never"}}


def manifest(kind: str, name: str = "app") -> Form:
    """A valid object of that kind."""
    specs: dict[str, tuple[str, Form]] = {
        "Pod": ("v1", POD),
        "Deployment": ("apps/v1", {**SELECTED, "template": TEMPLATE}),
        "StatefulSet": ("apps/v1", {**SELECTED, "serviceName": "app", "template": TEMPLATE}),
        "DaemonSet": ("apps/v1", {**SELECTED, "template": TEMPLATE}),
        "ReplicaSet": ("apps/v1", {**SELECTED, "template": TEMPLATE}),
        "Job": ("batch/v1", {"template": JOB_TEMPLATE}),
        "CronJob": ("batch/v1", {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": JOB_TEMPLATE}}}),
    }
    version, spec = specs[kind]
    return copy.deepcopy({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})


STYLES = ("block", "flow", "pretty", "indented", "commented")


def written(documents: list[Any], style: str) -> str:
    """As text, in one of the styles that people write."""
    if style == "flow":
        return "".join(f"---\n{json.dumps(it)}\n" for it in documents)
    if style == "pretty":
        return "".join(f"---\n{json.dumps(it, indent=4, ensure_ascii=False)}\n" for it in documents)
    text = yaml.dump_all(documents, Dumper=_Indented if style != "block" else yaml.SafeDumper, sort_keys=False)
    if style == "commented":
        return "# top\n" + "".join(f"{line} # {at}\n\n# {at}\n" for at, line in enumerate(text.splitlines()))
    return str(text)


class _Indented(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def pods(node: Any) -> Iterator[Form]:
    """Every mapping with containers in it."""
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from pods(value)
    if isinstance(node, dict) and "containers" in node:
        yield node


def without(documents: list[Any]) -> list[Any]:
    """The documents with nothing of ours in them."""
    out = copy.deepcopy(documents)
    for pod in pods(out):
        for key in ("initContainers", "containers", "volumes"):
            if key in pod:
                pod[key] = [it for it in pod[key] if it["name"] not in (NAME, CERTIFICATES, KUBERNETES)]
                if not pod[key]:
                    del pod[key]
    return out
