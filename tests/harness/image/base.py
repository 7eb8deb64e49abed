"""What stands for `python:3.13-slim-trixie` where no registry of images is reached: the same Debian with its own
Python 3.13, by debootstrap from Debian's mirror.

The difference: Python and pip are Debian's packages, in /usr, and pip is one that may install.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from agent.tools.embedded.jars import cache_directory

SUITE = "trixie"
_PACKAGES = "python3,python3-pip,python3-venv,python-is-python3,ca-certificates"
_TIMEOUT_S = 1200.0


def base_tar() -> Path:
    """The base's files as a tar in kshadow's cache; made where it is not there yet (a minute)."""
    tar = cache_directory() / "image" / f"debian-{SUITE}-python.tar"
    if tar.exists():
        return tar
    tar.parent.mkdir(parents=True, exist_ok=True)
    root, part = tar.parent / f"root-{os.getpid()}", tar.with_name(f"{tar.name}.{os.getpid()}")
    try:
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", SUITE, str(root)]
        told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
        assert told.returncode == 0, f"debootstrap: {told.stdout[-2000:]}{told.stderr[-2000:]}"
        _as_an_image(root)
        subprocess.run(["tar", "-C", root, "--numeric-owner", "-cf", part, "."], check=True, timeout=_TIMEOUT_S)
        part.rename(tar)
    finally:
        shutil.rmtree(root, ignore_errors=True)
        part.unlink(missing_ok=True)
    return tar


def _as_an_image(root: Path) -> None:
    """Pip may install, as it may in Python's own images, and can be uninstalled; what apt fetched goes."""
    for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()
    for folder in ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc"):
        shutil.rmtree(root / folder, ignore_errors=True)
    # As in Debian's slim images: the directories stay, which alternatives (Java's) want to link from.
    for page in root.glob("usr/share/man/**/*"):
        if not page.is_dir():
            page.unlink()
    for name in ("etc/resolv.conf", "etc/hostname"):
        (root / name).unlink(missing_ok=True)
