"""One member of a consumer group, by aiokafka, in a process of its own: `python aio_member.py '{"group": …}'`.

It takes commands as JSON lines on standard input and says what happens to it as JSON lines on standard output, as
`client.py` does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

_ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


def say(what: str) -> None:
    """One line for the ledger."""
    print(json.dumps({"t": time.time_ns() // 1_000_000, "what": what}), flush=True)


async def _commands() -> asyncio.Queue[dict[str, Any]]:
    waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        if line := sys.stdin.readline():
            waiting.put_nowait(json.loads(line))
        else:
            os._exit(3)  # whoever started us is gone

    loop.add_reader(sys.stdin, read)
    return waiting


async def main(task: dict[str, Any]) -> None:
    """Poll until told to close."""
    commands = await _commands()
    consumer = AIOKafkaConsumer(
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
    await consumer.start()
    while True:
        command = {} if commands.empty() else commands.get_nowait()
        if command.get("do") == "close":
            break
        if command.get("do") == "stall":
            say("stalls")
            await asyncio.sleep(command["seconds"])
            say("stalled")
        records = await consumer.getmany(timeout_ms=200)
        await asyncio.sleep(task["work_s"] * min(sum(map(len, records.values())), 10))
    say("close")
    await consumer.stop()
    say("closed")


asyncio.run(main(json.loads(sys.argv[1])))
