"""Schemathesis against a served agent, all its checks: `python -m tests.harness.schemathesis --examples 1000`.

It makes requests from the description, fitting and unfitting ones, follows groups from the list to their pages, and
holds each answer to what is described. Prints what it counted, for each scene; exit code 1 if it found anything.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from agent.serving.web.answers import OPENAPI
from tests import ROOT
from tests.unit.serving.openapi.scenes import SCENES, served

LOOKS = "--checks all --no-color --continue-on-failure --suppress-health-check all --warnings off"


EXCLUDED = {
    "behind": "not_a_server_error",  # 503 is what such an agent answers
    "stopped": "not_a_server_error",
    "several": "positive_data_acceptance",  # a group that two clusters have is refused with 400
}
"""The check that a scene is there to fail."""


class Looked(NamedTuple):
    """What came of a run."""

    failed: bool
    text: str
    """What schemathesis said."""
    report: dict[str, Any]
    """Its report."""


def look(url: str, directory: Path, *, examples: int, seed: int = 1, exclude: str | None = None) -> Looked:
    """Let it look at the agent there."""
    report = directory / "report.json"
    command = [sys.executable, "-m", "schemathesis.cli", "run", url + OPENAPI, *LOOKS.split()]
    command += ["--max-examples", str(examples), "--seed", str(seed), "--report", "json"]
    command += ["--report-json-path", str(report)]
    if exclude is not None:
        command += ["--exclude-checks", exclude]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.harness.schemathesis_hooks", "PYTHONPATH": str(ROOT)}
    # Elsewhere, since it keeps a database of examples where it runs.
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    said = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    return Looked(done.returncode != 0, done.stdout + done.stderr, said)


def main() -> int:
    """Look at each scene."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scene", choices=list(SCENES), action="append")
    given = parser.parse_args()
    failed = False
    for scene in given.scene or SCENES:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with tempfile.TemporaryDirectory() as directory, served(scene) as url:
            looked = look(url, Path(directory), examples=given.examples, seed=given.seed, exclude=EXCLUDED.get(scene))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        failed |= looked.failed
        print(f"== {scene}: {'FAILED' if looked.failed else 'fine'}, {after.ru_utime - before.ru_utime:.1f} s of CPU")
        print(looked.text if looked.failed else looked.text.partition("== SUMMARY ==")[2])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
