"""Where files go: a local directory, or what fsspec reaches. Each file is there whole or not at all."""

from __future__ import annotations

import errno
import importlib
import os
import re
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from agent.common.files import sync_directory
from agent.persistence.export.errors import ExportMisconfigured

SINGLE_PUT = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "memory"})
"""Stores in which an object appears as its upload ends. Elsewhere a file is written beside, and moved."""

_LEFT_AFTER_S = 3_600.0


class Filesystem(Protocol):
    """A directory of files."""

    def put(self, name: str, data: bytes) -> None:
        """Make `name` (with slashes) hold `data`, for good when this returns. What had the name before is replaced.

        Raises whatever the store raises.
        """


def store_error_text(error: Exception) -> str:
    """What a store's client says, as one line: some write for a terminal, in colours and lines.

    A bucket of another region than was asked for is all that S3's redirections mean, and no client says what to do.
    """
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m|↳", "", str(error)).split())
    is_redirected = isinstance(error, OSError) and error.errno == getattr(errno, "EREMCHG", -1)
    if not is_redirected and "redirect without LOCATION" not in text:
        return text
    answer = getattr(error.__cause__, "response", {})
    region = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region", "another region")
    return f"{text}: the bucket is in {region}: set AWS_REGION and AWS_DEFAULT_REGION to its region"


def open_filesystem(url: str) -> Filesystem:
    """The place of a path, a `file://` URL or one of fsspec's. Raises `ExportMisconfigured`."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return LocalFilesystem(Path(url))
    if scheme in ("file", "local"):
        return LocalFilesystem(Path(rest))
    return RemoteFilesystem(url)


class LocalFilesystem:
    """A local directory. Unfinished files have a dot in front, which readers of Parquet pass over."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._remove_unfinished()

    def has(self, name: str) -> bool:
        """Whether something of that name is there."""
        return (self._root / name).exists()

    def problem(self) -> str | None:
        """What keeps files from being written here now: it is made if need be, and tried."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._root) as file:
                file.write(b"kshadow")
        except OSError as error:
            return error.strerror or str(error)
        return None

    def put(self, name: str, data: bytes) -> None:
        """Write it beside, sync, and give it its name."""
        path = self._root / name
        new = not path.parent.is_dir()
        path.parent.mkdir(parents=True, exist_ok=True)
        # Two agents, each the first process of its container, may write the same at one time.
        unfinished = self._root / f".kshadow-{uuid.uuid4().hex}-{path.name}"
        try:
            with unfinished.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink()
            raise
        sync_directory(path.parent)
        if new:
            sync_directory(self._root)

    def _remove_unfinished(self) -> None:
        """Remove what a process that was killed left unfinished an hour ago or earlier."""
        with suppress(OSError):
            for path in self._root.glob(".kshadow-*"):
                if path.stat().st_mtime < time.time() - _LEFT_AFTER_S:
                    path.unlink()


class RemoteFilesystem:
    """Anything that fsspec has an implementation of."""

    def __init__(self, url: str) -> None:
        fsspec = require_module("fsspec")
        try:
            self._files, self._root = fsspec.core.url_to_fs(url)
        except ImportError as error:
            raise ExportMisconfigured(f"{url}: fsspec needs another package for it: {error}") from error
        except ValueError as error:
            raise ExportMisconfigured(f"{url}: expected a directory or a URL that fsspec knows: {error}") from error
        protocol = self._files.protocol
        names = {protocol} if isinstance(protocol, str) else set(protocol)
        self._single_put = bool(names & SINGLE_PUT)

    def put(self, name: str, data: bytes) -> None:
        """Upload it, or write it beside and move it."""
        path = f"{self._root}/{name}"
        if self._single_put:
            self._files.pipe_file(path, data)
            return
        folder, _, last = path.rpartition("/")
        unfinished = f"{self._root}/.kshadow-{last}"
        self._files.makedirs(folder, exist_ok=True)
        self._files.pipe_file(unfinished, data)
        # HDFS and SMB move nothing over a file that is there; by WebHDFS without an error. That a file is not there
        # fsspec says as well where it cannot ask: so what failed is moved again.
        try:
            self._files.mv(unfinished, path)
            is_moved = not self._files.exists(unfinished)
        except OSError:
            is_moved = False
        if not is_moved:
            if self._files.exists(path):
                self._files.rm_file(path)
            self._files.mv(unfinished, path)


def require_module(module: str) -> Any:
    """The module, which comes with the extra `parquet`. Raises `ExportMisconfigured` where it is not there."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ExportMisconfigured(
            f"history to Parquet needs the package {module.partition('.')[0]}: pip install 'kshadow[parquet]'"
        ) from error
