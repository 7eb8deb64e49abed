"""What is never printed: the values of properties whose names say that they are secret. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "<hidden>"

_SECRET = re.compile("password|passphrase|secret|key|jaas|token|credential", re.IGNORECASE)
_PLACES = (".location", ".url", ".file", ".id", ".type", ".keytab")
"""How names end that say where a secret is, or what kind of one it is."""
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]*@")
_QUERY_OF_URL = re.compile(r"(://[^?\s]*\?)\S+")


def is_secret(name: str) -> bool:
    """Whether a property of this name may hold a secret."""
    return bool(_SECRET.search(name))


def holds_secret(name: str) -> bool:
    """Whether a property of this name is itself a secret, and not the place of one: what no file should hold."""
    return is_secret(name) and not name.lower().endswith(_PLACES)


def shown_property(name: str, value: str) -> str:
    """A property's value as it may be printed."""
    return HIDDEN if is_secret(name) else shown(value)


def shown(value: str) -> str:
    """Any other text: credentials in a URL are left out, and its query, which may be a signature."""
    return _QUERY_OF_URL.sub(rf"\1{HIDDEN}", _USER_IN_URL.sub(f"{HIDDEN}@", value))


def shown_properties(properties: Iterable[tuple[str, str]]) -> dict[str, str]:
    """All of them, in their order."""
    return {name: shown_property(name, value) for name, value in properties}
