"""Kafka's jars, once into a cache directory.

Owns which way they come: KAFKA_HOME; else file by file as `pinned` lists them, from the Maven repository that `maven`
finds; else, for what no list is kept of, resolved and downloaded by Ivy. KSHADOW_IVY_SETTINGS, Ivy's own settings of
a mirror or a proxy repository, chooses Ivy for all.
Knows nothing of brokers.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from agent.tools.embedded import ivy, maven, pinned
from agent.tools.embedded.errors import JarsUnavailableError
from agent.tools.embedded.pinned import Progress

DEFAULT_VERSION = "4.4.0"

NEWEST_TOOLS = "4.3.1"
"""The newest Kafka whose command line tools are published. They ask brokers by the protocol, so they serve newer
ones, too."""

VERSION = re.compile(r"\d+\.\d+\.\d+")
"""How a version of Kafka looks."""

_CORE = ivy.CORE
_TOOLS = ivy.TOOLS
_OTHER_WAY = "or unpack a Kafka release and set KAFKA_HOME to its directory"


class Jars(Struct, frozen=True):
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
    return fetch_jars(version, cache=cache, extra=artifacts)


def _numbers(version: str) -> tuple[int, ...]:
    if not VERSION.fullmatch(version):
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
    pins = None if extra or os.environ.get(ivy.SETTINGS) else pinned.files_of(jars.version)
    repository = None if pins is None else maven.find_repository()
    try:
        try:
            if pins is not None and repository is not None:
                pinned.download(pins, repository, partial / "jars", tell, timeout_s)
            else:
                ivy.download(jars.version, extra, partial, root, tell, timeout_s, needed_by_pins=pins is not None)
        except JarsUnavailableError as error:
            raise JarsUnavailableError(f"cannot download Kafka {jars.version}: {error}; {_OTHER_WAY}") from error
        (partial / "jars").rename(jars.directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
