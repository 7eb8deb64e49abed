"""What `--kubernetes` needs: the API server, and the right to list and watch each kind.

Each is tried as the agent does it, by a list of one object and the beginning of a watch. No other request is sent.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from agent.common.text import printable_truncated
from agent.config.settings import KubernetesSettings
from agent.kubernetes.errors import KubernetesMisconfigured
from agent.kubernetes.watched import WATCHED, Watched
from agent.tools.doctor.checks import Check, DoctorRequest, Trial

if TYPE_CHECKING:
    import httpx2

    from agent.kubernetes.connection import Connection

WATCH_S = 1
"""A watch is let in or refused at once."""


class _Answer(NamedTuple):
    """What came of a request: the status code, None without an answer, and what was said."""

    status: int | None
    said: str


def check_kubernetes(request: DoctorRequest) -> Iterator[Check]:
    """The API server, then the kinds, if the agent is to watch them."""
    wanted = request.kubernetes
    if not wanted.enabled:
        return
    trial = Trial("kubernetes", "API server", "found out where it is and how to log in")
    try:
        from agent.kubernetes.connection import find_connection

        connection = find_connection(wanted.context)
        answers = asyncio.run(_try_all(connection, wanted.namespace, request.timeout_s))
    except ImportError as error:
        yield trial.failed(f"its client is not installed ({error})", "pip install 'kshadow[kubernetes]'")
        return
    except KubernetesMisconfigured as error:
        yield trial.failed(str(error))
        return
    trial = trial._replace(tried="listed and watched each kind")
    if (mute := next((it for it in answers.values() if it.status is None), None)) is not None:
        yield trial.failed(f"{connection.where} does not answer: {mute.said}")
        return
    if (unknown := next((it for it in answers.values() if it.status == 401), None)) is not None:
        yield trial.failed(
            f"{connection.where} does not take the login: {unknown.said}",
            "in a pod: mount the token of its service account (the chart does with kubernetes.enabled)",
        )
        return
    yield trial.ok(f"{connection.where} answers")
    for watched, answer in answers.items():
        yield _of_kind(watched, answer, wanted)


def _of_kind(watched: Watched, answer: _Answer, wanted: KubernetesSettings) -> Check:
    trial = Trial("right: list, watch", watched.plural, "listed one and began a watch")
    if answer.status == 200:
        return trial.ok("granted")
    if answer.status != 403:
        return trial.failed(f"HTTP {answer.status}: {answer.said}; without them: {watched.without}")
    found = f"missing: {watched.without} ({answer.said})"
    if wanted.namespace is not None and not watched.is_namespaced:
        return trial.warning(f"{found}; a right to a namespace gives nothing of what lies in none", _grant(watched))
    return trial.failed(found, _grant(watched, wanted.namespace))


def _grant(watched: Watched, namespace: str | None = None) -> str:
    """The commands that grant it; which account the agent has, whoever types them knows."""
    resource = watched.plural if not watched.group else f"{watched.plural}.{watched.group}"
    kind, place = ("clusterrole", []) if namespace is None else ("role", ["--namespace", namespace])
    name = f"kshadow-{watched.plural}"
    made = ["kubectl", *place, "create", kind, name, "--verb=get,list,watch", f"--resource={resource}"]
    bound = ["kubectl", *place, "create", f"{kind}binding", name, f"--{kind}={name}"]
    return f"{shlex.join(made)} && {shlex.join([*bound, '--serviceaccount=NAMESPACE:ACCOUNT'])}"


async def _try_all(connection: Connection, namespace: str | None, timeout_s: float) -> dict[Watched, _Answer]:
    client = connection.client()
    try:
        tried = (_try(client, it.path(namespace), timeout_s) for it in WATCHED)
        return dict(zip(WATCHED, await asyncio.gather(*tried), strict=True))
    except Exception as error:
        # Lightkube makes a login with each request; its token file may be gone, or its program say anything.
        said = printable_truncated(str(error) or type(error).__name__, 200)
        raise KubernetesMisconfigured(f"Kubernetes: {connection.where}: the login fails: {said}") from error
    finally:
        await client.aclose()


async def _try(client: httpx2.AsyncClient, path: str, timeout_s: float) -> _Answer:
    """The first of list and watch that is refused."""
    import httpx2

    watch = {"watch": "1", "timeoutSeconds": str(WATCH_S)}
    try:
        async with asyncio.timeout(timeout_s + WATCH_S):
            for params in ({"limit": "1"}, watch):
                # Of what is let in nothing is read: without a version a watch begins with all that there is.
                async with client.stream("GET", path, params=params) as answer:
                    if answer.status_code != 200:
                        await answer.aread()
                        return _Answer(answer.status_code, _said(answer))
    except (httpx2.HTTPError, TimeoutError) as error:
        return _Answer(None, printable_truncated(str(error) or type(error).__name__, 200))
    return _Answer(200, "")


def _said(answer: httpx2.Response) -> str:
    """The message of a Kubernetes Status, or whatever came."""
    try:
        body = answer.json()
    except ValueError:
        body = None
    message = body.get("message") if isinstance(body, dict) else None
    return printable_truncated(str(message or answer.text or answer.reason_phrase), 200)
