"""`--agent`: a real server that answers as the agent does, and others that listen where one was expected."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agent.runtime import Agent
from tests.cli.hostile import LETTERS, TEXTS, pairs, raw
from tests.cli.running import FORMATS, SEGMENTS, kshadow
from tests.http.replayed import Replayed, of_log, of_path, served
from tests.shadow.build import Log


@contextmanager
def answering(code: int, body: bytes, kind: str = "application/json") -> Iterator[str]:
    """A web server that always says the same."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("command", [["groups"], ["describe", "fraud-848"], ["members", "pricing-poll"]])
def test_an_agent_says_what_the_files_say(command: list[str]) -> None:
    with served(Replayed(of_path(SEGMENTS))) as url:
        for output in FORMATS:
            asked = kshadow(*command, "--agent", f"{url}/", "-o", output)
            read = kshadow(*command, "--from", SEGMENTS, "-o", output)
            assert (asked.exit_code, asked.stdout, asked.stderr) == (0, read.stdout, "")


def test_an_unknown_group() -> None:
    with served(Replayed(of_path(SEGMENTS))) as url:
        result = kshadow("describe", "pricing-pol", "--agent", url)
        assert result.exit_code == 1
        assert result.stderr == f"Error: no group 'pricing-pol' at {url}; did you mean 'pricing-poll'?\n"
        assert kshadow("describe", "\udcff", "--agent", url).exit_code == 1


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in {**TEXTS, **LETTERS}.items()])
def test_hostile_groups_through_an_agent(text: str) -> None:
    if len(text) > 20_000:
        text = text[:8000]  # an address has a limit: uvicorn's for one line is 64 KB, in %1B for each
    with served(Replayed(of_log(Log().add(*pairs(text))))) as url:
        for output in FORMATS:
            result = kshadow("describe", "-o", output, "--agent", url, "--", text)
            assert result.exit_code == 0, result.stderr
            assert raw(result.stdout) == raw(result.stderr) == []
            if output == "json":
                assert json.loads(result.stdout)["group"] == text


def test_an_agent_that_catches_up() -> None:
    with served(Replayed([], has_caught_up=False)) as url:
        for command in (["groups"], ["describe", "g"]):
            result = kshadow(*command, "--agent", url)
            assert (result.exit_code, result.stdout) == (3, "")
            assert "503 Service Unavailable: catching up with the topic's end: 12 records to go; try" in result.stderr


ROW = {
    "group": "g",
    "group_type": "classic",
    "state": "Empty",
    "generation": 1,
    "state_since_ms": 1,
    "last_commit_ms": 1,
}

# 1-12: what is no kshadow agent, or no longer this version's.
OTHERS = [
    (200, b"<html>", "expected JSON"),  # 1: a page
    (200, b"\xff", "expected JSON"),  # 2: bytes
    (200, b"[" * 100_000, "expected JSON"),  # 3: JSON too deep
    (200, b'{"a": 1}', "came something else: no kshadow agent, or one of another version"),  # 4
    (200, b'["a"]', "came something else"),  # 5
    (200, b'[{"group": "g"}]', "came something else"),  # 6: fields are missing
    (200, json.dumps([{**ROW, "last_commit_ms": "soon"}]).encode(), "came something else"),  # 7: of another type
    (200, json.dumps({**ROW, "members": [{}], "offsets": [], "anomalies": []}).encode(), "came something else"),  # 8
    (200, b"null", "came something else"),  # 9
    (404, b"Not Found", "answered 404 Not Found: Not Found"),  # 10: another web server
    (500, b"", "answered 500 Internal Server Error: nothing more"),  # 11
    (500, b'{"error": 5}', 'answered 500 Internal Server Error: {"error": 5}'),  # 12
    (403, b"\x1b[2J" + b"[" * 5000, "answered 403 Forbidden: \\u001b[2J[[["),  # 13: hostile
]


@pytest.mark.parametrize(("code", "body", "said"), OTHERS)
def test_others_that_listen(code: int, body: bytes, said: str) -> None:
    with answering(code, body) as url:
        for command in (["groups"], ["describe", "g"], ["members", "g"]):
            result = kshadow(*command, "--agent", url)
            if command == ["groups"] and body.startswith(b'{"group"'):
                continue
            assert (result.exit_code, result.stdout) == (3, ""), result.stderr
            assert said in result.stderr
            assert raw(result.stderr) == []


def test_a_fields_type_that_no_table_expects() -> None:
    """More than the shape asks is shown as it comes."""
    form = {**ROW, "members": [{"member_id": "m", "assignment": {"t": ["x", 1]}}], "offsets": [], "anomalies": []}
    with answering(200, json.dumps(form).encode()) as url:
        result = kshadow("members", "g", "--agent", url)
        assert (result.exit_code, "t[x,1]" in result.stdout) == (0, True)


def test_what_is_no_web_server() -> None:
    """A broker's port, as one easily gets it wrong; and nobody at all."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def babble() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(10_000)
                    connection.sendall(b"\x00\x00\x00\x04\x1b[2J\n")

        thread = threading.Thread(target=babble)
        thread.start()
        for _ in range(2):
            result = kshadow("groups", "--agent", f"http://127.0.0.1:{port}")
            assert result.exit_code == 3
            assert f"no agent answers at http://127.0.0.1:{port}: " in result.stderr
            assert raw(result.stderr) == []
        thread.join()
    result = kshadow("groups", "--agent", f"http://127.0.0.1:{port}")
    assert result.exit_code == 3
    assert "Connection refused; kshadow run starts one" in result.stderr


def test_the_agent_itself_fits_the_protocol() -> None:
    """mypy checks the types; this, that the stand-in has no more and no less than what is asked."""
    asked = {name for name in vars(Replayed) if not name.startswith("_")}
    assert asked <= {name for name in dir(Agent) if not name.startswith("_")} | {"has_caught_up"}
