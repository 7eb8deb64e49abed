"""What is written without prometheus_client is what it would write, to the byte and in both formats."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client.utils import floatToGoString

from agent.metrics.lines import FAMILIES, GroupLines, series
from agent.metrics.readings import Counts, Granularity, GroupReading, Readings, Shape
from agent.metrics.table import METRICS
from agent.metrics.text import family, number, seconds
from tests.cli.hostile import TEXTS
from tests.metrics import oracle


class TopicLag(NamedTuple):
    topic: str
    records: int | None
    seconds: float | None


class GroupLag(NamedTuple):
    topics: list[TopicLag]
    records: list[int | None]


@given(st.floats() | st.integers(-(10**20), 10**20) | st.booleans())
@example(0)
@example(999_999)
@example(1_000_000)
@example(1_234_567)
@example(1_020_304_050)
@example(10**15 - 1)
@example(10**15)
@example(10**16)
@example(10**22)
@example(1e16)
@example(1.5e300)
@example(123_456_789.5)
@example(999_999.5)
@example(-1_234_567.5)
@example(1e-7)
def test_numbers(value: float) -> None:
    assert number(value) == floatToGoString(value)


@given(st.integers(-(10**17), 10**17))
@example(0)
@example(999_999_999)
@example(1_000_000_000)
@example(1_795_000_000_000)
@example(1_795_000_000_120)
@example(10**15)
def test_milliseconds_as_seconds(milliseconds: int) -> None:
    assert seconds(milliseconds) == floatToGoString(milliseconds / 1000)


NAMES = st.sampled_from([*TEXTS.values(), "orders", 'quote"', "back\\slash", ""]) | st.text(max_size=5)
COUNTS = st.integers(0, 10**16)
RATIOS = st.none() | st.floats(1, 100)
CAUSES = st.lists(st.tuples(st.sampled_from(["member_joined", "unknown"]), COUNTS), max_size=2)
FINDINGS = st.lists(
    st.tuples(
        st.tuples(st.sampled_from(["storm", 'third"party']), st.sampled_from(["info", "critical"])), st.booleans()
    ),
    max_size=2,
)
SLOTS = st.lists(st.tuples(NAMES, st.integers(0, 200)), max_size=3)


@st.composite
def group_readings(draw: st.DrawFn) -> GroupReading:
    shape = Shape(
        draw(NAMES),
        draw(st.sampled_from(["classic", "consumer"])),
        draw(st.sampled_from(["Stable", "Empty"])),
        draw(st.integers(-1, 10**9)),
        draw(COUNTS),
        draw(COUNTS),
        draw(RATIOS),
        0,
    )
    counts = Counts(draw(CAUSES), draw(CAUSES), draw(st.none() | COUNTS), draw(FINDINGS))
    slots = draw(SLOTS)
    positions = [(draw(COUNTS), draw(COUNTS)) for _ in slots]
    lag = None
    if draw(st.booleans()):
        unsure = st.none() | COUNTS
        topics = [TopicLag(topic, draw(unsure), draw(RATIOS)) for topic in draw(st.lists(NAMES, max_size=3))]
        lag = GroupLag(topics, [draw(unsure) for _ in slots])
    return GroupReading(shape, draw(RATIOS), draw(st.none() | COUNTS), counts, slots, positions, lag)


def readings(groups: list[GroupReading], granularity: Granularity, findings: object = ()) -> Readings:
    return Readings({}, {}, True, {}, {}, granularity, groups, findings)  # type: ignore[arg-type]


def written(lines: list[dict[str, list[str]]], *, openmetrics: bool) -> str:
    pieces = [
        line
        for name in FAMILIES
        for line in family(
            METRICS[name], [line for it in lines for line in it.get(name, ())], openmetrics=openmetrics
        )
    ]
    return "".join(pieces) + ("# EOF\n" if openmetrics else "")


@settings(max_examples=200, deadline=None)
@given(
    st.lists(group_readings(), max_size=3, unique_by=lambda it: it.shape.group),
    st.lists(group_readings(), max_size=2, unique_by=lambda it: it.shape.group),
    st.sampled_from(Granularity),
    FINDINGS,
    st.booleans(),
)
def test_lines_are_those_of_prometheus_client(
    groups: list[GroupReading],
    others: list[GroupReading],
    granularity: Granularity,
    findings: list[tuple[tuple[str, str], bool]],
    openmetrics: bool,
) -> None:
    one, other = readings(groups, granularity, findings), readings(others, granularity)
    for names in ((None,), ("east", 'w"est')):
        clusters = list(zip(names, (one, other), strict=False))
        lines = [GroupLines(name).write(it) for name, it in clusters]
        assert written(lines, openmetrics=openmetrics) == oracle.text([*clusters], openmetrics=openmetrics)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(group_readings(), max_size=4, unique_by=lambda it: it.shape.group), min_size=2, max_size=4),
    st.sampled_from(Granularity),
)
def test_what_is_kept_from_scrape_to_scrape_changes_nothing(
    scrapes: list[list[GroupReading]], granularity: Granularity
) -> None:
    kept = GroupLines(None)
    for groups in [*scrapes, scrapes[0], scrapes[0]]:
        it = readings(groups, granularity)
        assert kept.write(it) == GroupLines(None).write(it)


@given(group_readings(), st.sampled_from(Granularity))
def test_a_group_has_no_more_series_than_are_counted(group: GroupReading, granularity: Granularity) -> None:
    lines = GroupLines(None).write(readings([group], granularity))
    least = series(group, granularity)
    if group.lag is not None and granularity is not Granularity.GROUP:
        # Where a lag is not known there is no series, but there may be one at the next scrape.
        topics = [value for lag in group.lag.topics for value in (lag.records, lag.seconds)]
        slots = group.lag.records if granularity is Granularity.PARTITION else []
        least -= topics.count(None) + list(slots).count(None)
    assert sum(map(len, lines.values())) == least


def test_families_of_groups_come_first() -> None:
    """They are written before the others, and the table is in the order of what is exported."""
    assert tuple(METRICS)[: len(FAMILIES)] == FAMILIES


@pytest.mark.parametrize("name", METRICS)
def test_texts_need_no_escapes_but_openmetrics(name: str) -> None:
    assert '"' not in METRICS[name].help
