"""Predictions against the truth: each rebalance of a classic group, and each departure of any group.

`score_run` takes a directory that `run` left (or a capture), reads the log and the ledger to the truth, the
segments to kshadow's events, matches the two, and writes `truth.ndjson`, `departures.ndjson`, `events.ndjson` and
`mistakes.ndjson` beside them.

An answer `unknown…` is wrong, except (`excused`) where the topic holds no evidence for a better one.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from agent.core.inference.external_evidence import CombinedEvidence, KnownSessions
from agent.core.inference.session_settings import session_settings
from agent.kafka.source.brokerlog import BrokerLogs
from agent.kafka.source.time_zones import time_zone
from agent.runtime.offline import load
from tests.harness.rig.brokerlog import parse_log
from tests.harness.rig.evidence import EITHER, GOOD, NONE, WEAK, Topic
from tests.harness.rig.ledger import Book, read_ledger
from tests.harness.rig.settings import BROKER_CONFIG
from tests.harness.rig.truth import Rebalance, Truth, read_truth

DEPARTURES = frozenset({"member_left", "session_timeout", "poll_timeout", "rejoin_timeout", "admin_removed"})
_CLASSIC = ("classic", "connect")

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One answer. `what` is rebalance or departure; `outcome` right, wrong or excused."""

    what: str
    group: str
    kind: str
    subject: str
    truth: str
    predicted: str
    evidence: str
    details: dict[str, Any]

    @property
    def outcome(self) -> str:
        """Whether the answer was right."""
        if self.predicted == self.truth:
            return "right"
        return "excused" if self.predicted.startswith("unknown") and self.evidence in (NONE, EITHER) else "wrong"

    def form(self) -> dict[str, Any]:
        """For JSON."""
        head = {name: getattr(self, name) for name in ("what", "outcome", "truth", "predicted", "evidence")}
        return {**head, "kind": self.kind, "group": self.group, "subject": self.subject, **self.details}


@dataclass(slots=True)
class Score:
    """All that a run shows."""

    name: str
    rebalances: int = 0
    once: int = 0
    unwritten: list[Rebalance] = field(default_factory=list)
    missing: list[Rebalance] = field(default_factory=list)
    repeated: list[Event] = field(default_factory=list)
    invented: list[Event] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    departures_unseen: int = 0
    departures_unreported: list[str] = field(default_factory=list)
    departures_invented: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    causes: Counter[str] = field(default_factory=Counter)

    def of(self, what: str) -> list[Verdict]:
        """Verdicts about rebalances or departures."""
        return [verdict for verdict in self.verdicts if verdict.what == what]

    def f1(self, what: str) -> dict[str, tuple[float, int]]:
        """Cause → (F1, how often it is the truth), excused answers left out."""
        counted = [v for v in self.of(what) if v.outcome != "excused"]
        result = {}
        for cause in sorted({v.truth for v in counted}):
            hits = sum(v.truth == cause == v.predicted for v in counted)
            said = sum(v.predicted == cause for v in counted)
            true = sum(v.truth == cause for v in counted)
            result[cause] = (2 * hits / (said + true), true)
        return result

    def macro_f1(self, what: str) -> float:
        """The mean F1 over the causes that occur."""
        scores = [score for score, _ in self.f1(what).values()]
        return sum(scores) / len(scores) if scores else 0.0


def score_run(directory: Path, *, with_log: bool = False) -> Score:
    """Score a directory of the rig, or a capture, and write what was found into it if that is allowed.

    `with_log`: kshadow may read the broker's log too; then nothing is written.
    """
    is_capture = (directory / "coordinator.log").exists()
    log = directory / ("coordinator.log" if is_capture else "server.log")
    book = Book(read_ledger(directory / ("ledger.json" if is_capture else "ledger.ndjson")))
    with log.open(errors="replace") as lines:
        truth = read_truth(parse_log(lines), book)
    score = Score(f"{directory.name} with the broker's log" if with_log else directory.name)
    # An agent asks the rig's broker; a capture's brokers had Kafka's defaults.
    known = KnownSessions({} if is_capture else session_settings(BROKER_CONFIG))
    witness = CombinedEvidence([known, *([BrokerLogs([log], time_zone("UTC"))] if with_log else [])])
    events = load([str(directory / "segments")], on_problem=score.problems.append, witness=witness).events()
    topic = Topic(directory / "segments")
    _rate(truth, topic)
    _match(truth.rebalances, events, topic, book, score)
    _departures(truth, events, topic, book, score)
    if not is_capture and not with_log:
        _write(directory / "truth.ndjson", (rebalance.form() for rebalance in truth.rebalances))
        _write(directory / "departures.ndjson", (departure.form() for departure in truth.departures))
        _write(directory / "events.ndjson", events)
        _write(directory / "mistakes.ndjson", (v.form() for v in score.verdicts if v.outcome != "right"))
    return score


def merged(scores: Sequence[Score]) -> Score:
    """Several runs as one."""
    total = Score(f"{len(scores)} runs together")
    for score in scores:
        for each in fields(Score):
            if each.name != "name":
                value = getattr(total, each.name)
                value += getattr(score, each.name)
                setattr(total, each.name, value)
    return total


def _rate(truth: Truth, topic: Topic) -> None:
    for it in truth.rebalances:
        it.evidence = {
            m: topic.about(it.group, m, at_ms).rated(it.departures[m]) for m, at_ms in it.departed_ms.items()
        }
    truth.departures = [
        replace(it, evidence=topic.about(it.group, it.member, it.at_ms).rated(it.cause)) for it in truth.departures
    ]


def _match(truths: list[Rebalance], events: list[Event], topic: Topic, book: Book, score: Score) -> None:
    reported: dict[tuple[str, int], list[Event]] = defaultdict(list)
    for event in events:
        if event["type"] == "rebalance" and event["group_type"] in _CLASSIC:
            reported[event["group"], event["generation"]].append(event)
    expected: dict[tuple[str, int], list[Rebalance]] = defaultdict(list)
    skipped: dict[str, list[Rebalance]] = defaultdict(list)
    for truth in truths:
        score.rebalances += 1
        score.causes[truth.cause] += 1
        if not truth.written:
            score.unwritten.append(truth)
            skipped[truth.group].append(truth)
            continue
        # A deleted group begins again at 1: the nth of a generation is the nth reported.
        key = (truth.group, truth.generation)
        nth = len(expected[key])
        expected[key].append(truth)
        before = skipped.pop(truth.group, [])
        if nth >= len(reported[key]):
            score.missing.append(truth)
            continue
        score.once += 1
        score.verdicts.append(_judge(truth, reported[key][nth], before, topic, book))
    for key, found in reported.items():
        surplus = found[len(expected[key]) :]
        (score.repeated if expected[key] else score.invented).extend(surplus)


def _judge(truth: Rebalance, event: Event, before: list[Rebalance], topic: Topic, book: Book) -> Verdict:
    about = {m: topic.about(truth.group, m, at_ms) for m, at_ms in truth.departed_ms.items()}
    rating = GOOD
    if truth.cause in DEPARTURES:
        ratings = [rating for m, rating in truth.evidence.items() if truth.departures[m] == truth.cause]
        rating = next((each for each in (GOOD, WEAK, EITHER) if each in ratings), NONE)
    details = {
        "generation": truth.generation,
        "log_time": truth.log_time,
        "at_ms": event["at_ms"],
        "join_ms": truth.at_ms - truth.prepared_ms,
        "causes": truth.causes,
        "predicted_causes": event["causes"],
        "confidence": event["confidence"],
        "reason": truth.reason,
        "empty": truth.empty,
        "joined": truth.joined,
        "departures": {m: {"cause": truth.departures[m], **it.form()} for m, it in about.items()},
        "predicted_left": {left["member_id"]: left["cause"] for left in event["left"]},
        "unwritten_before": [[each.generation, each.cause] for each in before],
        "predicted_evidence": event["evidence"],
        "settings": _settings(book, truth.group),
    }
    name = f"generation {truth.generation}"
    told = event["cause"]
    # The event covers the generations that were never written too: what triggered the first of them is as right.
    cause = before[0].cause if before and event["cause"] == before[0].cause else truth.cause
    return Verdict("rebalance", truth.group, truth.kind, name, _as_told(cause, told), told, rating, details)


def _as_told(cause: str, told: str) -> str:
    """Where a rebalance lasts for `max.poll.interval.ms`, who does not rejoin in time was away from poll as well."""
    return told if (cause, told) == ("rejoin_timeout", "poll_timeout") else cause


def _departures(truth: Truth, events: list[Event], topic: Topic, book: Book, score: Score) -> None:
    # A KIP-848 member keeps its id when it comes back, and may go again.
    predicted: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in events:
        if event["type"] == "member_left":
            predicted[event["group"], event["member"]["member_id"]].append(event)
    true = [
        (rebalance.group, rebalance.kind, member, rebalance.departures[member], at_ms, rebalance.log_time)
        for rebalance in truth.rebalances
        for member, at_ms in rebalance.departed_ms.items()
    ]
    true += [(d.group, d.kind, d.member, d.cause, d.at_ms, d.log_time) for d in truth.departures]
    known = {(group, member) for group, _, member, *_ in true}
    replaced = {(event.group, event.member) for event in truth.static_replaced}
    for group, kind, member, cause, at_ms, log_time in true:
        answers = predicted.get((group, member))
        if answers is None:
            if topic.has_member(group, member):
                score.departures_unreported.append(f"{log_time} {kind} {group} {member} {cause}")
            else:
                score.departures_unseen += 1
            continue
        answer = min(answers, key=lambda event: abs(event["at_ms"] - at_ms))
        evidence = topic.about(group, member, at_ms)
        details = {
            "log_time": log_time,
            "departed_ms": at_ms,
            "confidence": answer["confidence"],
            **evidence.form(),
            "settings": _settings(book, group),
        }
        told = str(answer["cause"])
        rating = evidence.rated(cause)
        verdict = Verdict("departure", group, kind, member, _as_told(cause, told), told, rating, details)
        score.verdicts.append(verdict)
    score.departures_invented += [
        f"{group} {member} {', '.join(event['cause'] for event in told)}"
        for (group, member), told in predicted.items()
        if (group, member) not in known | replaced
    ]


def _settings(book: Book, group: str) -> dict[str, Any]:
    names = ("library", "topics", "assignor", "session_ms", "heartbeat_ms", "poll_ms", "commit", "commit_s", "work_s")
    settings = book.settings(group)
    return {name: settings[name] for name in names if name in settings}


def _write(path: Path, rows: Iterable[Any]) -> None:
    with path.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
