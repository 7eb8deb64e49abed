"""Driving the steps, and looking at what they print with the eyes that a program has."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from agent.cli.commands import LISTINGS
from tests.harness.tour.steps import TABLE, Step

SGR = re.compile(r"\x1b\[[0-9;]*m")
"""What a terminal is told of colour and weight: the one kind of escape there may be."""
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff]")
ESCAPED = re.compile(r"\\u00[0-9a-f]{2}")
"""What is made of a control character that somebody wrote: nobody did on this tour."""
COMMAND_LINE = re.compile(r"\s*(kshadow|kafka-[a-z-]+\.sh|make|kubectl|export|source|eval|curl) |.* kshadow ")
"""A line to be copied is not folded."""


class Printed(NamedTuple):
    """What came of a command line."""

    words: Sequence[str]
    out: str
    err: str
    code: int
    seconds: float

    @property
    def line(self) -> str:
        """What was typed."""
        return " ".join(["kshadow", *self.words])


def problems(step: Step, printed: Printed, columns: int | None) -> Iterator[str]:
    """What is wrong with it for any reader. `columns`: of the terminal, where there is one."""
    text = printed.out + printed.err
    if printed.code != step.code:
        yield f"exit code {printed.code}, expected {step.code}"
    if "Traceback" in text:
        yield "a traceback"
    plain = SGR.sub("", text) if columns is not None else text
    if found := UNPRINTABLE.search(plain):
        yield f"unprintable {found[0]!r} in {plain[max(found.start() - 30, 0) : found.end()]!r}"
    # doctor's table says itself what failed.
    if step.code and not printed.err.strip() and columns is None and printed.words[0] != "doctor":
        yield f"exit code {step.code}, and nothing on standard error"
    if found := ESCAPED.search(printed.err):
        yield f"{found[0]} in a message of ours"
    if text and not text.endswith("\n"):
        yield "the last line is torn"
    for line in plain.splitlines():
        if re.search(r"[ \t]$", line) and columns is None and not is_data(printed.words):
            yield f"blanks at the end of {line[:60]!r}"
            break
    # Messages are a sentence each, which the terminal folds, and which can be copied whole.
    if columns is not None and not is_data(printed.words) and "wide" not in printed.words:
        for line in SGR.sub("", printed.out).splitlines():
            if len(line) > columns and not COMMAND_LINE.match(line):
                yield f"{len(line)} columns on a terminal of {columns}: {line[:100]!r}"
                break


def is_data(words: Sequence[str]) -> bool:
    """Whether what is printed is for machines, and no width is asked of it."""
    told = words[words.index("-o") + 1] if "-o" in words else None
    commands = {"completion": "shell", "decode": "ndjson", "replay": "ndjson", "schema": "json", "sidecar": "yaml"}
    name = next((word for word in words if word in LISTINGS), "")
    if name == "schema" and words == ["schema"]:
        return False
    return (told or commands.get(name, TABLE)) not in (TABLE, "wide") and "--help" not in words


def prepare(directory: Path) -> Mapping[str, str]:
    """Files that the steps take, and where `{tmp}` is."""
    (directory / "damaged.ndjson").write_text('{"key": "00ff", "value": null}\nnonsense\n', encoding="ascii")
    (directory / "wrong.yaml").write_text("lagg: false\nlisten: 12\n", encoding="ascii")
    (directory / "right.yaml").write_text("lag: false\n", encoding="ascii")
    (directory / "deployment.yaml").write_text(DEPLOYMENT, encoding="ascii")
    return {"{tmp}": str(directory)}


DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: payments
spec:
  selector: {matchLabels: {app: payments}}
  template:
    metadata: {labels: {app: payments}}
    spec:
      containers:
        - name: payments
          image: payments:1
"""


def placed(words: Sequence[str], places: Mapping[str, str]) -> list[str]:
    """With what stands for the places."""
    out = []
    for word in words:
        for name, value in places.items():
            word = word.replace(name, value)
        out.append(word)
    return out


def in_process(words: Sequence[str], stdin: str | None, env: Mapping[str, str]) -> Printed:
    """In this process, with pipes."""
    from tests.unit.cli.running import kshadow

    began = time.monotonic()
    result = kshadow(*words, stdin=stdin, env=env)
    return Printed(words, result.stdout, result.stderr, result.exit_code, time.monotonic() - began)
