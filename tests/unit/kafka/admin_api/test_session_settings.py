"""Session settings asked of a broker that knows of no brokers, as one that lost its lease does for a moment."""

from __future__ import annotations

import socketserver
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]

from agent.core.inference.session_settings import SessionSetting
from agent.kafka.admin_api import session_settings
from agent.kafka.admin_api.session_settings import SessionSettingsWatch

pytestmark = pytest.mark.usefixtures("process")

_METADATA, _API_VERSIONS = 3, 18
_APIS = [(_API_VERSIONS, 0, 3), (_METADATA, 0, 8)]
_NOT_TOLD = struct.pack(">i", -(1 << 31))


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


class _Fenced(socketserver.StreamRequestHandler):
    """Answers ApiVersions (3) and Metadata (8): the first names this broker, all others name none."""

    server: _Server

    def handle(self) -> None:
        while len(head := self.rfile.read(4)) == 4:
            request = self.rfile.read(*struct.unpack(">i", head))
            key, _, number = struct.unpack(">hhi", request[:8])
            answer = struct.pack(">i", number) + (self._apis() if key == _API_VERSIONS else self._metadata(request))
            self.wfile.write(struct.pack(">i", len(answer)) + answer)

    def _apis(self) -> bytes:
        apis = b"".join(struct.pack(">hhh", *it) + b"\0" for it in _APIS)
        return struct.pack(">hb", 0, len(_APIS) + 1) + apis + struct.pack(">ib", 0, 0)

    def _metadata(self, request: bytes) -> bytes:
        is_first, self.server.is_known = not self.server.is_known, True
        port = self.server.server_address[1]
        this = struct.pack(">i", 1) + _text("127.0.0.1") + struct.pack(">ih", port, -1)
        (client_id,) = struct.unpack(">h", request[8:10])
        at = 10 + client_id
        (topics,) = struct.unpack(">i", request[at : at + 4])
        (length,) = struct.unpack(">h", request[at + 4 : at + 6]) if topics > 0 else (0,)
        name = request[at + 6 : at + 6 + length].decode()
        # One partition, that nobody leads, without replicas.
        partition = struct.pack(">hiiiiii", 5, 0, -1, -1, 0, 0, 0)
        topic = struct.pack(">h", 0) + _text(name) + b"\0" + struct.pack(">i", 1) + partition + _NOT_TOLD
        return (
            struct.pack(">ii", 0, is_first)
            + (this if is_first else b"")
            + _text("a cluster")
            + struct.pack(">ii", 1 if is_first else -1, topics > 0)
            + (topic if topics > 0 else b"")
            + _NOT_TOLD
        )


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    is_known = False


@pytest.fixture
def fenced() -> Iterator[str]:
    """Its address."""
    with _Server(("127.0.0.1", 0), _Fenced) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_broker_without_a_lease_does_not_end_the_process(fenced: str) -> None:
    """librdkafka ends the process that sends it `describe_cluster`: so this one is another."""
    code = """if True:
        import sys
        from confluent_kafka import KafkaException
        from agent.kafka.admin_api.session_settings import fetch_session_settings
        try:
            fetch_session_settings({"bootstrap.servers": sys.argv[1]})
        except KafkaException as error:
            print(error.args[0].str())
    """
    ended = subprocess.run([sys.executable, "-c", code, fenced], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "no broker coordinates groups\n", "")


def test_each_of_several_brokers_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka refuses a question for two of them, so nothing was known of any cluster but those of one broker."""
    monkeypatch.setattr(session_settings, "ASK_S", 0.2)
    admin = session_settings._admin_client({"bootstrap.servers": "127.0.0.1:1"})
    answers = session_settings._describe(admin, ResourceType.BROKER, ["1", "2"])
    errors = {name: it.code() for name, it in answers.items() if isinstance(it, KafkaError)}
    assert errors.keys() == {"1", "2"}
    assert KafkaError._CONFLICT not in errors.values(), "they were asked, and nobody is there"


def test_types_whose_timeout_was_told_are_not_said_to_be_unknown(
    fenced: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.kafka.admin_api.session_settings.ASK_S", 0.5)
    told = {"consumer": SessionSetting(10_000)}
    with caplog.at_level("INFO", logger="kshadow"):
        SessionSettingsWatch({"bootstrap.servers": fenced}, told, list).ask()
        SessionSettingsWatch({"bootstrap.servers": fenced}, {**told, "share": SessionSetting()}, list).ask()
        every = dict.fromkeys(("consumer", "share", "streams"), SessionSetting())
        SessionSettingsWatch({"bootstrap.servers": fenced}, every, list).ask()
    assert [it.split(" groups are not known")[0] for it in caplog.messages] == [
        "session timeouts of share, streams",
        "session timeouts of streams",
    ]
