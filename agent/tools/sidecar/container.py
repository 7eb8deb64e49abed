"""The container beside a consumer or a broker, as Kubernetes has it. Pure.

It is the one of the library chart (`helm/kshadow/charts/kshadow-lib`); a test holds the two together. There is no
readiness probe, since a pod must not be out of service for its sidecar, and no startup probe, which would hold up the
other containers of a native one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct, field

from agent.config.secrets import variable_name

NAME = "kshadow"
PORT = 9308
CERTIFICATES = "kshadow-certificates"
CERTIFICATES_PATH = "/etc/kshadow/certificates"
KUBERNETES = "kshadow-kubernetes"
KUBERNETES_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where clients look for a service account's token; Kubernetes mounts none there where a volume is already."""
USER = 65532

_SECRET = re.compile(r"(password|passphrase|secret|\.key\.pem|jaas\.config)$")
"""Properties whose values are secrets; what ends in `.location` names a file."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?([EPTGMk]i?|Ki|m)?")
_OBJECT = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_KEY = re.compile(r"[-._a-zA-Z0-9]+")

Form = dict[str, Any]


class SidecarError(ValueError):
    """These values make no container; says which."""


class SecretKey(NamedTuple):
    """Where a variable comes from: a Secret's name, and a key in it."""

    secret: str
    key: str


class Resources(Struct, frozen=True, kw_only=True):
    """What the container asks for and may have, as Kubernetes writes quantities. CPU has no limit: catching up after
    a start takes more of it for some seconds."""

    cpu_request: str = "10m"
    memory_request: str = "64Mi"
    memory_limit: str = "128Mi"


class Sidecar(Struct, frozen=True, kw_only=True):
    """What is to be run. `properties` are librdkafka's; `extra` are further arguments of `kshadow run`, taken as they
    are. `broker_log` is a directory, on the pod's volume `broker_log_volume`. `kubernetes`: it watches the pod's
    namespace, by the pod's service account. `native`: an init container that stays.
    """

    image: str
    bootstrap_server: str
    groups: tuple[str, ...] = ()
    group_partitioner: str = "auto"
    cluster: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    secret_env: Mapping[str, SecretKey] = field(default_factory=dict)
    certificates_secret: str | None = None
    broker_log: str | None = None
    broker_log_volume: str | None = None
    kubernetes: bool = False
    admin: bool = False
    lag: bool = True
    port: int = PORT
    native: bool = True
    resources: Resources = field(default_factory=Resources)
    extra: tuple[str, ...] = ()


def parse_secret_key(text: str) -> SecretKey:
    """SECRET/KEY. Raises `SidecarError`."""
    secret, slash, key = text.partition("/")
    if not slash or not _OBJECT.fullmatch(secret) or not _KEY.fullmatch(key):
        raise SidecarError(f"expected a Secret's name and a key in it, SECRET/KEY, got {text!r}")
    return SecretKey(secret, key)


def check(sidecar: Sidecar) -> None:
    """Raises `SidecarError` where Kubernetes or kshadow would not take it, or where a secret stands in plain text."""
    for name, value in sidecar.properties:
        variable = variable_name(value)
        if variable is None and _SECRET.search(name):
            raise SidecarError(
                f"--property {name} is a secret in plain text (not shown): write {name}=${{NAME}}, and "
                "--secret-env NAME=SECRET/KEY says which Secret it is in"
            )
        if variable is not None and variable not in sidecar.secret_env:
            raise SidecarError(f"--property {name}: --secret-env {variable}=SECRET/KEY is needed, or nothing sets it")
    for variable in sidecar.secret_env:
        if not _VARIABLE.fullmatch(variable):
            raise SidecarError(f"--secret-env: expected the name of a variable, got {variable!r}")
    if (sidecar.broker_log is None) != (sidecar.broker_log_volume is None):
        raise SidecarError("--broker-log and --broker-log-volume go together")
    if sidecar.broker_log is not None and (
        not sidecar.broker_log.startswith("/") or sidecar.broker_log.endswith(".log")
    ):
        raise SidecarError(
            f"--broker-log: expected the directory of the broker's log, from /, got {sidecar.broker_log!r}"
        )
    for text in (sidecar.resources.cpu_request, sidecar.resources.memory_request, sidecar.resources.memory_limit):
        if not _QUANTITY.fullmatch(text):
            raise SidecarError(f"expected a quantity of Kubernetes such as 10m or 64Mi, got {text!r}")
    for text in arguments(sidecar):
        if "\0" in text or text.encode("utf-8", "replace").decode() != text:
            raise SidecarError(f"an argument of a container is text in UTF-8 without NUL, {text!r} is not")


def container(sidecar: Sidecar) -> Form:
    """The container, in the order in which people read one. Raises `SidecarError`."""
    check(sidecar)
    out: Form = {"name": NAME, "image": sidecar.image}
    if sidecar.native:
        out["restartPolicy"] = "Always"
    out["args"] = arguments(sidecar)
    if env := list(_env(sidecar)):
        out["env"] = env
    out["ports"] = [{"name": NAME, "containerPort": sidecar.port, "protocol": "TCP"}]
    out["livenessProbe"] = {
        "httpGet": {"path": "/healthz", "port": NAME},
        "initialDelaySeconds": 30,
        "periodSeconds": 20,
        "timeoutSeconds": 5,
        "failureThreshold": 6,
    }
    out["resources"] = {
        "requests": {"cpu": sidecar.resources.cpu_request, "memory": sidecar.resources.memory_request},
        "limits": {"memory": sidecar.resources.memory_limit},
    }
    out["securityContext"] = {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if mounts := list(_mounts(sidecar)):
        out["volumeMounts"] = mounts
    return out


def volumes(sidecar: Sidecar) -> list[Form]:
    """What the pod needs beside the volumes that it has."""
    out: list[Form] = []
    if sidecar.certificates_secret is not None:
        out.append({"name": CERTIFICATES, "secret": {"secretName": sidecar.certificates_secret}})
    if sidecar.kubernetes:
        # As Kubernetes itself would mount it: for this container alone, also where the pod mounts none.
        namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
        sources: list[Form] = [
            {"serviceAccountToken": {"path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ]
        out.append({"name": KUBERNETES, "projected": {"sources": sources}})
    return out


def scrape_annotations(sidecar: Sidecar) -> dict[str, str]:
    """For a Prometheus that finds pods by annotations."""
    return {"prometheus.io/scrape": "true", "prometheus.io/port": str(sidecar.port), "prometheus.io/path": "/metrics"}


def arguments(sidecar: Sidecar) -> list[str]:
    """One item an option, in the order of `kshadow run --help`."""
    out = [] if sidecar.cluster is None else [f"--cluster={sidecar.cluster}"]
    out.append(f"--bootstrap-server={sidecar.bootstrap_server}")
    out += (f"--property={name}={value}" for name, value in sorted(dict(sidecar.properties).items()))
    out += (f"--group={group}" for group in sidecar.groups)
    if sidecar.group_partitioner != "auto":
        out.append(f"--group-partitioner={sidecar.group_partitioner}")
    if sidecar.broker_log is not None:
        out.append(f"--broker-log={sidecar.broker_log}")
    if sidecar.kubernetes:
        out.append("--kubernetes")
    if not sidecar.admin:
        out.append("--no-admin")
    if not sidecar.lag:
        out.append("--no-lag")
    out.append("--keep-trying")  # its end would keep the pod from being ready
    out.append(f"--listen=[::]:{sidecar.port}")
    return ["run", *map(escape_expansion, out), *sidecar.extra]


def escape_expansion(text: str) -> str:
    """An argument as Kubernetes must have it to leave it alone: there `$(X)` is a variable, and `$$` one `$`."""
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def _env(sidecar: Sidecar) -> Iterator[Form]:
    for name, at in sorted(sidecar.secret_env.items()):
        yield {"name": name, "valueFrom": {"secretKeyRef": {"name": at.secret, "key": at.key}}}
    if sidecar.kubernetes:
        # An option's variable: where the pod is, its manifest need not say.
        here = {"fieldRef": {"fieldPath": "metadata.namespace"}}
        yield {"name": "KSHADOW_KUBERNETES_NAMESPACE", "valueFrom": here}


def _mounts(sidecar: Sidecar) -> list[Form]:
    out: list[Form] = []
    if sidecar.broker_log is not None:
        out.append({"name": sidecar.broker_log_volume, "mountPath": sidecar.broker_log, "readOnly": True})
    if sidecar.certificates_secret is not None:
        out.append({"name": CERTIFICATES, "mountPath": CERTIFICATES_PATH, "readOnly": True})
    if sidecar.kubernetes:
        out.append({"name": KUBERNETES, "mountPath": KUBERNETES_PATH, "readOnly": True})
    return out
