"""A topic for snapshots, of brokers that do not answer."""

from __future__ import annotations

import socket

import pytest

from agent.persistence.snapshot.compacted_topic import CompactedTopic
from agent.persistence.snapshot.store import StoreError, StoreErrorReason


class AskedTopic(CompactedTopic):
    """One that is not looked for at first, as where brokers fall silent later."""

    def _open(self) -> None:
        self.ask_for_policy, self.make = self._check_policy, self._make


def test_brokers_that_fall_silent_are_out_of_reach() -> None:
    """Whoever stores knows no other error: the thread that saves snapshots ended with one."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        conf = {"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}"}
        topic = AskedTopic(conf, "snapshots", create=True, timeout_s=0.3)
        for _ in range(3):
            with pytest.raises(StoreError) as caught:
                topic.make()
            assert caught.value.reason is StoreErrorReason.UNREACHABLE
            topic.ask_for_policy()
