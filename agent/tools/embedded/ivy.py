"""Kafka's jars by Ivy, the dependency resolver whose jar lies inside the pyspark package.

Owns Ivy's command line and what its output means. Ivy's own settings say where artifacts are published;
KSHADOW_IVY_SETTINGS names another settings file (a mirror, a proxy repository). For versions and tools of which
`pinned` keeps no list.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from agent.common.packages import package_directory
from agent.tools.embedded import maven
from agent.tools.embedded.errors import IvyMissingError, JarsUnavailableError
from agent.tools.embedded.java import find_java
from agent.tools.embedded.pinned import Progress

SETTINGS = "KSHADOW_IVY_SETTINGS"
CORE = "kafka_2.13"

_FOUND = re.compile(r"^\tfound \S+?#([^;]+);(\S+) in ")
_FETCHED = re.compile(r"\[SUCCESSFUL ] \S+?#([^;]+);([^!]+)!")
# The first that matches tells most; addresses are left out, they are Ivy's business.
_PROBLEMS = (
    re.compile(r"^(timed out after .*)"),
    re.compile(r"Server access error .*\((.+)\)"),
    re.compile(r"([\w.]+(?:Exception|Error): .*)"),
    re.compile(r":: (\S+: not found)"),
    re.compile(r"(\[FAILED +\] \S+)"),
)
TOOLS = "org.apache.kafka:kafka-tools"
# The tools need Connect for one class, which checks plugin paths. With it would come a web server: half of
# all jars. Named as an extra artifact it comes all the same.
_CONNECT = '<exclude org="org.apache.kafka" module="connect-runtime"/>'


def download(
    version: str,
    extra: Sequence[str],
    directory: Path,
    cache: Path,
    tell: Progress,
    timeout_s: float,
    *,
    needed_by_pins: bool = False,
) -> None:
    """The jars of a Kafka version's broker and of `extra` into `directory`/jars; Ivy's own files into `cache`.

    `needed_by_pins`: there is a list of the files, and no repository to get them from. Raises an `EmbeddedError`.
    """
    (directory / "ivy.xml").write_text(_module(version, extra))
    code, output = _run(directory, cache / "ivy", tell, timeout_s, needed_by_pins)
    if code != 0 or not (directory / "jars" / f"{CORE}-{version}.jar").is_file():
        log = cache / "ivy.log"
        log.write_text("".join(output))
        seen = (match[1] for problem in _PROBLEMS for line in output if (match := problem.search(line)))
        why = next(seen, f"Ivy ended with exit code {code}")
        raise JarsUnavailableError(
            f"{why}; all of Ivy's output is in {log}. Check the network "
            "(behind a proxy set JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=… -Dhttps.proxyPort=…)"
        )


def _module(version: str, extra: Sequence[str]) -> str:
    binding = (
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"
        if int(version.split(".")[0]) >= 4
        else "org.slf4j:slf4j-reload4j:1.7.36"
    )
    dependencies = []
    for coordinates in (f"org.apache.kafka:{CORE}", binding, *extra):
        group, name, revision = [*coordinates.split(":"), version][:3]
        attributes = f"org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(revision)}"
        without = _CONNECT if coordinates == TOOLS else ""
        dependencies.append(f'<dependency {attributes} conf="default->default,runtime">{without}</dependency>')
    return (
        '<ivy-module version="2.0"><info organisation="kshadow" module="embedded"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>"
    )


def _run(
    directory: Path, home: Path, tell: Progress, timeout_s: float, needed_by_pins: bool
) -> tuple[int, list[str]]:
    jar = _jar(needed_by_pins)
    # Everything of Ivy's own stays in our cache: the user's ~/.ivy2 is neither read nor written. The
    # retrieve pattern is relative, because brackets in an absolute path would be read as pattern.
    command: list[str | Path] = [find_java(), f"-Divy.home={home}", "-jar", jar, "-ivy", "ivy.xml"]
    command += ["-cache", home / "cache"]
    command += ["-confs", "default", "-retrieve", "jars/[artifact]-[revision](-[classifier]).[ext]"]
    if settings := os.environ.get(SETTINGS):
        command += ["-settings", Path(settings).absolute()]
    command += ["-types", "jar", "bundle"]
    output: list[str] = []
    found = fetched = 0
    tell("resolving what Kafka needs")
    with subprocess.Popen(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as ivy:
        deadline = threading.Timer(timeout_s, ivy.kill)
        deadline.start()
        try:
            assert ivy.stdout is not None
            for line in ivy.stdout:
                output.append(line)
                if match := _FOUND.search(line):
                    found += 1
                    tell(f"found {match[1]} {match[2]} ({found} so far)")
                elif match := _FETCHED.search(line):
                    fetched += 1
                    tell(f"downloaded {match[1]} {match[2]} ({fetched} of {found})")
        except BaseException:
            ivy.kill()  # leaving the block waits for it
            raise
        finally:
            if not deadline.is_alive():
                output.append(f"timed out after {timeout_s:g} seconds\n")
            deadline.cancel()
    return ivy.returncode, output


def _jar(needed_by_pins: bool) -> Path:
    pyspark = package_directory("pyspark")
    for jar in sorted(pyspark.glob("jars/ivy-*.jar")) if pyspark else ():
        return jar
    if needed_by_pins:
        raise IvyMissingError(
            "Kafka's jars are downloaded from a Maven repository, and none is known here: install kshadow[demo], "
            f"set {maven.VARIABLE} to the address of yours, or unpack a Kafka release and set KAFKA_HOME to it"
        )
    raise IvyMissingError(
        "Kafka's jars of this version are downloaded by Ivy, which comes with pyspark, and that is not installed: "
        "install kshadow[spark], or unpack a Kafka release and set KAFKA_HOME to its directory"
    )
