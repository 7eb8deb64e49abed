"""Ctrl-C at many moments of `kshadow demo`: `python -m tests.harness.demo_interrupts [SECONDS…]`.

As a terminal does it, to the whole foreground group. Then nothing may be left: no process of the demo's (each has a
mark in its environment), nothing in the directory for temporary files, exit code 130, and no traceback.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

# Earlier Python is still loading the command: it ends with a traceback, and nothing was started.
MOMENTS = (0.5, 0.8, 1.1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 13, 20, 30)
ENDS_WITHIN_S = 40.0


def marked(mark: str) -> list[str]:
    """Command lines of the processes that have the mark in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:120])
        except OSError:
            continue
    return found


def interrupt(after_s: float, number: signal.Signals = signal.SIGINT) -> list[str]:
    """What was wrong when the demo was ended so many seconds after its start."""
    mark = f"KSHADOW_MARK={uuid.uuid4().hex}"
    with tempfile.TemporaryDirectory(prefix="demo-interrupts-") as scratch:
        temporary = Path(scratch, "tmp")
        temporary.mkdir()
        environ = {**os.environ, "TMPDIR": str(temporary), **dict([mark.split("=")])}
        with Path(scratch, "out").open("wb") as out:
            demo = subprocess.Popen(
                [sys.executable, "-m", "agent.cli.main", "demo"],
                env=environ,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        time.sleep(after_s)
        began = time.monotonic()
        os.killpg(demo.pid, number)
        try:
            code = demo.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(demo.pid, signal.SIGKILL)
            demo.wait()
            print(f"{after_s:5.1f} s: it went on for {ENDS_WITHIN_S:g} s", flush=True)
            return ["it went on"]
        took_s = time.monotonic() - began
        # The watchdog ends by itself a moment later.
        deadline = time.monotonic() + 30
        while (left := marked(mark)) and time.monotonic() < deadline:
            time.sleep(0.1)
        said = Path(scratch, "out").read_text(errors="replace")
        wrong = [f"left running: {it}" for it in left]
        # Java's own note of each JVM; it removes those of JVMs that are gone.
        files = [it for it in temporary.rglob("*") if not it.name.startswith("hsperfdata")]
        wrong += [f"left behind: {it}" for it in files if "hsperfdata" not in str(it)]
        wrong += [f"exit code {code}"] if code != 128 + number else []
        wrong += ["a traceback:\n" + said[-1500:]] if "Traceback" in said else []
        print(f"{after_s:5.1f} s: ended in {took_s:4.1f} s; {'; '.join(wrong) or 'nothing is left'}", flush=True)
        return wrong


def main(arguments: list[str]) -> int:
    """All moments, one after the other; 1 if anything was left."""
    # Who starts this in a shell's background has it ignore Ctrl-C, and all its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    wrong = [it for after_s in (map(float, arguments) if arguments else MOMENTS) for it in interrupt(after_s)]
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
