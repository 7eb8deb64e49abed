"""A consumer in a pod, which can be told to come to harm: the script of a ConfigMap, run by the image's Python.

It polls, commits each second, and leaves its group when it is told to end. By HTTP, port 8080: `/healthz` (what its
liveness probe asks), and `/oom`, `/exit?3`, `/sick`, `/fill`. Knows nothing of kshadow.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from confluent_kafka import Consumer

sick = threading.Event()
ended = threading.Event()


def harm(path: str) -> None:
    """What is asked for, a moment after the answer."""
    time.sleep(0.2)
    match path.partition("?"):
        case "/oom", _, _:
            hoard = []
            while True:
                hoard.append(bytearray(os.urandom(1 << 20)))
        case "/exit", _, code:
            os._exit(int(code))
        case "/fill", _, _:
            with open("/scratch/filled", "wb") as file:
                file.write(bytes(64 << 20))


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/sick":
            sick.set()
        self.send_response(503 if self.path == "/healthz" and sick.is_set() else 200)
        self.end_headers()
        if self.path != "/healthz":
            threading.Thread(target=harm, args=(self.path,), daemon=True).start()

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    threading.Thread(target=ThreadingHTTPServer(("", 8080), Handler).serve_forever, daemon=True).start()
    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["BROKERS"],
            "group.id": os.environ["GROUP"],
            "client.id": os.environ["GROUP"],
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 1000,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "partition.assignment.strategy": "cooperative-sticky",
        }
    )
    consumer.subscribe([os.environ["TOPIC"]])
    while not ended.is_set():
        consumer.poll(0.2)
    consumer.close()
    sys.exit(0)


if __name__ == "__main__":
    main()
