"""`kshadow assign`: what each assignor would give a group, or the members of problems in a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from agent.cli.answers import exit_unreachable
from agent.cli.options import (
    SOURCES,
    librdkafka_config,
    option,
    output_option,
    source_options,
    strongest_given,
    typed,
)
from agent.cli.output import echo, echo_text, print_rows, print_value, warn
from agent.cli.query import Query, pass_query
from agent.cli.tables import MIN_FOLDED_WIDTH, Column
from agent.cli.text import MAX_TEXT, iso_time
from agent.common.text import printable_truncated
from agent.common.timespec import TimeSpec
from agent.config.options import TIME, Parsed

if TYPE_CHECKING:
    from agent.cli.answers import LastMembership
    from agent.cli.assignment_problems import AssignorProblem

NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky", "uniform")
"""As `agent.cli.assignment_problems` has them, which takes long to import."""
STDIN = "-"
_GROUP_ONLY_PARAMS = ("assignors", "counts", "until", "by_member")

_COLUMNS = {
    "assignor": Column("ASSIGNOR"),
    "spread": Column("SPREAD"),
    "idle": Column("IDLE"),
    "moves": Column("MOVES"),
    "stopped": Column("STOPPED"),
    "rounds": Column("ROUNDS", spare=1),
}
_MEMBER_COLUMNS = {
    "assignor": Column("ASSIGNOR"),
    "member_id": Column("MEMBER", folds=MIN_FOLDED_WIDTH),
    "count": Column("PARTITIONS", spare=1),
    "assignment": Column("ASSIGNMENT", folds=MIN_FOLDED_WIDTH),
}
_PROBLEM_COLUMNS = {
    "line": Column("LINE"),
    "assignor": Column("ASSIGNOR"),
    "members": Column("MEMBERS"),
    "partitions": Column("PARTITIONS"),
    **{name: column for name, column in _COLUMNS.items() if name not in ("assignor", "stopped", "rounds")},
}


def parse_count(text: str) -> tuple[str, int]:
    """A topic and how many partitions it has, split at the last `=`."""
    from agent.cli.assignment_problems import MAX_PARTITIONS

    topic, _, count = text.rpartition("=")
    if not topic or not (count.isascii() and count.isdecimal()) or not 0 < int(count[:9]) <= MAX_PARTITIONS:
        raise ValueError(f"expected TOPIC=N with N from 1 to {MAX_PARTITIONS:,}, got {text!r}")
    return topic, int(count)


@click.command()
@click.argument("what", metavar="GROUP|FILE|-")
@source_options
@option(
    "--assignor",
    "assignors",
    type=click.Choice(NAMES),
    multiple=True,
    help="Only this one, for a GROUP. Repeatable; separated by blanks in the variable.",
)
@option(
    "--partitions",
    "counts",
    type=Parsed("TOPIC=N", parse_count),
    multiple=True,
    help="How many partitions a topic has, whatever is known of it. Repeatable.",
)
@option(
    "--until",
    type=TIME,
    help="The group as it was at this time: 15m, 2h, 3d before now (with --from: before the newest record), "
    "2026-11-21T10:02 (UTC unless told), or epoch milliseconds. Not with --agent.",
)
@option("--members", "by_member", is_flag=True, help="Also which member gets which partitions, as a table.")
@output_option()
@pass_query
def assign(
    query: Query,
    /,
    what: str,
    assignors: tuple[str, ...],
    counts: tuple[tuple[str, int], ...],
    until: TimeSpec | None,
    by_member: bool,
    **_: Any,
) -> None:
    """Show the assignment that each assignor would compute.

    For a GROUP (with --from, --bootstrap-server or --agent): today's assignment, then what each assignor would
    compute from the same members and their present partitions. MOVES are partitions that change owner; STOPPED are
    partitions that are revoked on the way (all, with an eager assignor). The broker tells how many partitions a topic
    has; without one, at least as many as were seen are assumed. For a group without members the last assignment
    (before --until) is used.

    Without a source: each problem of an NDJSON file, or of standard input (-), one JSON object per line with
    assignor, partitions ({topic: count}) and members ({id: {topics, instance_id, owned}}).

    \b
    Examples:
      kshadow assign payments --bootstrap-server localhost:9092
      kshadow assign payments --from /var/lib/kafka/data --partitions orders=24
      kshadow assign payments --bootstrap-server localhost:9092 --until 2h
      kshadow assign payments --agent http://localhost:9308 --assignor sticky -o json
      kshadow assign problems.ndjson -o ndjson
    """
    ctx = query.ctx
    if not _is_group(ctx, what):
        if typed(ctx, *_GROUP_ONLY_PARAMS):
            raise click.UsageError("--assignor, --partitions, --until, --members go with a GROUP; problems say all")
        _answer_problems(ctx, what, query.output)
        return
    from agent.cli.answers import no_such_group
    from agent.cli.assignment_plan import NotAssignable, assignment_plan

    with query.open(what, until=until) as answers:
        form, as_of_ms = answers.describe(what), answers.as_of_ms
        first = None if as_of_ms is None else f"as of {iso_time(as_of_ms)}"
        last = answers.last_with_members(what) if form is None or not form["members"] else None
        if last is not None and last.group is not None:
            lacks = "no such group" if form is None else "no members"
            form, as_of_ms = last.group, last.as_of_ms
            first = f"{lacks} {first or 'now'}; members it had until {_time_text(as_of_ms)}"
        if form is None:
            no_such_group(answers, what)
        try:
            plan = assignment_plan(form, assignors, dict(counts), _broker_counts(ctx), as_of_ms)
        except NotAssignable as refused:
            raise click.UsageError(f"{printable_truncated(repr(what), MAX_TEXT)} {refused}") from None
        if first is not None and query.output in ("table", "ndjson"):
            warn(f"{first}, in generation {plan['generation']}" if plan["generation"] >= 0 else first)
        match query.output:
            case "table":
                _print_plan(plan, last, by_member=by_member)
            case "ndjson":
                print_rows(plan["alternatives"], "ndjson", {})
                for note in plan["notes"]:
                    warn(note)
            case _:
                print_value(plan, query.output)


def _is_group(ctx: click.Context, what: str) -> bool:
    """Whether a source is given. One from the environment or a file of options does not hide a file of problems."""

    given = strongest_given(ctx, *SOURCES)
    explicit = bool(typed(ctx, *given))
    if what == STDIN and explicit:
        raise click.UsageError("- is problems on standard input, which need no other source")
    if explicit:
        return True
    if what == STDIN or (os.path.exists(what) and not os.path.isdir(what)):
        return False
    if not given:
        raise click.UsageError(
            f"no file {what!r}; for a group of that name one of --from, --bootstrap-server, --agent is needed"
        )
    return True


def _time_text(at_ms: int | None) -> str:
    return iso_time(at_ms) or "an unknown time"


def _broker_counts(ctx: click.Context) -> Any:
    """What asks the broker for topics' numbers of partitions, where there is one."""

    if strongest_given(ctx, *SOURCES) != ["bootstrap_server"]:
        return None
    from agent.kafka.source.brokers import partition_counts

    conf = librdkafka_config(ctx.params["bootstrap_server"], ctx.params["properties"])
    return lambda topics: partition_counts(conf, topics)


def _print_plan(plan: dict[str, Any], last: LastMembership | None, *, by_member: bool) -> None:
    if not plan["today"]["assignment"]:
        warn("the group has no members to assign to" + _last_members_hint(last))
        return
    day = "today" if plan["as_of_ms"] is None else "then"
    rows = [{**plan["today"], "assignor": f"{day}{_of(plan['assignor'])}"}, *plan["alternatives"]]
    for row in rows[1:]:
        row["assignor"] += f" (as {day})" if row["assignor"] == plan["assignor"] else ""
    print_rows(({**row, "spread": _range(row["least"], row["largest"])} for row in rows), "table", _COLUMNS)
    if by_member:
        echo("")
        print_rows(list(_member_rows(rows)), "table", _MEMBER_COLUMNS)
    for note in plan["notes"]:
        echo_text(f"Note: {note}", widest=sys.maxsize)


def _last_members_hint(last: LastMembership | None) -> str:
    """Where what the group was cannot be read again."""
    return "" if last is None else f"; it had some until {_time_text(last.as_of_ms)}: ask with --until that time"


def _of(assignor: str | None) -> str:
    return "" if assignor is None else f" ({assignor})"


def _member_rows(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    from agent.core.protocol.assignors import by_topic

    for row in rows:
        for member_id, slots in row["assignment"].items():
            yield {
                "assignor": row["assignor"],
                "member_id": member_id,
                "count": len(slots),
                "assignment": by_topic(slots),
            }


def _range(least: int, largest: int) -> str:
    return str(least) if least == largest else f"{least}-{largest}"


def _answer_problems(ctx: click.Context, path: str, output: str) -> None:
    """Each line's answer, in order."""
    from agent.cli.assignment_problems import InvalidLine, read_problems
    from agent.core.protocol.assignors import AssignmentNeverEnds

    wrong = endless = 0
    where = "stdin" if path == STDIN else path

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal wrong, endless
        with sys.stdin.buffer if path == STDIN else _opened(path) as stream:
            for item in read_problems(stream):
                if isinstance(item, InvalidLine):
                    wrong += 1
                    warn(f"{where}: line {item.line}: {item.message}")
                    continue
                try:
                    yield _row(item) if output == "table" else _answer(item)
                except AssignmentNeverEnds as error:
                    endless += 1
                    warn(f"{where}: line {item.line} has no answer: {error}")

    print_rows(rows(), output, _PROBLEM_COLUMNS, empty="no answers")
    if wrong:
        what = "1 line is not a valid problem" if wrong == 1 else f"{wrong} lines are not valid problems"
        warn(f"{what}, as said above; all others are {'told of' if endless else 'answered'}")
    if wrong or endless:
        ctx.exit(1)


def _opened(path: str) -> Any:
    try:
        return open(path, "rb")
    except OSError as error:
        exit_unreachable(f"cannot read {path!r}: {error.strerror}")


def _answer(asked: AssignorProblem) -> dict[str, Any]:
    return {"assignor": asked.assignor, "assignment": asked.answer()}


def _row(asked: AssignorProblem) -> dict[str, Any]:
    found, problem = asked.outcome(), asked.problem
    return {
        "line": asked.line,
        "assignor": asked.assignor,
        "members": len(problem.members),
        "partitions": sum(problem.subscribed_topics().values()),
        "spread": _range(found.spread.least, found.spread.largest),
        "idle": found.spread.idle,
        "moves": found.moves,
    }
