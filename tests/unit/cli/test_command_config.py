"""`--command-config`: where it is taken, and what is said of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.cli.running import SEGMENTS, kshadow
from tests.unit.cli.test_config import shown
from tests.unit.cli.test_settings import config

SECRET = "hunter2"
BROKERS = ("--bootstrap-server", "localhost:1")
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required username=u password=" + SECRET + ";"


def properties(tmp_path: Path, *texts: str) -> Path:
    path = tmp_path / "client.properties"
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


def test_what_librdkafka_cannot_do(tmp_path: Path) -> None:
    file = properties(tmp_path, f"ssl.truststore.password={SECRET}", "ssl.truststore.location=/t.jks")
    for command in (["groups"], ["doctor"], ["coordinator", "g"], ["run"], ["lag", "g"]):
        result = kshadow(*command, *BROKERS, "--command-config", file)
        assert (result.exit_code, result.stdout, SECRET in result.stderr) == (2, "", False)
        assert f"{file}: ssl.truststore.location: librdkafka takes PEM, /t.jks is JKS" in result.stderr
    # What is given beside it mends it, and is what librdkafka gets.
    result = kshadow("groups", *BROKERS, "--command-config", file, "-X", "ssl.ca.location=/no.pem", "-X", "no.such=1")
    assert (result.exit_code, '"no.such"' in result.stderr) == (2, True)


@pytest.mark.parametrize("command", [["groups"], ["doctor"], ["coordinator", "g"], ["run"]])
def test_a_pipe_is_read_once(command: list[str]) -> None:
    """As a shell's `<(…)`. Read twice it is empty, and brokers are asked without TLS and a login."""
    reading, writing = os.pipe()
    os.write(writing, b"config.providers=vault\n")
    os.close(writing)
    result = kshadow(*command, *BROKERS, "--command-config", f"/dev/fd/{reading}")
    os.close(reading)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "config.providers: only Java has those" in result.stderr


def test_warnings(tmp_path: Path) -> None:
    file = properties(tmp_path, "sasl.mechanisn=PLAIN", f"no.such={SECRET}ü", "client.id=x")
    result = kshadow("groups", *BROKERS, "--command-config", file, "-X", "nonsense=1")
    assert f"Warning: {file}: unknown property 'sasl.mechanisn' is left out; did you mean" in result.stderr
    assert f"{file}: is UTF-8, and read as Latin-1" in result.stderr
    assert SECRET not in result.stderr


def test_other_files(tmp_path: Path) -> None:
    assert "No such file" in kshadow("groups", *BROKERS, "--command-config", tmp_path / "x").stderr
    assert (
        "line 1: expected four hexadecimal"
        in kshadow("groups", "--command-config", properties(tmp_path, "a=\\u1")).stderr
    )
    (tmp_path / "store").write_bytes(b"\xfe\xed\xfe\xed\0\0")
    assert (
        "expected a text file of NAME=VALUE lines" in kshadow("groups", "--command-config", tmp_path / "store").stderr
    )
    result = kshadow("groups", "--from", SEGMENTS, "--command-config", properties(tmp_path, "a=b"))
    assert "--command-config goes with --bootstrap-server" in result.stderr


def test_the_agent_is_told(tmp_path: Path) -> None:
    file = properties(tmp_path, "security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", f"sasl.jaas.config={JAAS}")
    rows = shown("config", "show", "--command-config", file)
    assert rows[None, "command-config"] == (str(file), "command line", "--command-config")
    assert SECRET not in str(rows)
    path = config(tmp_path, f"clusters: {{eu: {{bootstrap-server: 'b:1', command-config: '{file}'}}}}\n")
    assert shown("--config", path, "config", "show")["eu", "command-config"][0] == str(file)
    file.write_text("sasl.jaas.config=x\n")
    refused = kshadow("--config", path, "config", "check")
    assert (
        refused.exit_code,
        "cluster eu: " in refused.stderr,
        "sasl.jaas.config: expected a login" in refused.stderr,
    ) == (
        2,
        True,
        True,
    )
