"""`kshadow spark`: months of history in Spark jobs, checked here and handed to `spark-submit`."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import click

from agent.cli.commands.history import (
    DEFAULT_MEMORY,
    check_days,
    parse_size,
    report_job,
    report_options,
    write_report,
)
from agent.cli.data_source import history_errors_reported
from agent.cli.options import (
    analyzer_options,
    broker_config_option,
    broker_options,
    choose_analyzers,
    combined,
    exactly_one_of,
    librdkafka_config,
    option,
    typed,
)
from agent.cli.spark_options import DAY, parse_table, spark_options
from agent.config.options import PLACE, MinDuration, Parsed
from agent.config.values import parse_address, parse_cluster, parse_topic

if TYPE_CHECKING:
    from agent.tools.spark_submit.jobs import Diagnosis, Job, Kafka, Report

TOPIC = Parsed("TOPIC", parse_topic)

_CLUSTER = option(
    "--cluster", type=Parsed("NAME", parse_cluster), help="The cluster's name, written into each event."
)
_TARGET = combined(
    option(
        "--out",
        type=PLACE,
        metavar="DIR",
        help="Where the tables go: a directory, or with --format delta any of Hadoop's.",
    ),
    option(
        "--format",
        type=click.Choice(("parquet", "delta", "iceberg")),
        default="parquet",
        help="What the tables are: Parquet in a directory on this machine, Delta Lake, or Iceberg.",
    ),
    option(
        "--table",
        type=Parsed("CATALOG.DB.PREFIX", parse_table),
        help="With --format iceberg, in place of --out: tables of these names, in a catalog that --conf sets up.",
    ),
)


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
      kshadow spark rollup --history s3a://bucket/history --out s3a://bucket/rollups --format delta
    """


@spark.command()
@option(
    "--from",
    "paths",
    multiple=True,
    type=PLACE,
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
@broker_options
@_TARGET
@_CLUSTER
@analyzer_options
@broker_config_option
@option("--overwrite", is_flag=True, help="Replace what is there.")
@spark_options
@click.pass_context
def backfill(ctx: click.Context, /, **_: Any) -> None:
    """Write the history in the log as a table.

    The same events as kshadow replay, from exactly one of --from, --archive and --bootstrap-server. Brokers must
    grant Describe and Read on __consumer_offsets, and Describe on groups prefixed kshadow-spark.

    \b
    Examples:
      kshadow spark backfill --from /var/lib/kafka/data --out /tmp/history
      kshadow spark backfill --bootstrap-server localhost:9092 --out /tmp/history --master spark://spark:7077
    """
    from agent.tools.spark_submit.jobs import Backfill

    kind = exactly_one_of(ctx, "paths", "archives", "bootstrap_server")
    if kind != "bootstrap_server" and typed(ctx, "properties"):
        raise click.UsageError("--property goes with --bootstrap-server")
    unused = {name: () for name in ("paths", "archives") if name != kind}
    kafka = _kafka(ctx) if kind == "bootstrap_server" else None
    _submit(ctx, Backfill, **_target(ctx), **unused, kafka=kafka, diagnosis=_diagnosis(ctx))


@spark.command()
@option(
    "--reads",
    type=click.Choice(("topic", "history-topic", "history")),
    required=True,
    help="__consumer_offsets itself, of which events come; or events, of which rollups come: a topic of them, or a "
    "table.",
)
@broker_options
@option("--history-topic", type=TOPIC, help="The topic that kshadow run writes events to.")
@option("--history", type=PLACE, metavar="DIR", help="The directory of events, as Parquet or a Delta table.")
@_TARGET
@option("--checkpoint", type=PLACE, metavar="DIR", required=True, help="Where the stream keeps how far it is.")
@option(
    "--watermark",
    type=MinDuration("1s"),
    default="10m",
    help="How late an event may come and be counted.",
)
@option("--trigger", type=MinDuration("100ms"), default="30s", help="From batch to batch.")
@option("--available-now", is_flag=True, help="Read what is there, then end.")
@option(
    "--max-records",
    "most_records",
    type=click.IntRange(1),
    default=1_000_000,
    metavar="N",
    help="At most so many in one batch, of a topic.",
)
@option(
    "--max-files",
    "most_files",
    type=click.IntRange(1),
    default=1_000,
    metavar="N",
    help="At most so many files in one batch, of a directory.",
)
@option("--events-topic", type=TOPIC, help="Write what comes of it to this topic as well, as JSON.")
@option(
    "--listen",
    type=Parsed("HOST:PORT", parse_address),
    envvar="KSHADOW_SPARK_LISTEN",
    help="Where the driver serves /metrics and /healthz of the stream: 127.0.0.1:9309 [nowhere].",
)
@_CLUSTER
@analyzer_options
@broker_config_option
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

    params, reads = ctx.params, ctx.params["reads"]
    _check_stream(ctx, reads)
    _submit(
        ctx,
        Stream,
        **_target(ctx),
        kafka=_kafka(ctx) if reads != "history" or params["events_topic"] else None,
        history_topic=params["history_topic"] if reads == "history-topic" else None,
        history=params["history"] if reads == "history" else None,
        watermark_s=ceil(params["watermark"] / 1000),
        trigger_s=params["trigger"] / 1000,
        listen=None if params["listen"] is None else str(params["listen"]),
        diagnosis=_diagnosis(ctx),
    )


@spark.command()
@option(
    "--history",
    multiple=True,
    required=True,
    type=PLACE,
    metavar="DIR",
    help="Events as backfill, stream and kshadow run write them: a directory of Parquet, a Delta table, or "
    "iceberg:CATALOG.DB.PREFIX. Repeatable.",
)
@_TARGET
@option("--since", type=DAY, help="The first day (UTC): 2026-11-01, or 30d before now [the first there is].")
@option("--until", type=DAY, help="The last day, itself included [the last there is].")
@spark_options
@click.pass_context
def rollup(ctx: click.Context, /, **_: Any) -> None:
    """Aggregate the history by five minutes, hours and days.

    Replaces the days it reads in --out, whole days of UTC, and leaves others.

    \b
    Examples:
      kshadow spark rollup --history /tmp/history --out /tmp/rollups
      kshadow spark rollup --history s3a://bucket/history --out s3a://bucket/rollups --format delta --since 30d
    """
    from agent.tools.spark_submit.jobs import Rollup

    check_days(ctx.params["since"], ctx.params["until"])
    _submit(ctx, Rollup, **_target(ctx))


@spark.command()
@report_options
@spark_options
@click.pass_context
def report(ctx: click.Context, /, **_: Any) -> None:
    """Write an HTML page from the rollups: which groups cost most, when and why.

    Where rollups, page and summary are on this machine nothing of Spark is started: kshadow history report does the
    same. Elsewhere Spark reads the hours that are needed, and writes through its file systems.

    \b
    Examples:
      kshadow spark report --rollups /tmp/rollups --out /tmp/report.html
      kshadow spark report --rollups s3a://bucket/rollups --out s3a://bucket/r.html --since 7d
    """
    job = report_job(ctx)
    if _needs_spark(ctx, job):
        from agent.cli.spark_submitting import submit

        ctx.exit(submit(job, ctx.params))
    write_report(ctx, memory_mb=parse_size(DEFAULT_MEMORY), command="spark")


def _needs_spark(ctx: click.Context, job: Report) -> bool:
    from agent.tools.spark_submit.paths import local

    paths = (job.rollups, job.out, job.summary or job.out)
    return ctx.params["dry_run"] or ctx.params["deploy_mode"] == "cluster" or any(local(it) is None for it in paths)


@spark.command()
@option("--history", type=PLACE, metavar="DIR", help="A directory of events as Parquet.")
@option("--rollups", type=PLACE, metavar="DIR", help="Or one of the tables that rollup or stream wrote.")
@option("--since", type=DAY, help="The first day (UTC): 2026-11-01, or 30d before now [the first there is].")
@option("--until", type=DAY, help="The last day, itself included [the last there is].")
@option(
    "--settled",
    type=MinDuration("1m"),
    default="1h",
    help="Of a day that has not been over for so long, files younger than that are left alone: who wrote them may "
    "write them again.",
)
@click.pass_context
def compact(ctx: click.Context, /, since: str | None, until: str | None, settled: int, **_: Any) -> None:
    """Merge the files of a day into one, with the same rows.

    On this machine, without Spark. An agent may go on writing meanwhile; other jobs on the directory are refused, and
    so is compact while one of them writes. What is killed has lost and doubled nothing. Tables of Delta Lake have
    OPTIMIZE of their own.

    \b
    Examples:
      kshadow spark compact --history /tmp/history
      kshadow spark compact --rollups /tmp/rollups --since 7d
    """
    from pathlib import Path

    from agent.cli.output import echo, printable
    from agent.common.clock import now_ms
    from agent.tools.spark_submit.paths import local

    check_days(since, until)
    path = str(ctx.params[exactly_one_of(ctx, "history", "rollups")])
    if (here := local(path)) is None:
        raise click.UsageError(f"{path}: expected a local directory for Parquet files, got another")
    with history_errors_reported():
        from agent.history.compaction import compact as compact_directory
        from analyzers.formatting import count_text

        done = compact_directory(Path(here), first=since, last=until, now_ms=now_ms(), settled_ms=settled)
    files, rows = count_text(done.files, "file"), count_text(done.rows, "row")
    echo(f"{printable(path)}: {files} became {done.days:,}, with {rows}")


def _target(ctx: click.Context) -> dict[str, Any]:
    """Where tables go, as a job has it: of Iceberg their names are its `out`."""
    out, form, table = (ctx.params[name] for name in ("out", "format", "table"))
    if form == "iceberg":
        if table is None or out is not None:
            raise click.UsageError("--format iceberg goes with --table CATALOG.DB.PREFIX, and not with --out")
        return {"format": form, "out": table}
    if table is not None:
        raise click.UsageError(f"--table goes with --format iceberg, not with {form}")
    if out is None:
        raise click.UsageError("--out DIR is needed (or KSHADOW_OUT)")
    return {"format": form, "out": out}


def _check_stream(ctx: click.Context, reads: str) -> None:
    from agent.tools.spark_submit.paths import ICEBERG

    goes_with = {
        "history_topic": "history-topic",
        "history": "history",
        "most_files": "history",
        "analyzer_names": "topic",
        "tuned": "topic",
        "broker_config": "topic",
    }
    for parameter in ctx.command.params:
        wanted = goes_with.get(str(parameter.name), reads)
        assert parameter.name is not None, "a parameter has a name"
        if reads != wanted and typed(ctx, parameter.name):
            raise click.UsageError(f"{parameter.opts[0]} goes with --reads {wanted}")
    for name in ("history_topic", "history"):
        if reads == goes_with[name] and ctx.params[name] is None:
            raise click.UsageError(f"--reads {reads} needs --{goes_with[name]}")
    if reads == "history" and ctx.params["history"].startswith(ICEBERG):
        raise click.UsageError(
            f"--history {ctx.params['history']}: a stream reads a directory of Parquet or a Delta table; kshadow"
            " spark rollup reads Iceberg tables"
        )


def _kafka(ctx: click.Context) -> Kafka:
    from agent.tools.spark_submit.jobs import Kafka

    bootstrap_server = ctx.params["bootstrap_server"]
    if bootstrap_server is None:
        raise click.UsageError("--bootstrap-server is needed (or KSHADOW_BOOTSTRAP_SERVER)")
    return Kafka(properties=librdkafka_config(bootstrap_server, ctx.params["properties"]))


def _diagnosis(ctx: click.Context) -> Diagnosis:
    from agent.core.inference.session_settings import session_settings
    from agent.tools.spark_submit.jobs import Diagnosis

    names, tuned = ctx.params["analyzer_names"], ctx.params["tuned"]
    choose_analyzers(names, tuned)
    sessions = session_settings(dict(ctx.params["broker_config"]))
    return Diagnosis(analyzers=names, tuned=dict(tuned), sessions=dict(sessions))


def _submit(ctx: click.Context, job: type[Job], **values: Any) -> None:
    """Run a job whose fields are these values, and else the options of the same names."""
    from agent.cli.spark_submitting import submit

    named = {name: ctx.params[name] for name in job.__struct_fields__ if name in ctx.params}
    ctx.exit(submit(job(**{**named, **values}), ctx.params))
