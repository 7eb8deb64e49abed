"""The container by its values."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.cli.run_options import RUN_OPTIONS as OPTIONS
from agent.cli.run_options import declared
from agent.tools.sidecar.container import (
    Resources,
    SecretKey,
    SidecarError,
    container,
    escape_expansion,
    parse_secret_key,
)
from tests.unit.tools.sidecar.made import FULL_VALUES, PLAIN_VALUES


def expanded(text: str, variables: dict[str, str]) -> str:
    """As Kubernetes does it with arguments (third_party/forked/golang/expansion)."""

    def one(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return variables.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", one, text)


@given(st.text(alphabet=st.sampled_from("$()aA{} ")))
def test_kubernetes_leaves_every_text_alone(text: str) -> None:
    assert expanded(escape_expansion(text), {"a": "X", "A": "X", "": "X"}) == text


@given(st.text())
def test_a_text_without_dollars_stays_readable(text: str) -> None:
    assert escape_expansion(text.replace("$", "")) == text.replace("$", "")


def parsed(arguments: list[str]) -> dict[str, Any]:
    """What `kshadow run` would take of a container's arguments."""
    command, *rest = [expanded(it, {"HOME": "wrong"}) for it in arguments]
    assert command == "run"
    return declared.make_context("run", rest).params


def test_the_agent_takes_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_USER", "sre")
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    made = container(FULL_VALUES)
    assert not [it for it in made["args"] if "hunter2" in it]
    taken = parsed(made["args"])
    assert taken["groups"] == FULL_VALUES.groups
    assert dict(taken["properties"]) == {
        **dict(FULL_VALUES.properties),
        "sasl.username": "sre",
        "sasl.password": "hunter2",
    }
    assert (taken["cluster"], taken["bootstrap_server"]) == ("eu", "a:9093,b:9093")
    assert (taken["admin"], taken["lag"], taken["granularity"]) == (False, False, "partition")
    assert taken["broker_logs"] == ("/opt/kafka/logs",)
    assert (taken["listen"].host, taken["listen"].port) == ("::", 9400)


def test_options_are_long_and_in_the_order_of_the_help() -> None:
    names = [re.match(r"--(?:no-)?([a-z-]+)", it) for it in container(replace(FULL_VALUES, extra=()))["args"][1:]]
    order = [list(OPTIONS).index(it[1]) for it in names if it is not None]
    assert (len(order), order) == (len(names), sorted(order))


def test_it_passes_the_restricted_standard_and_keeps_nobody_waiting() -> None:
    made = container(PLAIN_VALUES)
    assert made["restartPolicy"] == "Always"
    assert "restartPolicy" not in container(replace(PLAIN_VALUES, native=False))
    assert made["securityContext"]["runAsNonRoot"] is True
    assert made["securityContext"]["allowPrivilegeEscalation"] is False
    assert made["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert made["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"readinessProbe", "startupProbe"} & made.keys()
    assert "--admin" not in container(replace(PLAIN_VALUES, admin=True))["args"], "it is on by itself"
    assert "--no-admin" not in container(replace(PLAIN_VALUES, admin=True))["args"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"properties": (("sasl.password", "hunter2"),)}, "--property sasl.password is a secret in plain text"),  # 1
        ({"properties": (("ssl.key.pem", "-----BEGIN"),)}, "--property ssl.key.pem is a secret"),  # 2
        ({"properties": (("sasl.username", "${X}"),)}, "--secret-env X=SECRET/KEY is needed"),  # 3
        ({"secret_env": {"1X": SecretKey("a", "b")}}, "expected the name of a variable, got '1X'"),  # 4
        ({"broker_log": "/logs"}, "--broker-log and --broker-log-volume go together"),  # 5
        ({"broker_log_volume": "logs"}, "--broker-log and --broker-log-volume go together"),  # 6
        ({"broker_log": "logs", "broker_log_volume": "v"}, "expected the directory of the broker's log"),  # 7
        ({"broker_log": "/l/server.log", "broker_log_volume": "v"}, "the directory of the broker's log"),  # 8
        ({"resources": Resources(cpu_request="much")}, "expected a quantity of Kubernetes"),  # 9
        ({"groups": ("\udc80",)}, "an argument of a container is text in UTF-8 without NUL"),  # 10
        ({"groups": ("a\0",)}, "an argument of a container is text in UTF-8 without NUL"),  # 11
    ],
)
def test_what_cannot_be_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(SidecarError) as raised:
        container(replace(PLAIN_VALUES, **changed))
    assert said in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "a", "a/", "/b", "A/b", "a/b/c", "a/b c"])
def test_secrets_are_named_with_a_key(text: str) -> None:
    assert parse_secret_key("kafka-user/password") == SecretKey("kafka-user", "password")
    with pytest.raises(SidecarError, match="SECRET/KEY"):
        parse_secret_key(text)
