"""Nobody's name gets through as more than text: on a terminal, on the page, in metrics, in the API, in the log."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import pyarrow.parquet
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from agent.common.logs import FORMATS, MAX_LINE_BYTES, MAX_REPEATS
from agent.persistence.export.columns import row_to_event
from agent.serving.metrics.text import MAX_LABEL, safe_label
from agent.tools.embedded import ProcessReaper
from tests import ROOT, others_thorough
from tests.harness.faults.agents import AgentProcess
from tests.harness.faults.truth import history
from tests.harness.siege.measuring import besieged, probes
from tests.live.hostile.stage import EVERY, INVALID, Stage, stage
from tests.unit.cli.hostile import raw
from tests.unit.cli.running import FORMATS as OUTPUTS
from tests.unit.cli.running import kshadow
from tests.unit.serving.page.scene import Reader
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

MOST_ADDRESS = 5000
"""Characters of a group that `httpx` takes as an address."""


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("hostile")) as it:
        yield it


@contextmanager
def agent(topic: Stage, form: str, log: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """An agent that has caught up."""
    command = [sys.executable, "-m", "tests.live.hostile.program", topic.bootstrap, form]
    leash = ProcessReaper()
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=file, text=True)
    leash.watch(process.pid)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, log.read_text()
        until(lambda: httpx.get(url + "/readyz").status_code == 200, said=lambda: log.read_text()[-2000:])
        yield url, process
    finally:
        process.kill()
        process.communicate()
        leash.release(process.pid)
        leash.close()


@pytest.fixture(scope="module")
def url(topic: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with agent(topic, "json", tmp_path_factory.mktemp("agent") / "log") as (it, _):
        yield it


def test_the_api_has_every_name_as_it_is(topic: Stage, url: str) -> None:
    answer = httpx.get(url + "/api/v1/groups")
    assert answer.content.isascii()
    assert raw(answer.text) == []
    rows = {row["group"]: row for row in answer.json()}
    assert set(topic.joined) | set(topic.written) <= rows.keys()
    for group in [*topic.joined, *topic.written]:
        if len(group) > MOST_ADDRESS:
            continue
        address = f"{url}/api/v1/groups/{quote(group, safe='').replace('.', '%2E')}"
        for path in ("", "/timeline"):
            answer = httpx.get(address + path)
            assert answer.status_code == 200, group
            assert raw(answer.text) == []
        form = httpx.get(address).json()
        assert form["group"] == group
        if group in topic.joined:
            text = group.rpartition(" ")[0]
            assert [it["client_id"] for it in form["members"]] == [text]
            # The Python client sends its C string with the end.
            assert {it["metadata"].removesuffix("\0") for it in form["offsets"]} == {text[:1000]}
            assert len(form["offsets"]) == 4
    findings = httpx.get(url + "/api/v1/findings", params={"since": "1h"})
    assert (findings.status_code, raw(findings.text)) == (200, [])
    status = httpx.get(url + "/api/v1/status")
    assert (status.status_code, raw(status.text)) == (200, [])


@pytest.mark.parametrize("accept", ["text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0"])
def test_metrics_are_read_as_they_were_meant(topic: Stage, url: str, accept: str) -> None:
    answer = httpx.get(url + "/metrics", headers={"Accept": accept})
    assert answer.headers["content-type"].startswith(accept.split(";")[0])
    assert raw(answer.text) == []
    parse = parse_text if accept.startswith("text") else parse_openmetrics
    families = {family.name: family.samples for family in parse(answer.text)}
    assert all(re.fullmatch(r"(kshadow|process|python)_[a-z_]+", name) for name in families)
    groups = Counter(sample.labels["group"] for sample in families["kshadow_group_members"])
    assert set(groups.values()) == {1}, "no two groups are one series"
    assert {safe_label(group) for group in [*topic.joined, *topic.written]} <= groups.keys()
    for samples in families.values():
        for sample in samples:
            assert all(len(value) <= MAX_LABEL for value in sample.labels.values())
    errors = {sample.labels["reason"]: sample.value for sample in families["kshadow_decode_errors"]}
    assert sum(errors.values()) == len(INVALID) * 20


def test_the_pages_have_no_markup_of_theirs(topic: Stage, url: str) -> None:
    rows: set[str] = set()
    said = ""
    for page in range(1, 100):
        answer = httpx.get(f"{url}/", params={"page": page, "sort": "group"})
        assert raw(answer.text) == []
        read = Reader(answer.text)
        tags = [tag for tag, _ in read.tags]
        assert tags.count("script") == 2, "ours"
        assert not {"style", "img", "iframe", "object", "b>"} & set(tags)
        for tag, attributes in read.tags:
            assert not [it for it in attributes if it == "style" or it.startswith("on")]
            if tag == "a":
                assert re.fullmatch(r"[#/][A-Za-z0-9/_.~%?=&+#-]*", attributes["href"] or ""), attributes
        said += read.text
        rows |= set(read.rows())
        if 'rel="next"' not in answer.text:
            break
    assert "<script>alert(1)</script>&amp;\"'`" in said
    assert len(rows) >= len(topic.joined) + len(topic.written)


def share(names: Iterable[str], output: str) -> list[str]:
    """A quarter of them for each format."""
    return list(names)[OUTPUTS.index(output) :: len(OUTPUTS)]


def test_a_page_that_rebinds_its_name_reads_nothing(url: str) -> None:
    for path in ("/", "/metrics", "/healthz", "/api/v1/groups"):
        assert httpx.get(url + path, headers={"Host": "rebound.example"}).status_code == 421
        assert httpx.get(url + path, headers={"Host": "localhost"}).status_code == 200


COMMANDS = ("describe", "members", "timeline", "explain")


@pytest.mark.parametrize("output", OUTPUTS)
def test_the_command_line_by_the_agent(topic: Stage, url: str, output: str) -> None:
    names = said(kshadow("groups", "--agent", url, "-o", output), output)
    assert set(topic.joined) | set(topic.written) <= names or output == "table"
    said(kshadow("findings", "--agent", url, "--since", "1h", "-o", output), output)
    # tests/unit/cli/test_hostile.py has every command of every text.
    for command, group in zip(cycle(COMMANDS), share([*topic.joined, *topic.written], output), strict=False):
        said(kshadow(command, "--agent", url, "-o", output, "--", group), output, group)


@pytest.mark.parametrize("output", others_thorough(OUTPUTS, "ndjson"))
def test_the_command_line_by_the_brokers_files(topic: Stage, output: str) -> None:
    """A live broker's: the last batch may be torn, which is said."""
    source = ("--from", topic.log_dir)
    result = kshadow("groups", *source, "-o", output)
    assert result.exit_code in (0, 1)
    assert raw(result.stdout) == raw(result.stderr) == []
    for command in ("decode", "replay"):
        result = kshadow(command, topic.log_dir, "-o", output)
        assert result.exit_code == 1, "not everything could be decoded"
        assert raw(result.stdout) == raw(result.stderr) == []
    # tests/unit/cli/test_hostile.py has every command of every text. Here each reads the files anew: they take turns.
    asked = list(zip(cycle((*COMMANDS, "assign")), share(list(EVERY.values())[::2], output), strict=False))
    asked += [("whatif", group) for group in share(topic.joined, output)[:1]]
    if output == "table":
        asked.append(("whatif", topic.written[0]))
    for command, group in asked:
        result = kshadow(command, *source, "-o", output, "--", group)
        assert result.exit_code in (0, 1), result.stderr
        assert raw(result.stdout) == raw(result.stderr) == []


def test_the_command_line_by_the_broker(topic: Stage) -> None:
    result = kshadow("groups", "--bootstrap-server", topic.bootstrap, "-o", "json")
    assert (result.exit_code, raw(result.stdout), raw(result.stderr)) == (1, [], [])
    assert set(topic.joined) | set(topic.written) <= {row["group"] for row in json.loads(result.stdout)}
    for text in EVERY.values():
        result = kshadow("coordinator", "--bootstrap-server", topic.bootstrap, "--", text)
        assert result.exit_code == 0
        assert raw(result.stdout) == raw(result.stderr) == []
    # Each reads the topic anew.
    for text in list(EVERY.values())[::20]:
        result = kshadow("explain", "--bootstrap-server", topic.bootstrap, "--", text)
        assert raw(result.stdout) == raw(result.stderr) == []


def test_strangers_who_hold_connections_keep_no_probe_out(url: str) -> None:
    """The last one: who connected that often is let in again only some seconds later."""
    port = urlsplit(url).port
    assert port is not None
    with besieged(port, [("idle", 300, 1), ("silent", 100, 1), ("slow", 100, 40)]):
        found = probes(port, 5)
    assert {path: dict(it.others) for path, it in found.items()} == {"/healthz": {}, "/readyz": {}, "/metrics": {}}


def said(result: object, output: str, group: str | None = None) -> set[str]:
    """The groups that an answer names, where its format has them as they are."""
    assert result.exit_code == 0, result.stderr  # type: ignore[attr-defined]
    assert raw(result.stdout) == raw(result.stderr) == []  # type: ignore[attr-defined]
    text = result.stdout  # type: ignore[attr-defined]
    match output:
        case "json":
            form = json.loads(text)
        case "ndjson":
            form = [json.loads(line) for line in text.split("\n")[:-1]]
        case "yaml":
            form = yaml.load(text, yaml.CSafeLoader)
        case _:
            return set()
    rows = form if isinstance(form, list) else [form]
    names = {row["group"] for row in rows if "group" in row}
    assert group is None or names <= {group, None}
    return names


def test_the_history_has_every_name_as_it_is(topic: Stage, tmp_path: Path) -> None:
    """In Parquet files and in a topic, by `kshadow run` as it is installed; none of them gets into a file's name."""
    parquet = tmp_path / "history"
    options = ("--bootstrap-server", topic.bootstrap, "--history-parquet", str(parquet), "--history-topic", "events")
    running = AgentProcess(tmp_path, *options, "--history-roll", "5s", "--state-dir", str(tmp_path / "state"))
    running.start().wait_level()
    assert running.stop() == 0, running.tail()
    assert raw(running.log.read_text()) == []
    every = [str(path.relative_to(parquet)) for path in parquet.rglob("*") if path.is_file()]
    # How far an agent knows the time, which one that runs for a while says.
    names = [name for name in every if not re.fullmatch(r"_clock/agent-[0-9a-f]+\.json", name)]
    assert names
    assert all(re.fullmatch(r"date=\d{4}-\d\d-\d\d/[A-Za-z0-9._-]+\.parquet", name) for name in names), names
    rows = [row for name in names for row in pyarrow.parquet.ParquetFile(parquet / name).read().to_pylist()]
    events = {event["event_id"]: event for event in map(row_to_event, rows)}
    assert {event["group"] for event in events.values()} >= {*topic.joined, *topic.written}
    members = {it["group"]: it["member"]["client_id"] for it in events.values() if it["type"] == "member_joined"}
    for group in topic.joined:
        assert members[group] == group.rpartition(" ")[0]
    assert {str(it["event_id"]): it for it in history(topic.bootstrap, "events")} == events


@pytest.mark.parametrize("form", FORMATS)
def test_the_log_has_one_line_a_record(topic: Stage, tmp_path: Path, form: str) -> None:
    log = tmp_path / "log"
    with agent(topic, form, log) as (url, process):
        assert httpx.get(url + "/metrics").status_code == 200
        httpx.get(url + "/api/v1/groups/%1b%5b2J%0a")
        time.sleep(5)  # the observer compares
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, log.read_text()[-2000:]
        print(f"stopped after {time.monotonic() - began:.1f} s")
    text = log.read_bytes().decode()
    assert text.endswith("\n")
    lines = text.split("\n")[:-1]
    for line in lines:
        assert raw(line) == [], line
        assert len(line.encode()) < MAX_LINE_BYTES
        if form == "json":
            assert {"ts", "level", "logger", "msg"} <= json.loads(line).keys()
        else:
            assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z (DEBUG|INFO|WARNING|ERROR) [a-z.]+: ", line), line
    rejected = [line for line in lines if re.search(r"partition \d+ offset \d+", line) and "suppressed" not in line]
    assert 0 < len(rejected) <= MAX_REPEATS
    assert any(f"suppressed {len(INVALID) * 20 - len(rejected)} more like" in line for line in lines)
