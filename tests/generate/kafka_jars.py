"""Writes the lists of jars that are downloaded without Ivy: `python -m tests.generate.kafka_jars [VERSION…]`.

Ivy resolves what a broker needs, from repositories alone; each file goes into the list with its length and SHA-256.
After a change of the versions: commit what this wrote.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

from agent.tools.embedded import ivy, pinned
from agent.tools.embedded.jars import DEFAULT_VERSION
from tests.live.versions import COORDINATORS


def render(version: str, work: Path) -> str:
    """The list of a version."""
    ivy.download(version, (), work, work, print, 900)
    lines = []
    for jar in sorted((work / "jars").glob("*.jar")):
        [kept] = (work / "ivy" / "cache").glob(f"*/*/*/{jar.name}")
        group, name = kept.parts[-4:-2]
        revision = jar.name.removeprefix(f"{name}-").removesuffix(".jar")
        data = jar.read_bytes()
        lines.append(f"{group}:{name}:{revision} {len(data)} {hashlib.sha256(data).hexdigest()}\n")
    return f"# What a broker of Kafka {version} needs: artifact, bytes, SHA-256.\n" + "".join(sorted(lines))


def main(versions: list[str]) -> None:
    """Write them all."""
    for version in versions or sorted({DEFAULT_VERSION, *COORDINATORS}):
        with tempfile.TemporaryDirectory(prefix="kshadow-jars-") as work:
            text = render(version, Path(work))
        (Path(pinned.__file__).with_name("pinned") / f"kafka-{version}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
