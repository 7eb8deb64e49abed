"""One librdkafka consumer or producer in a process of its own: `python client.py '{"role": "consumer", …}'`.

Knows nothing of the rig. Takes commands as JSON lines on standard input (`stall`, `subscribe`, `unsubscribe`,
`close`) and says what happens to it as JSON lines on standard output, so that its side of each rebalance is in
the ledger. Faults that need no cooperation (SIGKILL, SIGSTOP) come from outside.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, ShareConsumer, TopicPartition

_POLL_S = 0.2


def say(what: str, **more: Any) -> None:
    """One line for the ledger. Its time is ours: a frozen process says nothing late."""
    line = json.dumps({"t": time.time_ns() // 1_000_000, "what": what, **more})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _commands() -> queue.SimpleQueue[dict[str, Any]]:
    waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            waiting.put(json.loads(line))
        os._exit(3)  # whoever started us is gone

    threading.Thread(target=read, daemon=True).start()
    return waiting


class Member:
    """A consumer, its way to commit, and its commands.

    `commit` is `{"mode": "auto"|"every"|"never", "seconds", "on_revoke", "on_close"}`; "every" commits the
    position by hand. `work_s` is spent after each poll that brought a record.
    """

    def __init__(self, conf: dict[str, Any], topics: list[str], commit: dict[str, Any], work_s: float) -> None:
        self._commit = commit
        self._work_s = work_s
        self._commands = _commands()
        self._consumer = Consumer({**conf, "error_cb": lambda error: say("error", text=str(error))})
        self._dirty = False
        self._next_commit = time.monotonic() + float(commit.get("seconds") or 1e9)
        self._subscribe(topics)

    def run(self) -> None:
        """Poll until told to close."""
        while True:
            try:
                command = self._commands.get_nowait()
            except queue.Empty:
                command = {}
            match command.get("do"):
                case "close":
                    break
                case "stall":
                    say("stalls", seconds=command["seconds"])
                    time.sleep(command["seconds"])
                    say("stalled")
                case "subscribe":
                    self._subscribe(command["topics"])
                case "unsubscribe":
                    self._consumer.unsubscribe()
            self._poll()
        if self._commit.get("on_close"):
            self._commit_now("close")
        say("close")
        self._consumer.close()
        say("closed")

    def _poll(self) -> None:
        message = self._consumer.poll(_POLL_S)
        if message is not None:
            if error := message.error():
                say("error", text=str(error))
            else:
                self._dirty = True
                if self._work_s:
                    time.sleep(self._work_s)
        if self._commit["mode"] == "every" and time.monotonic() >= self._next_commit:
            self._next_commit = time.monotonic() + float(self._commit["seconds"])
            self._commit_now("every")

    def _commit_now(self, why: str) -> None:
        if not self._dirty:
            return
        try:
            self._consumer.commit(asynchronous=False)
            self._dirty = False
        except KafkaException as failed:
            say("commit_failed", why=why, text=str(failed))

    def _subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        say("assigned", member=consumer.memberid(), partitions=_names(partitions))

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._commit.get("on_revoke"):
            self._commit_now("revoke")
        say("revoked", member=consumer.memberid(), partitions=_names(partitions))

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        say("lost", member=consumer.memberid(), partitions=_names(partitions))


def share(conf: dict[str, Any], topics: list[str]) -> None:
    """A member of a share group, until told to close."""
    commands = _commands()
    consumer = ShareConsumer(conf)
    consumer.subscribe(topics)
    while commands.empty():
        consumer.poll(_POLL_S)
    say("close")
    consumer.close()
    say("closed")


def produce(conf: dict[str, Any], rates: dict[str, tuple[int, float]]) -> None:
    """Write to every partition of a topic each so many seconds, for ever. `rates`: topic → (partitions, seconds)."""
    commands = _commands()
    producer = Producer(conf)
    due = {topic: time.monotonic() for topic in rates}
    while True:
        now = time.monotonic()
        for topic, (partitions, seconds) in rates.items():
            if now >= due[topic]:
                due[topic] = now + seconds
                for partition in range(partitions):
                    producer.produce(topic, b"rig", partition=partition)
        producer.poll(0)
        try:
            if commands.get(timeout=0.1)["do"] == "close":
                break
        except queue.Empty:
            pass
    producer.flush(5)


def _names(partitions: list[TopicPartition]) -> list[str]:
    return sorted(f"{partition.topic}-{partition.partition}" for partition in partitions)


def main() -> None:
    """Run what the argument describes."""
    task = json.loads(sys.argv[1])
    match task.pop("role"):
        case "producer":
            produce(**task)
        case "share":
            share(**task)
        case _:
            Member(**task).run()


if __name__ == "__main__":
    main()
