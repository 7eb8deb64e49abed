"""What a scrape finds: by the table, by the contract, and to the letter for a small log.

`KSHADOW_WRITE_GOLDEN=1 pytest tests/unit/serving/metrics` writes `golden.txt` anew; read its diff.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse

from agent import __version__
from agent.core.events.counts import PartitionCounts
from agent.kafka.admin_api.divergence import ObserverReading
from agent.kafka.lag.lag_calculator import positions_of
from agent.kubernetes.health import KubernetesReading
from agent.serving.metrics.exporter import Exporter, MetricsSource
from agent.serving.metrics.group_metrics import RolloutReading
from agent.serving.metrics.limits import Limits
from agent.serving.metrics.readings import Readings, ReloadReading, SinkReading, SnapshotReading
from agent.serving.metrics.table import METRICS
from agent.serving.metrics.text import MAX_LABEL, safe_label
from tests import SHARED
from tests.harness.tools import need
from tests.unit.cli.hostile import LETTERS, TEXTS, pairs
from tests.unit.cli.running import SEGMENTS
from tests.unit.core.diagnosis.doubles import Twice, chosen, consuming, generations
from tests.unit.core.inference.test_origin_evidence import EveryPod, origin
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log
from tests.unit.serving.metrics.oracle import TopicLag
from tests.unit.serving.routes.replayed import Replayed, of_log, of_path

GOLDEN = Path(__file__).with_name("golden.txt")
CONTRACT = SHARED / "contract.md"
BEYOND_CONTRACT = {
    "kshadow_source_healthy": (),
    "kshadow_group_stale": ("group",),
    "kshadow_group_rollout_verdict": ("group", "verdict"),
    "kshadow_group_rollout_began_timestamp_seconds": ("group",),
    "kshadow_shadow_compared_groups": (),
    "kshadow_rebalancing_groups": ("state",),
    "kshadow_admin_requests_total": ("outcome",),
    "kshadow_partitions_owned": (),
    "kshadow_kubernetes_watch_healthy": ("kind",),
    "kshadow_kubernetes_requests_total": ("outcome",),
    "kshadow_kubernetes_pods": (),
    "kshadow_kubernetes_objects_left_out_total": (),
    "kshadow_lag_requests_total": ("outcome",),
    "kshadow_series_left_out": ("reason",),
    "kshadow_history_oldest_buffered_seconds": ("sink",),
    "kshadow_snapshot_writes_total": ("outcome",),
    "kshadow_snapshot_refused_total": ("reason",),
    "kshadow_config_last_reload_successful": (),
    "kshadow_config_last_reload_success_timestamp_seconds": (),
}
"""What is exported though the contract does not name it; `kshadow_build_info` has a label more, as its kind has."""


OBSERVED = ObserverReading(
    requests={"answered": 7, "denied": 1},
    compared_groups=5,
    divergences={"members": 0, "state": 2},
    rebalancing={"PreparingRebalance": 1},
)


def scrape(replayed: Replayed, *, openmetrics: bool = False) -> str:
    return b"".join(Exporter([MetricsSource(None, replayed.readings)], process=False).render(openmetrics)).decode()


def samples(replayed: Replayed) -> list[tuple[str, dict[str, str], float]]:
    return [(it.name, it.labels, it.value) for family in parse(scrape(replayed)) for it in family.samples]


def full(replayed: Replayed) -> Readings:
    """With what other parts of the agent tell."""
    it = replayed.readings()
    topics = [TopicLag("t", 7, 0.5), TopicLag("u", None, None)]
    partitions = positions_of([(("t", 0), 5, 7)])
    rollout = RolloutReading("worse", 1_795_000_000_000)
    it.groups = [it._replace(topics=topics, partitions=partitions, rollout=rollout, stale=1) for it in it.groups]
    it.partitions_owned = 2
    it.open_transaction_s = {0: 0.0, 3: 61.25}
    it.records_ahead = {3: 2}
    it.records_quarantined = {"unpack": 1}
    it.kubernetes = KubernetesReading({"Pod": True, "Event": False}, {"ok": 14, "failed": 1}, pods=40, left_out=0)
    it.lag_requests = {"answered": 4, "failed": 1}
    it.history = {"topic": SinkReading(10, 3, 0, 1.5), "parquet": SinkReading(8, 0, 2)}
    it.snapshots = SnapshotReading(12.5, {"written": 3}, {"version": 1})
    return it


def exported(read: Callable[[], Readings], limits: Limits | None = None) -> str:
    reload = ReloadReading(True, 1_795_000_000.5)
    return b"".join(
        Exporter([MetricsSource(None, read, limits)], reload=lambda: reload, process=False).render()
    ).decode()


@pytest.fixture(scope="module")
def small() -> Replayed:
    return Replayed(of_path(SEGMENTS))


def test_to_the_letter(small: Replayed) -> None:
    text = scrape(small).replace(f'version="{__version__}"', 'version="x"')
    if os.environ.get("KSHADOW_WRITE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_both_formats_say_the_same(small: Replayed) -> None:
    text = scrape(small, openmetrics=True)
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
    broken = Replayed(runs, chosen=chosen(Twice), observed=OBSERVED, origin_source=EveryPod(origin("oom_killed")))
    text = exported(lambda: full(broken), Limits(10**6, None))
    names = {family.name for family in parse(text)}
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


def values(text: str, name: str) -> dict[tuple[str, ...], float]:
    found = [it for family in parse(text) for it in family.samples if it.name == name]
    return {tuple(it.labels.values()): it.value for it in found}


def test_what_other_parts_tell(small: Replayed) -> None:
    text = exported(lambda: full(small))
    assert values(text, "kshadow_partitions_owned") == {(): 2}
    assert values(text, "kshadow_lag_requests_total") == {("answered",): 4, ("failed",): 1}
    assert values(text, "kshadow_history_events_total") == {("topic",): 10, ("parquet",): 8}
    assert values(text, "kshadow_history_buffered_events") == {("topic",): 3, ("parquet",): 0}
    assert values(text, "kshadow_history_dropped_total") == {("topic",): 0, ("parquet",): 2}
    assert values(text, "kshadow_history_oldest_buffered_seconds") == {("topic",): 1.5}
    assert values(text, "kshadow_snapshot_age_seconds") == {(): 12.5}
    assert values(text, "kshadow_snapshot_writes_total") == {("written",): 3}
    assert values(text, "kshadow_snapshot_refused_total") == {("version",): 1}
    assert values(text, "kshadow_config_last_reload_successful") == {(): 1}
    assert values(text, "kshadow_config_last_reload_success_timestamp_seconds") == {(): 1_795_000_000.5}
    assert set(values(text, "kshadow_group_topic_lag_records").values()) == {7}
    assert len(values(text, "kshadow_group_topic_lag_records")) == 6


def test_what_is_unknown_is_absent(small: Replayed) -> None:
    def read() -> Readings:
        it = small.readings()
        it.snapshots = SnapshotReading()
        return it

    pieces = Exporter([MetricsSource(None, read)], reload=lambda: ReloadReading(False, None), process=False).render()
    text = b"".join(pieces).decode()
    assert values(text, "kshadow_config_last_reload_successful") == {(): 0}
    for absent in ("snapshot", "history", "reload_success_timestamp", "lag_", "group_partition", "left_out", "owned"):
        assert f"_{absent}" not in text


def test_several_clusters(small: Replayed) -> None:
    east = Replayed(of_log(Log().add(b.new_group("orders"))), observed=OBSERVED)
    exporter = Exporter([MetricsSource("east", east.readings), MetricsSource('w"est', small.readings)], process=False)
    for openmetrics in (False, True):
        text = b"".join(exporter.render(openmetrics)).decode()
        families = list((parse_open_metrics if openmetrics else parse)(text))
        assert len({family.name for family in families}) == len(families)
        for family in families:
            clusters = {sample.labels.get("cluster") for sample in family.samples}
            assert clusters == {None} if family.name == "kshadow_build_info" else clusters <= {"east", 'w"est'}
    members = values(text.removesuffix("# EOF\n"), "kshadow_group_members")
    assert members[("east", "orders")] == 0
    assert members[('w"est', "fraud-848")] == 3


def test_one_of_several_that_fails_hides_no_other(small: Replayed, caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> Readings:
        raise KeyError("orders")

    broken = MetricsSource("west", fails)
    text = b"".join(Exporter([broken, MetricsSource("east", small.readings)], process=False).render()).decode()
    assert values(text, "kshadow_group_members")[("east", "fraud-848")] == 3
    assert values(text, "kshadow_source_healthy") == {("east",): 1, ("west",): 0}
    assert caplog.messages == ["the metrics of cluster west"]
    with pytest.raises(KeyError):
        Exporter([broken._replace(cluster=None)], process=False).render()


def test_the_process_is_told_of_once() -> None:
    east, west = Replayed([]), Replayed([])
    text = b"".join(
        Exporter([MetricsSource("east", east.readings), MetricsSource("west", west.readings)]).render()
    ).decode()
    (memory,) = values(text, "process_resident_memory_bytes").values()
    assert memory > 10**6
    assert len(values(text, "python_info")) == 1
    assert set(values(text, "python_gc_collections_total")) == {("0",), ("1",), ("2",)}


def test_series_that_are_left_out_are_counted(small: Replayed) -> None:
    every = exported(lambda: full(small), Limits(10**6, None))
    total = sum(not line.startswith("#") for line in every.splitlines())
    assert values(every, "kshadow_series_left_out") == {("max_series",): 0, ("expired",): 0}
    # A lag that is not known may be by the next scrape: two for each group.
    unknown = 2 * len(values(every, "kshadow_group_members"))
    for most in (0, total // 2, total - 1, total + unknown - 1, total + unknown):
        text = exported(lambda: full(small), Limits(most, None))
        series = [line for line in text.splitlines() if not line.startswith("#")]
        left_out = values(text, "kshadow_series_left_out")[("max_series",)]
        gone = values(every, "kshadow_group_members").keys() - values(text, "kshadow_group_members").keys()
        assert left_out == total - len(series) + 2 * len(gone)
        assert bool(gone) == (most < total + unknown)
        assert len(series) <= max(most, total - left_out + unknown)
    # All of them committed long ago; those with members live nevertheless.
    old = exported(lambda: full(small), Limits(10**6, 1000))
    assert set(values(old, "kshadow_group_members")) == {("ads-eos",), ("fraud-848",), ("pricing-poll",)}
    assert values(old, "kshadow_series_left_out")[("expired",)] > 0


class Slow:
    """Readings that wait until they may be taken."""

    def __init__(self, replayed: Replayed) -> None:
        self._replayed = replayed
        self.taken = 0
        self.asked, self.free = threading.Event(), threading.Event()

    def read(self) -> Readings:
        self.taken += 1
        self.asked.set()
        assert self.free.wait(60)
        return self._replayed.readings()


def test_the_first_is_made_before_anybody_asks(small: Replayed) -> None:
    slow = Slow(small)
    ready = threading.Event()
    exporter = Exporter([MetricsSource(None, slow.read)], process=False)
    exporter.warm(ready.is_set, 0.01)
    assert not slow.asked.wait(0.1)
    ready.set()
    assert slow.asked.wait(60)
    slow.free.set()
    assert exporter.render()


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
            # A metric each, or all the same.
            each = [tuple(re.findall(r"[a-z_]+", it)) for it in re.sub(r"\(.*?\)", "", labels).split(";")]
            for position, name in enumerate(re.findall(r"`(kshadow_[a-z_]+)`", names)):
                contract[name] = each[min(position, len(each) - 1)]
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
    assert groups == {safe_label(text), safe_label(f"{text}848")}
    assert len(groups) == 2
    assert all(len(group) <= MAX_LABEL for group in groups)
    assert list(parse_open_metrics(scrape(replayed, openmetrics=True)))


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
    got = safe_label(text)
    assert got == expected if not expected.endswith("~") else re.fullmatch(re.escape(expected) + "[0-9a-f]{8}", got)


def test_labels_that_were_changed_stay_apart() -> None:
    texts = ["x" * 300, "x" * 301, "a\x1b", "a\\u001b", "a\u202e", "a\ud800"]
    assert len({safe_label(text) for text in texts}) == len(texts)


@pytest.mark.parametrize("text", ["x\n", "x" * (MAX_LABEL + 1), "x~0123abcd"])
def test_a_name_like_anothers_label_has_another_label(text: str) -> None:
    label = safe_label(text)
    assert label != text
    assert safe_label(label) not in (label, text)
    assert len(safe_label(label)) <= MAX_LABEL
    assert safe_label("team~payments") == "team~payments"


def test_no_series_twice() -> None:
    """A topic that was given more partitions holds a group in two: the one in which it has members counts."""
    old = Log(partition=1).add(b.classic_group(4, state_ms=b.T0 + 45_000))
    new = Log(partition=2).add(b.classic_group(1, b.member("a-1", {"t": [0]}), state_ms=b.T0))
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
    assert (gone.partitions, gone.totals()) == ({log.partition: PartitionCounts()}, ({}, {}))
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


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("texts", [[], list(TEXTS.values())], ids=["small", "hostile"])
def test_promtool_finds_nothing(texts: list[str], small: Replayed) -> None:
    hostile = (run for text in texts for run in of_log(Log().add(*pairs(text))))
    replayed = Replayed(hostile) if texts else small
    done = subprocess.run(
        [need("promtool"), "check", "metrics"], input=scrape(replayed), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
