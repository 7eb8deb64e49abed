"""Members of other client libraries than librdkafka: their programs, built once, and how a member is started.

The programs lie in `clients/`; each takes the words and says the lines of `client.py`. Go, Node.js and a JDK are
needed for those of Go, kafkajs and Java.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.tools.embedded import fetch_jars
from agent.tools.embedded.jars import cache_directory
from agent.tools.embedded.java import find_java, jvm_options
from tests.harness.rig.settings import COOPERATIVE, GroupSettings

_SOURCES = Path(__file__).with_name("clients")
_KAFKAJS = "kafkajs@2.2.4"
_KAFKA_PYTHON = "kafka-python==3.0.12"
_CLIENT_KAFKA = "4.3.1"
"""Of this Kafka is the Java client, whatever the broker is."""

_TIMEOUT_S = 900
_JAVA_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    COOPERATIVE: "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


class BuildError(Exception):
    """A library's program that could not be built: which, and what was said."""


@dataclass(frozen=True, slots=True)
class Program:
    """How to build it into a directory, and how to start a member there. It may speak for several libraries."""

    build: Callable[[Path], None]
    command: Callable[[Path, dict[str, object]], list[str]]


@dataclass(frozen=True, slots=True)
class Library:
    """Its program, by name, and the assignors that its members may have."""

    program: str
    assignors: tuple[str, ...]


def built(library: str) -> Path:
    """The directory with a library's program, built where it is not there yet.

    Raises:
        BuildError: What builds it is missing, or failed.
    """
    name = LIBRARIES[library].program
    text = (
        b"".join(path.read_bytes() for path in sorted(_SOURCES.iterdir()) if path.is_file())
        + f"{_KAFKAJS} {_KAFKA_PYTHON}".encode()
    )
    target = cache_directory() / "rig-clients" / f"{name}-{hashlib.sha256(text).hexdigest()[:12]}"
    if not target.is_dir():
        work = target.with_name(f"{target.name}.{os.getpid()}")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        _PROGRAMS[name].build(work)
        work.rename(target)
    return target


def member_command(name: str, bootstrap: str, group: str, client_id: str, settings: GroupSettings) -> list[str]:
    """How to start one member of a library."""
    task: dict[str, object] = {
        "library": name,
        "bootstrap": bootstrap,
        "group": group,
        "client_id": client_id,
        "topics": settings.topics,
        "assignor": settings.assignor,
        "session_ms": settings.session_ms,
        "heartbeat_ms": settings.heartbeat_ms,
        "rebalance_ms": settings.poll_ms,
        "commit_ms": round(settings.commit_s * 1000),
        "work_s": settings.work_s,
    }
    return _PROGRAMS[LIBRARIES[name].program].command(built(name), task)


def _run(*command: str | Path, directory: Path) -> None:
    if shutil.which(command[0]) is None:
        raise BuildError(f"{Path(command[0]).name} is needed to build the rig's clients, and is not on PATH")
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        raise BuildError(f"{Path(command[0]).name} failed:\n{(done.stdout + done.stderr)[-2000:]}")


def _build_go(work: Path) -> None:
    _run("go", "build", "-trimpath", "-o", work / "member", ".", directory=_SOURCES)


def _build_node(work: Path) -> None:
    shutil.copy(_SOURCES / "member.js", work)
    _run("npm", "install", "--silent", "--no-save", "--prefix", work, _KAFKAJS, directory=work)


def _build_java(work: Path) -> None:
    # Started as a module the compiler does not expand `*`.
    classpath = os.pathsep.join(map(str, fetch_jars(_CLIENT_KAFKA).directory.glob("*.jar")))
    source = _SOURCES / "Member.java"
    compiler = ("-m", "jdk.compiler/com.sun.tools.javac.Main")
    _run(str(find_java()), *compiler, "-cp", classpath, "-d", work, source, directory=work)


def _build_kafka_python(work: Path) -> None:
    shutil.copy(_SOURCES / "kafka_python_member.py", work)
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(*pip, "--target", work, _KAFKA_PYTHON, directory=work)


def _build_nothing(work: Path) -> None:
    """It is Python."""


def _go(at: Path, task: dict[str, object]) -> list[str]:
    return [str(at / "member"), json.dumps(task)]


def _node(at: Path, task: dict[str, object]) -> list[str]:
    return ["node", str(at / "member.js"), json.dumps(task)]


def _kafka_python(at: Path, task: dict[str, object]) -> list[str]:
    return [sys.executable, str(at / "kafka_python_member.py"), json.dumps(task)]


def _python(at: Path, task: dict[str, object]) -> list[str]:
    return [sys.executable, str(_SOURCES / "aio_member.py"), json.dumps(task)]


def _java(at: Path, task: dict[str, object]) -> list[str]:
    classpath = fetch_jars(_CLIENT_KAFKA).classpath
    conf = {
        "bootstrap.servers": task["bootstrap"],
        "group.id": task["group"],
        "client.id": task["client_id"],
        "auto.offset.reset": "earliest",
        "session.timeout.ms": task["session_ms"],
        "heartbeat.interval.ms": task["heartbeat_ms"],
        "max.poll.interval.ms": task["rebalance_ms"],
        "auto.commit.interval.ms": task["commit_ms"],
        "partition.assignment.strategy": _JAVA_ASSIGNORS[str(task["assignor"])],
    }
    topics = task["topics"]
    assert isinstance(topics, tuple)
    options = [*jvm_options(classpath), "-Xmx96m", "-Dlog4j2.level=OFF", "-cp", f"{at}:{classpath}"]
    words = [",".join(topics), str(task["work_s"]), *(f"{key}={value}" for key, value in conf.items())]
    return [str(find_java()), *options, "Member", *words]


_PROGRAMS = {
    "java": Program(_build_java, _java),
    "go": Program(_build_go, _go),
    "node": Program(_build_node, _node),
    "python": Program(_build_nothing, _python),
    "kafka-python": Program(_build_kafka_python, _kafka_python),
}

_EAGER = ("range", "roundrobin")
LIBRARIES = {
    "java": Library("java", (*_EAGER, COOPERATIVE)),
    "sarama": Library("go", _EAGER),
    "franz-go": Library("go", (*_EAGER, COOPERATIVE)),
    "kafka-go": Library("go", ("range",)),
    "kafkajs": Library("node", ("roundrobin",)),
    "aiokafka": Library("python", _EAGER),
    "kafka-python": Library("kafka-python", _EAGER),
}
"""Beside librdkafka, which plays everything."""
