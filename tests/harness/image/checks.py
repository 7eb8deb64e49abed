"""What is looked at in the image: `CHECKS`. Each raises `AssertionError`, or says in a line what it saw."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
from confluent_kafka import Consumer, Producer, TopicPartition

from agent import __version__
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from agent.tools.embedded.ports import free_ports
from tests import ROOT
from tests.generate.constraints_hashes import normalized, pins
from tests.harness.image.container import Container
from tests.live.image.bill import PATH, check_bill
from tests.live.scenarios import faults

_READY_S = 90.0

WRITABLE = """
import os, stat, sys
out = []
for top, folders, files in os.walk('/'):
    folders[:] = [it for it in folders if os.path.join(top, it) not in ('/proc', '/sys')]
    for name in (*folders, *files):
        path = os.path.join(top, name)
        if not os.path.islink(path) and os.access(path, os.W_OK, effective_ids=True):
            out.append(path)
print(*out, sep='\\n')
"""
"""What this process could write to, itself no part of the image."""


@dataclass(frozen=True, slots=True)
class Built:
    """An image: its files below `root`, its `config`, its size and its base's in bytes, and a way to run it."""

    root: Path
    config: Mapping[str, Any]
    size: int
    base_size: int
    container: Container
    state: Path
    work: Path


def config_is_the_dockerfiles(it: Built) -> str:
    config = it.config
    assert config["User"] == "65532:65532", config["User"]
    assert (config["Entrypoint"], config["Cmd"]) == (["kshadow"], ["run"])
    assert list(config["ExposedPorts"]) == ["9308/tcp"]
    assert config["Labels"]["org.opencontainers.image.version"] == __version__
    return f"user {config['User']}, {' '.join(config['Entrypoint'] + config['Cmd'])}, version {__version__}"


def size(it: Built) -> str:
    own = it.size - it.base_size
    assert own < 100e6, f"{own / 1e6:.0f} MB on its base"
    largest = sorted(
        ((size_of(path), path.name) for path in it.root.glob("opt/kshadow/lib/python3*/site-packages/*")),
        reverse=True,
    )
    parts = ", ".join(f"{name} {size / 1e6:.1f}" for size, name in largest[:5])
    return f"{own / 1e6:.1f} MB on a base of {it.base_size / 1e6:.1f} MB; the largest parts in MB: {parts}"


def size_of(path: Path) -> int:
    """Bytes of all files at or below a path."""
    return sum(one.lstat().st_size for one in (path.rglob("*") if path.is_dir() else (path,)))


def owners(it: Built) -> str:
    """Nothing is its user's but the directory of the state; nothing gives rights by being run."""
    owned, gifted, files = [], [], 0
    for path in it.root.rglob("*"):
        told = path.lstat()
        files += 1
        if it.container.user == told.st_uid or it.container.group == told.st_gid:
            owned.append(f"/{path.relative_to(it.root)}")
        if told.st_mode & 0o6000 and path.is_file() and path.is_relative_to(it.root / "opt"):
            gifted.append(path)
    assert owned == [it.container.directory], owned
    assert not gifted, gifted
    return f"of {files} files and directories the user owns {owned[0]} alone"


def versions(it: Built) -> str:
    listing = (
        "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
    )
    told = it.container.run(["python", "-I", "-c", listing])
    assert told.returncode == 0, told.stderr
    found = {normalized(name): version for name, version in json.loads(told.stdout).items()}
    assert found.pop("kshadow") == __version__
    hashed = pins((ROOT / "constraints-hashes.txt").read_text())
    assert found.items() <= hashed.items(), set(found.items()) - set(hashed.items())
    check_bill((it.root / PATH.lstrip("/")).read_text(), {**found, "kshadow": __version__})
    python = it.container.run(["python", "--version"]).stdout.strip()
    return (
        f"{python}; {len(found)} packages, each in the version whose hashes are listed, all in the bill of materials"
    )


def nothing_to_build_with(it: Built) -> str:
    found = [
        name
        for name in ("pip", "pip3", "wheel", "gcc", "cc", "make", "java", "git", "curl")
        for place in ("opt/kshadow/bin", "usr/local/bin", "usr/bin", "bin")
        if (it.root / place / name).exists()
    ]
    assert not found, found
    for python in ("/opt/kshadow/bin/python", "/usr/bin/python3", "/usr/local/bin/python3"):
        if (it.root / python.lstrip("/")).is_symlink() or (it.root / python.lstrip("/")).exists():
            for module in ("pip", "hatchling", "ziglang", "pytest", "pyspark"):
                assert it.container.run([python, "-I", "-c", f"import {module}"]).returncode, f"{python}: {module}"
    return "no pip, compiler, Java or git; neither Python imports pip, hatchling or Zig"


def entry_point(it: Built) -> str:
    told = it.container.run([*it.config["Entrypoint"], "--version"])
    assert told.stdout.split()[-1] == __version__, told
    return told.stdout.strip()


def compiled_part(it: Built) -> str:
    asked = "from agent.common.native import LIBRARY, library; print(LIBRARY.stat().st_size if library() else 0)"
    told = it.container.run(["python", "-I", "-c", asked])
    assert int(told.stdout), told
    return f"loads, {int(told.stdout) / 1000:.1f} kB"


def nothing_is_writable(it: Built) -> str:
    told = it.container.run(["python", "-I", "-c", WRITABLE])
    assert told.returncode == 0, told.stderr
    found = set(told.stdout.split())
    devices = {path for path in found if path.startswith("/dev/")}
    assert found - devices == {it.container.directory}, sorted(found - devices)
    return f"with a read-only root only {it.container.directory} can be written to (and {len(devices)} devices)"


def agent(it: Built) -> str:
    """It reads a broker, keeps its state, is healthy by its own check, writes nothing else, and ends when told to."""
    before = _files(it.root)
    port, log = free_ports(1)[0], it.work / "agent.log"
    health = [word.replace("9308", str(port)) for word in it.config["Healthcheck"]["Test"][1:]]
    assert it.container.run(health).returncode != 0, "nobody is there"
    with EmbeddedBroker(fetch_jars(), heap="256m") as broker:
        _commit(broker)
        env = {"KSHADOW_LISTEN": f":{port}", "KSHADOW_STATE_DIR": it.container.directory}
        command = [*it.config["Entrypoint"], *it.config["Cmd"], "--bootstrap-server", broker.bootstrap_servers]
        started = time.monotonic()
        with it.container.running(command, log, **env) as process:
            _await_ready(process, f"http://127.0.0.1:{port}", log)
            ready_s = time.monotonic() - started
            groups = httpx.get(f"http://127.0.0.1:{port}/api/v1/groups").json()
            assert "payments" in json.dumps(groups), groups
            assert it.container.run(health).returncode == 0
            process.send_signal(signal.SIGTERM)
            process.wait(40)
            assert process.returncode == 0, log.read_text()[-2000:]
    assert _files(it.root) == before, "it wrote outside of its state"
    kept = {str(path.relative_to(it.state)) for path in it.state.rglob("*") if path.is_file()}
    assert kept, "no state was kept"
    assert not re.search(r"\b(ERROR|Traceback)\b", log.read_text()), log.read_text()
    return f"ready {ready_s:.1f} s after its start, knows the group, healthy, ends with 0; state: {len(kept)} files"


def _files(root: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_mtime_ns for path in root.rglob("*")}


def _commit(broker: EmbeddedBroker) -> None:
    """A group for it to know."""
    conf = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "payments", "enable.auto.commit": False}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("orders", b"1")
    producer.flush(30)
    consumer = Consumer({**conf, "log_level": 0})
    faults.commit(consumer, TopicPartition("orders", 0, 1))
    consumer.close()


def _await_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while True:
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)


CHECKS: Mapping[str, Callable[[Built], str]] = MappingProxyType(
    {
        it.__name__.replace("_", " "): it
        for it in (
            config_is_the_dockerfiles,
            size,
            owners,
            entry_point,
            compiled_part,
            versions,
            nothing_to_build_with,
            nothing_is_writable,
            agent,
        )
    }
)
