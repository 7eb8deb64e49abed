"""`python -m tests.harness.rig`: run plays on a real broker for a while, then score what kshadow makes of it."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from agent.tools.embedded import DEFAULT_VERSION
from tests.harness.rig.libraries import LIBRARIES
from tests.harness.rig.plays import PLAYS
from tests.harness.rig.report import report
from tests.harness.rig.run import run
from tests.harness.rig.scoring import score_run
from tests.harness.rig.settings import LIBRDKAFKA


def main(arguments: list[str]) -> int:
    """Parse, run, score, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.rig", description=__doc__)
    parser.add_argument("--kafka", default=DEFAULT_VERSION, metavar="VERSION")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--seconds", type=float, default=240.0, help="no play begins later; the last ones finish")
    parser.add_argument("--scenarios", default="", help=f"of {', '.join(PLAYS)}")
    parser.add_argument("--libraries", default=LIBRDKAFKA, help=f"all, or of {', '.join((LIBRDKAFKA, *LIBRARIES))}")
    parser.add_argument("--parallel", type=int, default=10, help="plays at a time")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep segments, log, ledger, truth and events there")
    options = parser.parse_args(arguments)
    names = [name for name in options.scenarios.split(",") if name]
    if unknown := set(names) - set(PLAYS):
        parser.error(f"no scenario is called {', '.join(sorted(unknown))}; there are {', '.join(PLAYS)}")
    libraries = (LIBRDKAFKA, *LIBRARIES) if options.libraries == "all" else options.libraries.split(",")
    if unknown := set(libraries) - {LIBRDKAFKA, *LIBRARIES}:
        parser.error(
            f"no library is called {', '.join(sorted(unknown))}; there are {LIBRDKAFKA}, {', '.join(LIBRARIES)}"
        )
    if names and all(PLAYS[name].since > int(options.kafka.split(".")[0]) for name in names):
        parser.error(f"none of these scenarios is for Kafka {options.kafka}")
    directory = options.keep or Path(tempfile.mkdtemp(prefix="kshadow-rig-"))
    try:
        print(f"kafka {options.kafka}, seed {options.seed}, in {directory}", flush=True)
        drawn = (options.seed, options.seconds, names, options.parallel)
        run(directory, options.kafka, *drawn, libraries=libraries, say=print)
        print(report(score_run(directory)), end="\n\n")
        print(report(score_run(directory, with_log=True)))
    finally:
        if options.keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
