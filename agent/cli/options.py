"""Options that several commands share, and questions about which were given.

Each option has an environment variable: `KSHADOW_` and its long name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from agent.cli.output import warn
from agent.cli.session import session_of
from agent.config.options import (
    AGENT,
    ANALYZERS,
    BOOTSTRAP_SERVER,
    BROKER_CONFIG,
    BROKER_LOG,
    BROKER_LOG_TIMEZONE,
    COMMAND_CONFIG,
    GROUP_PARTITIONER,
    PLACE,
    PROPERTY,
    TEXT,
    TIME,
    TUNE,
    WORKERS,
    FloatRange,
    OptionSpec,
    Place,
)

if TYPE_CHECKING:
    from agent.common.timespec import TimeSpec
    from agent.config.command_config import CommandConfig
    from agent.core.diagnosis.cluster import AnalyzerSelection

FORMATS = ("table", "wide", "json", "ndjson", "yaml")
"""`wide` is a table with all columns, however narrow the terminal is."""
SOURCES = ("from_path", "bootstrap_server", "agent")
"""What says which source is asked: one of these."""
AGENT_OPTIONS = ("agent_ca", "agent_user", "agent_password_file", "agent_cert", "agent_key")
"""How an agent is reached."""

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def option(*declarations: str, **attributes: Any) -> Decorator:
    """`click.option` with the environment variable of its long name, shown in the help. A text is not empty."""
    long = next(item for item in declarations if item.startswith("--"))
    is_switch = attributes.get("is_flag") or "/" in long
    if attributes.get("type") is None and not is_switch and isinstance(attributes.get("default"), str | None):
        attributes["type"] = TEXT
    attributes.setdefault("envvar", "KSHADOW_" + long.split("/")[0].removeprefix("--").replace("-", "_").upper())
    attributes.setdefault("show_envvar", True)
    attributes.setdefault("show_default", attributes.get("default") is not None)
    return click.option(*declarations, **attributes)


def output_option(default: str = "table") -> Decorator:
    """`-o/--output`."""
    return option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        default=default,
        callback=note_wide,
        help="How to print it; wide is a table with every column.",
    )


def note_wide(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """To commands `wide` is a table; how wide is for whoever prints it."""
    if value != "wide":
        return value
    session_of(ctx).wide = True
    return "table"


def option_of(spec: OptionSpec) -> Decorator:
    """The click option of a specification."""
    return option(
        *spec.flags,
        *([] if spec.parameter is None else [spec.parameter]),
        type=spec.type,
        default=spec.default,
        metavar=spec.metavar,
        multiple=spec.multiple,
        help=spec.help,
    )


def combined(*decorators: Decorator) -> Decorator:
    """One decorator for several options, in the order of the help."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for one in reversed(decorators):
            command = one(command)
        return command

    return decorate


def long_name(parameter: click.Parameter) -> str:
    """An option's name as files have it: that of its long flag, without dashes; empty for an argument."""
    return next((flag[2:] for flag in parameter.opts if flag.startswith("--")), "")


bootstrap_option = option_of(BOOTSTRAP_SERVER)
property_option = option_of(PROPERTY)
command_config_option = option_of(COMMAND_CONFIG)
partitioner_option = option_of(GROUP_PARTITIONER)
broker_options = combined(bootstrap_option, command_config_option, property_option)
"""Which brokers are asked, and how they are reached."""
analyzer_options = combined(option_of(ANALYZERS), option_of(TUNE))
"""`--analyzers` and `--tune`: what looks for findings, and how."""
workers_option = option_of(WORKERS)
broker_config_option = option_of(BROKER_CONFIG)
broker_log_options = combined(option_of(BROKER_LOG), option_of(BROKER_LOG_TIMEZONE))
"""`--broker-log` and `--broker-log-timezone`: what brokers' own logs add to the topic."""


SOURCE_PATH = Place(allow_dash=True, readable=False)
"""What is read of it, and that it may be: whoever reads says so (exit code 3), click would call it wrong usage."""
place_options = combined(
    option(
        "--from",
        "from_path",
        type=SOURCE_PATH,
        help="A .log segment, a directory __consumer_offsets-N, one that holds such (a broker's log "
        "directory), an .ndjson file, or - for NDJSON on standard input; for events also history tables "
        "(Parquet, Delta).",
    ),
    bootstrap_option,
    option("--agent", type=AGENT, help="A running agent, such as http://localhost:9308."),
    option(
        "--agent-user", metavar="NAME", help="User name for the agent; the password is in KSHADOW_AGENT_PASSWORD."
    ),
    option("--agent-password-file", metavar="FILE", type=PLACE, help="File with that password."),
    option("--agent-ca", metavar="FILE", type=PLACE, help="CA certificates to trust for the agent [the system's]."),
    option("--agent-cert", metavar="FILE", type=PLACE, help="Client certificate for the agent, with its key."),
    option("--agent-key", metavar="FILE", type=PLACE, help="The key, if it is in another file."),
    command_config_option,
    property_option,
    partitioner_option,
)
"""Exactly one of `--from`, `--bootstrap-server`, `--agent`: where to look. A context keeps these."""
source_options = combined(place_options, workers_option)
"""The same, and how it is read."""
range_options = combined(
    option(
        "--since",
        type=TIME,
        help="Only from this time on: 15m, 2h, 3d before now (with --from: before the newest record), "
        "2026-11-21T10:02 (UTC unless told), or epoch milliseconds.",
    ),
    option("--until", type=TIME, help="Only up to this time, written as for --since."),
)
"""`--since` and `--until`, both included."""
history_options = combined(source_options, range_options, analyzer_options, broker_config_option)
"""Of commands that tell what happened."""
follow_options = combined(
    option(
        "--follow",
        "follows",
        is_flag=True,
        help="Go on, and print what is new as it comes: a line each, or -o ndjson. With --agent, or with "
        "--bootstrap-server, which then runs an agent in this process. Ctrl-C ends it.",
    ),
    option(
        "--interval",
        type=FloatRange(0.1, 3600),
        default=2,
        metavar="SECONDS",
        help="How often --follow asks.",
    ),
)
"""`--follow` and `--interval`, of commands that can go on."""


def resolve_range(since: TimeSpec | None, until: TimeSpec | None, now_ms: int) -> tuple[int | None, int | None]:
    """Both as epoch milliseconds; a usage error for a range that ends before it begins."""
    from agent.common.timespec import check_range

    since_ms = None if since is None else since.before(now_ms)
    until_ms = None if until is None else until.before(now_ms)
    try:
        check_range(since_ms, until_ms)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return since_ms, until_ms


def choose_analyzers(
    names: str, tuned: Sequence[tuple[str, str]], places: tuple[str, str] = ("--analyzers", "--tune")
) -> AnalyzerSelection:
    """The analyzers that the options ask for; a usage error says what does not exist, and at which of the places."""
    from analyzers.registry import AnalyzerConfigError, parse_analyzer_names, select_analyzers

    place, of_tuned = places
    try:
        chosen = parse_analyzer_names(names)
        select_analyzers(chosen)
        place = of_tuned
        return select_analyzers(chosen, dict(tuned))
    except AnalyzerConfigError as error:
        raise click.UsageError(f"{place}: {error}") from error


def exactly_one_of(ctx: click.Context, *names: str) -> str:
    """The one parameter of `names` that is given; a usage error names them all otherwise.

    The command line wins over the environment and that over the file: `--from` where KSHADOW_BOOTSTRAP_SERVER is
    set is one source, not two.
    """
    found = strongest_given(ctx, *names)
    if len(found) == 1:
        return found[0]
    flags = {parameter.name: parameter.opts[0] for parameter in ctx.command.params if parameter.name in names}
    came = " and ".join(flags[name] for name in found) + " were" if found else "none was"
    text = f"exactly one of {', '.join(flags[name] for name in names)} is needed; {came} given"
    if not found and "agent" in names:
        text += (
            "\n  --agent http://HOST:9308 asks a running agent, --bootstrap-server HOST:9092 reads the topic from a "
            "broker,\n  --from PATH reads segment files; kshadow context set NAME --agent … keeps one of them for "
            "all commands"
        )
    raise click.UsageError(text)


def typed(ctx: click.Context, *names: str) -> list[str]:
    """Those of the parameters that stand on the command line."""
    return [name for name in names if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]


def strongest_given(ctx: click.Context, *names: str) -> list[str]:
    """Those of the parameters that are given where most weight is: command line, environment, file."""
    for source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT, ParameterSource.DEFAULT_MAP):
        found = [name for name in names if ctx.get_parameter_source(name) is source and ctx.params[name] is not None]
        if found:
            return found
    return []


def librdkafka_config(bootstrap_server: str, properties: Sequence[tuple[str, str]]) -> dict[str, str]:
    """librdkafka's configuration from the options: these, over the `--command-config` of the command that runs.

    A usage error says what librdkafka cannot do of it.
    """
    ctx = click.get_current_context(silent=True)
    file: CommandConfig | None = None if ctx is None else ctx.params.get("command_config")
    given = dict(properties)
    if ctx is None or file is None:
        return {"bootstrap.servers": bootstrap_server, **given}
    if problems := file.unsolved_problems(given):
        raise click.UsageError("\n".join(problems))
    if file.warnings and not session_of(ctx).has_warned_of_command_config:
        session_of(ctx).has_warned_of_command_config = True
        for text in file.warnings:
            warn(f"Warning: {text}")
    return {**file.merged_with(given), "bootstrap.servers": bootstrap_server, **given}
