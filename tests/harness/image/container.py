"""The image's files as a container, by runc: as Kubernetes runs it under the restricted Pod Security standard.

A read-only root, the image's user, no capabilities, no new privileges; namespaces of its own but for the network,
which is this machine's, so that a broker on loopback answers.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_TIMEOUT_S = 120.0
_NAMESPACES = ("pid", "ipc", "uts", "mount")


class Container:
    """A way to run commands in the files below `root`, whose `config` is the image's."""

    def __init__(self, root: Path, config: Mapping[str, Any], state: Path) -> None:
        """`state` is mounted where the image works, and is the only thing of its own that it may write to."""
        user, _, group = str(config["User"]).partition(":")
        self.user, self.group = int(user), int(group)
        self.directory = str(config["WorkingDir"])
        self._root, self._config, self._state = root, config, state

    def run(self, command: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        with self._bundle(command, environment) as (bundle, name):
            return subprocess.run(
                ["runc", "--root", str(bundle / "runc"), "run", "--bundle", str(bundle), name],
                capture_output=True,
                text=True,
                check=False,
                timeout=_TIMEOUT_S,
            )

    @contextmanager
    def running(self, command: Sequence[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
        """A command that goes on; runc hands signals on to it, and ends with its exit code."""
        with self._bundle(command, environment) as (bundle, name), log.open("wb") as out:
            runc = ["runc", "--root", str(bundle / "runc")]
            process = subprocess.Popen([*runc, "run", "--bundle", str(bundle), name], stdout=out, stderr=out)
            try:
                yield process
            finally:
                if process.poll() is None:
                    subprocess.run([*runc, "kill", name, "KILL"], check=False, capture_output=True)
                    process.wait(30)

    @contextmanager
    def _bundle(self, command: Sequence[str], environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
        name = f"kshadow-{uuid.uuid4().hex[:12]}"
        bundle = self._root.parent / name
        bundle.mkdir()
        env = [*self._config["Env"], *(f"{key}={value}" for key, value in environment.items())]
        (bundle / "config.json").write_text(json.dumps(self._spec(command, env, name)))
        try:
            yield bundle, name
        finally:
            subprocess.run(
                ["runc", "--root", str(bundle / "runc"), "delete", "--force", name], check=False, capture_output=True
            )
            (bundle / "config.json").unlink()

    def _spec(self, command: Sequence[str], env: list[str], name: str) -> dict[str, Any]:
        bound = {"type": "bind", "options": ["rbind", "rw", "nosuid", "nodev"]}
        return {
            "ociVersion": "1.0.2",
            "hostname": name,
            "root": {"path": str(self._root), "readonly": True},
            "process": {
                "user": {"uid": self.user, "gid": self.group},
                "args": list(command),
                "env": env,
                "cwd": self.directory,
                "capabilities": {it: [] for it in ("bounding", "effective", "permitted", "inheritable", "ambient")},
                "noNewPrivileges": True,
            },
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {
                    "destination": "/dev",
                    "type": "tmpfs",
                    "source": "tmpfs",
                    "options": ["nosuid", "strictatime", "mode=755", "size=65536k"],
                },
                {"destination": self.directory, "source": str(self._state), **bound},
            ],
            "linux": {
                "cgroupsPath": f"/{name}",
                "namespaces": [{"type": it} for it in _NAMESPACES],
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
                "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
            },
        }
