"""Free ports on the loopback address."""

from __future__ import annotations

import contextlib
import random
import socket

from agent.tools.embedded.errors import BrokerFailedError


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now. Raises `BrokerFailedError`.

    Below the range from which Linux takes ports for outgoing connections (32768 and up): otherwise some
    client's connection can take the broker's port while it is down for a restart.
    """
    chosen: list[int] = []
    for port in random.SystemRandom().sample(range(20000, 32000), 200):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise BrokerFailedError(f"no {count} free ports among 200 tried on 127.0.0.1, from 20000 to 32000")
