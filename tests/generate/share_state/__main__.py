"""Writes the file."""

from __future__ import annotations

import subprocess
from pathlib import Path

from agent.tools.embedded import fetch_jars
from agent.tools.embedded.java import find_java
from tests import ROOT

OUT = ROOT / "tests" / "data" / "wire" / "share-state-4.3.1.ndjson"
PROGRAM = Path(__file__).with_name("ShareState.java")


def main() -> None:
    jars = fetch_jars("4.3.1")
    in_utf8 = [f"-D{name}.encoding=UTF-8" for name in ("file", "stdout")]
    command = [str(find_java()), *in_utf8, "-cp", jars.classpath, str(PROGRAM)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    OUT.write_bytes(done.stdout)
    print(f"{len(done.stdout.splitlines())} records, {len(done.stdout)} bytes")


if __name__ == "__main__":
    main()
