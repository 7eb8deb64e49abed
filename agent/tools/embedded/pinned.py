"""Jars by a list that names each file with its length and SHA-256: downloaded side by side, and checked.

Owns the lists (`pinned/kafka-VERSION.txt`, written by `python -m tests.generate.kafka_jars`) and the download. What
another repository gives under these names is taken only if it is the same to the byte.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path
from queue import Empty, SimpleQueue
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from msgspec import Struct

from agent.tools.embedded.errors import JarsUnavailableError
from agent.tools.embedded.maven import MavenRepository

Progress = Callable[[str], None]

_LISTS = Path(__file__).with_name("pinned")
_AT_ONCE = 8
_TRIES = 3
_ANSWER_S = 20.0
_CHUNK = 1 << 17


class PinnedFile(Struct, frozen=True):
    """One jar: `group:name:version`, its bytes, and their SHA-256 in hex."""

    coordinates: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        """`name-version.jar`."""
        return "{1}-{2}.jar".format(*self.coordinates.split(":"))

    @property
    def path(self) -> str:
        """Within a repository of Maven's layout."""
        group, name, version = self.coordinates.split(":")
        return "/".join([*group.split("."), name, version, self.file_name])


def files_of(version: str) -> tuple[PinnedFile, ...] | None:
    """All that this version's broker needs, or None where no list is kept."""
    path = _LISTS / f"kafka-{version}.txt"
    if not path.is_file():
        return None
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return tuple(PinnedFile(coordinates, int(size), sha256) for coordinates, size, sha256 in lines)


def download(
    files: Sequence[PinnedFile], repository: MavenRepository, directory: Path, tell: Progress, timeout_s: float
) -> None:
    """All of them into `directory`, which is made. Raises `JarsUnavailableError` at the first that cannot be had.

    A jar that Maven has on this machine is taken from there.
    """
    directory.mkdir(parents=True)
    waiting: SimpleQueue[PinnedFile] = SimpleQueue()
    for file in sorted(files, key=lambda it: -it.size):
        waiting.put(file)
    ended: SimpleQueue[PinnedFile | Exception] = SimpleQueue()
    stop = threading.Event()

    def work() -> None:
        try:
            while not stop.is_set():
                file = waiting.get_nowait()
                _fetch(file, repository, directory, stop)
                ended.put(file)
        except Empty:
            pass
        except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
            ended.put(error)

    # Daemons: an answer that hangs must not keep a process from ending.
    threads = [threading.Thread(target=work, name=f"jars-{n}", daemon=True) for n in range(_AT_ONCE)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + timeout_s
    size, total = 0, sum(file.size for file in files)
    try:
        for number in range(1, len(files) + 1):
            try:
                it = ended.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                raise JarsUnavailableError(f"timed out after {timeout_s:g} seconds") from None
            if isinstance(it, Exception):
                raise it
            size += it.size
            tell(f"downloaded {number} of {len(files)} jars, {size / 1e6:.0f} of {total / 1e6:.0f} MB")
    finally:
        stop.set()
        patience = time.monotonic() + 2
        for thread in threads:
            thread.join(max(0.0, patience - time.monotonic()))


def _fetch(file: PinnedFile, repository: MavenRepository, directory: Path, stop: threading.Event) -> None:
    target = directory / file.file_name
    local = Path.home() / ".m2" / "repository" / file.path
    if local.is_file() and local.stat().st_size == file.size:
        shutil.copyfile(local, target)
        if hashlib.sha256(target.read_bytes()).hexdigest() == file.sha256:
            return
    for attempt in range(1, _TRIES + 1):
        try:
            _download(file, repository, target, stop)
            return
        except (OSError, HTTPException) as error:
            if isinstance(error, HTTPError):
                error.close()
            refused = isinstance(error, HTTPError) and error.code < 500 and error.code not in (408, 429)
            if refused or attempt == _TRIES:
                raise JarsUnavailableError(_why(file, repository, error)) from None
            stop.wait(attempt / 2)


def _why(file: PinnedFile, repository: MavenRepository, error: OSError | HTTPException) -> str:
    """Without the address: it may hold a password."""
    if isinstance(error, HTTPError):
        said = f"HTTP {error.code} {error.reason}"
    else:
        reason = error.reason if isinstance(error, URLError) else error
        said = str(reason) or type(reason).__name__
    return (
        f"{file.coordinates}: {said}; asked was {repository.named_by}. Check the network (behind a proxy set "
        "HTTPS_PROXY; for a mirror DEFAULT_ARTIFACT_REPOSITORY or Maven's settings.xml)"
    )


def _download(file: PinnedFile, repository: MavenRepository, target: Path, stop: threading.Event) -> None:
    request = Request(f"{repository.url}/{file.path}")
    if repository.authorization is not None:
        # Not to wherever a redirect leads.
        request.add_unredirected_header("Authorization", repository.authorization)
    digest, size = hashlib.sha256(), 0
    with urlopen(request, timeout=_ANSWER_S) as answer, target.open("wb") as out:
        while not stop.is_set() and (chunk := answer.read(_CHUNK)):
            size += len(chunk)
            if size > file.size:
                break
            digest.update(chunk)
            out.write(chunk)
    if stop.is_set():
        return
    if size < file.size:
        raise HTTPException(f"expected {file.size} bytes, got {size}")
    if size != file.size or digest.hexdigest() != file.sha256:
        raise JarsUnavailableError(
            f"{file.coordinates} from {repository.named_by} is not the file that was pinned: expected "
            f"{file.size} bytes with SHA-256 {file.sha256}, got {size} or more with {digest.hexdigest()}"
        )
