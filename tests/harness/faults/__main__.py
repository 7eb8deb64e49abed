"""`python -m tests.harness.faults [NAME…] [--times N] [--seconds S] [--groups N] [--seed N]`: all of them unless
named."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from pathlib import Path

from agent.simulation.generator.settings import LEAST_DURATION_MS
from tests.harness.faults import log_scenes as log_scenes
from tests.harness.faults import scenes as scenes
from tests.harness.faults.scene import Scale
from tests.harness.faults.stage import FAULTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.faults")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FAULTS))
    defaults = Scale()
    for name in ("groups", "times", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(defaults, name))
    parser.add_argument("--seconds", type=float, default=defaults.seconds)
    parser.add_argument("--keep", type=Path, help="where to keep what the agents left")
    given = parser.parse_args()
    if given.seconds * 1000 < LEAST_DURATION_MS:
        parser.error(f"--seconds: expected {LEAST_DURATION_MS // 1000} or more, got {given.seconds:g}")
    scale = Scale(given.groups, given.seconds, defaults.commit_interval_ms, given.times, given.seed)
    wrong = 0
    for name in given.names or FAULTS:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="kshadow-faults-") as directory:
            try:
                verdict = FAULTS[name]((given.keep or Path(directory)) / name, scale)
            except Exception as error:  # noqa: BLE001 — the other scenes are played all the same
                where = traceback.extract_tb(error.__traceback__)[-1]
                print(f"WRONG {name} did not come to its end, {where.name}:{where.lineno}: {str(error)[:2000]}")
                wrong += 1
                continue
        print(f"{'ok   ' if verdict.is_right else 'WRONG'} {time.monotonic() - began:.0f} s, {verdict}", flush=True)
        wrong += not verdict.is_right
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
