"""Entry point: commands are imported when they are called, so that `--help` and completion stay quick."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from agent import __version__
from agent.cli.commands import LISTINGS, SECTIONS, find_command
from agent.cli.output import errors_for_terminal
from agent.cli.session import Session, session_of
from agent.common.collector import relax_collector

if TYPE_CHECKING:
    from agent.cli.session import ConfigFile

_COMPLETE = "_KSHADOW_COMPLETE"
"""The variable by which click is asked to complete a line."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of their table."""
        return list(LISTINGS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        command = find_command(cmd_name)
        if command is not None and _COMPLETE in os.environ:
            from agent.cli.completion_candidates import add_candidates

            add_candidates(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """The names of commands, without importing any, and the options."""
        from click.shell_completion import CompletionItem

        named = [CompletionItem(name, help=listing.help) for name, listing in LISTINGS.items()]
        found = [item for item in named if item.value.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Which command is called; what comes behind it decides whether a context is asked at all."""
        if args[0] == "run" and session_of(ctx).is_process:
            _heed_signals(has_file=ctx.params["config"] is not None)
        if args[0][:1] != "-" and not ctx.resilient_parsing and find_command(args[0]) is None:
            from difflib import get_close_matches

            near = get_close_matches(args[0], LISTINGS, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else "kshadow --help lists those there are."
            ctx.fail(f"No such command {args[0]!r}. {hint}")
        name, command, rest = super().resolve_command(ctx, args)
        session_of(ctx).arguments = [*rest]  # parsing empties the other
        return name, command, rest

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse; `--help` and `--version` print here."""
        with errors_for_terminal():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with errors_for_terminal():
            try:
                return super().invoke(ctx)
            except click.NoSuchOption as error:
                name = error.option_name
                if all(name not in it.opts for it in self.params):
                    raise
                said = f"{name} goes before the command: kshadow {name} … {ctx.invoked_subcommand}"
                raise click.UsageError(said, error.ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by what they are good for, without importing any."""
        width = max(map(len, LISTINGS))
        for section in SECTIONS:
            within = sorted((it.place, name, it.help) for name, it in LISTINGS.items() if it.section == section)
            with formatter.section(section):
                formatter.write_dl([(name.ljust(width), text) for _, name, text in within])


def _complete_context(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    from agent.cli.completion_candidates import ContextName

    return ContextName().shell_complete(ctx, parameter, incomplete)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    envvar="KSHADOW_CONFIG",
    show_envvar=True,
    help="YAML file of options. The command line wins over the environment, that over the file, that over a context.",
)
@click.option(
    "--context",
    metavar="NAME",
    shell_complete=_complete_context,
    envvar="KSHADOW_CONTEXT",
    show_envvar=True,
    help="The context that says which cluster is asked, where nothing else does; kshadow context has them.",
)
@click.version_option(__version__, prog_name="kshadow")
@click.pass_context
def cli(ctx: click.Context, config: Path | None, context: str | None) -> None:
    """Why Kafka consumer groups rebalance: a shadow of the group coordinator, read from __consumer_offsets."""
    from agent.cli.context_defaults import context_defaults, remember_name, run_values

    loaded = None if config is None else _load_config(config, ctx)
    remember_name(ctx, context, None if loaded is None else loaded.context)
    session_of(ctx).read_context = partial(run_values, ctx)
    name = ctx.invoked_subcommand
    command = None if name is None else cli.get_command(ctx, name)
    # The clusters of a file are what the agent reads, whoever has chosen what for themselves.
    has_clusters = loaded is not None and bool(loaded.run.clusters) and name in ("run", "doctor")
    if name is not None and command is not None and not has_clusters:
        said = {} if loaded is None else loaded.defaults.get(name, {})
        if values := context_defaults(ctx, name, command, said):
            ctx.default_map = {**(ctx.default_map or {}), name: {**values, **said}}


def _load_config(config: Path, ctx: click.Context) -> ConfigFile:
    from agent.cli.config_file import load_config_file, read_config_file

    # `kshadow config` tells of the file itself what is wrong with it.
    loaded = (read_config_file if ctx.invoked_subcommand == "config" else load_config_file)(config, cli, ctx)
    session_of(ctx).config_file = loaded
    ctx.default_map = loaded.defaults
    return loaded


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line. Exit codes: 0 done, 1 something wrong with the data, 2 usage, 3 unreachable or denied."""
    relax_collector()
    _replace_closed_streams()
    if _COMPLETE in os.environ:
        _complete()
    codes: list[Any] = []
    atexit.register(_end_process, codes)
    try:
        return cli(arguments, prog_name="kshadow", obj=Session(is_process=True))
    except SystemExit as end:
        codes.append(end.code)
        raise


def _heed_signals(*, has_file: bool) -> None:
    """What signals do while the agent is imported, which takes a second: after that they are `agent.runtime`'s.

    A container's first process would not end by SIGTERM at all. SIGHUP waits for whoever reads the file again."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end_early)
    if has_file:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})


def _end_early(number: int, frame: FrameType | None) -> NoReturn:
    with suppress(OSError):
        os.write(2, b"kshadow: stopping: SIGTERM, before anything was read\n")
    os._exit(128 + number)


def _replace_closed_streams() -> None:
    """Where standard output was closed (`>&-`), writing to it fails as on a full disk: nothing is lost unsaid. Where
    standard input was (`<&-`), reading it fails: it is no empty one."""
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_WRONLY))  # noqa: SIM115  # as the others
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # for as long as the process lives
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w")  # noqa: SIM115


def _end_process(codes: list[Any]) -> None:
    """End with this code and without the C library's exit handlers, where Kafka's client was loaded.

    OpenSSL's handler frees what threads of a client that is still open go on using: of 150 processes that ended as
    they were denied a right over TLS, 5 crashed.
    """
    if "confluent_kafka" not in sys.modules or not (codes and isinstance(codes[0], int)):
        return
    if "logging" in sys.modules:
        sys.modules["logging"].shutdown()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(codes[0])


def _complete() -> None:
    """A shell asks what could come next. On a line that is being typed nothing else is said."""
    from agent.cli.shells import register

    register()
    sys.stderr.flush()
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)


if __name__ == "__main__":
    sys.exit(main())
