"""The command that comes after the one that was called, with the same options, to be copied."""

from __future__ import annotations

import shlex
from collections.abc import Collection

import click
from click.core import ParameterSource

from agent.cli.options import long_name
from agent.cli.program import program_name
from agent.cli.session import session_of
from agent.config.secrets import holds_secret, redact

_ELLIPSIS = "…"


def next_command(ctx: click.Context, name: str, *, without: Collection[str] = ()) -> str:
    """`kshadow NAME` with what was typed for the command of `ctx`, but for the parameters `without`.

    Secrets are left out, `…` in their place. What stands in the environment, a file or a context is there for the
    next one, too.
    """
    words = [*_global_words(ctx), name]
    raw, _, order = ctx.command.make_parser(ctx).parse_args(list(session_of(ctx).arguments))
    for param in dict.fromkeys(order):
        if param.name in without or not isinstance(param, click.Option) or param.name is None:
            continue
        value = raw[param.name]
        if param.is_flag:
            words.append(param.opts[0] if value else param.secondary_opts[0])
        else:
            for it in value if param.multiple else [value]:
                words += [f"--{long_name(param)}", _shown(str(it))]
    return f"{program_name()} {shlex.join(words)}"


def _global_words(ctx: click.Context) -> list[str]:
    parent = ctx.find_root()
    typed = {
        it: parent.params[it]
        for it in ("config", "context")
        if parent.get_parameter_source(it) is ParameterSource.COMMANDLINE
    }
    return [word for name, value in typed.items() for word in (f"--{name}", str(value))]


def _shown(value: str) -> str:
    name, is_pair, _ = value.partition("=")
    return f"{name}={_ELLIPSIS}" if is_pair and holds_secret(name) else redact(value)
