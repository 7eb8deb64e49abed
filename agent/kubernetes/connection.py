"""How the API server is reached: in a pod by its service account, elsewhere by a kubeconfig, as lightkube reads them.

Owns which of the two it is, and says of what lightkube cannot do that it cannot.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import NamedTuple

import httpx2
import msgspec
import yaml
from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from agent import __version__
from agent.kubernetes.errors import KubernetesMisconfigured

LIST_TIMEOUT_S, CONNECT_TIMEOUT_S = 60.0, 10.0
_EXEC_VERSIONS = ("client.authentication.k8s.io/v1alpha1", "client.authentication.k8s.io/v1beta1")


class Connection(NamedTuple):
    """Where the API server is, for people, and how it is logged in to."""

    where: str
    config: SingleConfig

    def client(self) -> httpx2.AsyncClient:
        """A client with certificates as they are now. Connects to nothing. Raises `KubernetesMisconfigured`."""
        config, user = self.config, self.config.user or User()
        try:
            return httpx2.AsyncClient(
                base_url=config.cluster.server,
                verify=verify_cluster(config.cluster, user, config.abs_file),
                auth=user_auth(user),
                headers={"User-Agent": f"kshadow/{__version__}"},
                timeout=httpx2.Timeout(LIST_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            )
        except (ConfigError, OSError, ValueError, httpx2.InvalidURL) as error:
            # Of certificates that stand in the file nothing is repeated.
            said = type(error).__name__ if isinstance(error, (ssl.SSLError, ValueError)) else str(error)
        # Here, so that nothing holds on to the files that lightkube wrote of them.
        raise KubernetesMisconfigured(f"Kubernetes: {self.where}: expected certificates that can be read, got {said}")


def find_connection(context: str | None = None) -> Connection:
    """By the service account of the pod that this runs in; else, or where a `context` or KUBECONFIG names one, by a
    kubeconfig. Raises `KubernetesMisconfigured`."""
    named = os.environ.get("KUBECONFIG")
    if context is None and not named and (Path(SERVICE_ACCOUNT) / "token").exists():
        try:
            config = KubeConfig.from_service_account().get()
        except (ConfigError, OSError, KeyError) as error:
            raise KubernetesMisconfigured(
                f"Kubernetes: the service account of this pod: {error} is missing"
            ) from None
        assert config is not None, "one is made"
        return Connection(f"{config.cluster.server} (service account)", config)
    config = _of_file(named or DEFAULT_KUBECONFIG, context)
    where = f"{config.cluster.server} (context {config.context_name} of {config.fname})"
    user = config.user or User()
    if user.exec is not None and user.exec.apiVersion not in _EXEC_VERSIONS:
        raise KubernetesMisconfigured(
            f"Kubernetes: {where}: expected a login program that speaks v1beta1, got {user.exec.apiVersion}: choose "
            "v1beta1 there, or a context with a token or a certificate"
        )
    if user.auth_provider is not None:
        raise KubernetesMisconfigured(
            f"Kubernetes: {where} logs in by an auth-provider, which Kubernetes has given up: choose another context"
        )
    return Connection(where, config)


def _of_file(name: str, context: str | None) -> SingleConfig:
    if len([it for it in name.split(os.pathsep) if it]) > 1:
        raise KubernetesMisconfigured(f"Kubernetes: expected one file in KUBECONFIG, got {name}")
    about = f"Kubernetes: kubeconfig {name}"
    try:
        config = KubeConfig.from_file(name).get(context)
    except (ConfigError, OSError) as error:
        raise KubernetesMisconfigured(f"{about}: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = "" if mark is None else f" at line {mark.line + 1}"
        raise KubernetesMisconfigured(f"{about}: expected YAML{at}") from None
    except (KeyError, TypeError, AttributeError, ValueError, msgspec.ValidationError) as error:
        said = f"{error} is missing" if isinstance(error, KeyError) else "its fields are not those of a kubeconfig"
        raise KubernetesMisconfigured(f"{about}: {said}") from None
    assert config is not None, "without one it raises"
    return config
