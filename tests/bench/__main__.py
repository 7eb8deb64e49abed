"""`make bench`: catch-up on a live broker and reading segment files, each side by side with others in one run; and
how long it takes to make a history.

Every row is a whole process, started afresh for each round, the competitors taking turns so that a noisy machine
treats them alike; the median counts. Environment: KMINION=path of a kminion binary adds its row.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agent.embedded import EmbeddedBroker, fetch_jars
from tests.bench import load
from tests.bench.measure import Cost, run, until_ready

KSHADOW = [sys.executable, "-m", "agent.cli.main"]
SEGMENTS = 10
"""How many partitions the offline part reads: enough that the dump tool's JVM start does not count for much."""


def main() -> None:
    """Load a broker, then measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--commits", type=int, default=3_000_000, help="offset commits to load (default 3 million)")
    parser.add_argument("--groups", type=int, default=2_000, help="groups that commit them (default 2,000)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each competitor (default 3)")
    parser.add_argument("--only", choices=["live", "offline", "generate"], help="one part only")
    options = parser.parse_args()

    if options.only in (None, "generate"):
        with tempfile.TemporaryDirectory(prefix="kshadow-bench-") as directory:
            generation(Path(directory), options.rounds)
    if options.only == "generate":
        return
    jars = fetch_jars(progress=_tell)
    with tempfile.TemporaryDirectory(prefix="kshadow-bench-") as directory:
        with EmbeddedBroker(jars, directory=Path(directory, "broker"), heap="1g") as broker:
            began = time.monotonic()
            loaded = load.write(broker.bootstrap_servers, commits=options.commits, groups=options.groups)
            _tell(
                f"loaded {loaded.commits:,} commits of {loaded.groups:,} groups, {loaded.group_partitions:,} "
                f"group-partitions, into {loaded.partitions} partitions in {time.monotonic() - began:.0f} s"
            )
            if options.only != "offline":
                live(broker.bootstrap_servers, Path(directory), options.rounds)
            log_dir = broker.log_dirs[0]
            classpath = jars.classpath
        if options.only != "live":
            offline(log_dir, classpath, Path(directory), options.rounds)
            analysis(log_dir, Path(directory), options.rounds)


def live(servers: str, directory: Path, rounds: int) -> None:
    """From the start of the process to ready: every record of the topic read and mirrored."""
    port, other = _free_port(), _free_port()
    output = directory / "out"
    bare = [sys.executable, "-m", "tests.bench.bare", servers]
    rivals: dict[str, Callable[[], Cost]] = {
        "kshadow run, to /readyz": lambda: until_ready(
            [*KSHADOW, "run", "--bootstrap-server", servers, "--listen", f"127.0.0.1:{port}"],
            f"http://127.0.0.1:{port}/readyz",
        ),
        "bare consume loop": lambda: run(bare, output=output),
        "bare loop + dict": lambda: run([*bare, "--dict"], output=output),
    }
    kminion = os.environ.get("KMINION")
    if kminion:
        config = directory / "kminion.yaml"
        config.write_text(
            f'kafka: {{brokers: ["{servers}"]}}\n'
            "minion: {consumerGroups: {enabled: true, scrapeMode: offsetsTopic, granularity: partition}}\n"
            f'exporter: {{host: "127.0.0.1", port: {other}}}\n'
        )
        rivals["kminion, to /ready"] = lambda: until_ready(
            [kminion], f"http://127.0.0.1:{other}/ready", env={"CONFIG_FILEPATH": str(config)}
        )
    else:
        _tell("no kminion row: set KMINION to the path of its binary")
    costs = _take_turns(rivals, rounds)
    _table("Catch-up on the live topic", costs)
    ours = _median(costs["kshadow run, to /readyz"])
    _ratio("the bare loop's time / ours", _median(costs["bare consume loop"]).wall_s / ours.wall_s, "aim 0.8")
    if kminion:
        theirs = _median(costs["kminion, to /ready"])
        _ratio("kminion's time to ready / ours", theirs.wall_s / ours.wall_s, "wanted: 3 or more")
        _ratio("our CPU / kminion's", ours.cpu_s / theirs.cpu_s, "wanted: 1 or less")
    _ratio("our peak memory, MB", ours.peak_mb, "wanted: under 300")


def offline(log_dir: Path, classpath: str, directory: Path, rounds: int) -> None:
    """Segment files of some partitions, decoded and mirrored, against Kafka's dump tool over the same files."""
    partitions = sorted(log_dir.glob("__consumer_offsets-*"))[:SEGMENTS]
    segments = [segment for partition in partitions for segment in sorted(partition.glob("*.log"))]
    dump = [
        "java",
        "-cp",
        classpath,
        "org.apache.kafka.tools.DumpLogSegments",
        "--offsets-decoder",
        "--files",
        ",".join(map(str, segments)),
    ]
    output = directory / "out"
    rivals: dict[str, Callable[[], Cost]] = {
        "kshadow replay (decode, mirror, analyze)": lambda: run(
            [*KSHADOW, "replay", *map(str, partitions)], output=output
        ),
        "kshadow decode (prints each record)": lambda: run(
            [*KSHADOW, "decode", *map(str, partitions)], output=output
        ),
        "Kafka's dump tool": lambda: run(dump, output=output),
    }
    costs = _take_turns(rivals, rounds)
    size = sum(segment.stat().st_size for segment in segments) / 1e6
    _table(f"Segment files of {len(partitions)} partitions, {size:.0f} MB", costs)
    theirs = _median(costs["Kafka's dump tool"])
    ours = _median(costs["kshadow replay (decode, mirror, analyze)"])
    _ratio("the dump tool's time / ours", theirs.wall_s / ours.wall_s, "wanted: 5 or more")
    decode = _median(costs["kshadow decode (prints each record)"])
    _ratio("the dump tool's time / kshadow decode's", theirs.wall_s / decode.wall_s, "for information")


def analysis(log_dir: Path, directory: Path, rounds: int) -> None:
    """All segment files, replayed with every analyzer and with none."""
    replay = [*KSHADOW, "replay", str(log_dir)]
    output = directory / "out"
    rivals: dict[str, Callable[[], Cost]] = {
        "kshadow replay": lambda: run(replay, output=output),
        "kshadow replay --analyzers none": lambda: run([*replay, "--analyzers", "none"], output=output),
    }
    costs = _take_turns(rivals, rounds)
    _table("All partitions, with and without analyzers", costs)
    every, none = (_median(costs[name]).cpu_s for name in rivals)
    _ratio("CPU with all analyzers / with none", every / none, "wanted: 1.3 or less")


def generation(directory: Path, rounds: int) -> None:
    """A history of 2,000 groups and about a million records, simulations and segment files included."""
    output, history = directory / "out", directory / "history"
    arguments = ["generate", "--groups", "2000", "--records", "1000000", "--force", "--out", str(history)]
    costs = _take_turns({"kshadow generate": lambda: run([*KSHADOW, *arguments], output=output)}, rounds)
    records = int(output.read_text().split()[0].replace(",", ""))
    _table(f"A history of 2,000 groups, {records:,} records", costs)
    _ratio("seconds", _median(costs["kshadow generate"]).wall_s, "wanted: under 10")
    _ratio("records a second", records / _median(costs["kshadow generate"]).wall_s, "for information")


def _take_turns(rivals: dict[str, Callable[[], Cost]], rounds: int) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {name: [] for name in rivals}
    for number in range(rounds):
        for name, measure in rivals.items():
            costs[name].append(measure())
            cost = costs[name][-1]
            _tell(f"round {number + 1}: {name}: {cost.wall_s:.2f} s")
    return costs


def _median(costs: list[Cost]) -> Cost:
    return Cost(*(statistics.median(column) for column in zip(*costs, strict=True)))


def _table(title: str, costs: dict[str, list[Cost]]) -> None:
    print(f"\n{title}\n{'':38}{'seconds (min…max)':>24}{'CPU s':>8}{'peak MB':>9}")
    for name, taken in costs.items():
        median = _median(taken)
        walls = [cost.wall_s for cost in taken]
        spread = f"{median.wall_s:.2f} ({min(walls):.2f}…{max(walls):.2f})"
        print(f"{name:38}{spread:>24}{median.cpu_s:>8.2f}{median.peak_mb:>9.0f}")


def _ratio(what: str, value: float, wanted: str) -> None:
    print(f"  {what}: {value:.2f}  ({wanted})")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
