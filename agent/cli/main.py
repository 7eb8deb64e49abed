"""Entry point: the command table, loaded a command at a time so that `--help` and completion stay quick."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent import __version__
from agent.cli.output import guarded

if TYPE_CHECKING:
    from agent.cli.settings import Loaded

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("agent.cli.run:run", "Run the agent: follow the topic and serve metrics and the API."),
    "demo": ("agent.cli.demo:demo", "Watch the agent diagnose a real embedded broker under real faults."),
    "decode": ("agent.cli.decode:decode", "Print every record of the topic, decoded."),
    "replay": ("agent.cli.replay:replay", "Print the history that the log tells, as events."),
    "groups": ("agent.cli.groups:groups", "List the groups."),
    "describe": ("agent.cli.groups:describe", "Show one group: state, members, assignment, offsets."),
    "members": ("agent.cli.groups:members", "List the members of one group."),
    "lag": ("agent.cli.lag:lag", "Show how far behind one group is, by partition."),
    "timeline": ("agent.cli.timeline:timeline", "Tell what happened to one group, in order."),
    "explain": ("agent.cli.explain:explain", "Explain one group: what happened, why, and what to change."),
    "whatif": ("agent.cli.whatif:whatif", "Replay one group's history under other settings."),
    "findings": ("agent.cli.findings:findings", "List what the analyzers hold open, or found in a range."),
    "watch": ("agent.cli.watch:watch", "Watch the groups live, full screen."),
    "analyzers": (
        "agent.cli.analyzers:analyzers",
        "List the analyzers: when each fires, its false alarms, its settings.",
    ),
    "report": (
        "agent.cli.report:report",
        "Write one HTML page about a time range, to keep or to send.",
    ),
    "doctor": (
        "agent.cli.doctor:doctor",
        "Check connection, permissions, topic and clock: what works, and how to fix what does not.",
    ),
    "assign": ("agent.cli.assign:assign", "Show what each assignor would give."),
    "generate": ("agent.cli.generate:generate", "Write synthetic histories of groups as real records."),
    "schema": ("agent.cli.schema:schema", "List the JSON Schemas of events and answers, or print one."),
    "spark": ("agent.cli.spark:spark", "Run a Spark job over months of history."),
    "sidecar": ("agent.cli.sidecar:sidecar", "Make the container for a pod, or patch a manifest with it."),
    "config": ("agent.cli.config:config", "Show the settings in force, or check a file of them."),
    "context": ("agent.cli.context:context", "Name clusters, and choose one."),
    "completion": (
        "agent.cli.completion:completion",
        "Print the script that completes commands and groups in a shell.",
    ),
    "coordinator": ("agent.cli.coordinator:coordinator", "Show the partition and broker that own a group."),
}
"""Each command: where it is and its one line of help (the same as its docstring's first line; a test checks)."""

SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": ("demo", "doctor", "run"),
    "See what is going on": ("groups", "describe", "members", "lag", "findings", "watch"),
    "Find out why, and what to change": ("explain", "timeline", "report", "whatif", "assign", "analyzers"),
    "Records and history": ("decode", "replay", "coordinator", "generate", "spark", "schema"),
    "Set up": ("config", "context", "completion", "sidecar"),
}
"""The same for people who look for one: what each is good for. Each is in one section; a test checks."""

_COMPLETE = "_KSHADOW_COMPLETE"
"""The variable by which click is asked to complete a line."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(import_module(module), attribute)
        if _COMPLETE in os.environ:
            from agent.cli.completing import complete_names

            complete_names(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """The table's names, without importing anything, and the options."""
        from click.shell_completion import CompletionItem

        named = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items()]
        found = [item for item in named if item.value.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Which command is called; what comes behind it decides whether a context is asked at all."""
        from agent.cli.in_context import remember_rest

        if args[0] not in COMMANDS and args[0][:1] != "-" and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else "kshadow --help lists those there are."
            ctx.fail(f"No such command {args[0]!r}. {hint}")
        name, command, rest = super().resolve_command(ctx, args)
        remember_rest(ctx, rest)
        return name, command, rest

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse; `--help` and `--version` print here."""
        with guarded():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with guarded():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table itself, without importing anything."""
        width = max(map(len, COMMANDS))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), COMMANDS[name][1]) for name in names])


def _contexts(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    from agent.cli.completing import ContextName

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
    shell_complete=_contexts,
    envvar="KSHADOW_CONTEXT",
    show_envvar=True,
    help="The context that says which cluster is asked, where nothing else does; kshadow context has them.",
)
@click.version_option(__version__, prog_name="kshadow")
@click.pass_context
def cli(ctx: click.Context, config: Path | None, context: str | None) -> None:
    """Why Kafka consumer groups rebalance: a shadow of the group coordinator, read from __consumer_offsets."""
    from agent.cli.in_context import context_defaults, remember_name

    loaded = None if config is None else _take(config, ctx)
    remember_name(ctx, context, None if loaded is None else loaded.context)
    name = ctx.invoked_subcommand
    command = None if name is None else cli.get_command(ctx, name)
    # The clusters of a file are what the agent reads, whoever has chosen what for themselves.
    has_clusters = loaded is not None and bool(loaded.run.clusters) and name in ("run", "doctor")
    if name is not None and command is not None and not has_clusters:
        said = {} if loaded is None else loaded.defaults.get(name, {})
        if values := context_defaults(ctx, name, command, said):
            ctx.default_map = {**(ctx.default_map or {}), name: {**values, **said}}


def _take(config: Path, ctx: click.Context) -> Loaded:
    from agent.cli.effective import remember
    from agent.cli.settings import load_settings, read_settings

    # `kshadow config` tells of the file itself what is wrong with it.
    loaded = (read_settings if ctx.invoked_subcommand == "config" else load_settings)(config, cli, ctx)
    remember(ctx, loaded)
    ctx.default_map = loaded.defaults
    return loaded


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line. Exit codes: 0 done, 1 something wrong with the data, 2 usage, 3 unreachable or denied."""
    _relax_collector()
    if _COMPLETE in os.environ:
        _complete()
    return cli(arguments, prog_name="kshadow")


def _complete() -> None:
    """A shell asks what could come next. On a line that is being typed nothing else is said."""
    from agent.cli.shells import register

    register()
    sys.stderr.flush()
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)


def _relax_collector() -> None:
    """Let Python's cycle collector look less often.

    Reading makes and drops millions of objects without a cycle among them; at Python's defaults looking for some
    took a third of the time to read 3 million records. Reference counting still frees everything at once.
    """
    gc.freeze()
    # At the end the system takes all memory back: to look for cycles in it first took half a second of it.
    atexit.register(gc.freeze)
    gc.set_threshold(500_000, 50, 100)


if __name__ == "__main__":
    sys.exit(main())
