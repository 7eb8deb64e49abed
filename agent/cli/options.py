"""Options that several commands share. Each has an environment variable: `KSHADOW_` and its long name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from agent.cli.command_config import CommandConfigFile

if TYPE_CHECKING:
    from agent.config.commandconfig import CommandConfig
    from agent.diagnosis.cluster import Chosen

FORMATS = ("table", "wide", "json", "ndjson", "yaml")
"""`wide` is a table with all columns, however narrow the terminal is."""
WIDE = "kshadow.wide"
"""Key of a context's `meta`: every column is to be shown."""

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def option(*declarations: str, **attributes: Any) -> Decorator:
    """`click.option` with the environment variable of its long name, shown in the help."""
    long = next(item for item in declarations if item.startswith("--"))
    attributes.setdefault("envvar", "KSHADOW_" + long.split("/")[0].removeprefix("--").replace("-", "_").upper())
    attributes.setdefault("show_envvar", True)
    return click.option(*declarations, **attributes)


def output_option(default: str = "table") -> Decorator:
    """`-o/--output`."""
    return option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        default=default,
        show_default=True,
        callback=_narrowed,
        help="How to print it; wide is a table with every column.",
    )


def _narrowed(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """To commands `wide` is a table; how wide is for whoever prints it."""
    if value != "wide":
        return value
    ctx.meta[WIDE] = True
    return "table"


class Pair(click.ParamType[tuple[str, str]]):
    """A name and its value, split at the first `=`; whether there is such a name is seen where it is used."""

    def __init__(self, what: str, form: str) -> None:
        """`form` says what it looks like, in the help and in errors; the name has a dot where it does so there."""
        self.what, self.name = what, form

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The two; from the settings' file they come as such."""
        if isinstance(value, tuple) and value[0]:
            return value
        name, equals, text = str(value).partition("=")
        if not equals or not name or ("." in self.name and "." not in name):
            # Of a property it may be half of a password, parted at a blank.
            came = f"{value!r} came" if "." in self.name else "something else came (not shown: it may be a secret)"
            self.fail(f"a {self.what} is {self.name}, {came}", param, ctx)
        return name, text


class Property(Pair):
    """A librdkafka property. A value that is exactly `${NAME}` stands in the environment, as it may in the file."""

    def __init__(self) -> None:
        super().__init__("property", "NAME=VALUE")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The two; what comes from the file as such was looked up there."""
        name, text = super().convert(value, param, ctx)
        if isinstance(value, tuple):
            return value
        from agent.config.references import variable

        try:
            found = variable(text, os.environ)
        except ValueError as error:
            self.fail(f"{name}: {error}", param, ctx)
        return name, text if found is None else found


bootstrap_option = option(
    "--bootstrap-server", metavar="HOST:PORT[,…]", help="Kafka brokers to start from: reads the live topic."
)

property_option = option(
    "-X",
    "--property",
    "properties",
    type=Property(),
    multiple=True,
    envvar="KSHADOW_PROPERTY",
    help="A librdkafka property, such as security.protocol=SASL_SSL; a value that is exactly ${NAME} stands in the "
    "environment. Repeatable; blanks part those in the variable.",
)


command_config_option = option(
    "--command-config",
    type=CommandConfigFile(),
    metavar="FILE",
    help="Client properties as Kafka's own tools take them, such as security.protocol and sasl.jaas.config; -X wins "
    "over them.",
)


def analyzer_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--analyzers` and `--tune`: what looks for findings, and how."""
    for decorate in (
        option(
            "--tune",
            "tuned",
            type=Pair("setting", "ANALYZER.SETTING=VALUE"),
            multiple=True,
            help="A setting of an analyzer, such as session_timeout.window_s=3600; kshadow analyzers lists them. "
            "Repeatable; blanks part those in the variable.",
        ),
        option(
            "--analyzers",
            "analyzer_names",
            default="all",
            show_default=True,
            metavar="NAME,…",
            help="Which analyzers to run: all, none, or their names.",
        ),
    ):
        command = decorate(command)
    return command


def chosen_analyzers(names: str, tuned: Sequence[tuple[str, str]]) -> Chosen:
    """The analyzers that the options ask for; a usage error says what does not exist."""
    from agent.diagnosis.registry import Misconfigured, choose, named

    try:
        return choose(named(names), dict(tuned))
    except Misconfigured as error:
        raise click.UsageError(str(error)) from error


def broker_log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--broker-log` and `--broker-log-timezone`: what brokers' own logs add to the topic."""
    for decorate in reversed(
        (
            option(
                "--broker-log",
                "broker_logs",
                metavar="PATH",
                type=click.Path(),
                multiple=True,
                help="A broker's server.log, or the directory it is in: its coordinator's lines become evidence with "
                "confidence 1. Repeatable, one a broker; colons part those in the variable.",
            ),
            option(
                "--broker-log-timezone",
                metavar="ZONE",
                default="UTC",
                show_default=True,
                help="The zone of times in broker logs that name none: UTC, local, +02:00, or Europe/Berlin.",
            ),
        )
    ):
        command = decorate(command)
    return command


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Exactly one of `--from`, `--bootstrap-server`, `--agent`: where to look."""
    for decorate in reversed(
        (
            option(
                "--from",
                "from_path",
                type=click.Path(allow_dash=True),
                help="A .log segment, a directory __consumer_offsets-N, one that holds such (a broker's log "
                "directory), an .ndjson file, or - for NDJSON on standard input.",
            ),
            bootstrap_option,
            option("--agent", metavar="URL", help="A running agent, such as http://localhost:9308."),
            option("--agent-user", metavar="NAME", help="Who asks it; the password is in KSHADOW_AGENT_PASSWORD."),
            option("--agent-password-file", metavar="FILE", type=click.Path(), help="Or in this file."),
            option("--agent-ca", metavar="FILE", type=click.Path(), help="Certificates to trust, not the system's."),
            option("--agent-cert", metavar="FILE", type=click.Path(), help="A certificate of who asks, and its key."),
            option("--agent-key", metavar="FILE", type=click.Path(), help="That key, where it is in another file."),
            command_config_option,
            property_option,
        )
    ):
        command = decorate(command)
    return command


def one_of(ctx: click.Context, *names: str) -> str:
    """The one parameter of `names` that is given; a usage error names them all otherwise.

    The command line wins over the environment and that over the file: `--from` where KSHADOW_BOOTSTRAP_SERVER is
    set is one source, not two.
    """
    found = strongest(ctx, *names)
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


def strongest(ctx: click.Context, *names: str) -> list[str]:
    """Those of the parameters that are given where most weight is: command line, environment, file."""
    for source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT, ParameterSource.DEFAULT_MAP):
        found = [name for name in names if ctx.get_parameter_source(name) is source and ctx.params[name] is not None]
        if found:
            return found
    return []


def client_properties(bootstrap_server: str, properties: Sequence[tuple[str, str]]) -> dict[str, str]:
    """librdkafka's configuration from the options: these, over the `--command-config` of the command that runs.

    A usage error says what librdkafka cannot do of it.
    """
    from agent.cli.output import warn

    ctx = click.get_current_context(silent=True)
    file: CommandConfig | None = None if ctx is None else ctx.params.get("command_config")
    given = dict(properties)
    if ctx is None or file is None:
        return {"bootstrap.servers": bootstrap_server, **given}
    if problems := file.unmended(given):
        raise click.UsageError("\n".join(problems))
    if file.warnings and not ctx.meta.get(_WARNED):
        ctx.meta[_WARNED] = True
        for text in file.warnings:
            warn(f"Warning: {text}")
    return {**file.beside(given), "bootstrap.servers": bootstrap_server, **given}


_WARNED = "kshadow.command_config.warned"
