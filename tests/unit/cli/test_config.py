"""`kshadow config`: what is in force, what is wrong with a file; and what `kshadow run` is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from agent.cli.config_file import load_config_file
from agent.cli.main import cli
from agent.cli.run_options import declared
from agent.cli.run_settings import rereader, run_settings
from agent.cli.session import session_of
from agent.config.settings import OPTIONS, RunSettings
from agent.config.value_source import InvalidSettings
from tests.generate.options_table import table
from tests.unit.cli.running import kshadow, lines
from tests.unit.cli.test_settings import config

CLUSTERS = """
lag-interval: 10s
clusters:
  eu: {bootstrap-server: "eu:1", property: {sasl.password: hunter2, sasl.username: me}}
  us: {bootstrap-server: "us:1", lag-interval: 20s}
"""


def shown(*arguments: object, env: dict[str, str] | None = None) -> dict[tuple[str | None, str], Any]:
    """By cluster and option: value, source, where."""
    result = kshadow(*arguments, "-o", "ndjson", env=env)
    assert (result.exit_code, result.stderr) == (0, "")
    rows = [json.loads(it) for it in lines(result)]
    assert all([*row] == ["cluster", "option", "value", "source", "where"] for row in rows)
    return {(row["cluster"], row["option"]): (row["value"], row["source"], row["where"]) for row in rows}


def test_every_option_and_where_it_came_from(tmp_path: Path) -> None:
    path = config(tmp_path, "lag-interval: 10s\nrun: {max-series: 5}\n")
    rows = shown(
        "--config", path, "config", "show", "--no-lag", "-X", "a.b=c", env={"KSHADOW_GRANULARITY": "partition"}
    )
    assert {option for _, option in rows} == set(OPTIONS)
    assert rows[None, "lag-interval"] == ("10s", "file", f"{path}: lag-interval")
    assert rows[None, "max-series"] == (5, "file", f"{path}: run: max-series")
    assert rows[None, "granularity"] == ("partition", "environment", "KSHADOW_GRANULARITY")
    assert rows[None, "lag"] == (False, "command line", "--no-lag")
    assert rows[None, "property"] == ({"a.b": "c"}, "command line", "--property")
    assert rows[None, "expire-after"] == ("7d", "default", None)
    assert rows[None, "listen"] == ("127.0.0.1:9308", "default", None)


def test_a_property_that_is_written_without_a_blank() -> None:
    rows = shown("config", "show", "-Xsecurity.protocol=SASL_SSL", "-Xsasl.mechanism=PLAIN")
    assert rows[None, "property"][0] == {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}


def test_values_as_people_write_them() -> None:
    arguments = (
        *("--shard", "auto/3", "--snapshots", "kafka:s", "--snapshot-interval", "1500ms", "--expire-after", "never"),
        *("--listen", "[::1]:1", "--state-dir", "/s", "--spool-size", "5MiB", "--history-topic", "t"),
        *("--tune", "rebalance_storm.window_s=5", "--history-parquet", "s3://a:b@c/d?sig=x"),
    )
    rows = shown("config", "show", *arguments)
    for option, value in {
        "shard": "auto/3",
        "snapshots": "kafka:s",
        "snapshot-interval": "1500ms",
        "expire-after": "never",
        "listen": "[::1]:1",
        "spool-size": "5MiB",
        "tune": {"rebalance_storm.window_s": "5"},
        "history-parquet": "s3://<hidden>@c/d?<hidden>",
    }.items():
        assert rows[None, option][0] == value
    assert shown("config", "show", "--state-dir", "/s", "--spool-size", "1001")[None, "spool-size"][0] == "1001"


def test_clusters(tmp_path: Path) -> None:
    path = config(tmp_path, CLUSTERS)
    rows = shown("--config", path, "config", "show")
    assert rows["eu", "lag-interval"] == ("10s", "file", f"{path}: lag-interval")
    assert rows["us", "lag-interval"] == ("20s", "file", f"{path}: clusters: us: lag-interval")
    assert rows["eu", "property"][0] == {"sasl.password": "<hidden>", "sasl.username": "me"}
    assert rows[None, "log-level"][1] == "default"


def test_formats(tmp_path: Path) -> None:
    path = config(tmp_path, CLUSTERS)
    table = kshadow("--config", path, "config", "show").stdout.splitlines()
    assert table[0].split() == ["CLUSTER", "OPTION", "VALUE", "SOURCE", "WHERE"]
    (row,) = (it for it in table if it.startswith("eu") and " property" in it)
    assert "sasl.password=<hidden>, sasl.username=me" in row
    assert kshadow("config", "show").stdout.splitlines()[0].split() == ["OPTION", "VALUE", "SOURCE", "WHERE"]
    rows = json.loads(kshadow("--config", path, "config", "show", "-o", "json").stdout)
    assert yaml.safe_load(kshadow("--config", path, "config", "show", "-o", "yaml").stdout) == rows
    section = config(tmp_path, CLUSTERS + "config: {output: json}\n")
    assert json.loads(kshadow("--config", section, "config", "show").stdout) == [
        {**row, "where": row["where"]} for row in rows
    ]


@pytest.mark.parametrize("output", ["table", "json", "ndjson", "yaml"])
def test_no_secret_is_ever_printed(tmp_path: Path, output: str) -> None:
    (tmp_path / "token").write_text("hunter3\n")
    path = config(
        tmp_path,
        "property:\n  sasl.password: ${PASSWORD}\n  sasl.oauthbearer.client.secret: {file: token}\n"
        "  ssl.key.pem: hunter4\n",
    )
    env = {"PASSWORD": "hunter2"}
    result = kshadow("--config", path, "config", "show", "-o", output, env=env)
    assert (result.exit_code, "hunter" in result.output) == (0, False)
    assert result.output.count("<hidden>") == 3
    # Nor by what is said of a value that cannot be.
    for text in (
        "max-series: ${PASSWORD}",
        "property: [hunter2]",
        "property: ${PASSWORD}",
        "run: {listen: '${PASSWORD}'}",
        "clusters: {a: {property: hunter2}}",
        "clusters: {a: {max-series: {file: token}}}",
    ):
        for arguments in (("config", "show"), ("config", "check"), ("groups", "--from", "x")):
            result = kshadow("--config", config(tmp_path, text), *arguments, env=env)
            assert (result.exit_code, "hunter" in result.output) == (2, False), text


def test_secrets_reach_who_needs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text("hunter3\n")
    monkeypatch.setenv("SOME_USER", "me")
    made = settings(
        tmp_path,
        "bootstrap-server: b\nproperty:\n  sasl.username: ${SOME_USER}\n  sasl.password: {file: password}\n",
    )
    assert made.clusters[0].conf == {"bootstrap.servers": "b", "sasl.username": "me", "sasl.password": "hunter3"}


def settings(tmp_path: Path, text: str, *arguments: str) -> RunSettings:
    return run_settings(context(config(tmp_path, text), *arguments))


def context(path: Path | None, *arguments: str) -> click.Context:
    """As `kshadow --config PATH run ARGUMENTS` has it."""
    top = click.Context(cli, **cli.context_settings)
    if path is not None:
        loaded = load_config_file(path, cli, top)
        session_of(top).config_file = loaded
        top.default_map = loaded.defaults
    return declared.make_context("run", list(arguments), parent=top)


def test_what_run_is_told(tmp_path: Path) -> None:
    made = settings(tmp_path, "bootstrap-server: b\nlag-interval: 5s\n", "--granularity", "group")
    (cluster,) = made.clusters
    assert (cluster.bootstrap_server, cluster.lag.interval_ms, cluster.metrics.granularity) == ("b", 5000, "group")
    assert len(settings(tmp_path, CLUSTERS).clusters) == 2
    with pytest.raises(click.UsageError, match="--bootstrap-server is needed") as raised:
        run_settings(context(None, "--history-roll", "5s"))
    assert "--history-roll goes with --history-parquet" in raised.value.message


def test_the_file_read_again(tmp_path: Path) -> None:
    path = config(tmp_path, "bootstrap-server: b\nlag-interval: 5s\nmax-series: 5\n")
    again = rereader(context(path, "--max-series", "7"))
    assert again is not None
    where, read = again
    assert where == path
    config(tmp_path, "bootstrap-server: b\nmax-series: 6\ngranularity: group\n")
    (cluster,) = read().clusters
    # The command line still wins, and what was taken out is what it is by default.
    assert (cluster.metrics.max_series, cluster.lag.interval_ms, cluster.metrics.granularity) == (7, 30_000, "group")
    for text, said in (
        ("max-serie: 6", "did you mean 'max-series'?"),
        ("{shard: 0/2, group: a}", "only one of"),
        ("a: [", "YAML"),
    ):
        config(tmp_path, text)
        with pytest.raises(InvalidSettings) as raised:
            read()
        assert said in str(raised.value)
    path.unlink()
    with pytest.raises(InvalidSettings, match="cannot be read: No such file or directory"):
        read()
    assert rereader(context(None)) is None


def test_check(tmp_path: Path) -> None:
    path = config(tmp_path, CLUSTERS)
    result = kshadow("config", "check", path)
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{path}: fine, 2 clusters\n", "")
    assert kshadow("--config", path, "config", "check").stdout == result.stdout
    one = config(tmp_path, "clusters: {eu: {bootstrap-server: 'eu:1'}}")
    assert kshadow("config", "check", one).stdout == f"{one}: fine, 1 cluster\n"
    empty = kshadow("config", "check", config(tmp_path, ""))
    assert (empty.exit_code, empty.stdout) == (0, f"{path}: fine\n")
    warned = kshadow("config", "check", config(tmp_path, "deny-group: tmp-*"))
    assert (warned.exit_code, warned.stderr.startswith("Warning: ")) == (0, True)
    none = kshadow("config", "check")
    assert (none.exit_code, "a FILE is needed" in none.stderr) == (2, True)


def test_properties_that_librdkafka_does_not_take_as_run_would_say(tmp_path: Path) -> None:
    """All of them, by cluster; files are those of the machine that runs it."""
    path = config(
        tmp_path,
        """
        clusters:
          eu: {bootstrap-server: "a:1", property: {nonsense: "1", ssl.ca.location: /not/here, security.protocol: tls}}
          us: {bootstrap-server: "b:1", property: {sasl.mechanism: AWS_MSK_IAM, nonsense: "1"}}
        """,
    )
    result = kshadow("config", "check", path)
    refused = "librdkafka does not take the properties"
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        f'{path}: clusters: eu: {refused}: No such configuration property: "nonsense"',
        f'{path}: clusters: eu: {refused}: Invalid value "tls" for configuration property "security.protocol"',
        f'{path}: clusters: us: {refused}: No such configuration property: "nonsense"',
    ]


def test_everything_that_is_wrong_at_once(tmp_path: Path) -> None:
    path = config(
        tmp_path,
        """
output: xml
max-serie: 5
run: {partitions: 1-3, shard: 0/2}
spool-size: big
groups: {lisen: x, sort-by: [state, generatoin]}
clusters:
  eu: {bootstrap-servers: b, listen: ":1", cluster: x, snapshots: "kafka:"}
  "../us": {bootstrap-server: b}
  ap: 5
  af: {bootstrap-server: b, allow-group: [/(/], deny-topic: "a*"}
""",
    )
    result = kshadow("config", "check", path)
    assert (result.exit_code, result.stdout) == (2, "")
    said = [
        "output: 'xml' is not one of",
        "unknown key 'max-serie'; did you mean 'max-series'?",
        "spool-size: expected a size (500MB, 1GiB, 1048576), got 'big'",
        "groups: unknown key 'lisen'",
        "groups: sort-by: 'generatoin' is not one of the columns: did you mean 'generation'?",
        "clusters: eu: unknown key 'bootstrap-servers'; did you mean 'bootstrap-server'?",
        "clusters: eu: listen: the same for all clusters: write it above clusters",
        "clusters: eu: cluster: the name of a cluster is its key",
        "clusters: eu: snapshots: expected a topic's name",
        "clusters: expected a name of at most 100 letters",
        "clusters: ap: expected options of run, got str",
        "clusters: af: allow-group: '/(/' is no regular expression",
        "clusters: af: deny-topic: no topic can be called 'a*'",
        "cluster eu: bootstrap-server is needed",
        "only one of --group, --partitions, --shard, --share-group can say what is read",
    ]
    problems = result.stderr.splitlines()
    assert [part for part in said if not any(part in it for it in problems)] == []
    assert len(problems) == len(said) + 1, "of two clusters each says it"
    # Other commands say the first, and that there are more.
    other = kshadow("--config", path, "groups", "--from", "x")
    assert (other.exit_code, "more of it: kshadow config check lists all" in other.stderr) == (2, True)
    shown = kshadow("--config", path, "config", "show")
    assert (shown.exit_code, shown.stdout) == (2, "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lag: true\nlag: false", "the key 'lag' stands there twice"),  # 1
        ("clusters: {a: {bootstrap-server: x}, a: {bootstrap-server: y}}", "the key 'a' stands there twice"),  # 2
        ("clusters: [a]", "clusters: expected a map of names to options of run, got list"),  # 3
        ("clusters: {}", "clusters: expected a map of names to options of run, got none"),  # 4
        ("cluster: [a]\n", "cluster: expected a text or a number, got list"),  # 5
        ("cluster: ../x", "cluster: expected a name of at most 100"),  # 6
        ("property:\n  a.b: ${NOTHING}", "property: expected the environment variable NOTHING, it is not set"),  # 7
        ("property: {a.b: {file: nothing}}", "the file "),  # 8
        ("clustres: {a: {}}", "unknown key 'clustres'; did you mean 'clusters'?"),  # 9
        ("snapshot-interval: 60", "expected a duration (500ms, 30s, 15m, 2h, 3d, 1h30m), got '60'"),  # 10
        ("snapshot-interval: 0s", "expected at least 1s, got '0s'"),  # 11
        ("analyzers: [rebalance_storm]", "analyzers: expected a text or a number, got list"),  # 12
        ("analyzers: rebalance_strom", ".yaml: analyzers: no analyzer is called 'rebalance_strom'"),  # 13
        (
            "run: {tune: {idle_members.open_after_s: x}}",
            ".yaml: run: tune: idle_members.open_after_s: expected a num",
        ),  # 14
        (
            "partitions: 1-3",
            "; run, generate would take it: write it in a command's section",
        ),  # 15
        ("config: {outptu: json}", "config: unknown key 'outptu'; did you mean 'output'?"),  # 16
        (
            'property: {a: "${NOTHING1}", b: "${NOTHING2}"}',
            "property: expected the environment variable NOTHING1, it is not set; "
            "expected the environment variable NOTHING2, it is not set\n",
        ),  # 17
        (
            'allow-group: [/(/, "${NOTHING}", x, {file: nothing}]',
            "allow-group: expected the environment variable NOTHING, it is not set; expected the file ",
        ),  # 18: what is wrong with patterns is known once all of them are there
        ("tune: [x, a.b=1, y]", "got 'x'; expected a setting as ANALYZER.SETTING=VALUE, got 'y'"),  # 19
        (
            "lag_interval: 10s\nlag-interval: 20s",
            ": lag_interval and lag-interval are the same option: expected one of them\n",
        ),  # 20: the last of them won
        (
            "run: {max-series: 1, max_series: 2}",
            ": run: max-series and max_series are the same option: expected one of them\n",
        ),  # 21
        (
            "spark: {backfill: {app_name: a, app-name: b}}",
            ": spark: backfill: app_name and app-name are the same option: expected one of them\n",
        ),  # 22
        (
            "clusters: {eu: {bootstrap-server: a, bootstrap_server: b}}",
            ": clusters: eu: bootstrap-server and bootstrap_server are the same option: expected one of them\n",
        ),  # 23
        ("broker-log-timezone: Mars", ".yaml: broker-log-timezone: time zone: expected UTC"),  # 24
        ("command-config: nothing", "nothing: No such file or directory\n"),  # 25: nor does a context read the file
        ("agent: ftp://x", ".yaml: agent: expected a URL such as http://localhost:9308, got 'ftp://x'\n"),  # 26
    ],
)
def test_wrong_files(tmp_path: Path, text: str, said: str) -> None:
    result = kshadow("config", "check", config(tmp_path, text))
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_aliases_of_yaml(tmp_path: Path) -> None:
    path = config(
        tmp_path,
        "clusters:\n  eu: &all {bootstrap-server: a, max-series: 5}\n  us: {<<: *all, bootstrap-server: b}\n",
    )
    rows = shown("--config", path, "config", "show")
    assert [rows[name, "bootstrap-server"][0] for name in ("eu", "us")] == ["a", "b"]
    assert rows["us", "max-series"][0] == 5


def test_the_table_of_options_has_them_all_with_what_they_are_by_default() -> None:
    rows = table().splitlines()[2:]
    assert len(rows) == len(OPTIONS)
    assert rows[0].startswith("| `--cluster` |  | Your name for the cluster")
    (lag,) = (row for row in rows if row.startswith("| `--lag/") or row.startswith("| `--lag`"))
    assert lag.startswith("| `--lag`/`--no-lag` | `on` | Request the end offsets")
    assert any(row.endswith("| reloads, process |") and "log-level" in row for row in rows)


def test_a_problem_is_told_in_so_many_words(tmp_path: Path) -> None:
    """What came may be of any length, and aliases may stand for any number of it."""
    path = tmp_path / "kshadow.yaml"
    path.write_text(f"run: [{', '.join(['x' * 100_000] * 9)}]\nlag-interval: {'y' * 100_000}\n", encoding="utf-8")
    result = kshadow("config", "check", path)
    assert result.exit_code == 2
    assert "run: expected a section of options, got ['xxx" in result.output
    assert "lag-interval: " in result.output
    assert len(result.output) < 25_000
    path.write_text("a: &a [x, *a]\n", encoding="utf-8")
    assert "an alias within what it stands for" in kshadow("config", "check", path).output
