"""Finds a Java that can run Kafka, and runs Kafka's command line classes with it.

Owns the lowest Java version and the JVM options; knows nothing of where jars come from or of brokers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from agent.tools.embedded.errors import JavaMissingError, JavaTooOldError, ToolFailedError

# Kafka 4 brokers and tools need Java 17 (KIP-1013); 3.9 runs on it too, so one floor does for both.
MINIMUM_MAJOR = 17

# Short-lived or idle JVMs: the second compiler tier and the parallel collectors cost more than they give.
_FAST_START_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")

CLASS_ARCHIVE = "classes.jsa"
"""Beside jars, if somebody has made it: Java's own archive of their parsed classes, with which a JVM starts sooner.
Java goes without one that does not fit it or the jars."""

_INSTALL = f"install Java {MINIMUM_MAJOR} or newer (Debian and Ubuntu: the package openjdk-17-jre-headless)"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def jvm_options(classpath: str) -> list[str]:
    """Options with which a JVM of this class path starts soon."""
    archive = Path(classpath).with_name(CLASS_ARCHIVE)
    if not archive.exists():
        return [*_FAST_START_OPTIONS]
    # That one does not fit would be told on standard output, into what callers parse.
    return [*_FAST_START_OPTIONS, f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def find_java(environ: Mapping[str, str] | None = None, *, needed_by: str = "Kafka") -> Path:
    """The `java` of JAVA_HOME, or else the first on PATH. `needed_by` is what messages say runs on it.

    Raises `JavaMissingError` or `JavaTooOldError`.
    """
    environ = os.environ if environ is None else environ
    if home := environ.get("JAVA_HOME"):
        java = Path(home, "bin", "java")
        if not os.access(java, os.X_OK):
            raise JavaMissingError(f"JAVA_HOME is {home}, which has no bin/java: correct it, or {_INSTALL}")
    elif found := shutil.which("java", path=environ.get("PATH", "")):
        java = Path(found)
    else:
        raise JavaMissingError(f"{needed_by} runs on Java, and there is no java on PATH: {_INSTALL}")
    _check_version(java, needed_by)
    return java


@cache
def _check_version(java: Path, needed_by: str) -> None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissingError(f"{java} does not run ({error}): {_INSTALL}") from error
    text = answer.stderr + answer.stdout
    match = _VERSION.search(text)
    if match is None:
        raise JavaMissingError(f"{java} -version answered {text.strip()[:200]!r}, no version: {_INSTALL}")
    major = int(match[1])
    if major < MINIMUM_MAJOR:
        raise JavaTooOldError(f"{java} is Java {major}, and {needed_by} needs {MINIMUM_MAJOR}: {_INSTALL}")


def java_command(classpath: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """What runs a class (or a program's source file) with its arguments. `options` are more of the JVM's.

    Raises as `find_java`.
    """
    # Without a configuration log4j 2 writes errors to standard output, into what callers parse.
    all_options = (*jvm_options(classpath), *options, "-Dlog4j2.level=OFF", "-cp", classpath)
    return [str(find_java()), *all_options, *arguments]


def run_class(classpath: str, main_class: str, *arguments: str, timeout_s: float = 60.0) -> str:
    """Run a Java class to its end and give what it wrote to standard output.

    `kafka.tools.DumpLogSegments` and the like. Raises `ToolFailedError` with the end of its output.
    """
    command = java_command(classpath, main_class, *arguments, options=["-Xmx256m"])
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise ToolFailedError(f"{main_class} was stopped after {timeout_s:g} seconds") from error
    if ended.returncode != 0:
        said = "\n".join((ended.stdout + ended.stderr).strip().splitlines()[-15:])
        raise ToolFailedError(f"{main_class} ended with exit code {ended.returncode}:\n{said}")
    return ended.stdout
