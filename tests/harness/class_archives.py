"""Archives of parsed classes (Java's CDS) for the brokers that tests start: `python -m tests.harness.class_archives`.

Tests start some two hundred JVMs, most of them brokers, and most of what each costs is to load the same classes. With
an archive a broker starts with two thirds of the work. Java itself sees whether an archive fits its version and the
jars, and goes without it otherwise. `make test` makes those that are missing or older than what they are made from;
and beside Kafka's jars a broker's data as Kafka formats it, for which each broker would start a JVM.

Spark has none: its jars are in each clone's environment, and to make one costs 70 s of CPU where it saves 6 s in each
of the tests' six starts of Spark.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from agent.tools.embedded import Jars, fetch_jars
from agent.tools.embedded.java import CLASS_ARCHIVE, find_java
from agent.tools.embedded.node import FORMATTED, Node
from agent.tools.embedded.settings import server_properties
from tests.live.versions import COORDINATORS

BROKER = """
import os, signal, sys, time
from confluent_kafka import Consumer, Producer
from agent.tools.embedded import EmbeddedBroker, fetch_jars
with EmbeddedBroker(fetch_jars(sys.argv[1])) as broker:
    conf = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
    producer = Producer(conf)
    producer.produce("some", b"value")
    producer.flush(30)
    for protocol in ("classic", "consumer")[: 2 if sys.argv[1] >= "4" else 1]:
        more = {"group.id": protocol, "group.protocol": protocol, "auto.offset.reset": "earliest"}
        consumer = Consumer({**conf, **more})
        consumer.subscribe(["some"])
        consumer.poll(20)
        consumer.close()
    # Java writes as it ends, which takes longer than a broker is given otherwise.
    os.kill(broker.pid, signal.SIGTERM)
    deadline = time.monotonic() + 120
    while broker.pid is not None:
        assert time.monotonic() < deadline, "the broker does not end"
        time.sleep(0.1)
"""

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def is_missing(path: Path, jars: Path) -> bool:
    """Whether it is not there, or older than Java or the jars."""
    if not path.exists():
        return True
    newest = max(it.stat().st_mtime for it in (find_java().resolve(), *jars.glob("*.jar")))
    return path.stat().st_mtime < newest


def make(jars: Jars) -> None:
    """Run a broker and clients; Java writes the archive as the JVM ends."""
    with tempfile.TemporaryDirectory(dir=jars.directory) as place:
        made = Path(place, CLASS_ARCHIVE)
        env = {**os.environ, "JAVA_TOOL_OPTIONS": f"-XX:ArchiveClassesAtExit={made} {QUIET}"}
        subprocess.run([sys.executable, "-c", BROKER, jars.version], env=env, check=True)
        made.replace(jars.directory / CLASS_ARCHIVE)


def format_once(jars: Jars) -> None:
    """Have Kafka format a broker's data, for every broker that starts from now on."""
    properties = server_properties(client_port=1, controller_port=2)
    kept = jars.directory / FORMATTED / properties["process.roles"]
    if not is_missing(kept, jars.directory):
        return
    shutil.rmtree(kept.parent, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=jars.directory) as place:
        Node(jars, Path(place), None, heap="", start_timeout_s=0).format(properties)
        kept.parent.mkdir()
        Path(place, "data").rename(kept)
    print(f"{jars.directory.name}: data as Kafka formats it")


if __name__ == "__main__":
    for version in COORDINATORS:
        jars = fetch_jars(version)
        format_once(jars)
        archive = jars.directory / CLASS_ARCHIVE
        if is_missing(archive, jars.directory):
            make(jars)
            print(f"{jars.directory.name}: an archive of classes, {archive.stat().st_size >> 20} MiB")
