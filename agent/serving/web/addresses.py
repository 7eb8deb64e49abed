"""Whose a connection is, as far as its address tells."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any


def network_of(client: Sequence[Any] | None) -> str:
    """The client's IPv4 address, or the /64 of its IPv6 one, of which one host may have any address.

    `client` begins with an address, as a socket's peer or ASGI's client; without one it is "". An IPv4 address
    within an IPv6 one counts as itself.
    """
    if client is None:
        return ""
    address = ip_address(client[0])
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address), 64), strict=False))
