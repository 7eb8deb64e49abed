"""`kshadow replay`: the history that the log tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agent.cli.options import (
    SOURCE_PATH,
    analyzer_options,
    broker_config_option,
    broker_log_options,
    choose_analyzers,
    option,
    output_option,
    workers_option,
)
from agent.cli.output import print_rows, warn
from agent.cli.sort_filter import (
    cause_option,
    event_matches,
    event_option,
    is_about,
    match_option,
    sort_option,
    sort_rows,
)
from agent.cli.tables import MIN_FOLDED_WIDTH, Column
from agent.cli.text import iso_time
from agent.common.sanitize import printable
from analyzers.formatting import count_text

if TYPE_CHECKING:
    from agent.core.diagnosis.lag_source import SampledLags

_COLUMNS = {
    "at": Column("AT"),
    "group": Column("GROUP", folds=MIN_FOLDED_WIDTH),
    "group_type": Column("TYPE", spare=1),
    "type": Column("EVENT"),
    "what": Column("WHAT", folds=20),
}


@click.command()
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=SOURCE_PATH)
@option("--cluster", help="The cluster's name, written into each event.")
@option("--group", "groups", multiple=True, help="Only the events of this group. Repeatable.")
@match_option
@event_option
@cause_option
@sort_option(_COLUMNS, "event")
@analyzer_options
@broker_log_options
@broker_config_option
@option(
    "--samples",
    type=click.Path(exists=True, readable=False),
    help="A history with samples of lag (run --history-samples): a file of its events, one a line, or Parquet files. "
    "What the analyzers find by lag is found again.",
)
@workers_option
@output_option("ndjson")
@click.pass_context
def replay(
    ctx: click.Context,
    paths: tuple[str, ...],
    cluster: str | None,
    groups: tuple[str, ...],
    match: tuple[str, ...],
    event_types: tuple[str, ...],
    causes: tuple[str, ...],
    sort_by: tuple[str, ...],
    analyzer_names: str,
    tuned: tuple[tuple[str, str], ...],
    broker_logs: tuple[str, ...],
    broker_log_timezone: str,
    broker_config: tuple[tuple[str, str], ...],
    samples: str | None,
    workers: int | None,
    output: str,
) -> None:
    """Print the history in the log, as events.

    Events are ordered by time, partition and offset; the same log always gives the same events. Findings are among
    them, as events of type finding. PATH is as for decode; a partition that several of them hold, as replicas do, is
    read once, and logs of different clusters are refused. Transactions that were aborted or are still open are not
    applied. With --broker-log the causes in a broker's log replace inferred ones; rotated files beside it
    (server.log.*) are read too.

    \b
    Examples:
      kshadow replay /var/lib/kafka/data | jq 'select(.type == "rebalance")'
      kshadow replay /var/lib/kafka/data --broker-log /opt/kafka/logs/server.log
    """
    from agent.cli.answers import similar_names
    from agent.cli.data_source import source_errors_reported
    from agent.cli.reading import with_sessions
    from agent.kafka.source.brokerlog import BrokerLogs
    from agent.kafka.source.time_zones import time_zone
    from agent.runtime.offline import check_readable, load

    chosen = choose_analyzers(analyzer_names, tuned)
    with source_errors_reported():
        check_readable(paths)
        logs = BrokerLogs(broker_logs, time_zone(broker_log_timezone))
        loaded = load(
            paths,
            cluster=cluster,
            on_problem=warn,
            keep_groups=False,
            workers=workers,
            witness=with_sessions(logs if broker_logs else None, broker_config, None),
            chosen=chosen,
            lag_source=None if samples is None else _sampled_lags(samples, cluster),
        )
    logs.report(warn)
    events = loaded.events()
    rows = [event for event in events if is_about(event, groups, match) and event_matches(event, event_types, causes)]
    if sort_by:
        rows = sort_rows(rows, sort_by, _COLUMNS)
    if output == "table":
        rows = [{**row, "at": iso_time(row["at_ms"]), "what": _what(row)} for row in rows]
    print_rows(rows, output, _COLUMNS, empty="no events")
    known = sorted({group for event in events if isinstance(group := event["group"], str)})
    for group in (it for it in groups if it not in known):
        similar = similar_names(group, known)
        warn(f"(no event is of a group {group!r}{f'; did you mean {similar}?' if similar else ''})")
    if loaded.report(warn):
        ctx.exit(1)


def _sampled_lags(path: str, cluster: str | None) -> SampledLags:
    from pathlib import Path

    from agent.cli.answers import exit_unreachable
    from agent.core.diagnosis.lag_source import SampledLags
    from agent.core.events.samples import MOST_BEHIND
    from agent.persistence.export.reading import HistoryUnreadable, samples_in

    try:
        found = [it for it in samples_in(Path(path)) if cluster is None or it["cluster"] == cluster]
    except HistoryUnreadable as error:
        if isinstance(error.__cause__, PermissionError):
            exit_unreachable(f"--samples: {error}")
        raise click.UsageError(printable(f"--samples: {error}")) from error
    return SampledLags(found, MOST_BEHIND)


def _what(event: dict[str, object]) -> str:
    match event["type"]:
        case "rebalance":
            joined, left = event["joined"], event["left"]
            assert isinstance(joined, list), "a list of members"
            assert isinstance(left, list), "a list of members"
            names = [f"+{member['client_id']}" for member in joined] + [f"-{member['client_id']}" for member in left]
            how = "observed" if event["observed"] and event["confidence"] == 1 else "inferred"
            cause = "" if event["cause"] == "unknown" else f"({how}: {event['cause']})"
            members = event["members"]
            assert isinstance(members, int), "a number of them"
            what = f"generation {event['generation']}, {count_text(members, 'member')}"
            return " ".join([what, *names, cause]).rstrip()
        case "member_joined" | "member_left" | "static_member_replaced":
            member = event["member"]
            assert isinstance(member, dict), "a member"
            return str(member["member_id"])
        case "assignment_changed":
            return (
                f"{event['assigned_partitions']} assigned, {event['gained_partitions']} moved, "
                f"{event['lost_partitions']} without an owner"
            )
        case "offsets_deleted":
            return f"{event['topic']}-{event['topic_partition']} at {event['committed_offset']}"
        case "finding":
            return f"{event['severity']} {event['analyzer']} {event['state']}: {event['summary']}"
        case _:
            return ""
