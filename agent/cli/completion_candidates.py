"""What a shell is offered to complete: names of groups, analyzers and contexts.

Groups are asked of the source that stands on the line, or in the environment or the context in use: an agent for at
most a second, a broker's list of groups, files. Names are kept for a minute, so that the next Tab is quick. Only
names that mean themselves in every shell are offered: strangers choose them. What goes wrong is not said.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import click
from click.shell_completion import CompletionItem

from agent.cli.options import AGENT_OPTIONS, SOURCES, strongest_given
from agent.config.options import TEXT

DEADLINE_S = 1.0
"""How long a source is waited for."""
CACHE_TTL_S = 60
MAX_CANDIDATES = 1000
"""Candidates: more help nobody."""
MAX_NAME_LENGTH = 249
_SAFE_MARKS = frozenset("._@%+=:,/-")

_CACHE_KEY_OPTIONS = (*AGENT_OPTIONS, "properties", "command_config")


class _Name(click.ParamType[Any]):
    """A name, converted as its option does it; the shell is offered those there are."""

    def __init__(self, converting: click.ParamType[Any] = click.STRING) -> None:
        self._converting, self.name = converting, converting.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """What its option makes of it."""
        return self._converting.convert(value, param, ctx)


class GroupName(_Name):
    """A group's name."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """The source's groups."""
        return _items(lambda: group_names(ctx), incomplete)


class AnalyzerName(_Name):
    """An analyzer's name. `several`: with commas between them, or all, or none."""

    def __init__(self, converting: click.ParamType[Any] = click.STRING, *, several: bool = False) -> None:
        super().__init__(converting)
        self._several = several

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """The last of the list."""
        from analyzers.registry import known_analyzers

        before, comma, last = incomplete.rpartition(",") if self._several else ("", "", incomplete)
        more = ("all", "none") if self._several and not comma else ()
        return [
            CompletionItem(before + comma + name)
            for name in (*more, *sorted(known_analyzers()))
            if name.startswith(last)
        ]


class ContextName(_Name):
    """The name of a context; whether there is one is seen where it is used."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Those there are."""
        from agent.cli.contexts_file import load_contexts

        return _items(lambda: list(load_contexts().entries), incomplete)


def add_candidates(command: click.Command) -> None:
    """Give a command's parameters that are names of groups or analyzers what completes them."""
    for parameter in command.params:
        is_plain = parameter.type is TEXT or type(parameter.type) is click.types.StringParamType
        match parameter:
            case click.Argument(name="group" | "groups") if is_plain:
                parameter.type = GroupName(parameter.type)
            case click.Option() if is_plain and "--group" in parameter.opts:
                parameter.type = GroupName(parameter.type)
            case click.Option() if is_plain and "--analyzer" in parameter.opts:
                parameter.type = AnalyzerName(parameter.type)
            case click.Option() if is_plain and "--analyzers" in parameter.opts:
                parameter.type = AnalyzerName(parameter.type, several=True)


def _items(names: Callable[[], list[str]], incomplete: str) -> list[Any]:
    try:
        found = names()
    except (Exception, click.exceptions.Exit):  # noqa: BLE001  # a line that is being typed is no place for errors
        return []
    return [CompletionItem(name) for name in sorted(found) if name.startswith(incomplete) and _is_shell_safe(name)][
        :MAX_CANDIDATES
    ]


def _is_shell_safe(name: str) -> bool:
    """Whether it means itself in a shell, and shows what it is. A first `=` is zsh's, a first `%` fish's."""
    return (
        0 < len(name) <= MAX_NAME_LENGTH
        and name[0] not in "-=%"
        and all(char in _SAFE_MARKS or (char.isalnum() and char.isprintable()) for char in name)
    )


def group_names(ctx: click.Context) -> list[str]:
    """The groups of the source on the line. Raises whatever goes wrong."""
    params = _params_with_context(ctx)
    given = strongest_given(ctx, *(name for name in SOURCES if name in ctx.params))
    sources = given or [name for name in reversed(SOURCES) if params.get(name)]
    if not sources:
        return []
    kind = sources[0]
    key = json.dumps([kind, *(str(params.get(name)) for name in (kind, *_CACHE_KEY_OPTIONS))])
    path = _cache_directory() / f"{hashlib.sha256(key.encode(errors='surrogateescape')).hexdigest()[:32]}.json"
    names = _read_cache(path)
    if names is None:
        with _deadline():
            names = _fetch_group_names(kind, params)
        _write_cache(path, names)
    return names


def _params_with_context(ctx: click.Context) -> dict[str, Any]:
    """The command's parameters, and what the context in use says where the line names no source."""
    from agent.cli.context_defaults import context_defaults, remember_name
    from agent.cli.session import session_of

    params = dict(ctx.params)
    root = ctx.find_root()
    if root is ctx or ctx.info_name is None:
        return params
    remember_name(root, root.params.get("context"), None)
    if any(params.get(name) for name in SOURCES):
        return params
    session_of(root).arguments = []
    return params | context_defaults(root, ctx.info_name, ctx.command, {})


def _fetch_group_names(kind: str, params: dict[str, Any]) -> list[str]:
    match kind:
        case "agent":
            from agent.cli.agent_client import AgentClient

            answers = AgentClient(params["agent"], {name: params.get(name) for name in AGENT_OPTIONS}, DEADLINE_S)
            return [row["group"] for row in answers.groups()]
        case "bootstrap_server":
            return _group_names_of_brokers(params)
        case _:
            from agent.core.diagnosis.cluster import NO_ANALYZERS
            from agent.runtime.offline import load

            loaded = load([params["from_path"]], on_problem=lambda _: None, keep_events=False, chosen=NO_ANALYZERS)
            return [str(row["group"]) for row in loaded.groups()]


def _group_names_of_brokers(params: dict[str, Any]) -> list[str]:
    """Their own lists: the topic may take minutes to read."""
    from agent.config.options import CommandConfigFile
    from agent.kafka.client import new_admin_client

    given, file = dict(params.get("properties") or ()), params.get("command_config")
    if isinstance(file, str):
        file = CommandConfigFile().convert(file, None, None)
    conf = given if file is None else {**file.merged_with(given), **given}
    admin = new_admin_client({"log_level": "0", **conf, "bootstrap.servers": params["bootstrap_server"]})
    listed = admin.list_consumer_groups(request_timeout=DEADLINE_S).result(DEADLINE_S * 2)
    return [it.group_id for it in listed.valid]


@contextmanager
def _deadline() -> Iterator[None]:
    """Raise where what is done takes too long: a name that does not answer, a slow file."""

    def ring(_: int, __: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, DEADLINE_S * 1.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or ""
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "kshadow" / "completion"


def _read_cache(path: Path) -> list[str] | None:
    try:
        if not 0 <= time.time() - path.stat().st_mtime < CACHE_TTL_S:
            return None
        names = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def _write_cache(path: Path, names: list[str]) -> None:
    from agent.common.files import whole_or_not

    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in path.parent.glob("*"):
            if time.time() - old.stat().st_mtime > CACHE_TTL_S:
                old.unlink(missing_ok=True)
        with whole_or_not(path, 0o600) as file:
            file.write(json.dumps(names).encode())
