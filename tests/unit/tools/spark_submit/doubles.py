"""Things that look like a Java or a Spark to who only looks, and small jobs."""

from __future__ import annotations

from pathlib import Path

from agent.common.files import whole_or_not
from agent.tools.spark_submit.checkpoint import LocalFileSystem
from agent.tools.spark_submit.command import SubmitSettings
from agent.tools.spark_submit.jobs import Stream
from agent.tools.spark_submit.spark import Spark

SPARK = Spark(Path("/opt/spark"), "4.0.5", "2.13", False)
PLACING = SubmitSettings(ivy_home=Path("/c/ivy"), ivy_settings=Path("/c/ivy/settings.xml"), python="/usr/bin/python3")


def release(home: Path, *jars: str) -> Path:
    """A directory with the names of a Spark release."""
    (home / "jars").mkdir(parents=True)
    (home / "bin").mkdir()
    (home / "bin" / "spark-submit").touch()
    for jar in jars:
        (home / "jars" / jar).touch()
    return home


def java(home: Path, version: str) -> Path:
    """A JAVA_HOME whose java says that it is of a version."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


def stream(directory: Path, **more: object) -> Stream:
    """A stream of the topic whose places are below a directory."""
    places = {"out": f"{directory}/out", "checkpoint": f"{directory}/checkpoint"}
    return Stream(**{"reads": "topic", **places, **more})  # type: ignore[arg-type]


class WritableFileSystem(LocalFileSystem):
    """This machine's files, as the job's Hadoop writes them."""

    def write(self, path: str, body: bytes) -> None:
        """Whole or not at all."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_or_not(target) as file:
            file.write(body)
