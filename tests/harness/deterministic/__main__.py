"""`python -m tests.harness.deterministic --seeds 0:10000`: play seeds, and say which fail.

A seed that fails is played a second time, to see that it is the same to the byte. `--seed N` plays one, with its
steps and the agent's log; `--shrink` makes a smaller plan of it first. `--planted NAME` puts a known bug in and says
at which seed it is found; `--planted all` does that with each. `--soak HOURS` plays so many virtual hours of 20,000
commits a second with a fault each minute, and prints the memory that it takes.

Ends with 1 if a seed fails, or a planted bug is not found.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from contextlib import nullcontext

from tests.harness.deterministic.planted import PLANTED
from tests.harness.deterministic.seeds import played
from tests.harness.deterministic.shrink import shrunk
from tests.harness.deterministic.world import Plan, play


def main() -> int:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:300", metavar="FIRST:END")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, metavar="N")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--soak", type=float, metavar="HOURS")
    parser.add_argument("--planted", choices=[*PLANTED, "all"])
    options = parser.parse_args()
    if options.soak is not None:
        from tests.harness.deterministic.soak import soak

        return min(1, soak(options.soak))
    first, end = map(int, options.seeds.split(":"))
    if options.seed is not None:
        return _one(options.seed, options.planted, shrinks=options.shrink)
    if options.planted is not None:
        names = list(PLANTED) if options.planted == "all" else [options.planted]
        return max([_find(name, first, end, options.processes) for name in names])
    return _all(first, end, options.processes)


def _all(first: int, end: int, processes: int) -> int:
    began_s, cpu_s, failed = time.monotonic(), 0.0, 0
    sums: Counter[str] = Counter()
    for seed, run, took_s in played(first, end, processes):
        cpu_s += took_s
        sums += Counter(
            runs=1,
            steps=run.steps,
            events=run.events,
            lives=run.seen.lives,
            crashes=run.seen.crashes,
            answers=len(run.seen.looks),
            faults=len(run.plan.faults),
        )
        if run.failures:
            failed += 1
            is_same = play(run.plan).trace == run.trace
            print(f"seed {seed}: {run.failures[0]}")
            print(
                f"  {len(run.failures)} failures; {'same' if is_same else 'ANOTHER'} trace when played again",
                flush=True,
            )
    said = ", ".join(f"{count:,} {what}" for what, count in sums.items())
    print(f"{said}; {failed} seeds failed; {time.monotonic() - began_s:.0f} s, {cpu_s:.0f} s of CPU")
    return 1 if failed else 0


def _find(name: str, first: int, end: int, processes: int) -> int:
    for seed, run, _ in played(first, end, processes, name):
        if run.failures:
            print(f"{name}: found at seed {seed}, the {seed - first + 1}th: {run.failures[0][:300]}", flush=True)
            return 0
    print(f"{name}: NOT found in {end - first} seeds", flush=True)
    return 1


def _one(seed: int, planted: str | None, *, shrinks: bool) -> int:
    with nullcontext() if planted is None else PLANTED[planted]():
        plan = Plan.of(seed)
        if shrinks:
            plan = shrunk(plan, lambda it: bool(play(it).failures))
        print(plan.log)
        for fault in plan.faults:
            print(fault)
        run = play(plan, print)
        again = play(plan)
    for failure in run.failures:
        print(failure)
    is_same = again.trace == run.trace
    print(f"trace {run.trace}, {'the same' if is_same else 'ANOTHER'} when played again; {run.steps} steps")
    return 1 if run.failures or not is_same else 0


if __name__ == "__main__":
    sys.exit(main())
