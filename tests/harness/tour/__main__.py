"""The tour: `python -m tests.harness.tour --out DIR [--live] [--columns 80]`.

Drives every command as a new user would, on a terminal and through a pipe, and stores what each printed, with an
index to read it all by. Exit code 1 if an exit code is not the expected one, or if what was printed holds a
traceback, an unprintable character, or a line wider than the terminal.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from tests import SHARED
from tests.harness.tour.looking import Printed, is_data, placed, prepare, problems
from tests.harness.tour.steps import LIVE, OFFLINE, Step
from tests.harness.tour.terminals import on_two_terminals
from tests.unit.cli.running import SEGMENTS, spawn

ONCE = (["generate"], ["context"], ["watch"])
"""Commands that change something, or take over a terminal."""
CAPTURE = SHARED / "captures" / "kafka-4.3.1" / "segments"


def through_a_pipe(words: list[str], stdin: str | None, env: Mapping[str, str]) -> Printed:
    """As a process."""
    began = time.monotonic()
    with spawn(*words, env=env, stdin=-1) as process:
        out, err = process.communicate((stdin or "").encode(), timeout=300)
    return Printed(words, out.decode(), err.decode(), process.returncode, time.monotonic() - began)


def on_a_terminal(words: list[str], columns: int, env: Mapping[str, str]) -> Printed:
    """As a process on a terminal."""
    began = time.monotonic()
    out, err, code = on_two_terminals(words, columns, env)
    return Printed(words, out, err, code, time.monotonic() - began)


class Tour:
    """Takes steps and keeps what they printed."""

    def __init__(self, out: Path, columns: int, env: Mapping[str, str]) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self._out, self._columns, self._env = out, columns, env
        self._rows: list[str] = []
        self.wrong = 0

    def take(self, step: Step, places: Mapping[str, str]) -> None:
        """One step, in each of its formats. What is for machines goes through a pipe, all else to a terminal, too."""
        for typed in step.each():
            words = placed(typed, places)
            self._keep(step, typed, through_a_pipe(words, step.stdin, self._env), None)
            if step.stdin is None and not is_data(words) and words[0:1] not in ONCE:
                self._keep(step, typed, on_a_terminal(words, self._columns, self._env), self._columns)

    def _keep(self, step: Step, typed: list[str], printed: Printed, columns: int | None) -> None:
        found = list(problems(step, printed, columns))
        self.wrong += bool(found)
        number = f"{len(self._rows) + 1:03d}"
        first = (typed or ["nothing"])[0].strip("-")
        name = f"{number}-{first}{'' if columns is None else f'-{columns}'}.txt"
        line = " ".join(["kshadow", *typed])
        (self._out / name).write_text(
            f"$ {line}\n# {step.about or '-'}; exit code {printed.code}; {printed.seconds:.2f} s; "
            f"{'a pipe' if columns is None else f'a terminal of {columns} columns'}\n"
            + "".join(f"# WRONG: {it}\n" for it in found)
            + f"{printed.out}\n--- standard error\n{printed.err}",
            encoding="utf-8",
            errors="backslashreplace",
        )
        where = "pipe" if columns is None else str(columns)
        cells = (
            *(f"[{number}]({name})", f"`{line}`", where, printed.code, f"{printed.seconds:.2f}"),
            *(printed.out.count("\n"), "; ".join(found).replace("|", "\\|")),
        )
        self._rows.append(f"| {' | '.join(map(str, cells))} |")
        if found:
            print(f"{name}: {line}: {'; '.join(found)}", flush=True)

    def index(self) -> None:
        """One page that leads to all."""
        head = "| | command | on | exit | seconds | lines | wrong |\n|---|---|---|---|---|---|---|\n"
        (self._out / "index.md").write_text(head + "\n".join(self._rows) + "\n", encoding="utf-8")
        print(f"{len(self._rows)} command lines, {self.wrong} with something wrong: {self._out / 'index.md'}")


def helps() -> Iterator[Step]:
    """The help of each command and subcommand."""
    import click

    from agent.cli.commands import LISTINGS
    from agent.cli.main import cli

    for name in LISTINGS:
        yield Step(f"{name} --help")
        command = cli.get_command(click.Context(cli, **cli.context_settings), name)
        for under in command.commands if isinstance(command, click.Group) else ():
            yield Step(f"{name} {under} --help")


def main() -> int:
    """Take the tour."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--live", action="store_true", help="also on a real broker with the demo's agent")
    parser.add_argument("--only-live", action="store_true")
    parser.add_argument("--columns", type=int, default=80)
    given = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        tour = Tour(given.out, given.columns, {"KSHADOW_CONTEXTS": str(directory / "contexts.yaml")})
        places = {"{data}": str(CAPTURE if CAPTURE.exists() else SEGMENTS), **prepare(directory)}
        if not given.only_live:
            for step in (*helps(), *OFFLINE):
                tour.take(step, places)
        if given.live or given.only_live:
            from tests.harness.tour.live import demo

            broker, agent = stack.enter_context(demo(given.out / "demo.txt"))
            for step in LIVE:
                tour.take(step, {**places, "{broker}": broker, "{agent}": agent})
    tour.index()
    return int(tour.wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
