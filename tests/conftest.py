"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell that runs a script's job in the background makes it ignore SIGINT, and children inherit that: tests that
# press Ctrl-C would then wait for nothing. A handler of ours is reset to the default in whatever we start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
