"""Namespaces of its own for all that a node needs: its network, its mounts, its processes.

So nothing is left when it ends, however it ends: bridges, mounts and network namespaces of pods go with the
namespaces, and each process with the first one. What the kernel does not put into them, cgroups, is removed by name.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

BRIDGE = "kshadow0"
SERVICE_ADDRESS = "10.96.0.1"
"""Where pods look for the API server: the first address of the service network."""
GATEWAY, POD_NETWORK = "10.244.0.1", "10.244.0.0/16"
"""This machine's address in the network of the pods, where brokers listen."""
CGROUP = "kshadow-node"
_MARK = "KSHADOW_NODE_ISOLATED"


def is_isolated() -> bool:
    return os.environ.get(_MARK) == "1"


def run_isolated(module: str, arguments: list[str]) -> int:
    """Run a module of Python again in namespaces of its own; its exit code."""
    unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"]
    try:
        command = [*unshare, sys.executable, "-m", module, *arguments]
        return subprocess.run(command, check=False, env={**os.environ, _MARK: "1"}).returncode
    finally:
        _remove_cgroups()


def prepare() -> None:
    """The network of a node, within the namespaces: loopback, and a bridge with the node's addresses."""
    assert is_isolated()
    _ip("link", "set", "lo", "up")
    # Volumes of pods are mounted below the kubelet's directory, and containers are to see them.
    _mount("--make-rshared", "/")
    # Network namespaces are kept as mounts there: this machine's own are none of ours.
    _mount("-t", "tmpfs", "tmpfs", "/run")
    for name in ("netns", "var", "var-work"):
        Path("/run", name).mkdir()
    # Logs of pods, certificates, what plugins remember.
    _mount("-t", "overlay", "overlay", "-o", "lowerdir=/var,upperdir=/run/var,workdir=/run/var-work", "/var")
    # Nobody answers for names here: who asks learns that at once.
    for name, text in {"resolv.conf": "nameserver 127.0.0.1\n", "hosts": "127.0.0.1 localhost\n"}.items():
        Path("/run", name).write_text(text)
        _mount("--bind", f"/run/{name}", f"/etc/{name}")
    _ip("link", "add", BRIDGE, "type", "bridge")
    _ip("addr", "add", f"{GATEWAY}/16", "dev", BRIDGE)
    _ip("addr", "add", f"{SERVICE_ADDRESS}/32", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")
    for hierarchy in _hierarchies():
        (hierarchy / CGROUP).mkdir(exist_ok=True)


def _hierarchies() -> list[Path]:
    """Of cgroups: one, or with their first version one for each controller."""
    top = Path("/sys/fs/cgroup")
    return [top] if (top / "cgroup.controllers").exists() else [it for it in top.iterdir() if it.is_dir()]


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _remove_cgroups() -> None:
    """What containers leave behind in the hierarchies, the innermost first; their processes end meanwhile."""
    deadline = time.monotonic() + 10
    while True:
        left = [
            path
            for hierarchy in _hierarchies()
            for top in hierarchy.glob(f"{CGROUP}*")
            for path in sorted((top, *(it for it in top.rglob("*") if it.is_dir())), reverse=True)
        ]
        for path in left:
            try:
                path.rmdir()
            except OSError:
                continue
        if not left or time.monotonic() > deadline:
            return
        time.sleep(0.1)
