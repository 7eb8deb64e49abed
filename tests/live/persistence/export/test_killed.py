"""A process that is killed at any moment: what a barrier promised is not lost, a restart goes on without a gap."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.dataset
import pytest

from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests import ROOT
from tests.live.persistence.export.test_topic import read, seen

KILLS = 10
SEED = random.SystemRandom().randrange(1 << 30)


def run(*arguments: str, kill_after_s: float | None = None) -> list[str]:
    """The lines it said until it ended, or was killed."""
    command = [sys.executable, "-m", "tests.live.persistence.export.writer", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        if kill_after_s is not None:
            killer = threading.Timer(kill_after_s, process.send_signal, (signal.SIGKILL,))
            killer.start()
        out, _ = process.communicate(timeout=180)
    finally:
        process.kill()
    assert process.returncode == (0 if kill_after_s is None else -signal.SIGKILL)
    return out.splitlines()


def promised(lines: list[str], before: int) -> int:
    return max([before, *(int(it.split()[1]) for it in lines if it.startswith("promised "))])


def killed_again_and_again(kind: str, place: str, state: Path, meanwhile: Callable[[], None]) -> int:
    """How many events were put when the last process had stopped in order."""
    dice = random.Random(SEED)
    print(f"\nseed {SEED}")
    first = 0
    for _ in range(KILLS):
        lines = run(kind, place, str(state), str(first), kill_after_s=1.0 + dice.random() * 2.5)
        first = promised(lines, first)
        meanwhile()
    *_, last, left = run(kind, place, str(state), str(first), "1000")
    assert left == "left 0"
    return int(last.split()[1])


@pytest.mark.thorough  # the topic below is killed likewise
def test_parquet_files_hold_all_that_was_promised(tmp_path: Path) -> None:
    files = tmp_path / "files"
    total = killed_again_and_again("parquet", str(files), tmp_path / "state", lambda: None)
    table = pyarrow.dataset.dataset(files, partitioning="hive").to_table(columns=["offset"])
    numbers = table["offset"].to_pylist()
    there = set(numbers)
    print(
        f"parquet, killed {KILLS} times: expected {total}, seen {len(there)}, duplicated {len(numbers) - len(there)}"
    )
    assert there >= set(range(total))
    assert total > 1_000 * KILLS // 2, "it got somewhere between the kills"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(fetch_jars()) as broker:
        yield broker


@pytest.mark.usefixtures("kafka")
def test_the_topic_holds_all_that_was_promised_in_order(broker: EmbeddedBroker, tmp_path: Path) -> None:
    conf = {"bootstrap.servers": broker.bootstrap_servers}
    dice = random.Random(SEED)

    def meanwhile() -> None:
        # Half of the processes live with a broker that does not answer for part of their time.
        if dice.random() < 0.5:
            broker.pause()
            threading.Timer(dice.random() * 6, broker.resume).start()

    total = killed_again_and_again("topic", f"{broker.bootstrap_servers}/history", tmp_path / "state", meanwhile)
    time.sleep(1)
    counts, first = seen(read(conf, "history"))
    twice = sum(counts.values()) - len(counts)
    print(f"topic, killed {KILLS} times: expected {total}, seen {len(counts)}, duplicated {twice}")
    assert counts.keys() >= set(range(total))
    for numbers in first.values():
        assert numbers == sorted(numbers)
