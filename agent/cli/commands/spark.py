"""`kshadow spark`: months of history in Spark jobs, checked here and handed to `spark-submit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from agent.cli.options import (
    analyzer_options,
    bootstrap_option,
    choose_analyzers,
    command_config_option,
    exactly_one_of,
    librdkafka_config,
    option,
    property_option,
    resolve_range,
)
from agent.cli.spark_options import Day, Range, TimeZone, spark_options, submit_options
from agent.config.options import MinDuration, Parsed, Time
from agent.config.values import parse_cluster, parse_topic

if TYPE_CHECKING:
    from agent.tools.spark_submit.jobs import Diagnosis, Kafka

LISTED = {
    "section": "Records and history",
    "place": 5,
    "number": 20,
    "help": "Run a Spark job over months of history.",
}

TOPIC = Parsed("TOPIC", parse_topic)

_CLUSTER = option(
    "--cluster", type=Parsed("NAME", parse_cluster), help="The cluster's name, written into each event."
)
_OUT = option("--out", metavar="DIR", required=True, help="Where the tables go, as Parquet.")


@click.group()
def spark() -> None:
    """Run a Spark job over months of history.

    Each command checks what can be checked, then runs spark-submit: here, or where --master says. Its exit code is
    the job's. Ctrl-C ends a stream in order, a second one at once. The variable KSHADOW_IVY_SETTINGS names a settings
    file of Ivy for what Spark downloads: a mirror, a proxy.

    \b
    Examples:
      kshadow spark backfill --from /var/lib/kafka/data --out /tmp/history
      kshadow spark rollup --history /tmp/history --out /tmp/rollups
      kshadow spark report --rollups /tmp/rollups --out /tmp/report.html
      kshadow spark stream --reads topic --bootstrap-server localhost:9092 --out /tmp/history --checkpoint /tmp/cp
    """


@spark.command()
@option(
    "--from",
    "paths",
    multiple=True,
    type=click.Path(),
    metavar="PATH",
    help="A .log segment, a directory __consumer_offsets-N, or one that holds such. Every executor must see it. "
    "Repeatable; colons part those in the variable.",
)
@option(
    "--archive",
    "archives",
    multiple=True,
    metavar="PATH",
    help="Parquet of raw records: a file or a directory, on any file system of Spark's. Repeatable.",
)
@bootstrap_option
@command_config_option
@property_option
@_OUT
@_CLUSTER
@analyzer_options
@option("--overwrite", is_flag=True, help="Replace what is there.")
@spark_options
@click.pass_context
def backfill(ctx: click.Context, /, **_: Any) -> None:
    """Write the history that the log tells as Parquet.

    The same events as kshadow replay, from exactly one of --from, --archive and --bootstrap-server. Brokers must
    grant Describe and Read on __consumer_offsets, and Describe on groups prefixed kshadow-spark.

    \b
    Examples:
      kshadow spark backfill --from /var/lib/kafka/data --out /tmp/history
      kshadow spark backfill --bootstrap-server localhost:9092 --out /tmp/history --master spark://spark:7077
    """
    from agent.tools.spark_submit.jobs import Backfill

    params = ctx.params
    kind = _one_source(ctx)
    job = Backfill(
        out=params["out"],
        paths=params["paths"] if kind == "paths" else (),
        archives=params["archives"] if kind == "archives" else (),
        kafka=_kafka(ctx) if kind == "bootstrap_server" else None,
        cluster=params["cluster"],
        diagnosis=_diagnosis(ctx),
        overwrite=params["overwrite"],
    )
    _submit(ctx, job)


@spark.command()
@option(
    "--reads",
    type=click.Choice(("topic", "history-topic", "history")),
    required=True,
    help="__consumer_offsets itself, of which events come; or events, of which rollups come: a topic of them, or a "
    "directory of Parquet.",
)
@bootstrap_option
@command_config_option
@property_option
@option("--history-topic", type=TOPIC, help="The topic that kshadow run writes events to.")
@option("--history", metavar="DIR", help="The directory of events as Parquet.")
@_OUT
@option("--checkpoint", metavar="DIR", required=True, help="Where the stream keeps how far it is.")
@option(
    "--watermark",
    type=MinDuration("1s"),
    default="10m",
    show_default=True,
    help="How late an event may come and be counted.",
)
@option("--trigger", type=MinDuration("100ms"), default="30s", show_default=True, help="From batch to batch.")
@option("--available-now", is_flag=True, help="Read what is there, then end.")
@option("--max-records", type=click.IntRange(1), metavar="N", help="At most so many in one batch.")
@option("--events-topic", type=TOPIC, help="Write what comes of it to this topic as well, as JSON.")
@_CLUSTER
@analyzer_options
@spark_options
@click.pass_context
def stream(ctx: click.Context, /, **_: Any) -> None:
    """Follow the topic, or the history, and write tables until it is stopped.

    Brokers must grant Describe and Read on what is read, Describe on groups prefixed kshadow-spark, and Write on
    --events-topic. A checkpoint belongs to one stream: started with other settings, or another --out, it is refused.

    \b
    Examples:
      kshadow spark stream --reads topic --bootstrap-server localhost:9092 --out /tmp/history --checkpoint /tmp/cp
      kshadow spark stream --reads history --history /tmp/history --out /tmp/rollups --checkpoint /tmp/cp
    """
    from agent.tools.spark_submit.jobs import Stream

    params = ctx.params
    reads = params["reads"]
    _check_stream(ctx, reads)
    job = Stream(
        reads=reads,
        out=params["out"],
        checkpoint=params["checkpoint"],
        kafka=_kafka(ctx) if reads != "history" or params["events_topic"] else None,
        history_topic=params["history_topic"] if reads == "history-topic" else None,
        history=params["history"] if reads == "history" else None,
        events_topic=params["events_topic"],
        watermark_s=params["watermark"] // 1000,
        trigger_s=params["trigger"] / 1000,
        available_now=params["available_now"],
        most_records=params["max_records"],
        cluster=params["cluster"],
        diagnosis=_diagnosis(ctx),
    )
    _submit(ctx, job)


@spark.command()
@option(
    "--history",
    multiple=True,
    required=True,
    metavar="DIR",
    help="A directory of events as Parquet, as backfill, stream and kshadow run write them. Repeatable.",
)
@_OUT
@option("--since", type=Day(), help="The first day (UTC): 2026-11-01, or 30d before now [the first there is].")
@option("--until", type=Day(), help="The last day, itself included [the last there is].")
@spark_options
@click.pass_context
def rollup(ctx: click.Context, /, **_: Any) -> None:
    """Sum the history up: five minutes, hours and days.

    Replaces the days it reads in --out, whole days of UTC, and leaves others.

    \b
    Examples:
      kshadow spark rollup --history /tmp/history --out /tmp/rollups
      kshadow spark rollup --history s3a://bucket/history --out s3a://bucket/rollups --since 2026-11-01
    """
    from agent.tools.spark_submit.jobs import Rollup

    params = ctx.params
    since, until = params["since"], params["until"]
    if since is not None and until is not None and since > until:
        raise click.UsageError("the range ends before it begins: --since is later than --until")
    _submit(ctx, Rollup(history=params["history"], out=params["out"], since=since, until=until))


@spark.command()
@option("--rollups", metavar="DIR", required=True, help="What rollup or stream wrote.")
@option("--out", metavar="FILE.html", required=True, help="The page.")
@option("--summary", metavar="DIR", help="The summary as Parquet [beside the page, of its name].")
@option("--since", type=Time(), help="Only from this time on: 30d before now, 2026-11-01 (UTC unless told).")
@option("--until", type=Time(), help="Only up to this time, written as for --since.")
@option("--before", type=Range(), help="Times or days (UTC unless told) to compare --after with.")
@option("--after", type=Range(), help="What is compared with --before; a day as TO is part of it.")
@option("--timezone", type=TimeZone(), default="UTC", show_default=True, help="Of hours and weekdays.")
@option("--whatif", metavar="PATH", help="What kshadow whatif -o json said: a file, or a directory of such.")
@option("--top", type=click.IntRange(1, 1000), default=20, show_default=True, help="Groups in each ranking.")
@spark_options
@click.pass_context
def report(ctx: click.Context, /, **_: Any) -> None:
    """Make a page of the rollups: which groups cost most, when and why.

    \b
    Examples:
      kshadow spark report --rollups /tmp/rollups --out /tmp/report.html
      kshadow spark report --rollups /tmp/rollups --out /tmp/r.html --since 7d --timezone Europe/Berlin
    """
    from agent.common.clock import now_ms
    from agent.tools.spark_submit.jobs import Report

    params = ctx.params
    if (params["before"] is None) != (params["after"] is None):
        raise click.UsageError("--before and --after go together: the one is compared with the other")
    since_ms, until_ms = resolve_range(params["since"], params["until"], now_ms())
    job = Report(
        rollups=params["rollups"],
        out=params["out"],
        summary=params["summary"],
        since_ms=since_ms,
        until_ms=until_ms,
        before=params["before"],
        after=params["after"],
        time_zone=params["timezone"],
        what_if=params["whatif"],
        most_groups=params["top"],
    )
    _submit(ctx, job)


def _one_source(ctx: click.Context) -> str:
    kind = exactly_one_of(ctx, "paths", "archives", "bootstrap_server")
    if kind != "bootstrap_server" and ctx.get_parameter_source("properties") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--property goes with --bootstrap-server")
    return kind


def _check_stream(ctx: click.Context, reads: str) -> None:
    goes_with = {"history_topic": "history-topic", "history": "history", "analyzer_names": "topic", "tuned": "topic"}
    for parameter in ctx.command.params:
        wanted = goes_with.get(str(parameter.name), reads)
        assert parameter.name is not None, "a parameter has a name"
        if reads != wanted and ctx.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{parameter.opts[0]} goes with --reads {wanted}")
    for name in ("history_topic", "history"):
        if reads == goes_with[name] and ctx.params[name] is None:
            raise click.UsageError(f"--reads {reads} needs --{goes_with[name]}")


def _kafka(ctx: click.Context) -> Kafka:
    from agent.tools.spark_submit.jobs import Kafka

    bootstrap_server = ctx.params["bootstrap_server"]
    if bootstrap_server is None:
        raise click.UsageError("--bootstrap-server is needed (or KSHADOW_BOOTSTRAP_SERVER)")
    return Kafka(properties=librdkafka_config(bootstrap_server, ctx.params["properties"]))


def _diagnosis(ctx: click.Context) -> Diagnosis:
    from agent.tools.spark_submit.jobs import Diagnosis

    names, tuned = ctx.params["analyzer_names"], ctx.params["tuned"]
    choose_analyzers(names, tuned)
    return Diagnosis(analyzers=names, tuned=dict(tuned))


def _submit(ctx: click.Context, job: Any) -> None:
    from agent.cli.spark_submitting import submit

    ctx.exit(submit(job, submit_options(ctx.params)))
