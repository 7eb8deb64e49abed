"""What a scrape finds: by the table, by the contract, and to the letter for a small log.

`KSHADOW_WRITE_GOLDEN=1 pytest tests/metrics` writes `golden.txt` anew; read its diff.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_open_metrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse

from agent import __version__
from agent.metrics.exporter import MAX_LABEL, Exporter, Observed, label
from agent.metrics.table import METRICS
from tests.cli.hostile import LETTERS, TEXTS, pairs
from tests.cli.running import SEGMENTS
from tests.diagnosis.doubles import Twice, chosen, consuming, generations
from tests.http.replayed import Replayed, of_log, of_path
from tests.shadow import build as b
from tests.shadow.build import Log
from tests.wire.vectors import ROOT

GOLDEN = Path(__file__).with_name("golden.txt")
CONTRACT = ROOT.parent / "shared" / "contract.md"
BEYOND_CONTRACT = {
    "kshadow_source_healthy": (),
    "kshadow_shadow_compared_groups": (),
    "kshadow_rebalancing_groups": ("state",),
    "kshadow_admin_requests_total": ("outcome",),
}
"""What is exported though the contract does not name it; `kshadow_build_info` has a label more, as its kind has."""


OBSERVED = Observed(
    requests={"answered": 7, "denied": 1},
    compared_groups=5,
    divergences={"members": 0, "state": 2},
    rebalancing={"PreparingRebalance": 1},
)


def registry(replayed: Replayed) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(Exporter(replayed.readings))
    return made


def scrape(replayed: Replayed) -> str:
    return generate_latest(registry(replayed)).decode()


def samples(replayed: Replayed) -> list[tuple[str, dict[str, str], float]]:
    return [(it.name, it.labels, it.value) for family in parse(scrape(replayed)) for it in family.samples]


@pytest.fixture(scope="module")
def small() -> Replayed:
    return Replayed(of_path(SEGMENTS))


def test_to_the_letter(small: Replayed) -> None:
    text = scrape(small).replace(f'version="{__version__}"', 'version="x"')
    if os.environ.get("KSHADOW_WRITE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_both_formats_say_the_same(small: Replayed) -> None:
    text = generate_open_metrics(registry(small)).decode()
    assert text.endswith("# EOF\n")
    families = {family.name: family for family in parse_open_metrics(text)}
    assert set(families) <= set(METRICS)
    said = [(it.name, it.labels, it.value) for family in families.values() for it in family.samples]
    assert said == samples(small)
    for name, family in families.items():
        assert (family.type, family.documentation) == (METRICS[name].kind, METRICS[name].help)


def test_the_whole_table_is_exported(small: Replayed) -> None:
    damaged = Log(partition=1).add((b"\x00\x63", b""), (b"", None))
    runs = [*of_path(SEGMENTS), *of_log(damaged), *of_log(consuming(6, 600, 200))]
    broken = Replayed(runs, chosen=chosen(Twice), observed=OBSERVED)
    names = {family.name for family in parse(scrape(broken))}
    assert names == set(METRICS)
    assert ("kshadow_decode_errors_total", {"reason": "unknown_key_type"}, 1.0) in samples(broken)
    assert "kshadow_decode_errors" not in {family.name for family in parse(scrape(small))}, "no errors, no series"


def test_what_is_observed() -> None:
    said = {
        (name, *labels.values()): value
        for name, labels, value in samples(Replayed([], observed=OBSERVED))
        if re.search("shadow_|rebalancing|admin", name.removeprefix("kshadow_"))
    }
    assert said == {
        ("kshadow_shadow_divergence_groups", "members"): 0,
        ("kshadow_shadow_divergence_groups", "state"): 2,
        ("kshadow_shadow_compared_groups",): 5,
        ("kshadow_rebalancing_groups", "PreparingRebalance"): 1,
        ("kshadow_admin_requests_total", "answered"): 7,
        ("kshadow_admin_requests_total", "denied"): 1,
    }


@pytest.mark.parametrize("name", METRICS)
def test_names_and_labels(name: str) -> None:
    metric = METRICS[name]
    assert re.fullmatch(r"kshadow(_[a-z]+)+", name)
    assert metric.kind in ("gauge", "counter")
    assert not name.endswith("_total"), "the exporter adds it to counters"
    assert not re.search(r"_(ms|milliseconds|minutes|kb|percent)$", name), "base units"
    assert metric.help.endswith(".")
    assert not {"member", "member_id", "client_id", "host", "client_host", "instance_id"} & set(metric.labels)


@pytest.mark.skipif(not CONTRACT.exists(), reason=f"{CONTRACT} is missing: only beside a developer's checkout")
def test_the_contract_names_them_so() -> None:
    contract: dict[str, tuple[str, ...]] = {}
    for row in CONTRACT.read_text(encoding="utf-8").splitlines():
        if row.startswith("| `kshadow_"):
            _, names, labels, _ = row.split("|")
            plain = tuple(re.findall(r"[a-z_]+", re.sub(r"\(.*?\)", "", labels)))
            contract.update(dict.fromkeys(re.findall(r"`(kshadow_[a-z_]+)`", names), plain))
    for name, metric in METRICS.items():
        exported = name + "_total" if metric.kind == "counter" else name
        if name == "kshadow_build_info":
            assert (contract[name], metric.labels) == ((), ("version",))
        elif name == "kshadow_topic_behind_records":
            assert (contract[exported], metric.labels) == (("partition",), ("partition",))
        else:
            assert metric.labels == {**BEYOND_CONTRACT, **contract}[exported], name


def test_nothing_of_groups_before_the_end_was_reached() -> None:
    behind = samples(Replayed(of_path(SEGMENTS), has_caught_up=False))
    assert {name for name, _, _ in behind} == {
        "kshadow_build_info",
        "kshadow_caught_up",
        "kshadow_records_total",
        "kshadow_source_healthy",
        "kshadow_topic_behind_records",
    }
    assert not [labels for _, labels, _ in behind if "group" in labels]
    assert {value for name, _, value in behind if name == "kshadow_caught_up"} == {0.0}


def test_an_unknown_commit_time_is_absent(small: Replayed) -> None:
    with_time = {it["group"] for name, it, _ in samples(small) if name.endswith("last_commit_timestamp_seconds")}
    assert "ledger-share" not in with_time
    assert len(with_time) == 5


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in {**TEXTS, **LETTERS}.items()])
def test_hostile_names(text: str) -> None:
    replayed = Replayed(of_log(Log().add(*pairs(text))))
    exposition = scrape(replayed)
    assert exposition.replace("\n", "").isprintable()
    groups = {it["group"] for name, it, _ in samples(replayed) if name == "kshadow_group_members"}
    assert groups == {label(text), label(f"{text}848")}
    assert len(groups) == 2
    assert all(len(group) <= MAX_LABEL for group in groups)
    assert list(parse_open_metrics(generate_open_metrics(registry(replayed)).decode()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("payments", "payments"),  # 1: as it is
        ("größe", "größe"),  # 2: letters are letters
        ("x" * 200, "x" * 200),  # 3: as long as may be
        ("x" * 201, "x" * 191 + "~"),  # 4: and one longer
        ("\x1b" * 100, ("\\u001b" * 100)[:191] + "~"),  # 5: the escapes count
        ("a\nb", "a\\u000ab~"),  # 6
    ],
)
def test_label(text: str, expected: str) -> None:
    got = label(text)
    assert got == expected if not expected.endswith("~") else re.fullmatch(re.escape(expected) + "[0-9a-f]{8}", got)


def test_labels_that_were_changed_stay_apart() -> None:
    texts = ["x" * 300, "x" * 301, "a\x1b", "a\\u001b", "a\u202e", "a\ud800"]
    assert len({label(text) for text in texts}) == len(texts)


def test_no_series_twice() -> None:
    """A topic that was given more partitions holds a group in two: the newer counts."""
    old = Log(partition=1).add(b.classic_group(4, b.member("a-1", {"t": [0]}), state_ms=b.T0))
    new = Log(partition=2).add(b.classic_group(1, state_ms=b.T0 + 1))
    for logs in ([old, new], [new, old]):
        found = samples(Replayed([run for log in logs for run in of_log(log)]))
        counts = Counter((name, tuple(sorted(labels.items()))) for name, labels, _ in found)
        assert set(counts.values()) == {1}
        assert ("kshadow_group_generation", {"group": b.GROUP}, 1.0) in found


def test_counters_of_a_deleted_group_go_with_it() -> None:
    log = Log().add(b.new_group()).add(b.classic_group(1, b.member("a-1", {"t": [0]}))).add(b.classic_group(2))
    replayed = Replayed(of_log(log))
    rebalances, departures = replayed.counts.totals()
    assert (rebalances, departures) == ({b.GROUP: 2}, {b.GROUP: 1})
    log.add(b.no_classic_group())
    gone = Replayed(of_log(log)).counts
    assert (gone.rebalances, gone.departures, gone.stopped_partition_ms, gone.totals()) == ({}, {}, {}, ({}, {}))
    log.add(b.classic_group(1, b.member("a-1", {"t": [0]})))
    assert Replayed(of_log(log)).counts.totals() == ({b.GROUP: 1}, {})


def test_the_imbalance_by_partitions_and_by_records() -> None:
    found = {name: value for name, _, value in samples(Replayed(of_log(consuming(6, 600, 200))))}
    assert found["kshadow_group_assignment_imbalance_ratio"] == 1.0
    assert found["kshadow_group_load_imbalance_ratio"] == 1.5
    idle = {name for name, _, _ in samples(Replayed(of_log(Log().add(b.commit(at_ms=b.T0)))))}
    assert not {name for name in idle if "imbalance" in name}


def findings(replayed: Replayed) -> list[tuple[str, str, str, float]]:
    return [
        (it["group"], it["analyzer"], it["severity"], value)
        for name, it, value in samples(replayed)
        if name == "kshadow_finding_active"
    ]


def test_a_finding_is_active_under_one_severity_at_a_time() -> None:
    warned = Replayed(of_log(generations(1_000, 2_000)), chosen=chosen(Twice))
    assert findings(warned) == [(b.GROUP, "twice", "warning", 1.0)]
    worse = Replayed(of_log(generations(1_000, 2_000, 3_000)), chosen=chosen(Twice))
    assert sorted(findings(worse)) == [(b.GROUP, "twice", "critical", 1.0), (b.GROUP, "twice", "warning", 0.0)]
    closed = Replayed(of_log(generations(1_000, 2_000, 900_000)), chosen=chosen(Twice))
    assert findings(closed) == [(b.GROUP, "twice", "warning", 0.0)]


def test_the_findings_of_a_deleted_group_go_with_it() -> None:
    log = generations(1_000, 2_000).add(b.classic_group(3)).add(b.no_classic_group())
    assert findings(Replayed(of_log(log), chosen=chosen(Twice))) == []


def test_registering_reads_nothing() -> None:
    def read() -> None:
        raise AssertionError("a reading was taken")

    CollectorRegistry().register(Exporter(read))  # type: ignore[arg-type]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on PATH: it comes with Prometheus")
@pytest.mark.parametrize("texts", [[], list(TEXTS.values())], ids=["small", "hostile"])
def test_promtool_finds_nothing(texts: list[str], small: Replayed) -> None:
    hostile = (run for text in texts for run in of_log(Log().add(*pairs(text))))
    replayed = Replayed(hostile) if texts else small
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=scrape(replayed), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
