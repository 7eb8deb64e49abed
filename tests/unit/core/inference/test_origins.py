"""The table of origins: the contract's kinds in its order, and the words of each."""

from __future__ import annotations

import msgspec
import pytest

from agent.core.inference.origins import KINDS, Origin, OriginKind, OriginSource, origin_info, origin_words
from agent.core.shadow.views import Member

CONTRACT = [
    "oom_killed",
    "exited",
    "liveness_killed",
    "evicted",
    "preempted",
    "node_lost",
    "drained",
    "scaled_down",
    "scaled_up",
    "rolled_out",
    "restarted",
    "deleted",
]

ORIGIN = Origin(
    kind="exited",
    at_ms=1_000,
    namespace="shop",
    pod="payments-2",
    container="app",
    node="n7",
    workload="StatefulSet/payments",
    revision="7d9f",
    exit_code=1,
    message="container `app` exited with code 1",
)


@pytest.mark.parametrize(
    ("kind", "exit_code", "words"),
    [
        ("oom_killed", 137, "OOM-killed"),
        ("exited", 1, "exited with code 1"),
        ("exited", 0, "exited with code 0"),
        ("exited", None, "exited"),
        ("liveness_killed", None, "killed by its liveness probe"),
        ("evicted", None, "evicted"),
        ("preempted", None, "preempted"),
        ("node_lost", None, "node lost"),
        ("drained", None, "drained"),
        ("scaled_down", None, "scaled down"),
        ("scaled_up", None, "scaled up"),
        ("rolled_out", None, "rolled out"),
        ("restarted", None, "restarted"),
        ("deleted", None, "deleted"),
        ("of_tomorrow", None, "of tomorrow"),
    ],
)
def test_each_kind_has_its_words(kind: str, exit_code: int | None, words: str) -> None:
    assert origin_words(kind, exit_code) == words


def test_kinds_are_those_of_the_contract() -> None:
    assert sorted(KINDS) == sorted(CONTRACT)
    assert all(origin_info(kind) is kind.info and kind.info.about.endswith(".") for kind in OriginKind)
    assert all(kind.info.is_departure or kind.info.is_join for kind in OriginKind)


def test_an_origin_goes_out_in_the_order_of_the_contract() -> None:
    fields = [
        "kind",
        "at_ms",
        "namespace",
        "pod",
        "container",
        "node",
        "workload",
        "revision",
        "exit_code",
        "message",
    ]
    assert list(msgspec.to_builtins(ORIGIN)) == fields
    assert ORIGIN.words == "exited with code 1"


def test_a_plain_class_that_answers_is_a_source() -> None:
    class Pods:
        is_behind = False

        def departure_origin(self, member: Member, departed_ms: int | None, shown_ms: int) -> Origin | None:
            return ORIGIN if member.client_host == "/10.0.0.1" else None

        def join_origin(self, member: Member, shown_ms: int) -> Origin | None:
            return None

    source: OriginSource = Pods()
    assert source.departure_origin(Member("m-1", "m", "/10.0.0.1"), None, 2_000) is ORIGIN
    assert source.departure_origin(Member("m-1", "m", "/10.0.0.2"), None, 2_000) is None
