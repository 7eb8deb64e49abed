"""`python -m tests.harness.kubernetes proof`: origins from a real API server, its watches broken in each known way.

Plays the scenes of `scenes.py` (every origin, unknown ones, addresses used again) twice side by side, in rounds:
undisturbed; with watches cut again and again; with the API server killed and started again; the same over an etcd
that was compacted meanwhile, so that all is listed anew; with the API server away for half a minute; with connections
that fall silent. All that time each member's origin is asked for every half second, and once more at the end.

*Wrong* is an origin of another kind or pod, at any time; *lost* one that is not known at the end; *late* one that
came more than 25 s after the topic showed the member gone, when an agent no longer asks. Ends with 1 where anything
is wrong or lost; of the compacted round only where it is wrong: what came and went unseen cannot be known.

`python -m tests.harness.kubernetes controllers` and `memory`: see `controllers.py` and `memory.py`.
"""

from __future__ import annotations

import argparse
import sys


def main() -> int:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["proof", "controllers", "memory"])
    parser.add_argument("--rounds", nargs="*", help="of the proof, these alone")
    parser.add_argument("--pods", type=int, default=5000, help="of memory")
    options = parser.parse_args()
    if options.what == "memory":
        from tests.harness.kubernetes.memory import measure

        return measure(options.pods)
    if options.what == "controllers":
        from tests.harness.kubernetes.controllers import check

        return check()
    from tests.harness.kubernetes.proof import prove

    return prove(options.rounds)


if __name__ == "__main__":
    sys.exit(main())
