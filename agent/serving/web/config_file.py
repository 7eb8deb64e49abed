"""The web-config file and those that it names, as they are now: certificates rotate, users come and go."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from agent.serving.web.config import WebConfig, WebConfigError, parse
from agent.serving.web.tls import server_context

log = logging.getLogger("kshadow")

MAX_BYTES = 1 << 20
"""Of the file: more is some other file."""

Signature = tuple[int, int, int, int]
"""What tells a file from the one that took its place, be it by a rename or by a symbolic link above it."""


class WebConfigFile:
    """The settings in force. Not for several threads: the server's event loop asks."""

    def __init__(self, path: Path) -> None:
        """Reads the file and those that it names. Raises `WebConfigError`."""
        self._path = path
        self._seen: dict[Path, Signature | None] = {}
        self._config, self._context = self._read()

    def current(self) -> WebConfig:
        """The settings, read again if a file has changed. What cannot be used changes nothing, and is logged once."""
        if all(_signature(path) == seen for path, seen in self._seen.items()):
            return self._config
        try:
            config, context = self._read()
            if (config.tls is None) != (self._config.tls is None):
                raise WebConfigError(f"web config {self._path}: TLS is switched on or off by a restart only")
            if self._config.users and not config.users:
                # A file that is being written, or was when the disk was full, is empty: nobody meant that.
                raise WebConfigError(f"web config {self._path}: passwords are switched off by a restart only")
        except WebConfigError as error:
            log.error("%s; what was read before stays in force", error)
        else:
            self._config, self._context = config, context
            log.info("web config %s: read again", self._path)
        return self._config

    def context(self) -> ssl.SSLContext:
        """TLS for a new connection."""
        self.current()
        if self._context is None:
            raise RuntimeError("no TLS is configured")
        return self._context

    def _read(self) -> tuple[WebConfig, ssl.SSLContext | None]:
        # Looked at before they are read: what changes meanwhile is read again.
        self._seen = {self._path: _signature(self._path)}
        try:
            with self._path.open("rb") as file:
                text = file.read(MAX_BYTES + 1)
            if len(text) > MAX_BYTES:
                raise WebConfigError(f"expected {MAX_BYTES} bytes at most")
            config = parse(text.decode(), self._path.parent)
            if config.tls is None:
                return config, None
            self._seen |= {path: _signature(path) for path in config.tls.files}
            return config, server_context(config.tls)
        except OSError as error:
            raise WebConfigError(f"web config {self._path}: {error.strerror}") from error
        except UnicodeDecodeError:
            raise WebConfigError(f"web config {self._path}: expected UTF-8") from None
        except WebConfigError as error:
            raise WebConfigError(f"web config {self._path}: {error}") from error.__cause__


def _signature(path: Path) -> tuple[int, int, int, int] | None:
    try:
        it = path.stat()
    except OSError:
        return None
    return it.st_dev, it.st_ino, it.st_mtime_ns, it.st_size
