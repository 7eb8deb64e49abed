"""Archives of parsed classes (Java's CDS) for the JVMs that tests start: `python -m tests.harness.class_archives`.

Tests start some two hundred JVMs, brokers and Spark, and most of what each costs is to load the same classes. With an
archive a broker starts with two thirds of the work, Spark with half. Java itself sees whether an archive fits its
version and the jars, and goes without it otherwise. `make test` makes those that are missing or older than what they
are made from; and beside Kafka's jars a broker's data as Kafka formats it, for which each broker would start a JVM.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, MutableMapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from agent.tools.embedded import Jars, fetch_jars
from agent.tools.embedded.java import CLASS_ARCHIVE, find_java
from agent.tools.embedded.node import FORMATTED, Node
from agent.tools.embedded.settings import server_properties
from agent.tools.spark_submit.spark import find_spark
from tests import ROOT
from tests.live.versions import COORDINATORS

BROKER = """
import os, signal, sys, time
from confluent_kafka import Consumer, Producer
from agent.tools.embedded import EmbeddedBroker, fetch_jars
with EmbeddedBroker(fetch_jars(sys.argv[2])) as broker:
    conf = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
    producer = Producer(conf)
    producer.produce("some", b"value")
    producer.flush(30)
    for protocol in ("classic", "consumer")[: 2 if sys.argv[2] >= "4" else 1]:
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

SPARK = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.range(9).selectExpr("id % 3 as k").groupBy("k").count().write.parquet(sys.argv[1] + "/rows")
spark.read.parquet(sys.argv[1] + "/rows").collect()
process = spark.sparkContext._gateway.proc
spark.stop()
process.stdin.close()
process.wait()
"""

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
SPARK_ARCHIVE = ROOT / ".cache" / "spark" / CLASS_ARCHIVE
SPARK_OPTIONS = f"-XX:SharedArchiveFile={SPARK_ARCHIVE} {QUIET}"


class Archive(NamedTuple):
    """What one is made by, and of what."""

    path: Path
    jars: Path
    program: str
    arguments: tuple[str, ...] = ()


def of_kafka(version: str) -> Archive:
    jars = fetch_jars(version).directory
    return Archive(jars / CLASS_ARCHIVE, jars, BROKER, (version,))


def of_spark() -> Archive:
    return Archive(SPARK_ARCHIVE, find_spark().home / "jars", SPARK)


ARCHIVES: tuple[Callable[[], Archive], ...] = (*(partial(of_kafka, it) for it in COORDINATORS), of_spark)


def use_for_spark(environ: MutableMapping[str, str]) -> None:
    """Have every Spark that is started with these variables use the archive, if there is one."""
    before = environ.get("SPARK_SUBMIT_OPTS", "")
    if SPARK_ARCHIVE.exists() and SPARK_OPTIONS not in before:
        environ["SPARK_SUBMIT_OPTS"] = f"{before} {SPARK_OPTIONS}".strip()


def is_missing(path: Path, jars: Path) -> bool:
    """Whether it is not there, or older than Java or the jars."""
    if not path.exists():
        return True
    newest = max(it.stat().st_mtime for it in (find_java().resolve(), *jars.glob("*.jar")))
    return path.stat().st_mtime < newest


def make(archive: Archive) -> None:
    """Run its program; Java writes the archive as the JVM that was started last ends."""
    archive.path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.path.parent) as place:
        made = Path(place, CLASS_ARCHIVE)
        env = {**os.environ, "JAVA_TOOL_OPTIONS": f"-XX:ArchiveClassesAtExit={made} {QUIET}"}
        subprocess.run([sys.executable, "-c", archive.program, place, *archive.arguments], env=env, check=True)
        made.replace(archive.path)


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
        format_once(fetch_jars(version))
    for find in ARCHIVES:
        it = find()
        if is_missing(it.path, it.jars):
            make(it)
            print(f"{it.path.parent.name}: an archive of classes, {it.path.stat().st_size >> 20} MiB")
