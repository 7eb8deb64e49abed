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
from collections.abc import Sequence
from types import FrameType

from confluent_kafka import Consumer, Message, Producer, TopicPartition

_log = logging.getLogger("kshadow.demo.client")

_POLL_S = 0.2
_PRODUCE_INTERVAL_S = 0.25


class _Signals:
    """What signals have asked for so far; handlers only set flags."""

    def __init__(self) -> None:
        self.stop = False
        self.stall = False
        signal.signal(signal.SIGTERM, self._on_stop)
        signal.signal(signal.SIGUSR1, self._on_stall)

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop = True

    def _on_stall(self, number: int, frame: FrameType | None) -> None:
        self.stall = True

    def sleep(self, seconds: float) -> None:
        """Sleep, but not past a stop."""
        until = time.monotonic() + seconds
        while not self.stop and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))


def consume(settings: dict[str, str | int | float | bool | None], topics: list[str], stall_s: float) -> None:
    """Read until told to stop, then leave the group."""
    signals = _Signals()

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        _log.info("assigned %s", _names(partitions))

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        _log.info("revoked %s", _names(partitions))

    def lost(_: Consumer, partitions: list[TopicPartition]) -> None:
        _log.info("lost %s", _names(partitions))

    consumer = Consumer(settings)
    consumer.subscribe(topics, on_assign=assigned, on_revoke=revoked, on_lost=lost)
    try:
        while not signals.stop:
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            if error := message.error():
                _log.warning("%s", error)
            elif signals.stall:
                signals.stall = False
                _stall(signals, message, stall_s)
    finally:
        _log.info("closing")
        consumer.close()


def _stall(signals: _Signals, message: Message, stall_s: float) -> None:
    _log.info("record %s of %s takes %.1f s", message.offset(), message.topic(), stall_s)
    signals.sleep(stall_s)
    _log.info("record done")


def produce(settings: dict[str, str | int | float | bool | None], topics: dict[str, int]) -> None:
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
    settings: dict[str, str | int | float | bool | None] = dict(pair.split("=", 1) for pair in options.set)
    topics = {name: int(count) for name, count in (pair.rsplit("=", 1) for pair in options.topic)}
    _log.info("%s starts", options.role)
    if options.role == "consumer":
        consume(settings, list(topics), options.stall_s)
    else:
        produce(settings, topics)
    _log.info("ended")


if __name__ == "__main__":
    main(sys.argv[1:])
