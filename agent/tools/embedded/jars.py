"""Kafka's jars, once into a cache directory.

Owns where they come from: KAFKA_HOME, or a download by Ivy, the dependency resolver whose jar lies inside
the pyspark package. So there is nothing else to install, and Ivy's own settings say where artifacts are
published (KSHADOW_IVY_SETTINGS names another settings file: a mirror, a proxy repository).
Knows nothing of brokers.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from agent.common.packages import package_directory
from agent.tools.embedded.errors import IvyMissingError, JarsUnavailableError
from agent.tools.embedded.java import find_java

DEFAULT_VERSION = "4.4.0"

NEWEST_TOOLS = "4.3.1"
"""The newest Kafka whose command line tools are published. They ask brokers by the protocol, so they serve newer
ones, too."""

Progress = Callable[[str], None]

_CORE = "kafka_2.13"
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
# The tools need Connect for one class, which checks plugin paths. With it would come a web server: half of
# all jars. Named as an extra artifact it comes all the same.
_TOOLS = "org.apache.kafka:kafka-tools"
_CONNECT = '<exclude org="org.apache.kafka" module="connect-runtime"/>'
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_OTHER_WAY = "or unpack a Kafka release and set KAFKA_HOME to its directory"


@dataclass(frozen=True, slots=True)
class Jars:
    """A directory that holds a Kafka release's jars with all they need."""

    version: str
    directory: Path

    @property
    def classpath(self) -> str:
        """For `java -cp`."""
        return f"{self.directory}/*"

    @property
    def major(self) -> int:
        """4 of 4.3.1."""
        return int(self.version.split(".")[0])


def cache_directory(environ: Mapping[str, str] | None = None) -> Path:
    """KSHADOW_CACHE, or kshadow's part of the user's cache (XDG_CACHE_HOME honoured)."""
    environ = os.environ if environ is None else environ
    if own := environ.get("KSHADOW_CACHE"):
        return Path(own)
    if shared := environ.get("XDG_CACHE_HOME"):
        return Path(shared, "kshadow")
    return Path.home() / ".cache" / "kshadow"


def fetch_tools(
    version: str | None = None,
    *,
    cache: Path | None = None,
    extra: Sequence[str] = (),
    progress: Progress | None = None,
    timeout_s: float = 900.0,
) -> Jars:
    """Kafka's command line tools with all they need: of this version, or the newest published before it.

    As `fetch_jars` otherwise.
    """
    artifacts = (_TOOLS, *extra)
    home = os.environ.get("KAFKA_HOME")
    at_home = _jars_of_release(Path(home)) if home else None
    if at_home is not None and version in (None, at_home.version) and _holds(at_home, artifacts):
        return at_home
    version = min(version or DEFAULT_VERSION, NEWEST_TOOLS, key=_numbers)
    return fetch_jars(version, cache=cache, extra=artifacts, progress=progress, timeout_s=timeout_s)


def _numbers(version: str) -> tuple[int, ...]:
    if not _VERSION.fullmatch(version):
        raise JarsUnavailableError(f"a Kafka version looks like {DEFAULT_VERSION}, not like {version!r}")
    return tuple(map(int, version.split(".")))


def fetch_jars(
    version: str | None = None,
    *,
    cache: Path | None = None,
    extra: Sequence[str] = (),
    progress: Progress | None = None,
    timeout_s: float = 900.0,
) -> Jars:
    """The jars of a Kafka version's broker, downloaded if they are not there yet.

    Without a version: whatever KAFKA_HOME holds, else `DEFAULT_VERSION`. With one, KAFKA_HOME serves only
    if it holds that. `extra` are more artifacts, `group:name[:revision]`; the revision is Kafka's unless
    given. `progress` gets a sentence now and then. Safe against other processes doing the same, and
    against being killed half way. Raises an `EmbeddedError`.
    """
    tell = progress or (lambda _: None)
    if home := os.environ.get("KAFKA_HOME"):
        at_home = _jars_of_release(Path(home))
        if version in (None, at_home.version) and _holds(at_home, extra):
            return at_home
    version = version or DEFAULT_VERSION
    _numbers(version)
    root = (cache or cache_directory()).absolute()
    name = f"kafka-{version}"
    if extra:
        name += "-" + hashlib.sha256("\n".join(sorted(extra)).encode()).hexdigest()[:8]
    jars = Jars(version, root / name)
    if jars.directory.is_dir():
        return jars
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JarsUnavailableError(
            f"cannot make {root}: {error}; set KSHADOW_CACHE to a directory of yours"
        ) from error
    with _lock(root / "jars.lock", tell):
        if not jars.directory.is_dir():
            _download(jars, extra, root, tell, timeout_s)
    return jars


def _jars_of_release(home: Path) -> Jars:
    found = sorted((home / "libs").glob(f"{_CORE}-*.jar"))
    versions = [m[1] for jar in found if (m := re.fullmatch(rf"{_CORE}-(\d+\.\d+\.\d+)\.jar", jar.name))]
    if not versions:
        raise JarsUnavailableError(
            f"KAFKA_HOME is {home}, which has no libs/{_CORE}-VERSION.jar: "
            "set it to the directory of an unpacked Kafka release, or unset it"
        )
    return Jars(versions[0], home / "libs")


def _holds(jars: Jars, artifacts: Sequence[str]) -> bool:
    names = [artifact.split(":")[1] for artifact in artifacts]
    return all(any(jars.directory.glob(f"{name}-[0-9]*.jar")) for name in names)


@contextmanager
def _lock(path: Path, tell: Progress) -> Iterator[None]:
    """Exclusive among processes; the kernel frees it when its holder dies."""
    with path.open("a") as file:
        waiting = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not waiting:
                    tell("another process is downloading the same jars; waiting for it")
                waiting = True
                time.sleep(0.2)
            else:
                break
        yield


def _download(jars: Jars, extra: Sequence[str], root: Path, tell: Progress, timeout_s: float) -> None:
    partial = root / f".{jars.directory.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)  # what a killed download left; we hold the lock
    partial.mkdir()
    try:
        (partial / "ivy.xml").write_text(_ivy_module(jars, extra))
        code, output = _run_ivy(partial, root / "ivy", tell, timeout_s)
        if code != 0 or not (partial / "jars" / f"{_CORE}-{jars.version}.jar").is_file():
            log = root / "ivy.log"
            log.write_text("".join(output))
            seen = (match[1] for problem in _PROBLEMS for line in output if (match := problem.search(line)))
            why = next(seen, f"Ivy ended with exit code {code}")
            raise JarsUnavailableError(
                f"cannot download Kafka {jars.version} ({why}; all of Ivy's output is in {log}): check the network "
                f"(behind a proxy set JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=… -Dhttps.proxyPort=…), {_OTHER_WAY}"
            )
        (partial / "jars").rename(jars.directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _ivy_module(jars: Jars, extra: Sequence[str]) -> str:
    binding = (
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4" if jars.major >= 4 else "org.slf4j:slf4j-reload4j:1.7.36"
    )
    dependencies = []
    for coordinates in (f"org.apache.kafka:{_CORE}", binding, *extra):
        group, name, revision = [*coordinates.split(":"), jars.version][:3]
        attributes = f"org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(revision)}"
        without = _CONNECT if coordinates == _TOOLS else ""
        dependencies.append(f'<dependency {attributes} conf="default->default,runtime">{without}</dependency>')
    return (
        '<ivy-module version="2.0"><info organisation="kshadow" module="embedded"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>"
    )


def _run_ivy(directory: Path, home: Path, tell: Progress, timeout_s: float) -> tuple[int, list[str]]:
    # Everything of Ivy's own stays in our cache: the user's ~/.ivy2 is neither read nor written. The
    # retrieve pattern is relative, because brackets in an absolute path would be read as pattern.
    command: list[str | Path] = [find_java(), f"-Divy.home={home}", "-jar", _ivy_jar(), "-ivy", "ivy.xml"]
    command += ["-cache", home / "cache"]
    command += ["-confs", "default", "-retrieve", "jars/[artifact]-[revision](-[classifier]).[ext]"]
    if settings := os.environ.get("KSHADOW_IVY_SETTINGS"):
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


def _ivy_jar() -> Path:
    pyspark = package_directory("pyspark")
    for jar in sorted(pyspark.glob("jars/ivy-*.jar")) if pyspark else ():
        return jar
    raise IvyMissingError(
        "Kafka's jars are downloaded by Ivy, which comes with pyspark, and that is not installed: "
        f"install kshadow[spark], {_OTHER_WAY}"
    )
