"""What runs on the node: consumers with kshadow beside them, and the agent by its chart. Manifests and names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests import ROOT

Manifest = dict[str, Any]

IMAGE = "localhost/kshadow:test"
NAMESPACE, AGENTS = "shop", "observability"
GROUP, TOPIC = "payments", "orders"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
"""Pods that do not keep to it are refused by the API server."""


def script() -> Manifest:
    """The consumer's, for pods to mount."""
    text = (Path(__file__).parent / "consumer.py").read_text()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "consumer"},
        "data": {"consumer.py": text},
    }


def consumers(brokers: str, replicas: int) -> Manifest:
    """A Deployment of consumers, each with a memory limit, a liveness probe and a volume of a limited size."""
    labels = {"app": GROUP}
    security = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    app = {
        "name": "app",
        "image": IMAGE,
        "command": ["python", "/script/consumer.py"],
        "env": [
            {"name": name, "value": it} for name, it in {"BROKERS": brokers, "GROUP": GROUP, "TOPIC": TOPIC}.items()
        ],
        "resources": {"limits": {"memory": "96Mi"}, "requests": {"cpu": "10m", "memory": "48Mi"}},
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": 8080},
            "initialDelaySeconds": 5,
            "periodSeconds": 2,
            "timeoutSeconds": 5,
            "failureThreshold": 2,
        },
        "securityContext": security,
        "volumeMounts": [{"name": "script", "mountPath": "/script"}, {"name": "scratch", "mountPath": "/scratch"}],
    }
    spec = {
        "terminationGracePeriodSeconds": 10,
        "automountServiceAccountToken": False,
        "containers": [app],
        "securityContext": {"fsGroup": 65532},
        "volumes": [
            {"name": "script", "configMap": {"name": "consumer"}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "8Mi"}},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": GROUP, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def with_sidecar(manifest: Manifest, brokers: str, directory: Path) -> Manifest:
    """What `kshadow sidecar inject` makes of a manifest."""
    file = directory / "plain.yaml"
    file.write_text(yaml.safe_dump(manifest, sort_keys=False))
    command = [sys.executable, "-m", "agent.cli.main", "sidecar", "inject", str(file), "--image", IMAGE]
    command += ["--bootstrap-server", brokers, "--group", GROUP, "--kubernetes"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert told.returncode == 0, told.stderr
    made: Manifest = yaml.safe_load(told.stdout)
    return made


def sidecars_rights() -> list[Manifest]:
    """What `--kubernetes` needs of the pods' service account, as docs/kubernetes-evidence.md has it."""
    text = (ROOT / "docs" / "kubernetes-evidence.md").read_text().split("<!-- rights of sidecars -->")[1]
    lines = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    return [it for it in yaml.safe_load_all("\n".join(lines)) if it]


def chart_values(brokers: str) -> Manifest:
    """The values of the chart for the agent that looks after all of it."""
    image, _, tag = IMAGE.rpartition(":")
    return {
        "kafka": {"bootstrapServers": brokers},
        "image": {"repository": image, "tag": tag, "pullPolicy": "Never"},
        "kubernetes": {"enabled": True},
        "probes": {"startup": {"periodSeconds": 2}, "readiness": {"periodSeconds": 2}},
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
    }
