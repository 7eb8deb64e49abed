"""Which Maven repository this machine gets artifacts from.

Owns the order of the places that say so: DEFAULT_ARTIFACT_REPOSITORY (as for Spark's packages), the mirror of
Maven's own settings, and the central repository, whose address the library jgo brings (`kshadow[demo]`). Of Maven's
settings it takes mirrors, servers' logins and `${env.NAME}`; what Maven has encrypted only Maven reads. A proxy is
the environment's business: HTTPS_PROXY, NO_PROXY.
Addresses and logins appear in no message: they may hold passwords.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit
from xml.etree import ElementTree

from agent.tools.embedded.errors import JarsUnavailableError

VARIABLE = "DEFAULT_ARTIFACT_REPOSITORY"
CENTRAL = "central"
_ENVIRON = re.compile(r"\$\{env\.([^}]+)}")


@dataclass(frozen=True, slots=True)
class MavenRepository:
    """Where artifacts are: the root of Maven's layout, without a slash at its end, and the login if it wants one."""

    url: str = field(repr=False)
    named_by: str
    """For messages: who named it."""
    authorization: str | None = field(default=None, repr=False)
    """The header's value."""


def find_repository(environ: Mapping[str, str] | None = None) -> MavenRepository | None:
    """The one to ask, or None where nothing names one. Raises `JarsUnavailableError` for one that cannot be used."""
    environ = os.environ if environ is None else environ
    if named := environ.get(VARIABLE):
        return _repository(named, VARIABLE)
    for path in _settings_files(environ):
        if (mirror := _mirror_of(path, environ)) is not None:
            return mirror
    try:
        from jgo.maven import MavenContext
    except ImportError:
        return None
    return _repository(MavenContext().remote_repos[CENTRAL], "Maven's default")


def _repository(url: str, named_by: str, login: tuple[str, str] | None = None) -> MavenRepository:
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https", "file") or (parts.scheme != "file" and not parts.hostname):
        raise JarsUnavailableError(
            f"{named_by} names no repository: an address with http, https or file was expected"
        )
    host = parts.netloc.rpartition("@")[2]
    if login is None and parts.username:
        login = (unquote(parts.username), unquote(parts.password or ""))
    authorization = None
    if login is not None:
        authorization = "Basic " + base64.b64encode(":".join(login).encode()).decode()
    return MavenRepository(urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", "")), named_by, authorization)


def _settings_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """The user's, which wins, and that of Maven's installation."""
    yield Path.home() / ".m2" / "settings.xml"
    for name in ("MAVEN_HOME", "M2_HOME"):
        if home := environ.get(name):
            yield Path(home, "conf", "settings.xml")


def _mirror_of(path: Path, environ: Mapping[str, str]) -> MavenRepository | None:
    """The mirror of the central repository that these settings name."""
    try:
        root = ElementTree.fromstring(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ElementTree.ParseError) as error:
        raise JarsUnavailableError(f"Maven's settings {path} cannot be read: {error}") from error
    mirrors = [{_name(it): _text(it, environ) for it in mirror} for mirror in _all(root, "mirrors", "mirror")]
    # Maven takes one that names the repository before one by a pattern.
    exact = (it for it in mirrors if it.get("mirrorOf") == CENTRAL)
    chosen = next(exact, None) or next((it for it in mirrors if _matches(it.get("mirrorOf", ""))), None)
    if chosen is None:
        return None
    named_by = f"the mirror {chosen.get('id', '')!r} of {path}"
    login = None
    for server in _all(root, "servers", "server"):
        told = {_name(it): _text(it, environ) for it in server}
        if told.get("id") == chosen.get("id") and told.get("username"):
            password = told.get("password", "")
            if re.fullmatch(r".*\{.+}.*", password):
                raise JarsUnavailableError(f"the password for {named_by} is encrypted, which only Maven reads")
            login = (told["username"], password)
    return _repository(chosen.get("url", ""), named_by, login)


def _matches(pattern: str) -> bool:
    """Whether `mirrorOf` means the central repository: `*`, `external:*`, lists, and `!central`."""
    parts = [part.strip() for part in pattern.split(",")]
    return f"!{CENTRAL}" not in parts and any(part in ("*", "external:*", CENTRAL) for part in parts)


def _all(root: ElementTree.Element, outer: str, inner: str) -> Iterator[ElementTree.Element]:
    return (it for part in root if _name(part) == outer for it in part if _name(it) == inner)


def _name(element: ElementTree.Element) -> str:
    """Without the namespace, which settings may name in several versions."""
    return str(element.tag).rpartition("}")[2]


def _text(element: ElementTree.Element, environ: Mapping[str, str]) -> str:
    return _ENVIRON.sub(lambda it: environ.get(it[1], it[0]), (element.text or "").strip())
