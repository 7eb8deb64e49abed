"""`make bench`: kshadow beside others, each a real process on a real broker, in one run.

Scenarios: catchup (from start to every record read), restart (after kill -9), segments (files against Kafka's dump
tool), analyzers (what they cost), workers (files that processes share), steady (keeping up with a writer), scrape
(GET /metrics of many groups), memory (for each 100,000 group-partitions), generate (synthetic histories).
Environment: KMINION, BURROW and KAFKA_EXPORTER are paths of binaries; a row whose binary is not named is left out,
and that is said.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from agent.tools.embedded import fetch_jars
from tests.harness.bench.catchup import catchup
from tests.harness.bench.files import analyzers, generate, segments, workers
from tests.harness.bench.frame import FULL, MILLION, QUICK, TINY, Frame, Sizes, tell
from tests.harness.bench.memory import memory
from tests.harness.bench.report import Table
from tests.harness.bench.restart import restart
from tests.harness.bench.scrape import scrape
from tests.harness.bench.steady import steady
from tests.harness.bench.tools import others

SCENARIOS: dict[str, Callable[[Frame], Table]] = {
    "catchup": catchup,
    "restart": restart,
    "segments": segments,
    "analyzers": analyzers,
    "workers": workers,
    "steady": steady,
    "scrape": scrape,
    "memory": memory,
    "generate": generate,
}
"""In this order: the first of them only read the one load, then it grows."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scenarios and print what they give."""
    options = _parser().parse_args(arguments)
    # An agent that compiles its modules at each start, as nobody's does, takes twice as long to start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    wanted = list(SCENARIOS) if options.only is None else options.only.split(",")
    if unknown := [name for name in wanted if name not in SCENARIOS]:
        raise SystemExit(f"--only: no scenario {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    names = [name for name in SCENARIOS if name in wanted]
    tools, missing = others()
    for name, reason in missing.items():
        tell(f"no row of {name}: {reason}")
    tables = []
    with tempfile.TemporaryDirectory(prefix="kshadow-bench-") as directory:
        frame = Frame(_sizes(options), fetch_jars(progress=tell), Path(directory), tools, missing)
        with closing(frame):
            for name in names:
                tell(f"{name} …")
                table = SCENARIOS[name](frame)
                tables.append(table)
                if options.output == "table":
                    print(f"\n{table.text()}", flush=True)
    if options.output == "json":
        print(json.dumps(_form(frame, tables), indent=2, ensure_ascii=False))
    elif missing:
        print("\n" + "\n".join(f"No row of {name}: {reason}." for name, reason in missing.items()))
    return int(options.strict and any(ratio.is_met is False for table in tables for ratio in table.ratios))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.harness.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", metavar="NAMES", help="these scenarios, by commas")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="sizes", action="store_const", const=QUICK, help="small: does it work at all?")
    size.add_argument(
        "--million", dest="sizes", action="store_const", const=MILLION, help="that many group-partitions"
    )
    size.add_argument("--tiny", dest="sizes", action="store_const", const=TINY, help="smaller still, for the tests")
    parser.add_argument("--commits", type=int, help="offset commits to load")
    parser.add_argument("--groups", type=int, help="groups that commit them")
    parser.add_argument("--rounds", type=int, help="runs of each competitor, where one takes seconds; medians count")
    parser.add_argument("--seconds", type=float, help="how long the steady state lasts")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target was missed")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    return parser


def _sizes(options: argparse.Namespace) -> Sizes:
    given = {name: getattr(options, name) for name in ("commits", "groups", "rounds", "seconds")}
    return dataclasses.replace(
        options.sizes or FULL, **{name: value for name, value in given.items() if value is not None}
    )


def _form(frame: Frame, tables: Sequence[Table]) -> dict[str, object]:
    return {
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()},
        "sizes": dataclasses.asdict(frame.sizes),
        "left_out": frame.missing,
        "scenarios": [table.form() for table in tables],
    }


if __name__ == "__main__":
    raise SystemExit(main())
