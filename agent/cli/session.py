"""What one call of the program knows: the object of click's contexts, shared by the command and all that it calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource
from msgspec import Struct, field

if TYPE_CHECKING:
    from agent.config.resolving import FileOptions
    from agent.config.value_source import GivenValues


class RequestedContext(NamedTuple):
    """The name of a `kshadow context` that is asked for, and where."""

    name: str
    source: ParameterSource


class ConfigFile(Struct):
    """What a file says. `defaults` is click's default map; `run` is what it says to the agent, typed; `context` is
    the one that it names; `read_again` reads it anew."""

    path: Path
    run: FileOptions
    defaults: dict[str, Any] = field(default_factory=dict)
    context: str | None = None
    problems: list[str] = field(default_factory=list)
    read_again: Callable[[], ConfigFile] | None = None


class Session(Struct):
    """`config_file`: what `--config` said. `arguments`: those behind the command's name. `read_context`: what the
    context in use gives to `kshadow run`, to be looked up. `wide`: tables show every column. `is_process`: it has a
    process of its own, with its signals."""

    config_file: ConfigFile | None = None
    requested_context: RequestedContext | None = None
    arguments: list[str] = field(default_factory=list)
    read_context: Callable[[], GivenValues] = dict
    wide: bool = False
    is_process: bool = False
    has_warned_of_command_config: bool = False


def session_of(ctx: click.Context) -> Session:
    """The session that a context belongs to; it begins with the first question."""
    return ctx.find_root().ensure_object(Session)
