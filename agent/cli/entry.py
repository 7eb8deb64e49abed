"""What `kshadow` calls: it knows what Ctrl-C is before the rest of the program is imported, and imports little."""

import os
import signal
import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly from the beginning."""
    # Not where it is ignored, as in a shell's background job.
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, _end)
    from agent.cli.main import main as run

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(run())


def _end(number: int, frame: object) -> None:
    """No exception, which an import could swallow."""
    os._exit(128 + number)
