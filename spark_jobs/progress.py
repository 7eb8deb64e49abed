"""What a job says while it works and when it is done: lines on standard error, each beginning with `kshadow: `."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from agent.common.sanitize import printable

EVERY_S = 5.0


def print_status(text: str) -> None:
    """Say a sentence. What strangers wrote in it is made fit for a terminal."""
    print(f"kshadow: {printable(text)}", file=sys.stderr, flush=True)  # noqa: T201


@contextmanager
def progress(spark: SparkSession, what: str) -> Iterator[None]:
    """While the block runs, say every few seconds how many of a stage's tasks are done."""
    ended = threading.Event()
    context = spark.sparkContext
    tracker = context.statusTracker()

    def tell() -> None:
        began, last = time.monotonic(), ""
        while not ended.wait(EVERY_S):
            stages = [tracker.getStageInfo(it) for it in tracker.getActiveStageIds()]
            tasks = [
                f"{it.numCompletedTasks} of {it.numTasks} tasks done, {it.numActiveTasks} at work"
                for it in stages
                if it
            ]
            text = f"{what}: {'; '.join(tasks)}"
            if tasks and text != last:
                print_status(f"{text}, {time.monotonic() - began:.0f} s")
                last = text

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
