"""How long commands take to start, and what they import: `python -m tests.harness.startup [RUNS]`.

Prints, of some runs of each command as a process of its own, the median and the least time, and the median of what
the processor worked, which says more on a busy machine; then the slowest imports, each by itself. Nothing here fails.
"""

from __future__ import annotations

import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping

from tests.unit.cli.running import SEGMENTS, environment
from tests.unit.serving.routes.replayed import Replayed, of_path, served

RUNS = 11
SHOWN = 6
_IMPORT = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \| ( *)(\S+)")


def main() -> None:
    """Measure, and print."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with served(Replayed(of_path(SEGMENTS))) as url, tempfile.TemporaryDirectory() as cache:
        line = f"kshadow describe --agent {url} f"
        kept = {"_KSHADOW_COMPLETE": "bash_complete", "KSHADOW_LINE": line, "XDG_CACHE_HOME": cache}
        cases: list[tuple[str, list[str], Mapping[str, str], int]] = [
            ("python -c pass", [], {}, 0),
            ("--help", ["--help"], {}, 300),
            ("--version", ["--version"], {}, 300),
            ("groups --help", ["groups", "--help"], {}, 300),
            ("groups --agent URL", ["groups", "--agent", url], {}, 500),
            ("describe GROUP --agent URL", ["describe", "fraud-848", "--agent", url], {}, 500),
            ("timeline GROUP --agent URL", ["timeline", "fraud-848", "--agent", url], {}, 500),
            ("complete a command", [], {**kept, "KSHADOW_LINE": "kshadow de"}, 300),
            ("complete a group, asked", [], {**kept, "XDG_CACHE_HOME": "/dev/null/none"}, 500),
            ("complete a group, kept", [], kept, 500),
        ]
        print(f"{'':<28}  median    least      cpu   wanted   (ms, {runs} runs)")
        for name, arguments, env, wanted in cases:
            times = [_run(name, arguments, env) for _ in range(runs)]
            wall, cpu = (sorted(column) for column in zip(*times, strict=True))
            median = statistics.median(wall)
            late = "  !" if wanted and median > wanted else ""
            print(f"{name:<28}{median:>8.0f} {wall[0]:>8.0f} {statistics.median(cpu):>8.0f} {wanted or '':>8}{late}")
            if wanted:
                print("".join(f"      {own:>6.1f} {module}\n" for own, module in _slowest(arguments, env)), end="")


def _command(name: str, *options: str) -> list[str]:
    code = "pass" if name.startswith("python") else "import sys; from agent.cli.main import main; sys.exit(main())"
    return [sys.executable, *options, "-c", code]


def _run(name: str, arguments: list[str], env: Mapping[str, str]) -> tuple[float, float]:
    """Milliseconds: by the clock, and of the processor."""
    begin, worked = time.perf_counter(), _worked()
    subprocess.run([*_command(name), *arguments], env=environment(**env), stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - begin) * 1000, (_worked() - worked) * 1000


def _worked() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _slowest(arguments: list[str], env: Mapping[str, str]) -> list[tuple[float, str]]:
    """The imports that take longest by themselves, milliseconds."""
    said = subprocess.run(
        [*_command("", "-X", "importtime"), *arguments],
        env=environment(**env) | {"PYTHONPATH": os.getcwd()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    ).stderr
    found = [(int(it[1]) / 1000, it[4]) for it in _IMPORT.finditer(said)]
    return sorted(found, reverse=True)[:SHOWN]


if __name__ == "__main__":
    main()
