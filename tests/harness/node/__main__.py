"""`python -m tests.harness.node`: a cluster of one node, consumers and kshadow on it, and what happens to them."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.harness.image.__main__ import IMAGE
from tests.harness.image.__main__ import missing as image_missing
from tests.harness.image.base import base_tar
from tests.harness.image.buildah import Buildah
from tests.harness.node import node
from tests.harness.node.agent_scenes import AGENT_SCENES
from tests.harness.node.isolation import is_isolated, run_isolated
from tests.harness.node.scenes import SCENES

ALL = (*AGENT_SCENES, *SCENES)
_KSHADOW, _PAUSE = "kshadow.tar", "pause.tar"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.harness.node")
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=f"of {', '.join(ALL)}; all of them unless told")
    parser.add_argument("--image", type=Path, metavar="ARCHIVE", help=f"an archive with {IMAGE}, not built anew")
    parser.add_argument("--record", type=Path, metavar="DIR", help="keep what Kubernetes wrote in each scene")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if unknown := set(given.scenes) - set(ALL):
        parser.error(f"no such scene: {', '.join(sorted(unknown))}")
    if why := node.missing() or image_missing():
        raise SystemExit(why)
    if is_isolated():
        from tests.harness.node.run import run

        names = given.scenes or list(ALL)
        sys.exit(run(given.work, [given.work / _PAUSE, given.work / _KSHADOW], names, given.record))
    work = Path(tempfile.mkdtemp(prefix="kshadow-node-"))
    try:
        _make_images(work, given.image)
        sys.exit(run_isolated("tests.harness.node", [*sys.argv[1:], "--work", str(work)]))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _make_images(work: Path, image: Path | None) -> None:
    """Archives of kshadow's image, and of one that does nothing, which each pod needs."""
    from tests import ROOT

    started = time.monotonic()
    buildah = Buildah(work / "images")
    try:
        container = buildah("from", "scratch").strip()
        buildah("add", container, shutil.which("busybox"), "/busybox")
        buildah("config", "--entrypoint", '["/busybox","sleep","2147483647"]', container)
        buildah("commit", "--rm", "--quiet", container, node.PAUSE)
        buildah.export(node.PAUSE, work / _PAUSE, node.PAUSE)
        if image is not None:
            shutil.copy(image, work / _KSHADOW)
            return
        buildah.build(ROOT, IMAGE, {"BASE": buildah.make_base(base_tar())})
        buildah.export(IMAGE, work / _KSHADOW, IMAGE)
        print(f"image: built in {time.monotonic() - started:.0f} s", flush=True)
    finally:
        buildah.close()


if __name__ == "__main__":
    main()
