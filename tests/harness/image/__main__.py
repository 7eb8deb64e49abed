"""`python -m tests.harness.image`: build, look, report; ends with 1 where something is not as it should be."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from agent import __version__
from tests import ROOT
from tests.harness.image.base import base_tar
from tests.harness.image.buildah import Buildah
from tests.harness.image.checks import CHECKS, Built, size_of
from tests.harness.image.container import Container

IMAGE = "localhost/kshadow:test"
NEEDED = ("buildah", "debootstrap", "runc")


def missing() -> str | None:
    """Why the image cannot be built here; None: it can."""
    lacking = [it for it in NEEDED if shutil.which(it) is None]
    if lacking:
        return f"{', '.join(lacking)} not installed: apt-get install {' '.join(lacking)}"
    return None if os.geteuid() == 0 else "buildah and runc need root here"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.harness.image")
    parser.add_argument("--extras", help="the build argument EXTRAS, such as [otlp]")
    parser.add_argument("--base", type=Path, help="a tar of another base's files")
    parser.add_argument("--target", help="a stage of the Dockerfile: build it, and look at nothing")
    parser.add_argument("--archive", type=Path, help="write the image there, as an OCI archive")
    given = parser.parse_args()
    if why := missing():
        raise SystemExit(why)
    work = Path(tempfile.mkdtemp(prefix="kshadow-image-"))
    buildah = Buildah(work)
    try:
        sys.exit(_run(buildah, work, given))
    finally:
        buildah.close()
        shutil.rmtree(work)


def _run(buildah: Buildah, work: Path, given: argparse.Namespace) -> int:
    base = buildah.make_base(given.base or base_tar())
    started = time.monotonic()
    arguments = {"BASE": base, "VERSION": __version__}
    arguments |= {} if given.extras is None else {"EXTRAS": given.extras}
    more = () if given.target is None else ("--target", given.target)
    buildah.build(ROOT, IMAGE, arguments, *more)
    print(f"built: {time.monotonic() - started:.1f} s, layers {len(buildah.layers(IMAGE))}", flush=True)
    if given.archive is not None:
        buildah.export(IMAGE, given.archive, IMAGE)
    if given.target is not None:
        return 0
    built = look_at(buildah, base, work)
    failed = 0
    for name, check in CHECKS.items():
        try:
            print(f"ok      {name}: {check(built)}", flush=True)
        except AssertionError as error:
            failed += 1
            print(f"FAILED  {name}: {error}", flush=True)
    return 1 if failed else 0


def look_at(buildah: Buildah, base: str, work: Path) -> Built:
    """The built image, unpacked and ready to run."""
    config = buildah.config(IMAGE)
    root = buildah.unpack(IMAGE, work / "files")
    below = buildah.unpack(base, work / "base")
    base_size = size_of(below)
    shutil.rmtree(below)
    state = work / "state"
    state.mkdir()
    container = Container(root, config, state)
    os.chown(state, container.user, container.group)
    return Built(root, config, size_of(root), base_size, container, state, work)


if __name__ == "__main__":
    main()
