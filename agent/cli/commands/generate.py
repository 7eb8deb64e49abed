"""`kshadow generate`: synthetic histories of groups as real records of the topic."""

from __future__ import annotations

import errno
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource
from msgspec.structs import replace

from agent.cli.options import (
    Decorator,
    combined,
    command_config_option,
    exactly_one_of,
    librdkafka_config,
    option,
    partitioner_option,
    property_option,
    typed,
)
from agent.cli.output import UnwritableOutput, echo, printable, warn
from agent.cli.text import iso_time
from agent.common import clock
from agent.common.timespec import TimeSpec
from agent.config.options import BROKERS, DURATION, TIME, Parsed, Place
from agent.core.protocol.hashing import GroupPartitioner
from agent.simulation.generator.scenario_kinds import SCENARIO_KINDS
from agent.simulation.generator.settings import ASSIGNOR_WEIGHTS, GeneratorSettings, IntegerRange
from analyzers.formatting import count_text

if TYPE_CHECKING:
    from agent.core.records import RawRecord
    from agent.kafka.writer import Written
    from agent.simulation.generator.group_history import GroupTruth

MOST, MOST_OF_A_GROUP = 1_000_000, 100_000
"""Groups and topics, and what each of them may have: ten times what clusters have. More take all memory."""
_STDOUT = "-"
_PROGRESS_S = 0.2
WRONG_PATH = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG)
"""What another name of a file mends; a full disk is none."""
_LOADED = """\
Readers of the topic see them at once. A broker does not: it reads the topic when it becomes the leader of a
partition. Restart it, or move the leadership, and it has these groups; as nobody heartbeats for them, their members
are removed when their session timeout is over (--session-timeout)."""


def parse_range(text: str) -> IntegerRange:
    """A whole number, or two with a dash between, the lower one first; from 1 on."""
    least, _, most = text.partition("-")
    with suppress(ValueError):
        bounds = IntegerRange(int(least), int(most or least))
        if 1 <= bounds.least <= bounds.most <= MOST_OF_A_GROUP:
            return bounds
    raise ValueError(
        f"expected a number from 1 to {MOST_OF_A_GROUP}, or two, the lower one first (5, 1-30), got {text[:100]!r}"
    )


def parse_weight(text: str) -> tuple[str, float]:
    """A name with its weight, which is 1 if there is none; whether there is such a name is seen when it is used."""
    name, _, weight = text.partition("=")
    try:
        return name, float(weight or 1)
    except ValueError:
        raise ValueError(f"expected a name with its weight (crash=3), got {text[:100]!r}") from None


RANGE, WEIGHT = Parsed("N|N-M", parse_range), Parsed("NAME[=WEIGHT]", parse_weight)


class Target(NamedTuple):
    """Where the records go: how many partitions the topic has there, and what writes them."""

    name: str
    partitions: int
    partitioner: GroupPartitioner
    write: Callable[[Iterator[RawRecord]], Written]


def _weights(weights: Mapping[str, float]) -> str:
    return " ".join(f"{name}={weight:g}" for name, weight in weights.items())


_COUNT, _DEFAULTS = click.IntRange(1, MOST), GeneratorSettings(0)
_settings_options: Decorator = combined(
    option("--groups", type=_COUNT, default=_DEFAULTS.groups, help="How many groups."),
    option(
        "--members",
        type=RANGE,
        default="{}-{}".format(*_DEFAULTS.members),
        help="Members a group; most have few, and none more than partitions unless its fate says so.",
    ),
    option("--topics", type=_COUNT, default=_DEFAULTS.topics, help="Topics that groups share."),
    option(
        "--partitions",
        type=RANGE,
        default="{}-{}".format(*_DEFAULTS.partitions),
        help="Partitions of such a topic.",
    ),
    option("--duration", "duration_ms", type=DURATION, default="1h", help="How long the history is."),
    option(
        "--commit-interval",
        "commit_interval_ms",
        type=DURATION,
        default="5s",
        help="How often a member commits; some groups have an interval of their own.",
    ),
    option(
        "--records",
        type=click.IntRange(min=1),
        help="About so many records: the commit interval follows, or, where that is given, the duration.",
    ),
    option(
        "--session-timeout",
        "session_timeout_ms",
        type=DURATION,
        help="session.timeout.ms of all members [45s, for some 30s or 10s].",
    ),
    option("--mix", type=WEIGHT, multiple=True, help="A fate and its weight, those above. Repeatable."),
    option(
        "--assignor",
        "assignors",
        type=WEIGHT,
        multiple=True,
        help=f"A partition.assignment.strategy and its weight. Repeatable. [{_weights(ASSIGNOR_WEIGHTS)}]",
    ),
    option("--seed", type=int, default=0, help="Another seed, another history."),
    option("--start", type=TIME, help="When it begins [so that it ends now]."),
    option("--offsets-partitions", type=_COUNT, help="Partitions of the topic, where no broker is asked [50]."),
    partitioner_option,
)
"""What the history is like: the fields of `GeneratorSettings`."""

_TOTAL_WEIGHT = f"{sum(kind.weight for kind in SCENARIO_KINDS.values()):g}"
_FATES = "\n".join(f"  {name:16} {kind.weight:3g}  {kind.summary}" for name, kind in SCENARIO_KINDS.items())

HELP = f"""Write synthetic histories of groups as real records.

The model of the protocol plays each group's clients, and what a broker would have written of them is written: to
segment files, to NDJSON, or into the topic of a broker. The same options, --start among them, give the same bytes.
What becomes of a group is its fate; by default so many of {_TOTAL_WEIGHT} groups
have this one:

\b
{_FATES}

\b
Examples:
  kshadow generate --out /tmp/history
  kshadow generate --groups 20 --records 5000 --out - | kshadow replay -
  kshadow generate --mix crash=3 --mix storm --truth /tmp/truth.ndjson --out /tmp/crashes.ndjson.gz
  kshadow generate --session-timeout 20m --bootstrap-server localhost:9092
"""


@click.command(help=HELP)
@_settings_options
@option(
    "--out",
    type=Place(allow_dash=True, readable=False),
    metavar="DIR|FILE.ndjson[.gz]|-",
    help="Where to: a directory of segment files, an NDJSON file, or standard output.",
)
@option("--bootstrap-server", type=BROKERS, help="Kafka brokers to start from: writes into __consumer_offsets.")
@command_config_option
@property_option
@option("--create-topic", is_flag=True, help="Let the broker make the topic if it is not there.")
@option(
    "--truth",
    type=Place(path_type=Path, dir_okay=False),
    help="Also write what really happened to each group, as NDJSON.",
)
@option("--force", is_flag=True, help="Replace what is there.")
@click.pass_context
def generate(
    ctx: click.Context,
    /,
    records: int | None,
    start: TimeSpec | None,
    truth: Path | None,
    force: bool,
    **_: Any,
) -> None:
    """See `HELP`."""
    from agent.simulation.generator.histories import generate as generated

    kind = exactly_one_of(ctx, "out", "bootstrap_server")
    with _writing():
        try:
            settings = _settings(ctx, records)
            now_ms = clock.now_ms()
            start_ms = now_ms - settings.duration_ms if start is None else start.before(now_ms)
            settings = replace(settings, start_ms=start_ms)
        except ValueError as error:
            raise click.UsageError(printable(str(error))) from None
        target = _broker(ctx) if kind == "bootstrap_server" else _file(ctx, force=force)
        settings = replace(settings, offsets_partitions=target.partitions, group_partitioner=target.partitioner)
        with _truth_file(truth, force=force) as tell, _progress(settings.groups) as count:

            def told(of: GroupTruth) -> None:
                tell(of)
                count()

            written = target.write(generated(settings, told))
    if target.name == _STDOUT and not sys.stderr.isatty():
        return
    say = warn if target.name == _STDOUT else echo
    say(
        f"{count_text(written.records, 'record')} of {count_text(settings.groups, 'group')} in"
        f" {count_text(written.partitions, 'partition')}, {written.size_bytes:,} bytes:"
        f" {iso_time(settings.start_ms)} to {iso_time(settings.until_ms)}"
    )
    if kind == "bootstrap_server":
        say(_LOADED)


def _settings(ctx: click.Context, records: int | None) -> GeneratorSettings:
    """All but when it begins. Raises `ValueError` for what cannot be."""
    from agent.simulation.generator.record_count import with_duration_for, with_interval_for

    given = {name: value for name, value in ctx.params.items() if value not in (None, ())}
    # Of the topic's partitions the target knows more.
    names = {*GeneratorSettings.__struct_fields__} - {"offsets_partitions", "group_partitioner"}
    named = {name: given[name] for name in names & given.keys()}
    named |= {name: dict(named[name]) for name in ("mix", "assignors") if name in named}
    settings = GeneratorSettings(0, **named)
    if records is None:
        return settings
    if not _is_given(ctx, "commit_interval_ms"):
        return with_interval_for(settings, records)
    if _is_given(ctx, "duration_ms"):
        raise click.UsageError("--records, --duration and --commit-interval: each follows from the other two")
    return with_duration_for(settings, records)


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is not ParameterSource.DEFAULT


def _file(ctx: click.Context, *, force: bool) -> Target:
    from agent.kafka.source.ndjson import is_ndjson
    from agent.kafka.writer.ndjson import write_lines, write_ndjson
    from agent.kafka.writer.segments import write_segments

    if typed(ctx, "properties", "command_config", "create_topic"):
        raise click.UsageError("--property and --create-topic go with --bootstrap-server, as --command-config does")
    out = ctx.params["out"]
    partitions = ctx.params["offsets_partitions"] or GeneratorSettings(0).offsets_partitions
    told = ctx.params["group_partitioner"]
    by = GroupPartitioner.REDPANDA if told == GroupPartitioner.REDPANDA else GroupPartitioner.KAFKA
    if out == _STDOUT:
        return Target(out, partitions, by, lambda records: write_lines(records, sys.stdout.buffer))
    if is_ndjson(out):
        return Target(out, partitions, by, lambda records: write_ndjson(records, Path(out), replace=force))
    return Target(out, partitions, by, lambda records: write_segments(records, Path(out), replace=force))


def _broker(ctx: click.Context) -> Target:
    from agent.kafka.writer.topic import partition_count, write_topic

    if not typed(ctx, "bootstrap_server"):
        # Whoever set a variable to look at a cluster does not mean to fill its topic.
        raise click.UsageError("groups are written into a cluster only with --bootstrap-server on the command line")
    if typed(ctx, "offsets_partitions"):
        raise click.UsageError("--offsets-partitions is for where no broker is asked; the broker knows")
    conf = librdkafka_config(ctx.params["bootstrap_server"], ctx.params["properties"])
    partitions = partition_count(conf, create=ctx.params["create_topic"])
    by = _brokers_partitioner(conf, ctx.params["group_partitioner"])
    return Target(
        conf["bootstrap.servers"], partitions, by, lambda records: write_topic(records, conf, placed_for=partitions)
    )


def _brokers_partitioner(conf: dict[str, str], told: str) -> GroupPartitioner:
    from agent.config.settings import PartitionerChoice
    from agent.kafka.source.errors import SourceError
    from agent.kafka.source.group_locator import locate_groups

    try:
        found = locate_groups(conf, PartitionerChoice(told))
    except SourceError as error:
        raise click.UsageError(f"{printable(str(error))}; --group-partitioner says where groups belong") from None
    if found.partitioner is None:
        raise click.UsageError(f"{printable(found.why)}: --group-partitioner says where groups belong")
    return found.partitioner


@contextmanager
def _writing() -> Iterator[None]:
    """Turn what cannot be written into a message and the exit code of the contract."""
    from agent.cli.answers import exit_unreachable
    from agent.kafka.writer.errors import SinkDenied, SinkError, SinkUnreachable, TopicMissing

    try:
        yield
    except TopicMissing as error:
        exit_unreachable(f"{error}; --create-topic has it made")
    except (SinkUnreachable, SinkDenied) as error:
        exit_unreachable(str(error))
    except SinkError as error:
        match error.__cause__:
            case PermissionError():
                exit_unreachable(f"{error}; run kshadow as a user who may write there")
            case OSError(errno=number) if number not in WRONG_PATH:
                exit_unreachable(str(error))
        raise click.UsageError(printable(str(error))) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise UnwritableOutput(f"cannot write the output: {why}") from None


@contextmanager
def _truth_file(path: Path | None, *, force: bool) -> Iterator[Callable[[GroupTruth], object]]:
    """What writes a line of the file, which is there when all is done."""
    from agent.common.files import whole_or_not
    from agent.kafka.writer.errors import SinkPathError

    if path is None:
        yield lambda truth: None
        return
    if not force and path.exists():
        raise SinkPathError(f"{path}: expected a name that is not taken, there is something")
    with ExitStack() as stack:
        try:
            file = stack.enter_context(whole_or_not(path))
        except OSError as error:
            raise SinkPathError(f"{path}: expected a file to write to: {error}") from error
        yield lambda truth: file.write(json.dumps(truth, separators=(",", ":")).encode() + b"\n")


@contextmanager
def _progress(groups: int) -> Iterator[Callable[[], None]]:
    """What counts a group, for whoever looks on at a terminal."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    done, next_s = 0, 0.0

    def count() -> None:
        nonlocal done, next_s
        done += 1
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + _PROGRESS_S
            click.echo(f"\r{done:,} of {groups:,} groups", err=True, nl=False)

    try:
        yield count
    finally:
        click.echo("\r\x1b[K", err=True, nl=False)
