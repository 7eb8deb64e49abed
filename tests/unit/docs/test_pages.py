"""Pages tell what there is: generated ones are as they would be written, links lead somewhere, commands parse."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import click
import pytest

from agent.cli.commands import LISTINGS
from agent.config.settings import PLAIN_CLUSTER, LagSettings
from agent.runtime.parts import AgentOptions, build_parts
from agent.runtime.reader_loop import ReaderLoop
from agent.runtime.scrape import ScrapeReader
from agent.serving.metrics.table import CLUSTER_METRICS
from tests import ROOT
from tests.generate.docs import alerts_page, commands_page, metrics_page, render, site
from tests.generate.docs.command_lines import calls, check_option, check_span, option_spans, parse, spans
from tests.generate.docs.markdown import Link, anchor, anchors, links, pages, problem, prose
from tests.generate.docs.render import PAGES, every, is_stale, main, rendered
from tests.live.helm.mixin.alerts import ALERTS

EVERY = pages()
LARGEST = 150_000
"""Bytes that a picture in a page may have: some read them over slow lines."""
BY_PAGE = pytest.mark.parametrize("page", EVERY, ids=lambda page: str(page.relative_to(ROOT)))


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("name", every())
def test_a_generated_page_is_as_it_would_be_written(name: str) -> None:
    assert not is_stale(name), f"{name}: python -m tests.generate.docs.render writes it anew"


def test_check_says_which_page_is_stale(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "PAGES", {"docs/reference/metrics.md": lambda: "other"})
    monkeypatch.setattr(render, "pages", list)
    assert main(["--check"]) == 1
    assert capsys.readouterr().out == "docs/reference/metrics.md\n"


def test_everything_there_is_has_its_place() -> None:
    text = rendered("docs/reference/commands.md")
    assert all(f"\n## kshadow {name}\n" in text for name in LISTINGS)
    assert {alert["alert"].lower() for alert in ALERTS} <= anchors(alerts_page.page())
    with_units = [metric for metric in metrics_page.METRICS.values() if metrics_page.unit(metric)]
    assert len(with_units) > 15
    assert sum(len(leaf.options) for leaf in commands_page.commands()) > 200


def test_values_of_labels_are_those_that_are_exported() -> None:
    """Of an agent that has read nothing yet: what it counts by outcome or reason begins at 0."""
    settings = replace(PLAIN_CLUSTER, lag=LagSettings(enabled=True))
    parts = build_parts(AgentOptions(conf={"bootstrap.servers": "localhost:1"}, settings=settings))
    readings = ScrapeReader(parts, ReaderLoop(parts, lambda: None)).read()
    found = {}
    for metric in CLUSTER_METRICS:
        exported = {values[0] for values, _ in metric.samples(readings) if values}
        if exported and (metric.name, metric.labels[0]) in metrics_page.OWN:
            found[metric.name] = (exported, {str(it) for it in metrics_page.OWN[metric.name, metric.labels[0]]})
    assert {"kshadow_lag_requests", "kshadow_records_quarantined"} <= found.keys()
    assert {name: both for name, both in found.items() if both[0] != both[1]} == {}


def test_each_label_whose_values_are_ours_has_them_listed() -> None:
    names = {"group", "topic", "partition"}
    told = {"kshadow_build_info", "kshadow_group_rollout_verdict"} | {
        it.name for it in metrics_page.STREAM_METRICS
    }  # by what stands beside them
    lacking = {
        (it.name, label)
        for it in metrics_page.METRICS.values()
        for label in it.labels
        if not (label in names | set(metrics_page.VALUES) or (it.name, label) in metrics_page.OWN or it.name in told)
    }
    assert lacking == set()


def test_the_chart_names_the_spark_that_the_image_has() -> None:
    pinned = re.search(r"^pyspark==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    values = (ROOT / "helm/kshadow/values.yaml").read_text()
    assert pinned is not None
    assert f"sparkVersion: {pinned[1]}\n" in values


def test_pages_are_found() -> None:
    names = {str(page.relative_to(ROOT)) for page in EVERY}
    assert {"README.md", "CHANGELOG.md", "agent/DESIGN.md", "docs/runbooks.md", *PAGES} <= names


@BY_PAGE
def test_links_lead_somewhere(page: Path) -> None:
    assert [found for link in links(page) if (found := problem(link))] == []


def test_pictures_are_small_and_shown() -> None:
    shown = {(page.parent / link.target).resolve() for page in EVERY for link in links(page)}
    for picture in (ROOT / "docs" / "images").iterdir():
        assert picture.stat().st_size <= LARGEST
        assert picture in shown


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_the_readme_says_how_right_it_is() -> None:
    accuracy = (ROOT / "docs/accuracy.md").read_text(encoding="utf-8")
    told = re.search(r"- ([0-9,]+) rebalances: ([0-9.]+ %) right", accuracy)
    assert told is not None
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"{told[2]} of {told[1]} rebalances got the right cause" in readme


@pytest.mark.usefixtures("process")
def test_the_site_builds_and_has_every_page(tmp_path: Path) -> None:
    done = site.build(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = {str(site.place(page)) for page in site.sources() if page.suffix == ".md"}
    assert set(site.in_navigation()) == wanted
    for name in wanted:
        html = Path(name).with_suffix(".html")
        assert (tmp_path / "site" / (html.with_name("index.html") if html.stem == "README" else html)).exists()


@pytest.mark.usefixtures("process")
def test_a_site_with_dead_links_is_not_built(tmp_path: Path) -> None:
    """Of a page and of an anchor."""
    site.stage(tmp_path / "pages")
    with (tmp_path / "pages" / "image.md").open("a", encoding="utf-8") as page:
        page.write("\n[dead](nowhere.md), [dead](operations.md#nowhere)\n")
    done = site.zensical(tmp_path)
    assert done.returncode != 0
    assert "2 issues found" in done.stdout + done.stderr


@BY_PAGE
def test_commands_parse(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKA_PASSWORD", "x")
    for text in dict.fromkeys(calls(page)):
        for word in text.split():
            if word.endswith((".yaml", ".properties")) and "/" not in word:
                (tmp_path / word).touch()
        try:
            parse(text)
        except click.ClickException as error:
            pytest.fail(f"{text}: {error.format_message()}")


@BY_PAGE
def test_commands_in_sentences_exist(page: Path) -> None:
    assert [f"{text}: {found}" for text in dict.fromkeys(spans(page)) if (found := check_span(text))] == []


@pytest.mark.parametrize("page", [it for it in EVERY if it.name != "CHANGELOG.md"], ids=lambda it: it.name)
def test_options_in_sentences_take_their_values(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of the changelog, which also names values that are refused."""
    monkeypatch.chdir(tmp_path)
    said = {f"{name} {value}": check_option(name, value) for name, value in option_spans(page)}
    assert not {text: why for text, why in said.items() if why}


def test_a_value_that_is_refused_is_seen() -> None:
    assert check_option("--lag-interval", "0")
    assert check_option("--lag-interval", "1m") is None
    assert check_option("--since", "2h") is None
    assert check_option("--of-another-program", "0") is None
    assert sum(len([*option_spans(page)]) for page in EVERY) > 40


def test_there_are_commands_to_check() -> None:
    assert len({text for page in EVERY for text in calls(page)}) > 80
    assert len({text for page in EVERY for text in spans(page)}) > 30


@pytest.mark.parametrize(
    ("target", "is_wrong"),
    [
        ("README.md", False),
        ("#kshadow", False),
        ("docs/runbooks.md#kshadowrebalancestorm", False),
        ("https://example.com/nothing", False),
        ("NOTHING.md", True),
        ("#nothing", True),
        ("docs/runbooks.md#nothing", True),
        ("../../etc/passwd", True),
    ],
)
def test_a_dead_link_is_seen(target: str, is_wrong: bool) -> None:
    assert (problem(Link(ROOT / "README.md", target)) is not None) == is_wrong


def test_what_does_not_parse_is_seen() -> None:
    for text in ("kshadow grops", "kshadow groups --fromm x", "kshadow config shwo"):
        with pytest.raises(click.UsageError):
            parse(text)
        assert check_span(text)
    assert check_span("kshadow config show|check") is None
    assert check_span("kshadow --config FILE") is None


def test_headings_are_linked_to_as_they_are_on_the_forge() -> None:
    assert anchor("What it can know, and what not yet") == "what-it-can-know-and-what-not-yet"
    assert anchor("`kshadow run`") == "kshadow-run"
    assert anchors("# A\n\n## A\n\n```\n# not one\n```\n") == {"a", "a-1"}


def test_plain_text_becomes_no_markup() -> None:
    assert prose("by --tune a.b_s=3, ${NAME} or <x> | `y`") == r"by `--tune` `a.b_s=3`, `${NAME}` or \<x\> \| `y`"


@BY_PAGE
def test_kshadow_is_installed_from_its_sources(page: Path) -> None:
    """No registry has it: by its name nothing is found, or what a stranger called so."""
    assert not re.findall(r"pipx? install (?:-\S+ )*['\"]?kshadow\b", page.read_text(encoding="utf-8"))


ON_COMMAND_LINE = re.compile(
    r"(?:-X|--property)[ =]['\"]?[\w.]*(?:password|secret|passphrase|token)=(?!'?`?\$\{\w+\})\S*"
)
"""A secret that is given with a command, and is no reference to a variable."""


def test_no_secret_stands_on_a_command_line() -> None:
    """Everybody on a machine can read the command lines of its processes."""
    texts = [*pages(), *(ROOT / "agent").rglob("*.py"), *(ROOT / "helm").rglob("*.yaml"), *ROOT.glob("*.md")]
    found = {
        str(path.relative_to(ROOT)): wrong
        for path in texts
        if "tests" not in path.parts and (wrong := ON_COMMAND_LINE.findall(path.read_text()))
    }
    assert not found


def test_a_secret_on_a_command_line_is_seen() -> None:
    for line in ("-X sasl.password=…", "--property=ssl.key.password=x", "-X 'sasl.oauthbearer.client.secret=a b'"):
        assert ON_COMMAND_LINE.search(line), line
    for line in ("-X sasl.password='${A_B}'", "--property=sasl.password=${KAFKA_PASSWORD}", "sasl.password=…"):
        assert not ON_COMMAND_LINE.search(line), line
