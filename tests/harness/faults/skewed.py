"""The command line with a clock that is as far ahead as the file `KSHADOW_TEST_CLOCK` says, in seconds."""

from __future__ import annotations

import os
import time
from pathlib import Path

_CLOCK = Path(os.environ["KSHADOW_TEST_CLOCK"])
_time, _time_ns = time.time, time.time_ns


def _ahead_s() -> int:
    try:
        return int(_CLOCK.read_text())
    except (OSError, ValueError):  # it is just being written
        return 0


if __name__ == "__main__":
    # Before anything of the agent is imported that could have taken the functions themselves.
    time.time = lambda: _time() + _ahead_s()
    time.time_ns = lambda: _time_ns() + _ahead_s() * 10**9
    from agent.cli.main import main

    main()
