"""One client in a process of its own: `python client.py '{"kind": …}'`. SIGTERM: leave in order. Prints what it did.

Knows nothing of the tests, so that what a test sees comes from Kafka alone.
"""

import json
import signal
import sys

from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition

stopped = False


def stop(number, frame):
    global stopped
    stopped = True


def say(what):
    print(what, flush=True)


def consume(conf, topics):
    consumer = Consumer(conf)
    consumer.subscribe(topics)
    while not stopped:
        message = consumer.poll(0.25)
        if message is not None and message.error():
            say(f"error {message.error()}")
    consumer.close()


def share(conf, topics):
    consumer = ShareConsumer(conf)
    consumer.subscribe(topics)
    while not stopped:
        consumer.poll(0.2)
    consumer.close()


def commit(conf, offsets):
    """Offsets without a subscription: a group that only commits."""
    consumer = Consumer(conf)
    positions = [TopicPartition(*where, offset, metadata, epoch) for *where, offset, metadata, epoch in offsets]
    consumer.assign(positions)
    for done in consumer.commit(offsets=positions, asynchronous=False):
        assert done.error is None, done.error
    consumer.close()


def transact(conf, group, steps):
    """For each step: offsets into a transaction, and its end: commit, abort, or open until SIGTERM, then commit."""
    reader = Consumer({**conf, "group.id": group, "enable.auto.commit": False})
    # One stays open until all scenarios have settled: on a busy machine longer than the minute of the default.
    producer = Producer({**conf, "transactional.id": f"{group}-transactions", "transaction.timeout.ms": 300_000})
    producer.init_transactions(20)
    for offsets, end in steps:
        producer.begin_transaction()
        positions = [TopicPartition(*where, offset) for *where, offset in offsets]
        producer.send_offsets_to_transaction(positions, reader.consumer_group_metadata(), 20)
        if end == "abort":
            producer.abort_transaction(20)
        else:
            if end == "open":
                say("open")
                while not stopped:
                    producer.poll(0.1)
            producer.commit_transaction(20)
        say(end)
    reader.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    task = json.loads(sys.argv[1])
    {"consume": consume, "share": share, "commit": commit, "transact": transact}[task.pop("kind")](**task)
    say("done")
