"""`python -m tests.harness.rig.score DIR…` scores kept runs again, `--capture DIR` a capture: no broker needed.

Twice: from the topic alone, then with the broker's log as a witness.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.harness.rig.report import report
from tests.harness.rig.scoring import merged, score_run


def main(arguments: list[str]) -> int:
    """Parse, score, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.rig.score", description=__doc__)
    parser.add_argument("directories", type=Path, nargs="*", metavar="DIR")
    parser.add_argument("--capture", type=Path, metavar="DIR", action="append", default=[])
    parser.add_argument("--mistakes", type=int, default=60, help="how many of each sort to list")
    options = parser.parse_args(arguments)
    if not options.directories and not options.capture:
        parser.error("name a directory")
    directories = [directory.resolve() for directory in [*options.directories, *options.capture]]
    for with_log in (False, True):
        scores = []
        for directory in directories:
            scores.append(score_run(directory, with_log=with_log))
            print(report(scores[-1], mistakes=options.mistakes), end="\n\n")
        if len(scores) > 1:
            together = merged(scores)
            together.name += " with the brokers' logs" if with_log else ""
            print(report(together, mistakes=0), end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
