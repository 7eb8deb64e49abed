"""By which host names the server may be asked, so that no stranger's page has a browser ask (DNS rebinding).

Such a page comes from a name of the stranger's, which first leads to them and then to this server; the browser sends
that name. An address is no such name: kubelets probe by the pod's, and are answered. starlette's
`TrustedHostMiddleware` cannot say that of all addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

ANY = "*"
MAX_HOST_LENGTH = 300
"""Of a `Host`: a name has 253 letters at most. What is longer costs nothing."""


class AllowedHosts:
    """The names, `*.NAME` for what ends so, and `*` for all; addresses and localhost are always among them."""

    def __init__(self, names: Sequence[str], listens_on: str) -> None:
        """Without names: those of this machine alone where it listens on a loopback address, else all."""
        self._names = {it.lower() for it in names or ([] if is_loopback(listens_on) else [ANY])}
        self._names |= {"localhost", "*.localhost"}

    def admits(self, header: str | None) -> bool:
        """Whether a request with this `Host` is answered. No browser leaves it out."""
        if header is None or ANY in self._names:
            return True
        if len(header) > MAX_HOST_LENGTH:
            return False
        try:
            host = urlsplit("//" + header).hostname or ""
        except ValueError:
            return False
        name = host.removesuffix(".")
        parents = ("*" + name[at:] for at, letter in enumerate(name) if letter == ".")
        return _is_address(host) or name in self._names or not self._names.isdisjoint(parents)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, as its address or name says."""
    return ip_address(host).is_loopback if _is_address(host) else host == "localhost"


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
