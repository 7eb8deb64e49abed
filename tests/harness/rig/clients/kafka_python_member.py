"""One member of a consumer group, by kafka-python, in a process of its own: `kafka_python_member.py '{"group": …}'`.

It takes commands as JSON lines on standard input and says what happens to it as JSON lines on standard output, as
`client.py` does.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

_ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


def say(what: str) -> None:
    """One line for the ledger."""
    print(json.dumps({"t": time.time_ns() // 1_000_000, "what": what}), flush=True)


def _commands() -> queue.SimpleQueue[dict[str, Any]]:
    waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            waiting.put(json.loads(line))
        os._exit(3)  # whoever started us is gone

    threading.Thread(target=read, daemon=True).start()
    return waiting


def main(task: dict[str, Any]) -> None:
    """Poll until told to close."""
    commands = _commands()
    consumer = KafkaConsumer(
        *task["topics"],
        bootstrap_servers=task["bootstrap"],
        group_id=task["group"],
        client_id=task["client_id"],
        auto_offset_reset="earliest",
        partition_assignment_strategy=[_ASSIGNORS[task["assignor"]]],
        session_timeout_ms=task["session_ms"],
        heartbeat_interval_ms=task["heartbeat_ms"],
        max_poll_interval_ms=task["rebalance_ms"],
        auto_commit_interval_ms=task["commit_ms"],
    )
    while True:
        command = {} if commands.empty() else commands.get()
        if command.get("do") == "close":
            break
        if command.get("do") == "stall":
            say("stalls")
            time.sleep(command["seconds"])
            say("stalled")
        records = consumer.poll(timeout_ms=200)
        time.sleep(task["work_s"] * min(sum(map(len, records.values())), 10))
    say("close")
    consumer.close()
    say("closed")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
