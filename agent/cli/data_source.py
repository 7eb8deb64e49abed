"""Which source a query command was given, opened: files, a broker that is read to its end, or a running agent."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from agent.cli.answers import Answers, exit_unreachable
from agent.cli.options import AGENT_OPTIONS, SOURCES, choose_analyzers, exactly_one_of, librdkafka_config, typed
from agent.cli.output import warn
from agent.common.sanitize import printable

if TYPE_CHECKING:
    from agent.common.timespec import TimeSpec
    from agent.core.inference.external_evidence import EvidenceSource
    from agent.simulation.whatif.recorder import GroupRecorder


@contextmanager
def source_errors_reported() -> Iterator[None]:
    """Turn a source that cannot be read into a message and the exit code of the contract."""
    from agent.common.workers import WorkerDied
    from agent.kafka.source.errors import SourceDenied, SourceError, SourceUnreachable

    try:
        yield
    except WorkerDied as error:
        exit_unreachable(f"{error}; --workers 1 reads in this process alone")
    except SourceUnreachable as error:
        exit_unreachable(
            f"{error}; kshadow doctor tries what a connection needs, step by step, and says how to fix it"
        )
    except SourceDenied as error:
        exit_unreachable(str(error))
    except SourceError as error:
        if isinstance(error.__cause__, PermissionError):
            exit_unreachable(f"{error}; run kshadow as a user who may read it")
        raise click.UsageError(printable(str(error))) from None


@contextmanager
def history_errors_reported() -> Iterator[None]:
    """The same of tables that cannot be read or written, as without the packages for them: what needs these is
    imported within."""
    from agent.history.errors import INSTALL, HistoryError, HistoryUnreachable

    try:
        yield
    except ModuleNotFoundError as error:
        raise click.UsageError(f"expected the Python package {error.name}, it is not installed: {INSTALL}") from None
    except HistoryUnreachable as error:
        exit_unreachable(str(error))
    except HistoryError as error:
        raise click.UsageError(printable(str(error))) from None


@contextmanager
def open_source(
    ctx: click.Context,
    group: str | None = None,
    *,
    history: bool = False,
    until: TimeSpec | None = None,
    recorder: GroupRecorder | None = None,
    witness: EvidenceSource | None = None,
    lag: bool = False,
    is_reported: bool = True,
    tables: bool = False,
) -> Iterator[Answers]:
    """The answers of the one source that the command was given.

    At the end it is said what was wrong with the data (unless not `is_reported`: whoever asks does), and the command
    ends with 1 if anything was.

    `group`: only that one will be asked for. `history`: events and findings will be, too. `until`: as it was then.
    `recorder` follows its group through what is read here, and `witness` testifies to it; an agent has read already.
    `lag`: a broker is asked for the ends of what the group has committed. `tables`: history tables answer as well,
    which do not tell how groups stand.
    """
    from_path, bootstrap_server, agent = (ctx.params[name] for name in SOURCES)
    kind = exactly_one_of(ctx, *SOURCES)
    check_source_options(ctx, kind)
    if kind == "agent" and until is not None:
        raise click.UsageError("--until goes with --from and --bootstrap-server; an agent knows groups as they are")
    with source_errors_reported(), ExitStack() as opened:
        if kind == "from_path" and _is_history(from_path):
            answers: Answers = opened.enter_context(_history_opened(ctx, from_path, witness, tables=tables))
        elif kind == "agent":
            from agent.cli.agent_client import AgentClient

            answers = AgentClient(agent, {name: ctx.params.get(name) for name in AGENT_OPTIONS})
        else:
            from agent.cli.reading import Reading, answers_of_brokers, answers_of_files, with_sessions
            from agent.core.diagnosis.cluster import NO_ANALYZERS

            # To look for findings takes long.
            chosen = choose_analyzers(ctx.params["analyzer_names"], ctx.params["tuned"]) if history else NO_ANALYZERS
            conf = None
            if kind == "bootstrap_server":
                conf = librdkafka_config(bootstrap_server, ctx.params["properties"])
            if history or recorder is not None:
                witness = with_sessions(witness, ctx.params.get("broker_config", ()), conf, group)
            reading = Reading(group=group, keep_events=history, chosen=chosen, recorder=recorder, witness=witness)
            if conf is None:
                answers = answers_of_files(from_path, until, reading, ctx.params["workers"])
            else:
                answers = answers_of_brokers(conf, until, reading, ctx.params["group_partitioner"], lag=lag)
        yield answers
        if is_reported and answers.report(warn):
            ctx.exit(1)


STDIN = "-"


def finds_here(ctx: click.Context) -> bool:
    """Whether this process looks for findings in the source that the command was given, and no other did before."""
    kind = exactly_one_of(ctx, *SOURCES)
    return kind == "bootstrap_server" or (kind == "from_path" and not _is_history(ctx.params[kind]))


def _is_history(path: str) -> bool:
    """Looks at names alone: what reads tables is imported where there are some."""
    if path == STDIN:
        return False
    if "://" in path or path.endswith(".parquet"):
        return True
    try:
        names = os.listdir(path)
    except OSError:
        return False
    return any(it == "_delta_log" or it.startswith("date=") or it.endswith(".parquet") for it in names)


@contextmanager
def _history_opened(
    ctx: click.Context, path: str, witness: EvidenceSource | None, *, tables: bool
) -> Iterator[Answers]:
    """The answers of history tables. Raises `click.UsageError` for what they cannot tell."""
    if not tables:
        raise click.UsageError(
            f"--from {printable(path)}: expected records; history tables tell what happened and not how groups stand:"
            " kshadow timeline, explain, findings, report and verdict read them"
        )
    if witness is not None:
        raise click.UsageError("--broker-log goes with records; the causes in history tables are told already")
    if typed(ctx, "analyzer_names", "tuned"):
        raise click.UsageError("--analyzers and --tune go with records; history tables hold what was found")
    if typed(ctx, "broker_config"):
        raise click.UsageError("--broker-config goes with records; the causes in history tables are told already")
    until = ctx.params.get("until")
    with history_errors_reported():
        from agent.cli.history_answers import answers_of_history

        with answers_of_history(path, None if until is None else until.at_ms) as answers:
            yield answers


_GOES_WITH: Mapping[str, tuple[tuple[str | None, ...], str]] = {
    "workers": (("from_path",), "--workers goes with --from"),
    "properties": (("bootstrap_server",), "--property goes with --bootstrap-server"),
    "command_config": (("bootstrap_server",), "--command-config goes with --bootstrap-server"),
    "group_partitioner": (("bootstrap_server", None), "--group-partitioner goes with --bootstrap-server"),
    "broker_config": (
        ("from_path", "bootstrap_server"),
        "--broker-config goes with --from and --bootstrap-server; an agent has its own",
    ),
    **dict.fromkeys(
        ("analyzer_names", "tuned"),
        (
            ("from_path", "bootstrap_server"),
            "--analyzers and --tune go with --from and --bootstrap-server; an agent has its own",
        ),
    ),
    **{name: (("agent",), f"--{name.replace('_', '-')} goes with --agent") for name in AGENT_OPTIONS},
}
"""Options by the kinds of source that they are for (None: nobody is asked), and what is said where it is another."""


def check_source_options(ctx: click.Context, kind: str | None) -> None:
    """Raise `click.UsageError` for options on the command line that go with another kind of source, or with one where
    there is none."""
    for name in typed(ctx, *_GOES_WITH):
        kinds, text = _GOES_WITH[name]
        if kind not in kinds:
            raise click.UsageError(text)
