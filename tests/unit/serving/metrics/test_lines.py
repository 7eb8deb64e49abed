"""What is written without prometheus_client is what it would write, to the byte and in both formats."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client.utils import floatToGoString

from agent.core.inference.origins import KINDS
from agent.core.protocol.client_libraries import LIBRARIES as CLIENT_LIBRARIES
from agent.kafka.lag.lag_calculator import positions_of
from agent.serving.metrics.group_metrics import GROUP_METRICS, GroupCounts, GroupReading, GroupShape
from agent.serving.metrics.lines import GroupLines
from agent.serving.metrics.readings import Readings
from agent.serving.metrics.table import METRICS
from agent.serving.metrics.text import format_number, format_seconds
from tests import examples
from tests.unit.cli.hostile import TEXTS
from tests.unit.serving.metrics import oracle
from tests.unit.serving.metrics.oracle import TopicLag


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
    assert format_number(value) == floatToGoString(value)


@given(st.integers(-(10**17), 10**17))
@example(0)
@example(999_999_999)
@example(1_000_000_000)
@example(1_795_000_000_000)
@example(1_795_000_000_120)
@example(10**15)
def test_milliseconds_as_seconds(milliseconds: int) -> None:
    assert format_seconds(milliseconds) == floatToGoString(milliseconds / 1000)


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
LIBRARIES = st.dictionaries(st.sampled_from(sorted(CLIENT_LIBRARIES)), COUNTS).map(lambda it: tuple(it.items()))
ORIGINS = st.dictionaries(st.sampled_from(KINDS), COUNTS).map(lambda it: tuple(it.items()))
TOPICS = st.lists(st.builds(TopicLag, NAMES, st.none() | COUNTS, RATIOS), max_size=3)
OFFSETS = COUNTS | st.integers(-(2**63), -1)
PARTITIONS = st.lists(st.tuples(st.tuples(NAMES, st.integers(0, 200)), OFFSETS, st.none() | COUNTS), max_size=3).map(
    positions_of
)


@st.composite
def group_readings(draw: st.DrawFn) -> GroupReading:
    shape = GroupShape(
        draw(NAMES),
        draw(st.sampled_from(["classic", "consumer"])),
        draw(st.sampled_from(["Stable", "Empty"])),
        draw(st.integers(-1, 10**9)),
        draw(COUNTS),
        draw(COUNTS),
        draw(RATIOS),
        0,
        libraries=draw(LIBRARIES),
    )
    counts = GroupCounts(draw(CAUSES), draw(CAUSES), draw(st.none() | COUNTS), draw(FINDINGS), draw(ORIGINS))
    return GroupReading(shape, draw(RATIOS), draw(st.none() | COUNTS), counts, draw(TOPICS), draw(PARTITIONS))


def readings(groups: list[GroupReading], findings: list[tuple[tuple[str, str], bool]] | None = None) -> Readings:
    return Readings({}, {}, True, {}, {}, groups, findings or ())


def lines_of(writer: GroupLines, it: Readings) -> dict[str, list[bytes]]:
    writer.keep(it.groups)
    return writer.write(it)


def written(lines: list[dict[str, list[bytes]]], *, openmetrics: bool) -> str:
    out = ""
    for metric in GROUP_METRICS:
        found = [text.decode() for it in lines for text in it.get(metric.name, ())]
        out += "".join((metric.header(openmetrics=openmetrics), *found)) if found else ""
    return out + ("# EOF\n" if openmetrics else "")


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(group_readings(), max_size=3, unique_by=lambda it: it.shape.group),
    st.lists(group_readings(), max_size=2, unique_by=lambda it: it.shape.group),
    FINDINGS,
    st.booleans(),
)
def test_lines_are_those_of_prometheus_client(
    groups: list[GroupReading],
    others: list[GroupReading],
    findings: list[tuple[tuple[str, str], bool]],
    openmetrics: bool,
) -> None:
    one, other = readings(groups, findings), readings(others)
    for names in ((None,), ("east", 'w"est')):
        clusters = list(zip(names, (one, other), strict=False))
        lines = [lines_of(GroupLines(name), it) for name, it in clusters]
        assert written(lines, openmetrics=openmetrics) == oracle.text([*clusters], openmetrics=openmetrics)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.lists(group_readings(), max_size=4, unique_by=lambda it: it.shape.group), min_size=2, max_size=4))
def test_what_is_kept_from_scrape_to_scrape_changes_nothing(scrapes: list[list[GroupReading]]) -> None:
    kept = GroupLines(None)
    for groups in [*scrapes, scrapes[0], scrapes[0]]:
        it = readings(groups)
        assert lines_of(kept, it) == lines_of(GroupLines(None), it)


@given(group_readings())
def test_a_group_has_no_more_series_than_are_counted(group: GroupReading) -> None:
    writer = GroupLines(None)
    lines = lines_of(writer, readings([group]))
    # Where a lag is not known there is no series, but there may be one at the next scrape.
    unknown = [value for lag in group.topics for value in (lag.records, lag.seconds)]
    unknown += group.partitions.records
    written = sum(text.count(b"\n") for texts in lines.values() for text in texts)
    assert written == writer.series_count(group) - unknown.count(None)


def test_families_of_groups_come_first() -> None:
    """They are written before the others, and the table is in the order of what is exported."""
    assert tuple(METRICS.values())[: len(GROUP_METRICS)] == GROUP_METRICS


@pytest.mark.parametrize("name", METRICS)
def test_texts_need_no_escapes_but_openmetrics(name: str) -> None:
    assert '"' not in METRICS[name].help
