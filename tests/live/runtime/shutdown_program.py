"""A process that stops as the agent does. Its argument says what it does wrong."""

from __future__ import annotations

import logging
import sys
import threading
import time

from confluent_kafka import Consumer

from agent.common import logs
from agent.runtime.shutdown import Shutdown, ShutdownStep


def say(text: str) -> None:
    # In one piece: several threads speak.
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def hang() -> None:
    say("hangs")
    threading.Event().wait()


def fail() -> None:
    raise RuntimeError("no\nmore")


def in_c() -> None:
    """Where no Python runs in the main thread."""
    Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}).list_topics(timeout=60)


def slow(record: logging.LogRecord) -> bool:
    """A line that takes longer than the whole stop."""
    time.sleep(0.5)
    return True


def main(what: str) -> int:
    logs.configure("text", "info")
    if what == "slow log":
        logging.getLogger("kshadow").addFilter(slow)
    with Shutdown(on_request=lambda: say("asked"), total_s=40 if what == "slow" else 3) as stopping:
        if what == "raises":
            raise RuntimeError("at the start")
        say("ready")
        if what == "in c":
            in_c()
        if what == "ask":
            stopping.request()
        stopping.wait()
        say("waited")
        if what == "main hangs":
            hang()
        steps = {
            "hang": [ShutdownStep("reader", hang, 1), ShutdownStep("snapshot", lambda: say("snapshot"), 1)],
            "fail": [ShutdownStep("reader", fail, 1), ShutdownStep("snapshot", lambda: say("snapshot"), 1)],
            "slow": [ShutdownStep("reader", lambda: time.sleep(30), 40)],
        }
        return stopping.stop(steps.get(what, [ShutdownStep("reader", lambda: say("reader"), 1)]))


if __name__ == "__main__":
    # Not daemonic: it would keep a process from ending by itself.
    if sys.argv[1] == "hang":
        threading.Thread(target=threading.Event().wait).start()
    sys.exit(main(sys.argv[1]))
