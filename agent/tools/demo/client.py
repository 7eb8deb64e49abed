"""One client of the demo, in a process of its own: `python -m agent.tools.demo.client consumer|producer …`.

A plain librdkafka consumer or producer, the kind whose groups kshadow explains. Signals are its remote
control, so that its faults are real: SIGKILL is a crash, SIGTERM a proper shutdown, SIGUSR1 makes a consumer
spend `--stall-s` on the next record. Its log goes to standard output.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType

from confluent_kafka import Consumer, Producer, TopicPartition

_log = logging.getLogger("kshadow.demo.client")

Settings = dict[str, str | int | float | bool | None]
"""librdkafka's properties."""

_POLL_S = 0.2
_PRODUCE_INTERVAL_S = 0.25


class _Signals:
    """What signals have asked for so far; handlers only set flags."""

    def __init__(self) -> None:
        self.stop = False
        self.stall = False
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGUSR1, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stop |= number == signal.SIGTERM
        self.stall |= number == signal.SIGUSR1

    def sleep(self, seconds: float) -> None:
        """Sleep, but not past a stop."""
        until = time.monotonic() + seconds
        while not self.stop and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))


def consume(settings: Settings, topics: list[str], stall_s: float) -> None:
    """Read until told to stop, then leave the group."""
    signals = _Signals()

    def log(what: str) -> Callable[[Consumer, list[TopicPartition]], None]:
        return lambda _, partitions: _log.info("%s %s", what, _names(partitions))

    consumer = Consumer(settings)
    consumer.subscribe(topics, on_assign=log("assigned"), on_revoke=log("revoked"), on_lost=log("lost"))
    try:
        while not signals.stop:
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            if error := message.error():
                _log.warning("%s", error)
            elif signals.stall:
                signals.stall = False
                _log.info("record %s of %s takes %.1f s", message.offset(), message.topic(), stall_s)
                signals.sleep(stall_s)
                _log.info("record done")
    finally:
        _log.info("closing")
        consumer.close()


def produce(settings: Settings, topics: dict[str, int]) -> None:
    """Write a record to every partition four times a second, so that every member always has work to commit."""
    signals = _Signals()
    producer = Producer(settings)
    number = 0
    while not signals.stop:
        for topic, partitions in topics.items():
            for partition in range(partitions):
                producer.produce(topic, f"{number}".encode(), partition=partition)
        number += 1
        producer.poll(0)
        signals.sleep(_PRODUCE_INTERVAL_S)
    producer.flush(5)


def _names(partitions: list[TopicPartition]) -> str:
    return ", ".join(f"{partition.topic}-{partition.partition}" for partition in partitions) or "nothing"


def main(arguments: Sequence[str]) -> None:
    """Parse, set up the log, run."""
    parser = argparse.ArgumentParser(prog="agent.tools.demo.client")
    parser.add_argument("role", choices=["consumer", "producer"])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="librdkafka setting")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME=PARTITIONS")
    parser.add_argument("--stall-s", type=float, default=0.0)
    options = parser.parse_args(arguments)
    logging.basicConfig(
        stream=sys.stdout, level=logging.INFO, format="%(asctime)s.%(msecs)03d %(message)s", datefmt="%H:%M:%S"
    )
    settings: Settings = dict(pair.split("=", 1) for pair in options.set)
    topics = {name: int(count) for name, count in (pair.rsplit("=", 1) for pair in options.topic)}
    _log.info("%s starts", options.role)
    if options.role == "consumer":
        consume(settings, list(topics), options.stall_s)
    else:
        produce(settings, topics)
    _log.info("ended")


if __name__ == "__main__":
    main(sys.argv[1:])
