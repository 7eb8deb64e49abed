"""What is looked at on this machine, and the words for clocks."""

from __future__ import annotations

import getpass
import json
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from agent.tools.doctor.checks import Check, CheckOutcome, DoctorRequest, Trial, grant_command
from agent.tools.doctor.connection import addresses
from agent.tools.doctor.local import OURS, _directory, check_machine
from agent.tools.doctor.topic import TopicSample, check_clocks
from agent.tools.embedded.ports import free_ports
from tests import ROOT
from tests.unit.cli.running import kshadow

CONF = {"bootstrap.servers": "kafka:9092"}


def checks(**wanted: object) -> dict[str, Check]:
    return {it.check: it for it in check_machine(DoctorRequest(CONF, **wanted))}  # type: ignore[arg-type]


def test_here_all_is_well(tmp_path: Path) -> None:
    found = checks(directories={"state": tmp_path / "a" / "b"}, listen=("127.0.0.1", free_ports(1)[0]))
    assert {it.outcome for it in found.values()} == {CheckOutcome.OK}
    assert f"it will be made in {tmp_path}" in found["state directory"].found
    assert not (tmp_path / "a").exists()
    assert "spark: installed" in found["extras"].found


def test_a_directory_that_cannot_be_looked_for(tmp_path: Path) -> None:
    """In one that is root's alone. The doctor ended with a traceback."""
    (tmp_path / "closed").mkdir(mode=0)
    getpass.getuser()  # another user may not be able to load what that needs
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        check = _directory(Trial("state directory", "there", "looked"), tmp_path / "closed" / "state")
    finally:
        os.seteuid(user)
    assert (check.outcome, "Permission denied" in check.found) == (CheckOutcome.FAILED, True)


def test_a_directory_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = checks(directories={"state": tmp_path / "file" / "state"})["state directory"]
    assert (found.outcome, "Not a directory" in found.found) == (CheckOutcome.FAILED, True)


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = checks(listen=("127.0.0.1", server.getsockname()[1]))["port"]
    assert (found.outcome, "Address already in use" in found.found) == (CheckOutcome.FAILED, True)


def test_few_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        found = checks()["open files"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (found.outcome, "ulimit -n 1024" in found.fix[0]) == (CheckOutcome.WARNING, True)


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("name", OURS)
def test_another_distribution_with_a_package_of_our_name(name: str, tmp_path: Path) -> None:
    metadata = tmp_path / "other_thing-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: other-thing\nVersion: 1.0\n")
    (metadata / "top_level.txt").write_text(f"{name}\n")
    found = packages(str(ROOT), str(tmp_path))
    assert found == f"failed: {name} is also in other-thing"


@pytest.mark.usefixtures("process")
def test_a_package_of_our_name_that_comes_first(tmp_path: Path) -> None:
    (tmp_path / "analyzers").mkdir()
    (tmp_path / "analyzers" / "__init__.py").touch()
    assert packages(str(tmp_path), str(ROOT)) == f"failed: analyzers is not kshadow's but from {tmp_path}/analyzers"


@pytest.mark.usefixtures("process")
def test_what_is_not_installed_is_installed_by_its_own_name(tmp_path: Path) -> None:
    """Kshadow itself is in no registry."""
    metadata = tmp_path / "kshadow-0.1.0.dist-info"
    metadata.mkdir()
    needed = "Requires-Dist: not-there>=2\nRequires-Dist: click>=8\nRequires-Dist: nor-this; extra == 'x'\n"
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kshadow\nVersion: 0.1.0\n{needed}")
    found = told("extras", str(tmp_path), str(ROOT))
    assert found == "failed: not installed: not-there; pip install not-there"


def packages(*path: str) -> str:
    """The outcome in a process that finds packages there first."""
    return told("packages", *path).partition("; ")[0]


def told(check: str, *path: str) -> str:
    """The outcome of one check, and how to mend it, in a process that finds packages there first."""
    code = f"""if True:
        from agent.tools.doctor import DoctorRequest, local
        (it,) = (it for it in local.check_machine(DoctorRequest({{}})) if it.check == "{check}")
        print(f"{{it.outcome}}: {{'; '.join([it.found, *it.fix])}}")
    """
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd="/", check=True)
    return ended.stdout.strip()


def test_commands_are_fit_for_a_shell() -> None:
    wanted = DoctorRequest({**CONF, "security.protocol": "sasl_ssl", "sasl.username": "it's me"})
    command = grant_command(wanted, ["Read", "Describe"], "--topic", "*")
    assert command == (
        "kafka-acls.sh --bootstrap-server kafka:9092 --command-config admin.properties --add "
        "--allow-principal 'User:it'\"'\"'s me' --operation Read --operation Describe --topic '*'"
    )


def test_by_iam_idempotent_writing_is_allowed_by_itself() -> None:
    wanted = DoctorRequest({**CONF, "sasl.mechanism": "AWS_MSK_IAM"})
    assert grant_command(wanted, ["Write"], "--topic", "history") == (
        "allow kafka-cluster:Connect, kafka-cluster:DescribeTopic, kafka-cluster:WriteData, "
        "kafka-cluster:WriteDataIdempotently on topic/CLUSTER/*/history and the cluster in this identity's IAM policy"
    )


def test_what_iam_has_no_action_for_is_said() -> None:
    wanted = DoctorRequest({**CONF, "sasl.mechanism": "AWS_MSK_IAM"})
    assert grant_command(wanted, ["DescribeConfigs"], "--cluster") == (
        "allow kafka-cluster:Connect, kafka-cluster:DescribeClusterDynamicConfiguration on the cluster in this "
        "identity's IAM policy"
    )
    assert grant_command(wanted, ["DescribeConfigs"], "--group", "*") == (
        "IAM has no action for DescribeConfigs on a group"
    )


@pytest.mark.parametrize(
    ("servers", "found"),
    [
        ("kafka", [("kafka", 9092)]),
        ("SSL://a:1, b:2,", [("a", 1), ("b", 2)]),
        ("[::1]:9093,[fe80::1]", [("::1", 9093), ("fe80::1", 9092)]),
    ],
)
def test_addresses(servers: str, found: list[tuple[str, int]]) -> None:
    assert addresses(servers) == found


@pytest.mark.parametrize(
    ("sample", "outcome", "found"),
    [
        (TopicSample(), CheckOutcome.SKIPPED, "no record with a time"),
        (TopicSample(newest_ms=1000, read_at_ms=61_000), CheckOutcome.SKIPPED, "not known: .* 60 s old"),
        (TopicSample(newest_ms=3000, read_at_ms=1000), CheckOutcome.OK, "the newest record is 2.00 s in the future$"),
        (
            TopicSample(newest_ms=91_000, read_at_ms=1000),
            CheckOutcome.WARNING,
            "is 90.00 s in the future: .*, or a client wrote",
        ),
        (
            TopicSample(newest_ms=1, skews_ms=[(-50, 900), (-10, 700)]),
            CheckOutcome.OK,
            r"between -0\.01 s and \+0\.70 s ahead",
        ),
        (
            TopicSample(newest_ms=1, skews_ms=[(-9000, -8000)]),
            CheckOutcome.WARNING,
            r"between -9\.00 s and -8\.00 s ahead",
        ),
        (
            TopicSample(newest_ms=1, skews_ms=[(7000, 8000)]),
            CheckOutcome.WARNING,
            r"between \+7\.00 s and \+8\.00 s ahead",
        ),
        (
            TopicSample(newest_ms=1, skews_ms=[(-10, 5), (6000, 6100)]),
            CheckOutcome.WARNING,
            r"disagree: .* \+6\.10 s ahead",
        ),
        (TopicSample(newest_ms=1, skews_ms=[(-10, 5), (60, 100)]), CheckOutcome.OK, "disagree"),
    ],
)
def test_clocks(sample: TopicSample, outcome: CheckOutcome, found: str) -> None:
    import re

    check = check_clocks(sample)
    assert check.outcome is outcome
    assert re.search(found, check.found)


def test_usage() -> None:
    assert kshadow("doctor").exit_code == 2
    assert kshadow("doctor", "--bootstrap-server", "a:1", "--listen", "nowhere").exit_code == 2
    wrong = kshadow("doctor", "--bootstrap-server", "a:1", "-X", "no.such.property=1")
    assert wrong.exit_code == 2
    assert "no.such.property" in wrong.stderr


def test_a_cluster_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "kshadow.yaml"
    state = tmp_path / "state"
    file.write_text(
        f"""
        state-dir: {state}
        snapshots: {tmp_path}/kept
        clusters:
          prod: {{bootstrap-server: "127.0.0.1:1", admin: false, history-topic: told}}
          test: {{bootstrap-server: "127.0.0.1:2"}}
        """
    )
    which = kshadow("--config", str(file), "doctor")
    assert which.exit_code == 2
    assert "prod, test" in which.stderr
    other = kshadow("--config", str(file), "doctor", "--cluster", "dev")
    assert other.exit_code == 2
    assert "expected one of prod, test, got dev" in other.stderr
    result = kshadow("--config", str(file), "doctor", "--cluster", "prod", "--timeout", "1", "-o", "json")
    assert result.exit_code == 3
    rows = json.loads(result.stdout)
    said = {row["on"] for row in rows}
    assert "127.0.0.1:1" in said
    assert "127.0.0.1:2" not in said
    assert any(on.startswith(str(state)) for on in said), said
    # What else is said there counts, as it does for `run`.
    elsewhere = ("--state-dir", f"{tmp_path}/else")
    beside = kshadow("--config", str(file), "doctor", "--cluster", "prod", *elsewhere, "--timeout", "1", "-o", "json")
    said = {row["on"] for row in json.loads(beside.stdout)}
    assert any(on.startswith(f"{tmp_path}/else/prod") for on in said), said
    assert not any(on.startswith(str(state)) for on in said), said
    # Whoever names brokers means those, whatever the file has.
    given = kshadow("--config", str(file), "doctor", "--bootstrap-server", "127.0.0.1:3", "--timeout", "1")
    assert given.exit_code == 3
    assert "127.0.0.1:3" in given.stdout


@pytest.mark.parametrize("wrong", ["--no-admin", "--share-group"])
def test_what_does_not_go_with_the_admin_api_as_the_source(wrong: str) -> None:
    options = (wrong, "shards") if wrong == "--share-group" else (wrong,)
    result = kshadow("doctor", "--bootstrap-server", "localhost:1", "--source", "admin", *options)
    assert (result.exit_code, f"{wrong} goes with --source topic" in result.stderr) == (2, True)
