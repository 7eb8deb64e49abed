"""`python -m tests.harness.rig.accuracy DIR…`: how right kshadow is on captures of real client libraries.

A directory is one that the rig kept (`python -m tests.harness.rig --libraries all --keep DIR`; counted are the plays
that members of any library can play). Or it holds `segments/` (or `records.ndjson.gz`), `truth.ndjson` (what the
broker's log says of each generation) and `capture.json` (`kafka`: the version, `seed`; `load`, if it is to be told:
the machine's load average on the way, for each of its cores). `--out` writes
docs/accuracy.md; `--cut GROUPS --to DIR` keeps some groups of a capture, with their records and their truth alone.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from agent.core.records import RecordBatch
from agent.core.wire import decode
from agent.core.wire.offset_commit_fastpath import read_commit_key
from agent.kafka.source.paths import committed_batches_of
from agent.runtime.offline import load
from analyzers.registry import select_analyzers
from tests.harness.rig.ledger import read_ledger
from tests.harness.rig.plays import PLAYS
from tests.harness.rig.settings import QUIET

Row = dict[str, Any]

_RIG = ("franz-go", "kafka-go", "kafka-python", "librdkafka")
"""Clients of the rig that go by their library's name, as the others of it do not."""

LIBRARIES = {
    "java": "java",
    "javacoop": "java",
    "java848": "java",
    "oldjava": "java",
    "streams": "kafka-streams",
    "sarama": "sarama",
    "saramaold": "sarama",
    "franz": "franz-go",
    "kafkago": "kafka-go",
    "kafkajs": "kafkajs",
    "aiokafka": "aiokafka",
    "rdkafka": "librdkafka",
    "rdcoop": "librdkafka",
    "rd848": "librdkafka",
    # Those of the rig.
    **{name: name for name in _RIG},
    **{f"{name} cooperative": name for name in ("java", "franz-go", "librdkafka")},
}
"""The library of each client that the scenarios are played with."""

EAGER = frozenset(
    {"java", "oldjava", "sarama", "saramaold", "kafkago", "kafkajs", "aiokafka", "rdkafka", *_RIG},
)
HAS_POLL_LIMIT = frozenset({"java", "kafka-streams", "librdkafka", "aiokafka", "kafka-python"})
LONG_JOIN_MS = 5_000
LONG_SILENCE_MS = 4_000
SURE = 0.8
BANDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.01)


@dataclass(frozen=True, slots=True)
class Answer:
    """One cause that was told, and the truth: several where generations were never written."""

    capture: str
    client: str
    kind: str
    group: str
    generation: int
    truth: frozenset[str]
    told: str
    confidence: float

    @property
    def outcome(self) -> str:
        """right, unknown, wrong, or sure: wrong with confidence."""
        if self.told in self.truth:
            return "right"
        if self.told.startswith("unknown"):
            return "unknown"
        return "sure" if self.confidence >= SURE else "wrong"


@dataclass(frozen=True, slots=True)
class Cost:
    """A long join phase of an eager group: stopped partition time told, the least that the silence of all commits
    shows, and the join phase times the partitions by the broker's log. Milliseconds."""

    client: str
    group: str
    generation: int
    told_ms: int
    silence_ms: int
    logged_ms: int
    died_before: bool
    """A member had died that never committed: what it held stood still before the join phase, too."""


@dataclass(slots=True)
class Accuracy:
    """What captures show."""

    captures: list[str] = field(default_factory=list)
    rebalances: list[Answer] = field(default_factory=list)
    departures: list[Answer] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    members: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Members by client and by the library that was told."""
    findings: dict[tuple[str, str, str], set[str]] = field(default_factory=dict)
    """Analyzers that fired by group (and capture), client and scenario."""


def as_told(how: str) -> frozenset[str]:
    """The causes that are right for one of the truth: who did not rejoin in time was away from its poll loop."""
    return frozenset({"rejoin_timeout", "poll_timeout"}) if how in ("evicted", "rejoin_timeout") else frozenset({how})


def score(directories: Sequence[Path]) -> Accuracy:
    """Replay captures and hold what is told against the truth."""
    out = Accuracy()
    for directory in directories:
        _score(directory, out)
    return out


def _score(directory: Path, out: Accuracy) -> None:
    is_of_rig = (directory / "run.json").exists()
    about = json.loads((directory / ("run.json" if is_of_rig else "capture.json")).read_text())
    capture = f"Kafka {about['kafka']}, seed {about['seed']}"
    if "load" in about:
        capture += f", load {about['load']:g}"
    out.captures.append(capture)
    truth = [json.loads(line) for line in _open(directory / "truth.ndjson")]
    if is_of_rig:
        truth = list(_truth_of_rig(directory, truth))
    problems: list[str] = []
    events = load([str(_records(directory))], on_problem=problems.append, chosen=select_analyzers()).events()
    assert not problems, problems
    told: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for event in events:
        if event["type"] == "rebalance":
            told[event["group"], event["generation"]].append(event)
    clients = {row["group"]: (row["client"], row["kind"]) for row in truth}
    commits, partitions = _commit_times(directory), _assigned(events)
    for row in truth:
        if row["written"]:
            _judge(capture, row, told[row["group"], row["generation"]], commits, partitions, out)
    known = {(row["group"], row["generation"]) for row in truth}
    out.invented += [f"{key[0]} {key[1]}" for key in told if key[0] in clients and key not in known and key[1] > 0]
    _count_members(told, clients, out)
    for group, (client, kind) in clients.items():
        out.findings[f"{about['seed']} {group}", client, kind] = {
            event["analyzer"]
            for event in events
            if event["type"] == "finding" and event["group"] == group and event["state"] == "firing"
        }


def _truth_of_rig(directory: Path, rows: Iterable[Row]) -> Iterator[Row]:
    """What the rig knows, as captures have it: what was never written goes with the generation written next."""
    ledger = read_ledger(directory / "ledger.ndjson")
    settings = {entry["group"]: entry for entry in ledger if entry["what"] == "scenario"}
    waiting: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        of = settings[row["group"]]
        if not PLAYS[row["kind"]].any_library:
            continue
        waiting[row["group"]].append(row)
        merged = waiting.pop(row["group"]) if row["written"] else [row]
        commits = of["commit"] != "never" and not QUIET.keys() >= set(of["topics"])
        yield {
            **{name: row[name] for name in ("group", "generation", "written", "cause")},
            "client": of["library"] + " cooperative" * of["cooperative"],
            "kind": row["kind"] + " without commits" * (not commits),
            "merged_cause": merged[0]["cause"],
            "merged_departures": {m: {"how": how} for it in merged for m, how in it["departures"].items()},
            "began": row["prepared_ms"] or None,
            "at": row["at_ms"],
        }


def _judge(
    capture: str,
    row: Row,
    found: Sequence[Row],
    commits: Mapping[str, Sequence[int]],
    partitions: Mapping[tuple[str, int], int],
    out: Accuracy,
) -> None:
    group, generation, client, kind = row["group"], row["generation"], row["client"], row["kind"]
    where = f"{group} {generation}"
    if not found:
        out.missing.append(where)
        return
    out.doubled += [where] * (len(found) - 1)
    event = found[0]
    causes = {row["cause"], row["merged_cause"]} - {"none"}
    if causes:
        right = frozenset().union(*map(as_told, causes))
        out.rebalances.append(
            Answer(capture, client, kind, group, generation, right, event["cause"], event["confidence"])
        )
    for member in event["left"]:
        gone = row["merged_departures"].get(member["member_id"])
        if gone is not None:
            right = as_told(gone["how"])
            answer = Answer(capture, client, kind, group, generation, right, member["cause"], member["confidence"])
            out.departures.append(answer)
    stopped_ms, began = event["stopped_partition_ms"], row["began"]
    if client not in EAGER or stopped_ms is None or began is None or row["at"] - began < LONG_JOIN_MS:
        return
    last = max((at_ms for at_ms in commits.get(group, ()) if at_ms <= row["at"] + 5), default=None)
    shared = partitions.get((group, generation))
    if last is not None and shared and row["at"] - last >= LONG_SILENCE_MS:
        silence, logged = (row["at"] - last) * shared, (row["at"] - began) * shared
        died_before = any(it["kind"] == "commit_gap" and it["gap_ms"] is None for it in event["evidence"])
        out.costs.append(Cost(client, group, generation, stopped_ms, silence, logged, died_before))


def _count_members(
    told: Mapping[tuple[str, int], Sequence[Row]], clients: Mapping[str, tuple[str, str]], out: Accuracy
) -> None:
    newest: dict[tuple[str, str], str] = {}
    for (group, _), events in told.items():
        for member in (member for event in events for member in (*event["joined"], *event["left"])):
            newest[group, member["member_id"]] = member["client_library"]
    for (group, _), library in newest.items():
        if group in clients:
            out.members[clients[group][0], library] += 1


def _assigned(events: Iterable[Row]) -> dict[tuple[str, int], int]:
    """How many partitions have an owner, by group and generation."""
    out: dict[tuple[str, int], int] = {}
    latest: dict[str, int] = {}
    for event in events:
        if event["type"] == "assignment_changed":
            latest[event["group"]] = event["assigned_partitions"]
        if event["type"] in ("assignment_changed", "rebalance"):
            out[event["group"], event["generation"]] = latest.get(event["group"], 0)
    return out


# Captures.


def _records(directory: Path) -> Path:
    packed = directory / "records.ndjson.gz"
    return packed if packed.exists() else directory / "segments"


def _open(path: Path) -> Iterator[str]:
    if path.exists():
        yield from path.read_text().splitlines()
    else:
        yield from gzip.decompress(path.with_name(path.name + ".gz").read_bytes()).decode().splitlines()


def _batches(directory: Path) -> Iterator[RecordBatch]:
    for batch in committed_batches_of(str(_records(directory))):
        assert isinstance(batch, RecordBatch), str(batch)
        yield batch


def _commit_times(directory: Path) -> dict[str, list[int]]:
    """When anybody of a group committed, by group."""
    out: dict[str, list[int]] = defaultdict(list)
    for batch in _batches(directory):
        for key, value, at_ms in zip(batch.keys, batch.values, batch.timestamps_ms, strict=True):
            if value is not None and (parsed := read_commit_key(key)) is not None:
                out[parsed[0]].append(at_ms)
    return out


def cut(directory: Path, groups: Collection[str], to: Path) -> None:
    """Keep some groups of a capture: every record of theirs, and their truth."""
    to.mkdir(parents=True, exist_ok=True)
    lines = []
    for batch in _batches(directory):
        rows = zip(batch.offsets, batch.timestamps_ms, batch.keys, batch.values, strict=True)
        for offset, at_ms, key, value in rows:
            fields = getattr(decode(key, value), "key", None)
            if (getattr(fields, "group", None) or getattr(fields, "group_id", None)) in groups:
                assert key is not None, "a record of a group has a key"
                packed = {"partition": batch.partition, "offset": offset, "timestamp": at_ms, "key": key.hex()}
                lines.append(json.dumps({**packed, "value": None if value is None else value.hex()}))
    _pack(to / "records.ndjson.gz", lines)
    rows = [line for line in _open(directory / "truth.ndjson") if json.loads(line)["group"] in groups]
    _pack(to / "truth.ndjson.gz", rows)
    (to / "capture.json").write_text((directory / "capture.json").read_text())


def _pack(path: Path, lines: Iterable[str]) -> None:
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), 9, mtime=0))


# The page.

_HEAD = """# How right it is

kshadow infers why groups rebalance, because the topic has no reasons. This page says how often the inferred
cause is right for real clients, by library. It is written by
`python -m tests.harness.rig.accuracy DIR… --out docs/accuracy.md`.

## How it was measured

Captures: {captures}. Parameters were tuned on others. *Load* is the machine's load average for each of its cores, as
a median: at more than 1, clients and brokers wait for a processor, and what happened when is less certain.

Each capture has a real broker, and real clients that join, close, are killed, paused and restarted, stall, and crash
repeatedly. Each scenario has its own group. Clients: {clients}.

The truth is the broker's own log of every join and leave, and the list of what was done to which client. kshadow
reads only the segments of `__consumer_offsets`. *Sure* is wrong with a confidence of {sure} or more. *Unknown* means
that the evidence is not sufficient.
"""

_NOT_KNOWN = """
## What is not known

- Other libraries. They get the cautious row of `agent/core/protocol/client_libraries.py`: what Java's and
  librdkafka's members have in common.
- Groups that never commit. The cause of a departure is given only if its time alone shows it; otherwise it is
  `unknown_departure`.
- Groups with idle topics: clients that commit only changed offsets then leave no trace. Measured once with topics to
  which nothing was written: of 597 departures 48 % were right and 50 % unknown; of those with a confidence of
  0.9 or more none was wrong. And once with topics that fell idle before members were restarted, one after the other:
  of 324 departures 33 % were right and 66 % unknown; no wrong one had a confidence of 0.6 or more.
- Members whose commits are more than 90 s apart on average, because their topics were idle or the log was compacted:
  how often they commit while they work is not known. A departure whose cause depends on it is `unknown_departure`.
- Members whose session and poll timeouts are closer to each other than their commits: the likelier of the two is
  given with a low confidence, or neither.
- An administrator who removes members: rare in these captures. It is told of members with `group.instance.id` only,
  as admins' clients name no others singly. A request made by hand that removes another looks like a quick restart,
  and is told as one. All that are removed at once look as if they were closed without a commit: that is told with
  less than 0.8.
- Groups that are emptied as some members close and another dies soon after: where the last commits of all are a
  session timeout old or more, they look as if all had died. `session_timeout` is told with less than 0.8 then.
- Slower hosts. Two cores ran up to 38 clients at a time.
- Members that share a client id and a host differ only by their member ids: which of them was restarted is then
  inferred too.
"""


def page(found: Accuracy) -> str:
    """docs/accuracy.md."""
    clients = sorted({answer.client for answer in found.rebalances})
    out = [
        _HEAD.format(captures="; ".join(found.captures), clients=", ".join(clients), sure=SURE),
        "## In short",
        "",
        *_summary(found),
    ]
    for title, answers in (("Rebalances", found.rebalances), ("Departures", found.departures)):
        out += [
            "",
            f"## {title}",
            "",
            "By library:",
            "",
            *_outcomes(answers, "Library", lambda it: LIBRARIES[it.client]),
        ]
        out += ["", "By capture:", "", *_outcomes(answers, "Capture", lambda it: it.capture)]
        out += ["", "By scenario:", "", *_outcomes(answers, "Scenario", lambda it: it.kind)]
        out += ["", "Rows are the truth, columns what was told:", "", *_confusion(answers)]
        out += ["", "By confidence:", "", *_calibration(answers)]
    out += ["", "## Cost", "", *_costs(found.costs), "", "## Client libraries", "", *_libraries(found.members)]
    out += ["", "## Findings", "", *_findings(found.findings), _NOT_KNOWN.rstrip()]
    return "\n".join(out) + "\n"


def _share(part: int, whole: int) -> str:
    return f"{part / whole * 100:.1f} %" if whole else "-"


def _summary(found: Accuracy) -> Iterator[str]:
    for name, answers in (("rebalances", found.rebalances), ("departures", found.departures)):
        count = Counter(answer.outcome for answer in answers)
        sure = [answer for answer in answers if answer.confidence >= 0.9]
        right = sum(answer.outcome == "right" for answer in sure)
        yield (
            f"- {len(answers):,} {name}: {_share(count['right'], len(answers))} right, {count['unknown']} unknown, "
            f"{count['wrong']} wrong, {count['sure']} wrong and sure; of those with a confidence of 0.9 or more "
            f"{_share(right, len(sure))} right."
        )
    yield (f"- Missing {len(found.missing)}, doubled {len(found.doubled)}, invented {len(found.invented)}.")
    known = sum(count for (client, told), count in found.members.items() if told == LIBRARIES[client])
    unknown = sum(count for (_, told), count in found.members.items() if told == "unknown")
    total = found.members.total()
    yield (
        f"- Of {total:,} members the library is named right for {_share(known, total)}, unknown for "
        f"{_share(unknown, total)}, wrong for {total - known - unknown}."
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|---|{'---:|' * (len(heads) - 1)}"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def _outcomes(answers: Sequence[Answer], head: str, key: Any) -> Iterator[str]:
    by: dict[str, Counter[str]] = defaultdict(Counter)
    for answer in answers:
        by[key(answer)][answer.outcome] += 1
    rows = [
        (name, it.total(), it["right"], it["unknown"], it["wrong"], it["sure"], _share(it["right"], it.total()))
        for name, it in sorted(by.items())
    ]
    return _table([head, "all", "right", "unknown", "wrong", "sure", "right of all"], rows)


def _confusion(answers: Sequence[Answer]) -> Iterator[str]:
    counts = Counter(
        (answer.told if answer.outcome == "right" else min(answer.truth), answer.told) for answer in answers
    )
    truths, tolds = sorted({truth for truth, _ in counts}), sorted({told for _, told in counts})
    rows = [(truth, *(counts[truth, told] or "" for told in tolds)) for truth in truths]
    return _table(["", *tolds], rows)


def _calibration(answers: Sequence[Answer]) -> Iterator[str]:
    rows = []
    for low, high in pairwise(BANDS):
        band = [it for it in answers if low <= it.confidence < high and not it.told.startswith("unknown")]
        right = sum(it.outcome == "right" for it in band)
        if band:
            rows.append((f"{low:g} to {min(high, 1):g}", len(band), _share(right, len(band))))
    return _table(["Told with", "answers", "right"], rows)


def _costs(costs: Sequence[Cost]) -> Iterator[str]:
    yield (
        f"Only join phases of eager groups that took at least {LONG_JOIN_MS / 1000:g} s by the broker's log, and at "
        f"whose end no member had committed for {LONG_SILENCE_MS / 1000:g} s: the stopped partition time told, by "
        "the least that the silence of all commits shows, and by the join phase times the partitions; the latter "
        "where no member had died without a commit, as what it held stood still before, too."
    )
    yield ""
    yield (
        "Not measured here: for how long the partitions of a member that died or stalled had stopped before the join "
        "phase began, shorter join phases, and what rebalances of cooperative and KIP-848 groups cost."
    )
    yield ""
    by: dict[str, list[Cost]] = defaultdict(list)
    for cost in costs:
        by[LIBRARIES[cost.client]].append(cost)
    rows = []
    for name, its in [*sorted(by.items()), ("all", list(costs))]:
        if its:
            least = [it.told_ms / it.silence_ms for it in its]
            most = [it.told_ms / it.logged_ms for it in its if not it.died_before]
            enough = sum(share >= 0.8 for share in least)
            not_more = sum(share <= 1.3 for share in most)
            row = (
                f"{min(least):.2f}",
                f"{median(least):.2f}",
                _share(enough, len(its)),
                f"{max(most, default=0):.2f}",
            )
            rows.append((name, len(its), *row, _share(not_more, len(most))))
    heads = [
        "Library",
        "join phases",
        "least told / silence",
        "median",
        "at least 0.8",
        "most told / log",
        "at most 1.3",
    ]
    yield from _table(heads, rows)


def _libraries(members: Counter[tuple[str, str]]) -> Iterator[str]:
    rows = []
    for client in sorted({client for client, _ in members}):
        own = LIBRARIES[client]
        right, unknown = members[client, own], members[client, "unknown"]
        total = sum(count for (it, _), count in members.items() if it == client)
        rows.append((client, own, total, right, unknown, total - right - unknown))
    return _table(["Client", "library", "members", "right", "unknown", "wrong"], rows)


def _findings(findings: Mapping[tuple[str, str, str], set[str]]) -> Iterator[str]:
    """Where a finding is due, and where it is not."""
    loops = {key: it for key, it in findings.items() if key[2] in ("loop", "realloop")}
    deploys = {key: it for key, it in findings.items() if key[2] == "deploy"}
    stalls = {key: it for key, it in findings.items() if key[2] in ("stall", "stalljoin")}
    limited = {key: it for key, it in stalls.items() if LIBRARIES[key[1]] in HAS_POLL_LIMIT}
    others = {key: it for key, it in findings.items() if LIBRARIES[key[1]] not in HAS_POLL_LIMIT}
    rows = [
        ("rebalance_storm", "crash loops", len(loops), sum("rebalance_storm" in it for it in loops.values()), "all"),
        ("rebalance_storm", "deploys", len(deploys), sum("rebalance_storm" in it for it in deploys.values()), "none"),
        ("poll_timeout", "stalls of clients with a limit", len(limited), _fired(limited, "poll_timeout"), "all"),
        ("poll_timeout", "groups of clients without one", len(others), _fired(others, "poll_timeout"), "none"),
        ("poll_timeout", "deploys", len(deploys), _fired(deploys, "poll_timeout"), "none"),
    ]
    return _table(["Finding", "where", "groups", "fired", "due"], rows)


def _fired(findings: Mapping[tuple[str, str, str], set[str]], analyzer: str) -> int:
    return sum(analyzer in it for it in findings.values())


def main(arguments: list[str]) -> int:
    """Parse, score, write."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.rig.accuracy", description=__doc__)
    parser.add_argument("directories", type=Path, nargs="+", metavar="DIR")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the page there; else print it")
    parser.add_argument("--cut", default="", metavar="GROUPS", help="keep these groups of the one DIR")
    parser.add_argument("--to", type=Path, metavar="DIR", help="where to keep them")
    parser.add_argument("--mistakes", action="store_true", help="list what is not right")
    options = parser.parse_args(arguments)
    if options.cut:
        cut(options.directories[0], options.cut.split(","), options.to)
        return 0
    found = score(options.directories)
    text = page(found)
    if options.out is None:
        print(text, end="")
    else:
        options.out.write_text(text)
    if options.mistakes:
        for answer in (*found.rebalances, *found.departures):
            if answer.outcome != "right":
                print(
                    answer.outcome,
                    answer.group,
                    answer.generation,
                    sorted(answer.truth),
                    answer.told,
                    answer.confidence,
                )
        for cost in found.costs:
            if cost.told_ms < 0.8 * cost.silence_ms or cost.told_ms > 1.3 * cost.logged_ms:
                print("cost", cost)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
