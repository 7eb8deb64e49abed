"""Jars by a list, from real servers on loopback that serve, refuse, lie and break off."""

import hashlib
import sys
import threading
from contextlib import contextmanager

import pytest

from agent.tools.embedded import pinned
from agent.tools.embedded.errors import IvyMissingError, JarsUnavailableError
from agent.tools.embedded.jars import DEFAULT_VERSION, fetch_jars
from agent.tools.embedded.maven import MavenRepository
from agent.tools.embedded.pinned import PinnedFile, download, files_of
from tests.answering import Handler, web_server

BODIES = {f"some.group:jar-{n}:1.{n}": bytes([n]) * (1000 * n) for n in range(1, 13)}
FILES = [PinnedFile(name, len(body), hashlib.sha256(body).hexdigest()) for name, body in BODIES.items()]
BY_PATH = {f"/m/{file.path}": BODIES[file.coordinates] for file in FILES}


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@contextmanager
def repository(answer, authorization=None):
    """`answer(path, headers, count)` gives a code and a body; the count is that of requests for this path."""
    asked: dict[str, int] = {}

    class Repository(Handler):
        def do_GET(self):
            asked[self.path] = asked.get(self.path, 0) + 1
            code, body, *length = answer(self.path, self.headers, asked[self.path])
            self.say(code, body, {"Content-Length": str(length[0])} if length else {})

    with web_server(Repository) as url:
        yield MavenRepository(f"{url}/m", "the test", authorization), asked


@contextmanager
def release_at_end(event):
    try:
        yield
    finally:
        event.set()


def whole(directory):
    return {file.coordinates: (directory / file.file_name).read_bytes() for file in FILES}


def test_all_come_and_are_told(tmp_path):
    told = []
    with repository(lambda path, *_: (200, BY_PATH[path])) as (where, asked):
        download(FILES, where, tmp_path / "jars", told.append, 60)
    assert whole(tmp_path / "jars") == BODIES
    assert asked == dict.fromkeys(BY_PATH, 1)
    assert told[-1] == "downloaded 12 of 12 jars, 0 of 0 MB"


def test_login_is_sent(tmp_path):
    def answer(path, headers, _):
        return (200, BY_PATH[path]) if headers["Authorization"] == "Basic bWU6aXQ=" else (401, b"")

    with repository(answer, "Basic bWU6aXQ=") as (where, _):
        download(FILES, where, tmp_path / "jars", lambda _: None, 60)
    assert whole(tmp_path / "jars") == BODIES


@pytest.mark.parametrize(
    "first",
    [(503, b""), (429, b""), (200, b"half", 1000)],
    ids=["503", "429", "broken off"],
)
def test_what_passes_is_tried_again(tmp_path, first):
    path = next(iter(BY_PATH))
    with repository(lambda it, _, n: first if it == path and n == 1 else (200, BY_PATH[it])) as (where, asked):
        download(FILES, where, tmp_path / "jars", lambda _: None, 60)
    assert whole(tmp_path / "jars") == BODIES
    assert asked[path] == 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((404, b""), r"some.group:jar-1:1.1: HTTP 404 Not Found; asked was the test\. Check the network"),
        ((200, b"\2" * 1000), r"some.group:jar-1:1.1 from the test is not the file that was pinned: .* SHA-256"),
        ((200, b"\1" * 1001), r"some.group:jar-1:1.1 from the test is not the file that was pinned: "),
    ],
    ids=["missing", "other bytes", "too long"],
)
def test_another_file_is_refused_at_once(tmp_path, answer, message):
    path = next(iter(BY_PATH))
    with repository(lambda it, *_: answer if it == path else (200, BY_PATH[it])) as (where, asked):
        with pytest.raises(JarsUnavailableError, match=message) as caught:
            download(FILES, where, tmp_path / "jars", lambda _: None, 60)
        assert "127.0.0.1" not in str(caught.value)
    assert asked[path] == 1


def test_out_of_time(tmp_path):
    release = threading.Event()

    def answer(path, *_):
        release.wait(20)
        return 200, BY_PATH[path]

    timed_out = pytest.raises(JarsUnavailableError, match=r"timed out after 0.2 seconds")
    with repository(answer) as (where, _), release_at_end(release), timed_out:
        download(FILES, where, tmp_path / "jars", lambda _: None, 0.2)


def test_what_maven_has_here_is_taken_if_it_is_the_same(tmp_path):
    same, other = FILES[0], FILES[1]
    for file, body in ((same, BODIES[same.coordinates]), (other, b"x" * other.size)):
        path = tmp_path / "home" / ".m2" / "repository" / file.path
        path.parent.mkdir(parents=True)
        path.write_bytes(body)
    with repository(lambda path, *_: (200, BY_PATH[path])) as (where, asked):
        download(FILES, where, tmp_path / "jars", lambda _: None, 60)
    assert whole(tmp_path / "jars") == BODIES
    assert asked == {path: 1 for path in BY_PATH if path != f"/m/{same.path}"}


def test_a_version_that_is_listed_comes_without_ivy_and_leaves_nothing_half(tmp_path, monkeypatch):
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.delenv("KSHADOW_IVY_SETTINGS", raising=False)
    monkeypatch.setattr(pinned, "files_of", lambda _: tuple(FILES))
    cache = tmp_path / "cache"
    with repository(lambda path, *_: (404, b"")) as (where, _):
        monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", where.url)
        with pytest.raises(
            JarsUnavailableError, match=r"cannot download Kafka 4\.4\.0: .*; or unpack a Kafka release"
        ):
            fetch_jars("4.4.0", cache=cache)
    assert [it.name for it in cache.iterdir()] == ["jars.lock"]
    with repository(lambda path, *_: (200, BY_PATH[path])) as (where, _):
        monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", where.url)
        assert whole(fetch_jars("4.4.0", cache=cache).directory) == BODIES
    assert sorted(it.name for it in cache.iterdir()) == ["jars.lock", "kafka-4.4.0"]


def test_where_no_repository_is_known(tmp_path, monkeypatch):
    for name in ("KAFKA_HOME", "KSHADOW_IVY_SETTINGS", "DEFAULT_ARTIFACT_REPOSITORY", "MAVEN_HOME", "M2_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "jgo.maven", None)
    monkeypatch.setattr("agent.tools.embedded.ivy.package_directory", lambda _: None)
    with pytest.raises(IvyMissingError, match=r"install kshadow\[demo\], set DEFAULT_ARTIFACT_REPOSITORY"):
        fetch_jars(DEFAULT_VERSION, cache=tmp_path)


@pytest.mark.parametrize("version", ["4.4.0", "3.9.2"])
def test_lists_are_whole(version):
    files = files_of(version)
    assert f"org.apache.kafka:kafka_2.13:{version}" in {file.coordinates for file in files}
    assert len({file.file_name for file in files}) == len(files) > 40
    assert all(len(file.sha256) == 64 and file.size > 0 for file in files)


def test_no_list_of_others():
    assert files_of("4.3.1") is None
    assert files_of(DEFAULT_VERSION) is not None
