"""Writes the file."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

from agent.tools.embedded import fetch_jars
from agent.tools.embedded.java import find_java
from tests import ROOT

OUT = ROOT / "tests" / "data" / "protocol" / "group_partitions.ndjson"
PROGRAM = Path(__file__).with_name("GroupPartitions.java")
GUAVA = "com.google.guava:guava:33.4.8-jre"
COUNTS = (1, 3, 16, 50)
NAMES = 1_000

_ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz",
    "abcdefghijklmnopqrstuvwxyz0123456789-_.",
    "äöüßéñçøåæ",
    "аяйжЖбсΩαλ",
    "日本語消費者グループ한국어",
    "😀🚀🦊👩‍🔬𝔘𐍈",
    " \t\n\0\x1b\x7f\"\\'%$",
    "\ud800\udbff\udc00\udfffa",
)
# Of Java: the two strings' hash is the smallest integer, whose absolute value does not fit.
_EDGES = (
    "",
    " ",
    "a",
    "\0",
    "polygenelubricants",
    "DESIGNING WORKHOUSES",
    "connect-cluster",
    "ÿ",
    "\ud83d",
    "\ude00\ud83d",
)


def names(dice: random.Random) -> Iterator[str]:
    """All different; among them each size around the 32, 8 and 4 bytes that xxHash64 takes at a time."""
    yield from _EDGES
    yield from ("x" * size for size in (*range(2, 70), 127, 128, 255, 1_000, 4_099))
    while True:
        alphabet = dice.choice(_ALPHABETS)
        yield "".join(dice.choices(alphabet, k=dice.choice((1, 2, 3, 8, 16, 31, 40))))


def main() -> None:
    source = names(random.Random("group partitions"))
    chosen: dict[str, None] = {}
    while len(chosen) < NAMES:
        chosen[next(source)] = None
    jars = fetch_jars("4.3.1", extra=(GUAVA,))
    command = [str(find_java()), "-cp", jars.classpath, str(PROGRAM), *map(str, COUNTS)]
    lines = "".join(json.dumps(name) + "\n" for name in chosen)
    done = subprocess.run(command, input=lines, stdout=subprocess.PIPE, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    OUT.parent.mkdir(exist_ok=True)
    with OUT.open("w", encoding="ascii") as file:
        for name, answer in zip(chosen, answers, strict=True):
            file.write(json.dumps({"group": name, **answer}, separators=(",", ":")) + "\n")
    print(f"{len(answers)} names, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
