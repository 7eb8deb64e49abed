"""Where the answers of a query command come from: files, a broker that is read to its end, or a running agent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

import click

from agent.cli.options import client_properties, one_of
from agent.cli.output import warn

Form = dict[str, Any]

AGENT_TIMEOUT_S = 30.0
UNREACHABLE = 3


class Answers(Protocol):
    """What a query command asks."""

    where: str

    def groups(self) -> list[Form]:
        """Every group's row, by name."""

    def describe(self, group: str) -> Form | None:
        """One group in full; None if there is no such group."""

    def report(self, say: Callable[[str], None]) -> bool:
        """Say what was wrong with the data; whether anything was."""


@contextmanager
def reaching() -> Iterator[None]:
    """Turn a source that cannot be read into a message and the exit code of the contract."""
    from agent.source.errors import SourceDenied, SourceError, SourceUnreachable

    try:
        yield
    except (SourceUnreachable, SourceDenied) as error:
        warn(f"Error: {error}")
        raise click.exceptions.Exit(UNREACHABLE) from None
    except SourceError as error:
        raise click.UsageError(str(error)) from None


@contextmanager
def ask(
    *,
    from_path: str | None,
    bootstrap_server: str | None,
    agent: str | None,
    properties: Sequence[tuple[str, str]],
    group: str | None,
) -> Iterator[Answers]:
    """The answers of the one source that is given. `group`: only that one will be asked for."""
    kind = one_of(**{"from": from_path, "bootstrap_server": bootstrap_server, "agent": agent})
    if properties and kind != "bootstrap_server":
        raise click.UsageError("--property goes with --bootstrap-server")
    with reaching():
        if from_path is not None:
            yield _offline(from_path)
        elif bootstrap_server is not None:
            yield _live(client_properties(bootstrap_server, properties), group)
        else:
            assert agent is not None, "one of the three is given"
            yield AgentAnswers(agent)


def _offline(path: str) -> Answers:
    from agent.offline import load

    return load([path], on_problem=warn, keep_events=False)


def _live(conf: dict[str, str], group: str | None) -> Answers:
    from agent.coordinator.hashing import partition_of
    from agent.offline import load_topic
    from agent.source.brokers import coordinators

    partitions = None
    if group is not None:
        count, _ = coordinators(conf)
        partitions = [partition_of(group, count)]
    return load_topic(conf, partitions)


class AgentAnswers:
    """Asks a running agent over HTTP."""

    def __init__(self, url: str) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise click.UsageError(f"--agent: a URL such as http://localhost:9308 expected, {url!r} came")
        self.url = url.rstrip("/")
        self.where = f"at {self.url}"

    def groups(self) -> list[Form]:
        """`GET /api/v1/groups`."""
        rows: list[Form] = self._get("/api/v1/groups")
        return rows

    def describe(self, group: str) -> Form | None:
        """`GET /api/v1/groups/{group}`."""
        form: Form | None = self._get(f"/api/v1/groups/{quote(group, safe='')}", missing=404)
        return form

    def report(self, say: Callable[[str], None]) -> bool:
        """The agent reports bad data as metrics and in its log, not to whoever asks."""
        return False

    def _get(self, path: str, missing: int | None = None) -> Any:
        url = self.url + path
        try:
            with urlopen(url, timeout=AGENT_TIMEOUT_S) as response:  # the scheme was checked above
                return json.load(response)
        except HTTPError as error:
            if error.code == missing:
                return None
            body = error.read(2000).decode(errors="replace").strip()
            self._fail(f"the agent at {self.url} answered {error.code} {error.reason}: {body}")
        except (URLError, OSError) as error:
            self._fail(f"no agent answers at {self.url}: {getattr(error, 'reason', error)}")
        except ValueError as error:
            self._fail(f"{url} is no agent's API: JSON expected: {error}")

    def _fail(self, text: str) -> Any:
        warn(f"Error: {text}")
        raise click.exceptions.Exit(UNREACHABLE)
