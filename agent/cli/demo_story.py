"""How `kshadow demo` tells: one line of progress at a time, findings at once, and each group's story when it is over.

Owns what is printed and when. What happened is told to it; it asks nobody.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from agent.cli.output import bold, echo, printable
from agent.cli.tables import fold_words
from agent.common import clock

if TYPE_CHECKING:
    from agent.core.diagnosis.engine import DiagnosisOutput
    from agent.tools.demo import LedgerEntry, Scenario

READ_WITHIN_S = 1.5
"""What was done last to a group takes a moment to be written and read."""
_WIDEST = 110


class Teller:
    """Prints lines with the seconds since the demo began. On a terminal what passes is one line, written over."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._is_terminal = sys.stdout.isatty()
        self._shown = False
        """Whether a line stands there that the next one takes the place of."""

    @property
    def now_s(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began

    def since_ms(self, at_ms: int) -> float:
        """Seconds from the demo's beginning to a moment of the clock on the wall."""
        return self.now_s - (clock.now_ms() - at_ms) / 1000

    @property
    def width(self) -> int:
        """How long lines may be."""
        return min(shutil.get_terminal_size().columns, _WIDEST) if self._is_terminal else _WIDEST

    def passing(self, text: str) -> None:
        """What is of interest until the next line comes; on a terminal alone."""
        if self._is_terminal:
            line = printable(f"{self.now_s:4.0f} s  {text}")
            echo(f"\r\x1b[2K{line[: max(1, self.width - 1)]}", nl=False)
            self._shown = True

    def step(self, text: str) -> None:
        """What is done next: on a terminal it passes, elsewhere it stays."""
        if self._is_terminal:
            self.passing(text)
        else:
            self.say(f"{self.now_s:4.0f} s  {text}")

    def say(self, text: str = "") -> None:
        """A line that stays."""
        self.clear()
        echo(text)

    def say_at(self, at_s: float, text: str) -> None:
        """One with its seconds, folded. The clock on the wall may be a little behind the one that counts."""
        at_s = max(at_s, 0.0)
        lines = fold_words(printable(text), self.width - 8)
        for number, line in enumerate(lines):
            self.say((" " * 8 if number else f"{at_s:4.0f} s  ") + line)

    def clear(self) -> None:
        """Take the passing line away."""
        if self._shown:
            echo("\r\x1b[2K", nl=False)
            self._shown = False


class _Chapter(Struct):
    """One group's: what was done to it and read about it, with the seconds of each."""

    scenario: Scenario
    lines: list[tuple[float, str]] = field(default_factory=list)
    starting: list[str] = field(default_factory=list)
    """Members that were started one after the other: one line."""
    started_s: float = 0.0
    over_s: float | None = None
    is_told: bool = False

    def add(self, at_s: float, text: str) -> None:
        self.flush()
        self.lines.append((at_s, text))

    def add_start(self, at_s: float, members: Sequence[str]) -> None:
        if not self.starting:
            self.started_s = at_s
        self.starting += members

    def flush(self) -> None:
        if self.starting:
            self.lines.append((self.started_s, f"started {', '.join(self.starting)}"))
            self.starting = []


class Story:
    """The story of all groups, each told as a whole when it is over; findings as they come."""

    def __init__(self, teller: Teller, scenarios: Sequence[Scenario]) -> None:
        self._teller = teller
        self._chapters = {it.group: _Chapter(it) for it in scenarios}
        self._told_finding = False
        """Whether the last line that stays is a finding's."""

    def done(self, entry: LedgerEntry) -> None:
        """Something was done to a group, or its script is over."""
        chapter, at_s = self._chapters[entry.group], self._teller.since_ms(entry.at_ms)
        match entry.act:
            case "start":
                chapter.add_start(at_s, entry.members)
            case "settle":
                pass
            case "finished" | "failed":
                chapter.over_s = self._teller.now_s
                if entry.act == "failed":
                    chapter.add(at_s, f"could not be played to its end: {entry.sentence}")
            case _:
                chapter.add(at_s, entry.sentence)
                self._teller.passing(f"{entry.group}: {entry.sentence}")

    def read(self, output: DiagnosisOutput) -> None:
        """kshadow read something about a group."""
        from agent.core.diagnosis.api import Finding, FindingState

        at_s = self._teller.now_s
        chapter = self._chapters.get(output.group or "")
        if isinstance(output, Finding) and output.state is FindingState.FIRING:
            self._teller.say_at(at_s, f"finding in {output.group}, {output.severity}: {output.summary}")
            self._told_finding = True
            if chapter is not None:
                chapter.add(at_s, f"=> finding, {output.severity}: {output.analyzer}")
        elif chapter is not None and (text := _sentence(output)) is not None:
            chapter.add(at_s, f"=> {text}")

    def tell(self, *, all_of_it: bool = False) -> None:
        """Print the stories that are over by now, or whatever is left."""
        for chapter in self._chapters.values():
            is_over = chapter.over_s is not None and self._teller.now_s - chapter.over_s > READ_WITHIN_S
            if not chapter.is_told and (is_over or all_of_it):
                chapter.is_told = True
                self._tell(chapter)

    def _tell(self, chapter: _Chapter) -> None:
        chapter.flush()
        if self._told_finding:
            self._teller.say()
            self._told_finding = False
        heading = fold_words(f"{chapter.scenario.group}: {chapter.scenario.story}", self._teller.width)
        for line in heading:
            self._teller.say(bold(line))
        for at_s, text in chapter.lines:
            self._teller.say_at(at_s, text)
        self._teller.say()


def _sentence(output: DiagnosisOutput) -> str | None:
    """What a rebalance was, in a line; None for what a demo need not tell."""
    from agent.core.shadow.transitions import GroupEmptied, Rebalanced
    from agent.presentation.narrative.words import count

    match output:
        case Rebalanced():
            word = "generation" if output.group_type in ("classic", "connect") else "epoch"
            why, departures = output.inferred, output.inferred.departures
            who = [f"+{member.client_id}" for member in output.joined]
            for member in output.left:
                cause = departures[member.member_id].cause
                who.append(f"-{member.client_id}" + ("" if cause == why.cause else f" ({cause})"))
            sure = "" if not why.confidence else f" ({why.confidence:.0%} sure)"
            members = count(output.members, "member")
            parts = [f"{word} {output.generation}, {members}", f"{why.cause}{sure}", " ".join(who)]
            return ": ".join(filter(None, parts))
        case GroupEmptied():
            return "no members are left"
        case _:
            return None
