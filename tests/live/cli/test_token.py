"""`--command-config` with OAUTHBEARER: a token endpoint, and a broker that checks signatures with its keys."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from agent.kafka.writer.topic import partition_count
from agent.tools.embedded import fetch_jars
from agent.tools.embedded.settings import render_properties
from tests.answering import Handler
from tests.live.scenarios.secured import DESCRIBE_GROUPS, DESCRIBE_TOPIC, READ_TOPIC, Secured, secured
from tests.unit.cli.running import kshadow

pytestmark = pytest.mark.usefixtures("kafka")

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearer{}CallbackHandler"
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CLIENT, SECRET = "kshadow", "s3cr3t"


def coded(data: bytes | dict[str, Any]) -> str:
    raw = json.dumps(data).encode() if isinstance(data, dict) else data
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Endpoint(ThreadingHTTPServer):
    """Gives tokens to one client, and its public keys to everybody."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.key = rsa.generate_private_key(65537, 2048)
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def keys(self) -> dict[str, Any]:
        numbers = self.key.public_key().public_numbers()
        parts = {
            name: coded(it.to_bytes(-(-it.bit_length() // 8))) for name, it in (("n", numbers.n), ("e", numbers.e))
        }
        return {"keys": [{"kty": "RSA", "kid": "1", "use": "sig", "alg": "RS256", **parts}]}

    def token(self) -> dict[str, Any]:
        now = int(time.time())
        claims = {"iss": self.url, "aud": "kafka", "sub": "reader", "iat": now, "exp": now + 600, "scope": "kafka"}
        signed = f"{coded({'alg': 'RS256', 'typ': 'JWT', 'kid': '1'})}.{coded(claims)}"
        signature = self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return {"access_token": f"{signed}.{coded(signature)}", "token_type": "Bearer", "expires_in": 600}


class Answering(Handler):
    server: Endpoint

    def do_GET(self) -> None:
        self._answer(200, self.server.keys())

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        who = base64.b64decode(self.headers.get("Authorization", "Basic ").split()[1] + "==").decode()
        self.server.asked.append((who, form))
        good = (who, form.get("grant_type")) == (f"{CLIENT}:{SECRET}", ["client_credentials"])
        self._answer(*((200, self.server.token()) if good else (401, {"error": "invalid_client"})))

    def _answer(self, code: int, form: dict[str, Any]) -> None:
        self.say(code, json.dumps(form).encode(), {"Content-Type": "application/json"})


class Scene(NamedTuple):
    cluster: Secured
    endpoint: Endpoint


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    listener = "listener.name.client"
    with Endpoint() as endpoint, pytest.MonkeyPatch.context() as patch:
        # Java asks no address that it was not told of.
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={endpoint.url}/keys,{endpoint.url}/token"
        patch.setenv("JAVA_TOOL_OPTIONS", allowed)
        properties = {
            f"{listener}.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{listener}.oauthbearer.sasl.jaas.config": f"{MODULE} required;",
            f"{listener}.oauthbearer.sasl.server.callback.handler.class": HANDLER.format("Validator"),
            f"{listener}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"{endpoint.url}/keys",
            f"{listener}.oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
            f"{listener}.oauthbearer.sasl.oauthbearer.expected.issuer": endpoint.url,
        }
        with secured(fetch_jars(), tmp_path_factory.mktemp("token"), properties=properties) as cluster:
            cluster.allow("reader", DESCRIBE_TOPIC, READ_TOPIC, DESCRIBE_GROUPS)
            partition_count({"bootstrap.servers": cluster.broker.admin_servers}, create=True)
            yield Scene(cluster, endpoint)
        endpoint.shutdown()


def properties(scene: Scene, tmp_path: Path, secret: str = SECRET) -> tuple[str, ...]:
    lines = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": str(scene.cluster.authority.file),
        "ssl.truststore.type": "PEM",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": HANDLER.format("Login"),
        "sasl.oauthbearer.token.endpoint.url": f"{scene.endpoint.url}/token",
        "sasl.jaas.config": f'{MODULE} required clientId="{CLIENT}" clientSecret="{secret}" scope="kafka";',
    }
    file = tmp_path / "client.properties"
    file.write_text(render_properties(lines), encoding="ascii")
    return "--bootstrap-server", scene.cluster.broker.bootstrap_servers, "--command-config", str(file)


def test_one_file_for_both(scene: Scene, tmp_path: Path) -> None:
    options = properties(scene, tmp_path)
    assert scene.cluster.broker.run_tool(TOOL, *options, "--list").split() == []
    theirs = scene.endpoint.asked[:]
    result = kshadow("groups", *options, "-o", "json")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "[]\n", "")
    ours = scene.endpoint.asked[len(theirs) :]
    assert theirs[0] == ours[0] == (f"{CLIENT}:{SECRET}", {"grant_type": ["client_credentials"], "scope": ["kafka"]})


def test_a_secret_that_is_refused(scene: Scene, tmp_path: Path) -> None:
    result = kshadow("groups", *properties(scene, tmp_path, "wr0ng"))
    assert (result.exit_code, result.stdout, "wr0ng" in result.stderr) == (3, "", False)
    assert "invalid_client" in result.stderr or "401" in result.stderr, result.stderr
