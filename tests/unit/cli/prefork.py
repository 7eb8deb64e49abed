"""Processes of `kshadow` that start with its modules loaded: one process loads them and forks for each command.

Most of what a short command costs is to load modules, and tests run hundreds on terminals. Forked before anything was
run, each still has an interpreter of its own.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from tests import ROOT

LOADED = ("agent.cli", "agent.core", "agent.presentation", "agent.runtime", "agent.simulation", "analyzers")
_ENOUGH = 1 << 20


def run_on(terminal: int, arguments: list[str], env: Mapping[str, str]) -> int:
    """Run `kshadow` with these arguments, this environment, and the terminal as its streams; its exit code.

    It has ended when this returns.
    """
    sys.audit("subprocess.Popen", sys.executable, arguments, None, None)
    request = json.dumps([arguments, dict(env)]).encode()
    ours = _server()
    socket.send_fds(ours, [request], [terminal])
    return int(json.loads(ours.recv(_ENOUGH)))


@cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ENOUGH)
    process = subprocess.Popen([sys.executable, "-m", __name__], stdin=theirs, cwd=ROOT)
    theirs.close()

    def close() -> None:
        ours.close()
        process.wait(30)

    atexit.register(close)
    return ours


def _serve(requests: socket.socket) -> None:
    for name in LOADED:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    while True:
        request, descriptors, *_ = socket.recv_fds(requests, _ENOUGH, 1)
        if not request:
            return
        (terminal,) = descriptors
        arguments, env = json.loads(request)
        child = os.fork()
        if not child:
            _become(terminal, arguments, env)
        os.close(terminal)
        _, status = os.waitpid(child, 0)
        requests.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def _become(terminal: int, arguments: list[str], env: dict[str, str]) -> None:
    """As a process that was started so: its streams, arguments, environment and end."""
    for descriptor in (0, 1, 2):
        os.dup2(terminal, descriptor)
    os.environ.clear()
    os.environ.update(env)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    sys.stdout, sys.stderr = _printing(1, "strict"), _printing(2, "backslashreplace")
    sys.argv[1:] = arguments
    code: Any = 1
    try:
        from agent.cli.main import main

        code = main()
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - told as an interpreter would
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def _printing(descriptor: int, errors: str) -> io.TextIOWrapper:
    buffer = io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False))
    return io.TextIOWrapper(buffer, "utf-8", errors, line_buffering=True)


if __name__ == "__main__":
    _serve(socket.socket(fileno=os.dup(0)))
