"""What `kshadow run` says once it has caught up: five lines at most."""

import pytest

from agent.common.sanitize import printable
from agent.runtime.first_look import first_look


def group(state):
    return {"state": state}


def finding(severity, name="g", summary="something is wrong"):
    return {"severity": severity, "group": name, "analyzer": "storm", "summary": summary}


def test_nothing_yet():
    assert first_look([], [], "http://x:1") == ["caught up: 0 groups", "0 findings", "the page: http://x:1/"]


def test_the_worst_come_first_and_no_more_than_two():
    groups = [group("Stable"), group("Empty"), group("Stable")]
    findings = [finding("info"), finding("warning", "w"), finding("critical", None), finding("warning", "late")]
    assert first_look(groups, findings, "http://x:1") == [
        "caught up: 3 groups (2 Stable, 1 Empty)",
        "4 findings (1 critical, 2 warning, 1 info)",
        "  the cluster: storm: something is wrong",
        "  w: storm: something is wrong",
        "the page: http://x:1/",
    ]


def test_of_several_clusters_it_says_which():
    groups = [group("Stable") | {"cluster": it} for it in ("eu", "us")]
    findings = [finding("warning") | {"cluster": "us"}, finding("info", None) | {"cluster": "eu"}]
    assert first_look(groups, findings, "http://x:1")[2:4] == [
        "  us/g: storm: something is wrong",
        "  eu/the cluster: storm: something is wrong",
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a\x1b[2Jb\n", "  " + printable("a\x1b[2Jb\n") + ": storm: something is wrong"),
        ("x" * 300, f"  {'x' * 107}…"),
    ],
    ids=["escapes", "long"],
)
def test_strangers_names(name, expected):
    assert first_look([group("Stable")], [finding("warning", name)], "http://x:1")[2] == expected
