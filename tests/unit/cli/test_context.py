"""Named clusters: how they are kept, and what they say to which command."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from tests.unit.cli.running import SEGMENTS, kshadow, lines, spawn
from tests.unit.serving.routes.replayed import Replayed, of_path, served


class Here:
    """Commands that have contexts in one file."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "deep" / "contexts.yaml"

    def __call__(self, *arguments: object, **env: str) -> Result:
        return kshadow(*arguments, env={"KSHADOW_CONTEXTS": str(self.path), **env})

    def done(self, *arguments: object, **env: str) -> str:
        result = self(*arguments, **env)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def refused(self, *arguments: object, **env: str) -> str:
        result = self(*arguments, **env)
        assert (result.exit_code, result.stdout) == (2, "")
        return result.stderr


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def test_a_life(here: Here) -> None:
    assert "no contexts; kshadow context set" in here("context", "list").stderr
    assert "kshadow context use NAME chooses one" in here.refused("context", "current")
    assert "in use" in here.done("context", "set", "files", "--from", SEGMENTS)
    here.done("context", "set", "prod", "--bootstrap-server", "b:1", "-X", "sasl.password=${PW}", "-X", "a.b=c")
    here.done("context", "set", "prod", "-X", "a.b=d", "--agent", "http://localhost:1")
    assert here.done("context", "current") == "files\n"
    assert here.done("context", "current", KSHADOW_CONTEXT="prod") == "prod\n"
    rows = json.loads(here.done("context", "list", "-o", "json"))
    assert [(row["name"], row["current"], row["source"]) for row in rows] == [
        ("files", True, "from"),
        ("prod", False, "agent"),
    ]
    assert rows[1]["options"] == {"bootstrap-server": "b:1", "property": {"sasl.password": "${PW}", "a.b": "d"}}
    assert "sasl.password=${PW}" in here.done("context", "show", "prod", "-o", "table")
    here.done("context", "use", "prod")
    assert "KSHADOW_CONTEXT says files" in here("context", "use", "prod", KSHADOW_CONTEXT="files").stderr
    here.done("context", "rename", "prod", "eu")
    here.done("context", "set", "eu", "--unset", "agent")
    assert yaml.safe_load(here.path.read_text())["current"] == "eu"
    assert stat.S_IMODE(here.path.stat().st_mode) == 0o600
    assert "kshadow context use files" in here("context", "delete", "eu").stderr
    assert list(yaml.safe_load(here.path.read_text())["contexts"]) == ["files"]
    assert [it.name for it in here.path.parent.iterdir()] == [here.path.name]


# 1-10: what is refused, and what to do instead.
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["set", "a", "-X", "sasl.password=hunter2"], "sasl.password='${SASL_PASSWORD}'"),  # 1
        (["set", "a", "--agent", "http://me:hunter2@h"], "KSHADOW_AGENT_PASSWORD"),  # 2
        (["set", "a"], "expected --agent URL, --bootstrap-server HOST:PORT or --from PATH"),  # 3
        (["set", "a b", "--agent", "http://h"], "a name of letters, digits"),  # 4
        (["set", "a", "--agent", "http://h", "--unset", "agent-use"], "did you mean 'agent-user'?"),  # 5
        (["use", "prdo"], "did you mean 'prod'?"),  # 6
        (["rename", "prod", "prod"], "there is a context 'prod'"),  # 7
        (["delete", "x"], "there are prod; kshadow context set x"),  # 8
        (["show", "x"], "kshadow context set x"),  # 9
        (["set", "a", "--agent", "h:9308"], "expected a URL such as http://localhost:9308, got 'h:9308'"),  # 10
    ],
)
def test_refusals(here: Here, arguments: list[str], said: str) -> None:
    here.done("context", "set", "prod", "--agent", "http://localhost:1")
    before = here.path.read_bytes()
    text = here.refused("context", *arguments)
    assert said in text
    assert "hunter2" not in text
    assert here.path.read_bytes() == before


# 1-8: files that somebody wrote.
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "expected YAML"),  # 1
        ("contexs: {}", "unknown key 'contexs'; did you mean 'contexts'?"),  # 2
        ("contexts: []\n", "no contexts"),  # 3: nothing, in another form
        ("contexts: [a]\n", "expected a map of names, got list"),  # 4
        ("current: [5]", "current: expected a name"),  # 5
        ("contexts: {a: {agnet: x}}", "a: unknown key 'agnet'; did you mean 'agent'?"),  # 6
        ("contexts: {a: {property: {ssl.key.password: hunter2}}}", "a: property ssl.key.password is a secret"),  # 7
        ("contexts: {a: {agent: h, agent: i}}", "stands there twice"),  # 8
    ],
)
def test_files(here: Here, text: str, said: str) -> None:
    here.path.parent.mkdir()
    here.path.write_text(text)
    result = here("context", "list")
    assert (result.exit_code, said in result.stderr, "hunter2" in result.stderr) == (
        2 - 2 * (said == "no contexts"),
        True,
        False,
    )


def test_what_it_says_to_commands(here: Here, tmp_path: Path) -> None:
    here.done("context", "set", "files", "--from", SEGMENTS, "--output", "ndjson")
    assert len(lines(here("groups"))) == 6
    assert len(lines(here("groups", "-o", "table"))) == 7
    assert "did you mean 'files'?" in here.refused("--context", "fils", "groups")
    # A broken one is in nobody's way who does not need it.
    assert here("--context", "fils", "groups", "--from", SEGMENTS).exit_code == 0
    assert here("--context", "fils", "groups", "--help").exit_code == 0
    assert here("--context", "fils", "context", "list").exit_code == 0
    config = tmp_path / "kshadow.yaml"
    config.write_text("context: files\n")
    here.done("context", "set", "gone", "--from", "/nowhere")
    here.done("context", "use", "gone")
    assert "/nowhere" in here.refused("groups")
    assert len(lines(here("--config", config, "groups"))) == 6
    assert "/nowhere" in here.refused("--config", config, "groups", KSHADOW_CONTEXT="gone")
    assert len(lines(here("--config", config, "--context", "files", "groups", KSHADOW_CONTEXT="gone"))) == 6


def test_credentials_go_nowhere_else(here: Here) -> None:
    """Whatever names another source takes nothing of the context: it is another cluster."""
    with served(Replayed(of_path(SEGMENTS))) as url:
        here.done(
            "context", "set", "prod", "--agent", "https://localhost:1", "--agent-user", "me", "--agent-ca", "/c"
        )
        assert "prod" not in here("groups", "--agent", url).stderr
        assert here("groups", "--agent", url).exit_code == 0  # with a user it would lack a password
        assert here("groups", KSHADOW_AGENT=url).exit_code == 0
        asked = here("--context", "prod", "groups", KSHADOW_AGENT=url)
        assert (asked.exit_code, asked.stderr) == (
            0,
            "(--context prod says nothing here: KSHADOW_AGENT names the source, and wins)\n",
        )
        assert "KSHADOW_AGENT_PASSWORD" in here.refused("groups")


def test_an_agent_for_queries_and_brokers_for_others(here: Here) -> None:
    here.done(
        "context", "set", "c", "--bootstrap-server", "localhost:1", "-X", "no.such=1", "-X", "ssl.key.pem=${KEY}"
    )
    assert '"no.such"' in here.refused("groups", KEY="x")
    assert "expected the environment variable KEY" in here.refused("groups")
    assert '"no.such"' in here("doctor", KEY="x").stderr
    with served(Replayed(of_path(SEGMENTS))) as url:
        here.done("context", "set", "c", "--agent", url)
        assert here("groups").exit_code == 0
        assert '"no.such"' in here.refused("coordinator", "fraud-848", KEY="x")
        here.done("context", "set", "d", "--agent", url)
        assert here.done("--context", "d", "coordinator", "fraud-848")
    assert here.done("coordinator", "g", "--offsets-partitions", "3", KEY="x")
    assert "exactly one of" in here.refused("generate", KEY="x")


def test_the_agent_is_told_and_says_so(here: Here, tmp_path: Path) -> None:
    here.done("context", "set", "c", "--bootstrap-server", "b:1", "-X", "a.b=c")

    def told(*arguments: object) -> dict[str, tuple[object, str]]:
        rows = map(json.loads, here.done(*arguments, "config", "show", "-o", "ndjson").splitlines())
        return {row["option"]: (row["value"], row["source"]) for row in rows}

    rows = told()
    assert (rows["bootstrap-server"], rows["property"]) == (("b:1", "context"), ({"a.b": "c"}, "context"))
    config = tmp_path / "kshadow.yaml"
    config.write_text("bootstrap-server: x:1\n")
    rows = told("--config", config)
    assert (rows["bootstrap-server"], rows["property"]) == (("x:1", "file"), ({}, "default"))
    config.write_text("clusters: {eu: {bootstrap-server: 'x:1'}}\n")
    assert told("--config", config)["property"] == ({}, "default")
    assert '"a.b"' in here("run").stderr


def test_a_user_without_a_home(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container: there are no contexts, and none can be kept."""
    monkeypatch.chdir(tmp_path)
    env = {"KSHADOW_CONTEXTS": "", "HOME": "~", "XDG_CONFIG_HOME": ""}
    assert "exactly one of" in here.refused("groups", **env)
    assert "there is no home directory" in here.refused("context", "set", "a", "--agent", "http://h", **env)
    assert list(tmp_path.iterdir()) == []


def test_clusters_of_a_file_ask_no_context(here: Here, tmp_path: Path) -> None:
    here.path.parent.mkdir()
    here.path.write_text("[")
    config = tmp_path / "kshadow.yaml"
    config.write_text("clusters: {eu: {bootstrap-server: 'localhost:1', property: {no.such: 1}}}\n")
    assert '"no.such"' in here("--config", config, "doctor", "--cluster", "eu").stderr


@pytest.mark.usefixtures("process")
def test_several_at_a_time(here: Here) -> None:
    names = {f"c{number}" for number in range(10)}
    made = [
        spawn("context", "set", it, "--agent", "http://localhost:1", env={"KSHADOW_CONTEXTS": str(here.path)})
        for it in names
    ]
    for process in made:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said.decode()
    assert {row["name"] for row in json.loads(here.done("context", "list", "-o", "json"))} == names
