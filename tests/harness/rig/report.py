"""A score as text: counts, confusion matrices, and every mistake with what the topic shows of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from tests.harness.rig.evidence import EITHER, GOOD, NONE, WEAK
from tests.harness.rig.scoring import Score, Verdict

_BANDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_SHORT = {"cooperative_followup": "coop_followup", "subscription_changed": "subs_changed"}


def report(score: Score, *, mistakes: int = 60) -> str:
    """The whole report; at most so many mistakes of each sort in full."""
    causes = ", ".join(f"{cause} {count}" for cause, count in score.causes.most_common())
    lines = [
        f"== {score.name}: {score.rebalances} classic rebalances ({causes})",
        f"reported exactly once {score.once}, missing {len(score.missing)}, repeated {len(score.repeated)}, "
        f"invented {len(score.invented)}; never written by the broker {len(score.unwritten)}",
        f"departures: {len(score.of('departure'))} judged, unreported {len(score.departures_unreported)}, "
        f"invented {len(score.departures_invented)}, of members the topic never showed {score.departures_unseen}",
    ]
    lines += [f"problem: {problem}" for problem in score.problems]
    lines += [f"missing: {it.log_time} {it.kind} {it.group} {it.generation} {it.cause}" for it in score.missing]
    for label, events in (("repeated", score.repeated), ("invented", score.invented)):
        lines += [f"{label}: {e['group']} generation {e['generation']} at {e['at_ms']}" for e in events]
    lines += [f"departure unreported: {it}" for it in score.departures_unreported]
    lines += [f"departure invented: {it}" for it in score.departures_invented]
    for what in ("rebalance", "departure"):
        lines += ["", f"-- {what}: cause", *_matrix(score.of(what)), *_f1(score, what)]
        lines += [*_right_by("scenario", score.of(what), lambda it: it.kind)]
        lines += [*_right_by("library", score.of(what), lambda it: str(it.details["settings"].get("library")))]
        lines += [_by_evidence(score.of(what)), *_calibration(score.of(what))]
        wrong = [verdict for verdict in score.of(what) if verdict.outcome == "wrong"]
        lines += ["", f"-- {what}: {len(wrong)} wrong"] + [_mistake(verdict) for verdict in wrong[:mistakes]]
    return "\n".join(lines)


def _matrix(verdicts: list[Verdict]) -> list[str]:
    """Rows are the truth, columns what was predicted."""
    counts = Counter((v.truth, v.predicted) for v in verdicts)
    rows = sorted({truth for truth, _ in counts})
    columns = sorted({predicted for _, predicted in counts})
    heads = [_SHORT.get(name, name) for name in columns]
    lines = [" " * 20 + "  ".join(f"{head:>12}" for head in heads)]
    for row in rows:
        cells = (counts[row, column] for column in columns)
        lines.append(
            f"{_SHORT.get(row, row):20}"
            + "  ".join(f"{n or '.':>{max(12, len(h))}}" for n, h in zip(cells, heads, strict=True))
        )
    return lines


def _f1(score: Score, what: str) -> list[str]:
    outcomes = Counter(verdict.outcome for verdict in score.of(what))
    each = ", ".join(f"{cause} {f1:.2f} ({count})" for cause, (f1, count) in score.f1(what).items())
    total = sum(outcomes.values()) - outcomes["excused"]
    share = f"{outcomes['right']}/{total}"
    return [
        f"macro-F1 {score.macro_f1(what):.3f}; right {share}, unknown without evidence {outcomes['excused']}",
        each,
    ]


def _by_evidence(verdicts: list[Verdict]) -> str:
    """What was right where the departed committed often, where seldom or once, and where never."""
    counts = Counter((v.evidence, v.outcome) for v in verdicts)
    cells = []
    for evidence in (GOOD, WEAK, EITHER, NONE):
        right, wrong = counts[evidence, "right"], counts[evidence, "wrong"]
        cells.append(f"{evidence} {right}/{right + wrong}")
    return "by evidence: " + ", ".join(cells)


def _calibration(verdicts: list[Verdict]) -> list[str]:
    """How many were right of those told with so much confidence; empty where none was told."""
    bands: dict[float, list[bool]] = defaultdict(list)
    for verdict in verdicts:
        confidence = verdict.details.get("confidence") or 0.0
        if confidence > 0:
            band = max(band for band in _BANDS if band <= confidence)
            bands[band].append(verdict.outcome == "right")
    cells = (f"{band:.1f}+ {sum(right)}/{len(right)}" for band, right in sorted(bands.items()))
    return ["right by confidence: " + ", ".join(cells)] if bands else []


def _right_by(what: str, verdicts: list[Verdict], key: Callable[[Verdict], str]) -> list[str]:
    cells = []
    for each in sorted({key(v) for v in verdicts}):
        mine = [v for v in verdicts if key(v) == each]
        right = sum(v.outcome == "right" for v in mine)
        cells.append(f"{each} {right}/{sum(v.outcome != 'excused' for v in mine)}")
    return [f"by {what}: " + ", ".join(cells)]


def _mistake(it: Verdict) -> str:
    head = f"{it.details['log_time'][11:]} {it.kind} {it.group} {it.subject}: {it.truth} taken for {it.predicted}"
    if it.what == "departure":
        facts = _facts(it.details)
        return f"{head}; evidence {it.evidence}: {facts}; {_settings(it)}"
    gone = "; ".join(f"{m[-8:]} {d['cause']} {d['rating']} {_facts(d)}" for m, d in it.details["departures"].items())
    left = ", ".join(f"{m[-8:]} {cause}" for m, cause in it.details["predicted_left"].items())
    parts = [
        head,
        f"evidence {it.evidence}, confidence {it.details['confidence']}, join phase {it.details['join_ms']} ms",
        f"causes {it.details['causes']} taken for {it.details['predicted_causes']}",
        f"gone: {gone or 'nobody'}; taken for: {left or 'nobody'}",
        f"reason: {it.details['reason'][:90]}; unwritten before: {it.details['unwritten_before']}",
        _settings(it),
    ]
    return "\n      ".join(parts)


def _facts(facts: dict[str, object]) -> str:
    return (
        f"last commit {facts['gap_ms']} ms before, {facts['commits']} commits every {facts['every_ms']} ms of "
        f"{facts['partitions']} partitions held {facts['held_ms']} ms, "
        f"session {facts['session_ms']}, poll {facts['poll_ms']}"
    )


def _settings(it: Verdict) -> str:
    return " ".join(f"{name}={value}" for name, value in it.details["settings"].items())
