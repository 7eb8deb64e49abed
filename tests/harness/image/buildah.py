"""Buildah with a store of its own, as root, without an engine that runs: `Buildah`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TIMEOUT_S = 900.0
BASE = "localhost/kshadow-base"
_CERTIFICATES = "/etc/pip-certificates.pem"


class BuildahError(Exception):
    """What it said as it failed."""


class Buildah:
    """A store of images below a directory; `close` removes it. Nothing is mounted and nothing runs between calls.

    `vfs` and `chroot` need neither overlayfs nor a container runtime, so they work within containers as well.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._store = directory / "store"
        self._pip = directory / "pip.conf"
        self._volumes = [f"{self._pip}:/etc/pip.conf:ro", *_as_pip_is_set_here(self._pip)]

    def close(self) -> None:
        """Remove all images and containers."""
        if self._store.exists():
            self("rm", "--all")
            shutil.rmtree(self._store)

    def __call__(self, *arguments: object) -> str:
        """Run it; its standard output. Raises `BuildahError`."""
        store = ("--root", self._store, "--runroot", self._store / "run", "--storage-driver", "vfs")
        command = ["buildah", *map(str, store), *map(str, arguments)]
        told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
        if told.returncode:
            raise BuildahError(f"buildah {' '.join(map(str, arguments))}: {told.stdout[-3000:]}{told.stderr[-3000:]}")
        return told.stdout

    def make_base(self, tar: Path, image: str = BASE) -> str:
        """An image of a tar of files whose pip pip itself can replace and uninstall; its name."""
        container = self("from", "scratch").strip()
        self("add", container, tar, "/")
        script = (
            "pip install --quiet --ignore-installed --root-user-action ignore pip && rm -rf /root/.cache && "
            # Debian's packages have no list of their files, without which pip uninstalls nothing.
            "dpkg --purge --force-depends $(dpkg-query -W -f '${Package} ' 'python3-pip' 'python3-packaging' "
            "'python3-wheel' 'python3-setuptools' 'python3-pkg-resources' 2>/dev/null)"
        )
        volumes = [it for volume in self._volumes for it in ("--volume", volume)]
        self("run", "--isolation", "chroot", "--network", "host", *volumes, container, "--", "sh", "-ec", script)
        self("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", container)
        self("commit", "--rm", "--quiet", container, image)
        return image

    def build(self, context: Path, image: str, arguments: Mapping[str, str], *more: str) -> str:
        """Build a directory's Dockerfile, in Docker's format, which knows health checks; what the build printed."""
        given = [it for name, value in arguments.items() for it in ("--build-arg", f"{name}={value}")]
        volumes = [it for volume in self._volumes for it in ("--volume", volume)]
        engine = ("--isolation", "chroot", "--network", "host", "--format", "docker", "--pull-never")
        return self("build", *engine, *volumes, *given, *more, "--tag", image, context)

    def config(self, image: str) -> dict[str, Any]:
        """What the image says of itself: User, Env, Entrypoint and so on."""
        said: dict[str, Any] = json.loads(self("inspect", "--type", "image", image))["Docker"]["config"]
        return said

    def layers(self, image: str) -> list[str]:
        """The digests of its layers' files, the base's first."""
        said: list[str] = json.loads(self("inspect", "--type", "image", image))["Docker"]["rootfs"]["diff_ids"]
        return said

    def unpack(self, image: str, target: Path) -> Path:
        """The image's files, with their owners, in a new directory."""
        container = self("from", "--pull-never", image).strip()
        try:
            mounted = self("mount", container).strip()
            subprocess.run(["cp", "-a", mounted, target], check=True, timeout=_TIMEOUT_S)
        finally:
            self("umount", container)
            self("rm", container)
        return target

    def export(self, image: str, archive: Path, name: str) -> Path:
        """The image as an archive that containerd imports under a name."""
        self("push", "--quiet", image, f"oci-archive:{archive}:{name}")
        return archive


def _as_pip_is_set_here(file: Path) -> list[str]:
    """Write this machine's settings of pip to a file; the volumes that it names. They are mounted in builds, and no
    part of an image."""
    told = subprocess.run(["python3", "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    kept = (
        "cert",
        "default-timeout",
        "extra-index-url",
        "find-links",
        "index-url",
        "proxy",
        "timeout",
        "trusted-host",
    )
    found = dict(re.findall(r"^(?:global|:env:)\.([\w-]+)='(.*)'$", told.stdout, re.MULTILINE))
    volumes = [f"{it}:{it}:ro" for it in found.get("find-links", "").split() if Path(it).is_dir()]
    if Path(cert := found.pop("cert", os.environ.get("SSL_CERT_FILE", ""))).is_file():
        # Not where it is here: packages of the base write there.
        volumes.append(f"{cert}:{_CERTIFICATES}:ro")
        found["cert"] = _CERTIFICATES
    lines = [f"{name} = {value}" for name, value in found.items() if name in kept]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["[global]", *lines, ""]))
    return volumes
