"""Compiles `agent/common/native/commits.c`, where hatchling makes a wheel or an editable installation.

The compiler is Zig: a package of Python's index that needs nothing of the machine, and builds for old versions of the
C library. The library lies beside its source, and holds the digest of what it was built of: by that one that is there
is recognized as current. Where none can be built the wheel is pure, and Python does the same work.

`HATCH_BUILD_NO_HOOKS=true` makes a pure wheel without a compiler.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

ZIG = "ziglang==0.17.1"
COMPILER = (sys.executable, "-m", "ziglang", "cc")
FLAGS = ("-O2", "-shared", "-s", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
SOURCE = "agent/common/native/commits.c"
LIBRARY = "agent/common/native/commits.so"
TARGETS = {
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "macosx_10_15_x86_64": "x86_64-macos.10.15",
}
"""For each platform of wheels that a library is built for, what Zig calls it."""
DEADLINE_S = 300


class NotBuiltError(Exception):
    """Why there is no library."""


def platform() -> str | None:
    """That of this Python, of `TARGETS`; None where it is none of them."""
    accepted = set(platform_tags())
    return next((it for it in TARGETS if it in accepted), None)


def digest(source: bytes, tag: str) -> str:
    """Of all that decides which bytes the library has."""
    return hashlib.sha256(repr((ZIG, FLAGS, TARGETS[tag])).encode() + source).hexdigest()


def is_current(root: Path, tag: str) -> bool:
    """Whether the library is there, and was built of this source for that platform."""
    try:
        return digest((root / SOURCE).read_bytes(), tag).encode() in (root / LIBRARY).read_bytes()
    except OSError:
        return False


def build(root: Path, tag: str) -> None:
    """Compile it, and put it in its place when it is whole: processes may have the old one loaded.

    Raises `NotBuiltError`.
    """
    try:
        with tempfile.TemporaryDirectory() as place:
            built = _compiled(Path(place), (root / SOURCE).read_bytes(), tag)
        partial = root / f"{LIBRARY}.{os.getpid()}"
        partial.write_bytes(built)
        partial.replace(root / LIBRARY)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotBuiltError(str(error)) from error


def _compiled(place: Path, source: bytes, tag: str) -> bytes:
    """The library's bytes. All names are relative to a directory of its own: some are in the library."""
    (place / "commits.c").write_bytes(source)
    mark = f'__attribute__((visibility("default"))) const char kshadow_built_of[] = "{digest(source, tag)}";\n'
    (place / "built_of.c").write_text(mark)
    told = subprocess.run(
        [*COMPILER, "-target", TARGETS[tag], *FLAGS, "-o", "commits.so", "commits.c", "built_of.c"],
        cwd=place,
        env={**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(place), "ZIG_LOCAL_CACHE_DIR": str(place)},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    if told.returncode:
        lines = told.stderr.strip().splitlines() or [f"the compiler ended with {told.returncode}"]
        raise NotBuiltError(next((line for line in lines if "error:" in line), lines[-1]))
    return (place / "commits.so").read_bytes()


class Hook(BuildHookInterface):  # type: ignore[type-arg]
    """What hatchling calls for a wheel, and for an editable installation."""

    def dependencies(self) -> list[str]:
        """The compiler, only where it is needed: it is a hundred times as large as all else."""
        tag = platform()
        return [] if tag is None or is_current(Path(self.root), tag) else [ZIG]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Have the library there, and the wheel named after its platform."""
        root, tag = Path(self.root), platform()
        try:
            if tag is None:
                raise NotBuiltError("it is built for other platforms than this")
            if not is_current(root, tag):
                build(root, tag)
        except NotBuiltError as error:
            # One of another source, or for another machine, is worse than none.
            self.clean([version])
            self.app.display_warning(f"kshadow is built without its compiled part: {error}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"
        build_data["artifacts"].append(f"/{LIBRARY}")

    def clean(self, versions: list[str]) -> None:
        """Remove the library."""
        (Path(self.root) / LIBRARY).unlink(missing_ok=True)
