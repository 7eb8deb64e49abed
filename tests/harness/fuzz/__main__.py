"""`python -m tests.harness.fuzz [--seconds N] [--seed-corpus DIR] [TARGET…]`: fuzz `agent.core.wire` with atheris.

One process for each target, one after the other, for a bounded time. Exit codes: 0 nothing found, 1 an input
was found that ends in anything but a value or a `WireError` (it is saved under `.cache/fuzz` and printed as
hex), 2 wrong usage or no atheris. `--run TARGET` is what the child processes are started with.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import ROOT

FOUND = ROOT / ".cache" / "fuzz"
NAMES = ("decode", "value", "payload", "hot")
HIDDEN = ("self-test",)
MAX_LENGTH = 4096

_DONE = re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE)
_SAVED = re.compile(r"Test unit written to (\S+)")
_COVERAGE = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.harness.fuzz",
        description="Fuzz agent.core.wire with atheris.",
    )
    parser.add_argument("--seconds", type=int, default=60, help="time for each target (default: %(default)s)")
    parser.add_argument(
        "--runs", type=int, default=-1, help="executions of each target, if time allows (default: any)"
    )
    parser.add_argument("--seed-corpus", type=Path, metavar="DIR", help="more inputs to start from, one a file")
    parser.add_argument("--run", metavar="TARGET", help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(NAMES)} (default: all)")
    options, rest = parser.parse_known_args()
    if importlib.util.find_spec("atheris") is None:
        print(
            "tests.harness.fuzz needs atheris, which is not installed here: it has wheels for Linux on x86_64",
            end=" ",
        )
        print("and Python up to 3.13; pip install '.[dev]' brings it where it exists")
        return 2
    if options.run:
        return _run(options.run, [*options.targets, *rest])
    if rest or options.seconds < 1:
        parser.error(f"unknown arguments {rest}" if rest else "--seconds must be 1 or more")
    for name in options.targets:
        if name not in NAMES + HIDDEN:
            parser.error(f"unknown target {name!r}, known are {', '.join(NAMES)}")
    if options.seed_corpus and not options.seed_corpus.is_dir():
        parser.error(f"--seed-corpus {options.seed_corpus} is not a directory")
    # Every target runs, even after one that found something.
    targets = options.targets or NAMES
    return max([_fuzz(name, options.seconds, options.runs, options.seed_corpus) for name in targets])


def _run(name: str, arguments: list[str]) -> int:
    """In the child: hand the process over to libFuzzer, which does not return."""
    import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]

    with atheris.instrument_imports(include=["agent.core.wire"]):
        from tests.harness.fuzz import targets

    atheris.Setup([name, *arguments], (targets.TARGETS | targets.HIDDEN)[name])
    atheris.Fuzz()
    return 0


def _fuzz(name: str, seconds: int, runs: int, more: Path | None) -> int:
    found = FOUND / name
    found.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"kshadow-fuzz-{name}-") as corpus:
        _write_seeds(name, Path(corpus))
        child = subprocess.run(
            [
                *(sys.executable, "-m", "tests.harness.fuzz", "--run", name, "--"),
                *(f"-max_total_time={seconds}", f"-max_len={MAX_LENGTH}", "-print_final_stats=1"),
                *(f"-runs={runs}", "-timeout=10", "-rss_limit_mb=1024", f"-artifact_prefix={found}/", corpus),
                *([str(more)] if more else []),
            ],
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
    output = (child.stdout + child.stderr).decode(errors="replace")
    executions = _DONE.findall(output)
    coverage = _COVERAGE.findall(output)
    edges, features, inputs = coverage[-1] if coverage else ("?", "?", "?")
    print(
        f"{name}: {executions[-1] if executions else '?'} executions in at most {seconds} s,"
        f" {edges} edges, {features} features, {inputs} inputs kept",
        flush=True,
    )
    if child.returncode == 0:
        return 0
    print(f"{name}: FAILED (exit code {child.returncode})\n{output[-6000:]}")
    for path in map(Path, _SAVED.findall(output)):
        print(f"{name}: {path}\n{name}: {path.read_bytes().hex()}")
    return 1


def _write_seeds(name: str, corpus: Path) -> None:
    from tests.harness.fuzz import targets

    for data in targets.seeds(name):
        (corpus / hashlib.sha1(data).hexdigest()).write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
