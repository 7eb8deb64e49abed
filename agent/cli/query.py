"""The frame of a command that asks one source about groups: what it was told, and how its rows are printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from agent.cli.output import print_rows
from agent.cli.sort_filter import Row, sort_rows
from agent.cli.tables import Column
from agent.cli.text import iso_time

if TYPE_CHECKING:
    from agent.cli.answers import Answers

T = TypeVar("T", bound=Row)


class Query:
    """One call of such a command. `ctx.params` has the options that several of them share."""

    def __init__(self, ctx: click.Context) -> None:
        self.ctx = ctx
        self.output: str = ctx.params.get("output", "")
        self.is_table = self.output == "table"
        self.follows: bool = ctx.params.get("follows", False)

    @property
    def source(self) -> str:
        """Which of `SOURCES` is asked: others may stand where less weight is. Raises `click.UsageError`."""
        from agent.cli.options import SOURCES, exactly_one_of

        return exactly_one_of(self.ctx, *SOURCES)

    def open(self, group: str | None = None, **needs: Any) -> AbstractContextManager[Answers]:
        """The answers of the source that the command was given; what is needed of them is as for `open_source`."""
        from agent.cli.data_source import open_source

        return open_source(self.ctx, group, **needs)

    def follow(self, poll: Callable[[Answers], None], group: str | None = None, *, lag: bool = False) -> NoReturn:
        """Call `poll`, which prints what is new, again and again."""
        from agent.cli.following import follow

        follow(self.ctx, poll, group, lag=lag)

    def range_ms(self, answers: Answers) -> tuple[int | None, int | None]:
        """`--since` and `--until` as epoch milliseconds."""
        from agent.cli.options import resolve_range

        return resolve_range(self.ctx.params["since"], self.ctx.params["until"], answers.now_ms)

    @staticmethod
    def is_ahead(answers: Answers, since_ms: int | None) -> bool:
        """Whether a range begins after all that is known."""
        return since_ms is not None and since_ms > answers.now_ms

    def nothing_in_range(self, answers: Answers, since_ms: int | None, otherwise: str) -> str:
        """What a table says in place of rows: of a time that has not come, or was not read, not that nothing was in
        it."""
        if not self.is_ahead(answers, since_ms):
            return otherwise if answers.ready().ready else f"{otherwise}, as far as was read"
        return f"(nothing is known of that time: what there is ends at {iso_time(answers.now_ms)})"

    def print_rows(
        self,
        rows: Iterable[T],
        columns: Mapping[str, Column],
        *,
        shown: Callable[[T], Mapping[str, Any]] | None = None,
        empty: str = "nothing",
        **sorting: Any,
    ) -> None:
        """Rows in the order of `--sort-by` (`sorting`: as for `sort_rows`); a table's are made by `shown`."""
        if keys := self.ctx.params["sort_by"]:
            rows = sort_rows(rows, keys, columns, **sorting)
        printed: Iterable[Mapping[str, Any]] = map(shown, rows) if shown is not None and self.is_table else rows
        print_rows(printed, self.output, columns, empty=empty)


def pass_query(command: Callable[..., None]) -> Callable[..., None]:
    """Call a command with its `Query` first, as `click.pass_context` does with the context."""

    def call(*arguments: Any, **options: Any) -> None:
        command(Query(click.get_current_context()), *arguments, **options)

    return update_wrapper(call, command)
