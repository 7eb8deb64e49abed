"""Many seeds, in several processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from itertools import islice
from multiprocessing import get_context

from tests.harness.deterministic.planted import PLANTED
from tests.harness.deterministic.world import Plan, Run, play

PORTION = 20
"""Seeds that a process is given at a time."""


def played(first: int, end: int, processes: int, planted: str | None = None) -> Iterator[tuple[int, Run, float]]:
    """Each seed with what came of it and its CPU seconds, in order."""
    portions = [(range(at, min(at + PORTION, end)), planted) for at in range(first, end, PORTION)]
    if processes == 1:
        for portion in portions:
            yield from play_some(*portion)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        # Not all at once: who has found what was looked for needs no more.
        waiting = iter(portions)
        under_way = [pool.submit(play_some, *it) for it in islice(waiting, processes + 1)]
        while under_way:
            yield from under_way.pop(0).result()
            under_way += [pool.submit(play_some, *it) for it in islice(waiting, 1)]


def play_some(seeds: range, planted: str | None = None) -> list[tuple[int, Run, float]]:
    """These, one after the other."""
    out = []
    for seed in seeds:
        began_s = time.process_time()
        with nullcontext() if planted is None else PLANTED[planted]():
            run = play(Plan.of(seed))
        out.append((seed, run, time.process_time() - began_s))
    return out
