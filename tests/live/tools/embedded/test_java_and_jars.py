"""Where Java and Kafka's jars come from, and the sentences said when they do not.

Nothing is mocked: PATH is really empty, the proxy really refuses, the old Java is a program that says so.
"""

import fcntl
import re
import sys
import threading
from pathlib import Path

import pytest

from agent.tools.embedded import NEWEST_TOOLS, Jars, fetch_jars, fetch_tools
from agent.tools.embedded.errors import (
    EmbeddedError,
    IvyMissingError,
    JarsUnavailableError,
    JavaMissingError,
    JavaTooOldError,
    ToolFailedError,
)
from agent.tools.embedded.jars import cache_directory
from agent.tools.embedded.java import find_java, run_class


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    for name in ("JAVA_HOME", "KAFKA_HOME", "KSHADOW_CACHE", "KSHADOW_IVY_SETTINGS"):
        monkeypatch.delenv(name, raising=False)


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)
    return path


def test_no_java_on_path(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(JavaMissingError, match=r"no java on PATH: install Java 17 or newer"):
        find_java()


def test_java_home_without_java(tmp_path):
    with pytest.raises(JavaMissingError, match=f"JAVA_HOME is {tmp_path}, which has no bin/java"):
        find_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("says", "major"), [('openjdk version "11.0.2" 2019-01-15', 11), ('java version "1.8.0_392"', 8)]
)
def test_too_old(tmp_path, says, major):
    java = program(tmp_path / "java", says)
    with pytest.raises(JavaTooOldError, match=f"{java} is Java {major}, and Kafka needs 17: install"):
        find_java({"PATH": str(tmp_path)})


def test_java_home_before_path_and_early_access_versions(tmp_path):
    java = program(tmp_path / "home" / "bin" / "java", 'openjdk version "26-ea" 2026-03-17')
    program(tmp_path / "java", 'openjdk version "11.0.2"')
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path)}) == java


def test_java_that_says_no_version(tmp_path):
    program(tmp_path / "java", "The operation could not be completed. Unable to locate a Java Runtime.")
    with pytest.raises(JavaMissingError, match="Unable to locate a Java Runtime"):
        find_java({"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"KSHADOW_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, Path("/a")),
        ({"XDG_CACHE_HOME": "/b"}, Path("/b/kshadow")),
        ({"KSHADOW_CACHE": ""}, Path.home() / ".cache" / "kshadow"),  # set but empty is unset
    ],
)
def test_cache_directory(environ, expected):
    assert cache_directory(environ) == expected


def test_kafka_home_serves_its_own_version(tmp_path, monkeypatch):
    libs = tmp_path / "libs"
    libs.mkdir()
    (libs / "kafka_2.13-4.1.0.jar").touch()
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    assert fetch_jars() == fetch_jars("4.1.0") == Jars("4.1.0", libs)


def test_kafka_home_of_another_version_or_without_the_extra_does_not_serve(tmp_path, monkeypatch):
    libs = tmp_path / "home" / "libs"
    libs.mkdir(parents=True)
    (libs / "kafka_2.13-4.1.0.jar").touch()
    (tmp_path / "cache" / "kafka-3.9.2").mkdir(parents=True)
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path / "home"))
    assert fetch_jars("3.9.2", cache=tmp_path / "cache").directory == tmp_path / "cache" / "kafka-3.9.2"
    monkeypatch.setenv("PATH", "")
    with pytest.raises(JavaMissingError):  # it went on to download
        fetch_jars("4.1.0", cache=tmp_path / "cache", extra=["org.apache.kafka:connect-runtime"])
    assert [path.name for path in (tmp_path / "cache").iterdir() if "partial" in path.name] == []


@pytest.mark.parametrize("home", ["4.4.0", NEWEST_TOOLS])
def test_tools_are_those_of_kafka_home_or_the_newest_that_are_published(tmp_path, monkeypatch, home):
    libs = tmp_path / "libs"
    libs.mkdir()
    for name in ("kafka_2.13", "kafka-tools"):
        (libs / f"{name}-{home}.jar").touch()
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    assert fetch_tools("4.4.0") == fetch_tools() == Jars(home, libs)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(JavaMissingError):  # it went on to download
        fetch_tools("3.10.0", cache=tmp_path / "cache")


def test_kafka_home_that_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    with pytest.raises(JarsUnavailableError, match=r"which has no libs/kafka_2\.13-VERSION.jar"):
        fetch_jars()


def test_version_that_is_none(tmp_path):
    with pytest.raises(JarsUnavailableError, match=r"looks like 4\.\d+\.\d+, not like '4'"):
        fetch_jars("4", cache=tmp_path)


def test_cache_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(JarsUnavailableError, match="set KSHADOW_CACHE to a directory of yours"):
        fetch_jars("4.3.1", cache=tmp_path / "file" / "cache")


def test_waits_for_another_process(tmp_path):
    said = []
    waiting = threading.Event()

    def tell(sentence):
        said.append(sentence)
        waiting.set()

    with (tmp_path / "jars.lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        thread = threading.Thread(target=fetch_jars, args=["4.3.1"], kwargs={"cache": tmp_path, "progress": tell})
        thread.start()
        assert waiting.wait(60)
        (tmp_path / "kafka-4.3.1").mkdir()  # the other one is done
    thread.join(60)
    assert not thread.is_alive()
    assert said == ["another process is downloading the same jars; waiting for it"]


@pytest.mark.usefixtures("kafka")
def test_no_pyspark(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "site-packages" not in entry])
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    with pytest.raises(IvyMissingError, match=re.escape("install kshadow[spark], or unpack a Kafka release")):
        fetch_jars("4.3.1", cache=tmp_path)


@pytest.mark.usefixtures("kafka")
def test_no_network(tmp_path, monkeypatch):
    nowhere = "127.0.0.1 -D{0}.proxyPort=9"
    options = [f"-D{scheme}.proxyHost={nowhere.format(scheme)}" for scheme in ("http", "https")]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", " ".join(options))
    with pytest.raises(JarsUnavailableError) as caught:
        fetch_jars("4.3.1", cache=tmp_path)
    message = str(caught.value)
    assert "Connection refused" in message
    assert "set KAFKA_HOME to its directory" in message
    assert "://" not in message
    assert "UNRESOLVED DEPENDENCIES" in (tmp_path / "ivy.log").read_text()
    assert not (tmp_path / "kafka-4.3.1").exists()


@pytest.mark.usefixtures("kafka")
def test_tool_that_fails_shows_its_words(tmp_path):
    with pytest.raises(ToolFailedError, match=r"no\.such\.Main ended with exit code 1:(.|\n)*ClassNotFound"):
        run_class(str(tmp_path), "no.such.Main")


def test_every_error_is_one_kind():
    kinds = (IvyMissingError, JarsUnavailableError, JavaMissingError, JavaTooOldError, ToolFailedError)
    assert all(issubclass(kind, EmbeddedError) for kind in kinds)
