"""Which repository is asked, as this machine's settings say."""

import sys
from base64 import b64encode

import pytest

from agent.tools.embedded.errors import JarsUnavailableError
from agent.tools.embedded.maven import find_repository

MIRROR = "<mirror><id>{id}</id><mirrorOf>{of}</mirrorOf><url>{url}</url></mirror>"


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Writes Maven's settings of a home that has none else."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def write(*mirrors, servers="", namespace=' xmlns="urn:settings"'):
        inner = "".join(MIRROR.format(id=name, of=of, url=url) for name, of, url in mirrors)
        text = f"<settings{namespace}><servers>{servers}</servers><mirrors>{inner}</mirrors></settings>"
        (tmp_path / ".m2").mkdir(exist_ok=True)
        (tmp_path / ".m2" / "settings.xml").write_text(text)

    return write


@pytest.mark.parametrize(
    ("mirrors", "url"),
    [
        ([("1", "*", "http://all.test/m/")], "http://all.test/m"),
        ([("1", "external:*", "http://all.test")], "http://all.test"),
        ([("1", "a, central", "http://list.test")], "http://list.test"),
        (
            [("1", "*", "http://all.test"), ("2", "central", "http://own.test")],
            "http://own.test",
        ),  # the exact one wins
        ([("1", "*,!central", "http://others.test"), ("2", "*", "http://all.test")], "http://all.test"),
    ],
)
def test_mirror_of_mavens_settings(settings, mirrors, url):
    settings(*mirrors)
    assert find_repository({}).url == url


@pytest.mark.parametrize("of", ["snapshots", "*,!central", "external:http:*", ""])
def test_a_mirror_of_something_else_is_none(settings, monkeypatch, of):
    settings(("1", of, "http://other.test"))
    monkeypatch.setitem(sys.modules, "jgo.maven", None)  # as where it is not installed
    assert find_repository({}) is None


def test_settings_of_mavens_installation_come_after_the_users(settings, tmp_path):
    (tmp_path / "maven" / "conf").mkdir(parents=True)
    text = f"<settings><mirrors>{MIRROR.format(id=1, of='*', url='http://shared.test')}</mirrors></settings>"
    (tmp_path / "maven" / "conf" / "settings.xml").write_text(text)
    environ = {"MAVEN_HOME": str(tmp_path / "maven")}
    assert find_repository(environ).url == "http://shared.test"
    settings(("1", "central", "http://own.test"), namespace="")
    assert find_repository(environ).url == "http://own.test"


def test_the_variable_comes_first(settings):
    settings(("1", "*", "http://all.test"))
    found = find_repository({"DEFAULT_ARTIFACT_REPOSITORY": "https://me:s%40cret@named.test:8443/maven/"})
    assert found.url == "https://named.test:8443/maven"
    assert found.authorization == "Basic " + b64encode(b"me:s@cret").decode()
    assert "cret" not in repr(found)


def test_login_of_a_mirror(settings):
    server = "<server><id>m</id><username>${env.ME}</username><password>${env.WORD}</password></server>"
    settings(("m", "*", "https://mirror.test/${env.PLACE}"), servers=server)
    found = find_repository({"ME": "me", "WORD": "secret", "PLACE": "maven"})
    assert found.url == "https://mirror.test/maven"
    assert found.authorization == "Basic " + b64encode(b"me:secret").decode()


def test_encrypted_password_is_told(settings):
    settings(
        ("m", "*", "https://mirror.test"),
        servers="<server><id>m</id><username>me</username><password>{c2VjcmV0}</password></server>",
    )
    with pytest.raises(JarsUnavailableError, match=r"mirror 'm' of .*settings.xml is encrypted, which only Maven"):
        find_repository({})


def test_settings_that_are_no_xml(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text("<settings>")
    with pytest.raises(JarsUnavailableError, match=r"settings.xml cannot be read: no element found"):
        find_repository({})


def test_no_address(settings):
    with pytest.raises(JarsUnavailableError, match="DEFAULT_ARTIFACT_REPOSITORY names no repository"):
        find_repository({"DEFAULT_ARTIFACT_REPOSITORY": "nexus.test/maven"})


def test_default_is_the_librarys(settings):
    pytest.importorskip("jgo", reason="no kshadow[demo] here")
    found = find_repository({})
    assert found.named_by == "Maven's default"
    assert found.url.startswith("https://")
