"""`--agent`: a real server that answers as the agent does, and others that listen where one was expected."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from agent.cli.agent_client import AgentClient
from agent.cli.text import iso_time
from agent.core.diagnosis.cluster import NO_ANALYZERS
from agent.core.events.recent import RecentEvents
from agent.core.queries import Health, JsonObject
from agent.core.shadow.sampled_mirror import SampledMirror
from agent.presentation.narrative.sampling import UNLISTED
from agent.presentation.narrative.words import timestamp
from agent.serving.queries import ServedQueries
from agent.simulation.whatif.recorder import GroupRecording
from tests.answering import Handler, answering_bytes, web_server
from tests.unit.analyzers.story import Story
from tests.unit.analyzers.test_origins import PodsByClient
from tests.unit.cli.hostile import LETTERS, TEXTS, pairs, raw
from tests.unit.cli.running import FORMATS, SEGMENTS, kshadow, lines
from tests.unit.core.inference.test_origin_evidence import hostile_origin
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log
from tests.unit.core.shadow.looks import Looks, seen
from tests.unit.presentation.narrative import made as m
from tests.unit.serving.routes.replayed import Replayed, of_log, of_path, served


@contextmanager
def answering(
    code: int, body: bytes, kind: str = "application/json", paths: Mapping[str, tuple[int, bytes]] | None = None
) -> Iterator[str]:
    """A web server that always says the same, but for some paths, and that it is ready."""
    others = {"/api/v1/status": (200, b'{"ready": true, "reason": "caught up"}'), **(paths or {})}

    class Agent(Handler):
        def do_GET(self) -> None:
            self.say(*others.get(self.path, (code, body)), {"Content-Type": kind})

    with web_server(Agent) as url:
        yield url


SAME = [
    ["groups"],
    ["describe", "fraud-848"],
    ["members", "pricing-poll"],
    ["timeline", "fraud-848"],
    ["timeline", "ads-eos", "--since", "2026-11-21T07:28:19.400", "--until", "2026-11-21T07:29"],
    ["timeline", "ads-eos", "--since", "30000d"],
    ["timeline", "ads-eos", "--since", "1972-01-01", "--until", "2026-11-21T07:29"],
    ["findings"],
    ["findings", "--since", "30000d"],
    ["whatif", "pricing-poll", "--until", "2026-11-21T07:29"],
    ["whatif", "ads-eos", "--until", "2026-11-21T07:29", "--static", "--session-timeout", "2m"],
]


@pytest.mark.parametrize("command", SAME, ids=" ".join)
def test_an_agent_says_what_the_files_say(command: list[str]) -> None:
    with served(Replayed(of_path(SEGMENTS))) as url:
        for output in FORMATS:
            asked = kshadow(*command, "--agent", f"{url}/", "-o", output)
            read = kshadow(*command, "--from", SEGMENTS, "-o", output)
            assert (asked.exit_code, asked.stdout, asked.stderr) == (0, read.stdout, read.stderr)


def test_an_agent_explains_as_of_now() -> None:
    with served(Replayed(of_path(SEGMENTS))) as url:
        live = json.loads(kshadow("explain", "pricing-poll", "--agent", url, "-o", "json").stdout)
        read = json.loads(kshadow("explain", "pricing-poll", "--from", SEGMENTS, "-o", "json").stdout)
    assert live["paragraphs"][0]["text"].startswith("`pricing-poll` is a classic group, Stable for ")
    assert live["numbers"]["rebalances"] == read["numbers"]["rebalances"] > 0
    assert live["whatif"]["tried"] == read["whatif"]["tried"] > 0
    assert [it for it in live["paragraphs"] if it["kind"] == "why"] == [
        it for it in read["paragraphs"] if it["kind"] == "why"
    ]


def test_what_whatif_says_of_an_agent_that_keeps_a_part_or_nothing() -> None:
    agent = Replayed(of_path(SEGMENTS))
    last = kshadow("whatif", "pricing-poll", "--from", SEGMENTS, "-o", "json")
    recorded = agent.recording("pricing-poll")
    assert recorded is not None
    _, *later = recorded.states
    newer = replace(later[0], view=replace(later[0].view, group_type="newer"))
    unlike = replace(recorded.states[1], inferred=None)
    cut = {
        "geo-stream": replace(recorded, states=(recorded.states[0], unlike)),
        "pricing-poll": replace(recorded, states=tuple(later), created_ms=None),
        "ads-eos": None,
        "fraud-848": replace(recorded, states=(newer,)),
    }

    class Forgetful(Replayed):
        def recording(self, group: str) -> GroupRecording | None:
            return cut.get(group)

    with served(Forgetful(of_path(SEGMENTS))) as url:
        part = kshadow("whatif", "pricing-poll", "--agent", url, "-o", "json")
        nothing, nobody, newest = (
            kshadow("whatif", group, "--agent", url) for group in ("ads-eos", "nobody", "fraud-848")
        )
        strange = kshadow("whatif", "geo-stream", "--agent", url)
        untold = json.loads(kshadow("explain", "ads-eos", "--agent", url, "-o", "json").stdout)
    assert json.loads(part.stdout)["since_ms"] == later[0].at_ms > json.loads(last.stdout)["since_ms"]
    assert part.stderr == f"(the agent keeps no more than what was from {iso_time(later[0].at_ms)} on)\n"
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    assert "the agent keeps no history of its members, or is of another version" in nothing.stderr
    assert (strange.exit_code, strange.stderr) == (1, nothing.stderr.replace("ads-eos", "geo-stream"))
    assert (nobody.exit_code, nobody.stdout) == (1, "")
    assert nobody.stderr.startswith("Error: no group 'nobody' at http://127.0.0.1")
    assert newest.stderr == "Error: 'fraud-848': whatif replays classic groups of consumers\n"
    assert untold["whatif"] is None


def test_a_recording_comes_as_it_is() -> None:
    """Of every kind of group, with pods whose origin is known, and of texts as strangers write them."""
    clients = {f"c{number}{text}": hostile_origin(text) for number, text in enumerate(TEXTS.values())}
    log = Story("g").change(["a", *clients]).work(20).lose(*clients).change(clients).log
    pods = Replayed(of_log(log), origin_source=PodsByClient(clients, clients))
    for agent in (Replayed(of_path(SEGMENTS)), pods):
        kept = {row["group"]: agent.recording(row["group"]) for row in agent.groups()}
        assert any(it is not None for it in kept.values())
        with served(agent) as url:
            asked = AgentClient(url, {})
            assert {group: asked.recording(group) for group in kept} == kept
    (*_, newest) = kept["g"].states if kept["g"] is not None else ()
    assert newest.view.origins, "they are in it"


def test_whether_an_agent_is_ready_is_asked_once() -> None:
    class Counting(Replayed):
        asked = 0

        def ready(self) -> Health:
            self.asked += 1
            return super().ready()

    for stopped in (None, "reading has stopped: no broker answers"):
        agent = Counting(of_path(SEGMENTS), stopped=stopped)
        with served(agent) as url:
            result = kshadow("explain", "pricing-poll", "--agent", url)
        assert (agent.asked, result.exit_code) == (1, 0 if stopped is None else 1)
        assert (stopped or "") in result.stderr


def test_an_unknown_group() -> None:
    with served(Replayed(of_path(SEGMENTS))) as url:
        result = kshadow("describe", "pricing-pol", "--agent", url)
        assert result.exit_code == 1
        assert result.stderr == f"Error: no group 'pricing-pol' at {url}; did you mean 'pricing-poll'?\n"
        assert kshadow("describe", "\udcff", "--agent", url).exit_code == 1


def test_an_unknown_group_where_groups_are_looked_at() -> None:
    class Sampled(Replayed):
        def unseen_reason(self, group: str) -> str | None:
            return UNLISTED

    runs = [Looks("a").look(0, "Stable", seen("m", 0)).batch()]
    with served(Sampled(runs, mirror_class=SampledMirror)) as url:
        for command in ("describe", "timeline", "explain", "verdict", "lag"):
            result = kshadow(command, "orders-share", "--agent", url)
            assert result.exit_code == (3 if command == "verdict" else 1)
            assert result.stderr.splitlines()[-1] == (
                f"Error: no group 'orders-share' at {url}: groups are read through the Admin API, which does not list"
                " Connect, share and streams groups, nor groups on which this agent has no ACL operation Describe;"
                " kshadow groups lists those there are"
            )


def test_whatif_of_a_group_that_is_looked_at() -> None:
    runs = [Looks("a").look(0, "Stable", seen("m", 0)).batch()]
    with served(Replayed(runs, mirror_class=SampledMirror)) as url:
        result = kshadow("whatif", "a", "--agent", url)
    assert (result.exit_code, result.stdout) == (1, "")
    said = "Error: 'a': the agent looks at it by --source admin, which has no generations to replay\n"
    assert result.stderr == said


def test_whatif_of_a_group_that_only_commits() -> None:
    commits = Log().add(b.commit("t", 1, group="simple"))
    with served(Replayed(of_log(commits))) as url:
        result = kshadow("whatif", "simple", "--agent", url)
    assert (result.exit_code, result.stdout, result.stderr) == (
        1,
        "",
        "Error: 'simple': the log shows no member of it\n",
    )


def test_a_generation_that_looks_do_not_tell_is_no_number() -> None:
    runs = [Looks("a").look(0, "Stable", seen("m", 0)).batch()]
    with served(Replayed(runs, mirror_class=SampledMirror)) as url:
        (row,) = kshadow("groups", "--agent", url).stdout.splitlines()[1:]
        described = kshadow("describe", "a", "--agent", url).stdout
    assert row.split()[:4] == ["a", "classic", "Stable", "-"]
    assert "Generation" not in described


def test_lag_says_when_offsets_were_read_where_groups_are_looked_at() -> None:
    looks = Looks("a").look(0, "Stable", seen("m", 0), positions={0: 1})
    looks.state(4_000, "PreparingRebalance").look(5_000, "Stable", seen("m", 0))
    with served(Replayed([looks.batch()], mirror_class=SampledMirror)) as url:
        result = kshadow("lag", "a", "--agent", url)
        assert result.stderr == (
            "(the committed offsets were read at 2023-11-14 22:13:20.000Z; what the group has committed since counts"
            " as lag)\n"
        ), "the look that followed asked for members alone"
        for command in (("describe", "a"), ("groups",)):
            form = json.loads(kshadow(*command, "--agent", url, "-o", "json").stdout)
            assert (form if command[1:] else form[0])["offsets_seen_ms"] == 1_700_000_000_000
    with served(Replayed(of_log(Story("g").change(["a"]).log))) as url:
        assert "offsets_seen_ms" not in kshadow("groups", "--agent", url, "-o", "json").stdout


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in {**TEXTS, **LETTERS}.items()])
def test_hostile_groups_through_an_agent(text: str) -> None:
    if len(text) > 20_000:
        text = text[:8000]  # an address has a limit: uvicorn's for one line is 64 KB, in %1B for each
    with served(Replayed(of_log(Log().add(*pairs(text))))) as url:
        for output in FORMATS:
            result = kshadow("describe", "-o", output, "--agent", url, "--", text)
            assert result.exit_code == 0, result.stderr
            assert raw(result.stdout) == raw(result.stderr) == []
            if output == "json":
                assert json.loads(result.stdout)["group"] == text
            for command in ("timeline", "explain"):
                told = kshadow(command, "-o", output, "--agent", url, "--", text)
                assert (told.exit_code, told.stderr) == (0, "")
                assert raw(told.stdout) == []


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in {**TEXTS, **LETTERS}.items()])
def test_hostile_findings(text: str) -> None:
    found = {"severity": text, "summary": text, "advice": text, "numbers": {text: text}, "group": "g"}
    replayed = Replayed(of_log(Log().add(b.new_group("g"))))
    replayed.recent.observe([{**m.finding(text), **found}])
    with served(replayed) as url:
        for output in FORMATS:
            for command in (["findings", "--since", "0"], ["timeline", "g"], ["explain", "g"]):
                result = kshadow(*command, "-o", output, "--agent", url)
                assert (result.exit_code, result.stderr) == (0, "")
                assert raw(result.stdout) == []
                assert "g" in result.stdout
        assert json.loads(kshadow("findings", "--agent", url, "-o", "json").stdout)[0]["advice"] == text


def test_findings() -> None:
    replayed = Replayed(of_path(SEGMENTS), chosen=NO_ANALYZERS)
    now = time.time_ns() // 1_000_000
    replayed.recent.observe(
        [
            m.finding("idle_members", now - 3 * m.MINUTE, group="ads-eos", severity="info"),
            m.finding("rebalance_storm", now - 2 * m.MINUTE, group="fraud-848"),
            m.finding("coordinator_hotspot", now - m.MINUTE, group=None, group_type=None, severity="critical"),
            m.finding("rebalance_storm", now - 9, group="fraud-848", state="resolved", since_ms=now - 2 * m.MINUTE),
        ]
    )
    with served(replayed) as url:

        def found(*options: str) -> list[str]:
            result = kshadow("findings", "--agent", url, "-o", "ndjson", *options)
            assert (result.exit_code, result.stderr) == (0, "")
            return [json.loads(line)["analyzer"] for line in lines(result)]

        assert found() == ["idle_members", "coordinator_hotspot"]
        assert found("--since", "1h") == ["idle_members", "rebalance_storm", "coordinator_hotspot"]
        assert found("--until", "90s") == ["idle_members", "rebalance_storm"]
        assert found("--severity", "warning") == ["coordinator_hotspot"]
        assert found("--analyzer", "idle_members") == found("--group", "ads-eos") == ["idle_members"]
        assert found("--group", "geo-stream") == []
        nobody = kshadow("findings", "--agent", url, "-o", "ndjson", "--group", "ads-eso")
        assert (nobody.exit_code, nobody.stdout) == (1, "")
        assert nobody.stderr == f"Error: no group 'ads-eso' at {url}; did you mean 'ads-eos'?\n"
        table = lines(kshadow("findings", "--agent", url, "--since", "1h"))
        assert [row.split()[2:] for row in table[1:]] == [
            ["-", *iso_time(now - 3 * m.MINUTE).split(), "info", "idle_members", "ads-eos", *SAID],
            [*iso_time(now - 9).split(), "-", "warning", "rebalance_storm", "fraud-848", *SAID],
            ["-", *iso_time(now - m.MINUTE).split(), "critical", "coordinator_hotspot", "-", *SAID],
        ]
        text = kshadow("explain", "fraud-848", "--agent", url, "--full").stdout
        assert "Findings\n  rebalance_storm (warning), open from " in text


SAID = ["too", "many", "rebalances", "find", "out", "who", "leaves"]


def test_an_agent_that_remembers_the_latest_only() -> None:
    replayed = Replayed([])
    replayed.recent = RecentEvents(per_group=5)
    for run in of_path(SEGMENTS):
        replayed.recent.observe(replayed.mirror.replay_batch(run))
    with served(replayed) as url:
        table = kshadow("timeline", "fraud-848", "--agent", url)
        assert table.exit_code == 0
        assert table.stderr.startswith("(the agent keeps the latest events only: here those from 2026-11-21 07:28:")
        assert kshadow("timeline", "fraud-848", "--agent", url, "--since", "2026-11-21T07:28:19").stderr == ""
        story = json.loads(kshadow("explain", "fraud-848", "--agent", url, "-o", "json").stdout)
        assert story["not_seen"][0].startswith("What was before ")
        assert " 07:28:14: the agent keeps the latest events only. " in story["not_seen"][0]
        later = kshadow("explain", "fraud-848", "--agent", url, "-o", "json", "--since", "2026-11-21T07:28:19")
        assert not any("the agent keeps" in text for text in json.loads(later.stdout)["not_seen"])


def test_an_older_agent_has_no_timeline() -> None:
    group = json.dumps({**ROW, "members": [], "offsets": [], "anomalies": []}).encode()
    answers = {"/api/v1/groups/g": (200, group), "/api/v1/groups": (200, b"[]")}
    with answering(404, b'{"error":"no such group"}', paths=answers) as url:
        for command in ("timeline", "explain"):
            result = kshadow(command, "g", "--agent", url)
            assert (result.exit_code, result.stdout) == (3, "")
            assert "/timeline?limit=10000: expected a timeline, got that there is no such group: " in result.stderr
            assert "another version" in result.stderr
            unknown = kshadow(command, "x", "--agent", url)
            assert (unknown.exit_code, unknown.stderr.split(";")[0]) == (1, f"Error: no group 'x' at {url}")
    with answering(404, b"Not Found", kind="text/plain") as url:
        result = kshadow("findings", "--agent", url)
        assert (result.exit_code, "answered 404 Not Found" in result.stderr) == (3, True)


@pytest.mark.parametrize("body", [b"{}", b"[{}]", b'["a"]', b"null", json.dumps([m.rebalance(1)]).encode()])
def test_what_is_no_history(body: bytes) -> None:
    with answering(200, body) as url:
        result = kshadow("findings", "--agent", url)
        assert (result.exit_code, result.stdout) == (3, "")
        assert re.search(r"/api/v1/findings: expected (a list of events|findings), got [\\[{n]", result.stderr)
        if b"rebalance" not in body:
            assert kshadow("timeline", "g", "--agent", url).exit_code == 3


def test_a_group_whose_name_looks_like_a_route() -> None:
    log = Log().add(b.new_group("a")).add(b.new_group("a/timeline")).add(b.new_group("timeline"))
    with served(Replayed(of_log(log))) as url:
        for group in ("a", "a/timeline", "timeline"):
            told = kshadow("timeline", group, "--agent", url, "-o", "ndjson")
            assert [json.loads(line)["group"] for line in lines(told)] == [group]
            assert json.loads(kshadow("describe", group, "--agent", url, "-o", "json").stdout)["group"] == group


def test_an_agent_that_catches_up() -> None:
    with served(Replayed([], has_caught_up=False)) as url:
        for command in (["groups"], ["describe", "g"]):
            result = kshadow(*command, "--agent", url)
            assert (result.exit_code, result.stdout) == (3, "")
            assert "503 Service Unavailable: catching up with the topic's end: 12 records to go; try" in result.stderr


@pytest.mark.parametrize("command", [*SAME, ["lag", "fraud-848"], ["explain", "pricing-poll"]], ids=" ".join)
def test_an_agent_that_cannot_read_says_so_beside_its_last_answers(command: list[str]) -> None:
    why = "reading has stopped: __consumer_offsets: expected leaders, none for partitions [1]"
    with served(Replayed(of_path(SEGMENTS))) as url:
        fresh = kshadow(*command, "--agent", url, "-o", "json")
    with served(Replayed(of_path(SEGMENTS), stopped=why)) as url:
        result = kshadow(*command, "--agent", url, "-o", "json")
        assert (result.exit_code, fresh.exit_code) == (1, 0)
        assert result.stderr.splitlines()[-1] == f"({url}: {why}; what is told is the last that the agent knew)"
        assert lines(result)[0] == lines(fresh)[0]
        unknown = kshadow("describe", "nobody", "--agent", url)
        assert (unknown.exit_code, f"{why}; what is told" in unknown.stderr) == (1, True)


def test_of_what_an_agent_did_not_read_no_quiet_is_told() -> None:
    """What happened is told up to where it is known, and not up to now."""
    with served(Replayed(of_path(SEGMENTS), stopped="reading has stopped: no leader")) as url:
        story = json.loads(kshadow("explain", "pricing-poll", "--agent", url, "-o", "json").stdout)
        form = json.loads(kshadow("describe", "pricing-poll", "--agent", url, "-o", "json").stdout)
        past = [json.loads(it) for it in lines(kshadow("timeline", "pricing-poll", "--agent", url, "-o", "ndjson"))]
    known_ms = max(past[-1]["at_ms"], form["last_commit_ms"], form["state_since_ms"])
    assert story["range"]["until_ms"] == known_ms
    assert story["summary"].startswith(f"As of {timestamp(known_ms)} UTC: the agent has read nothing since then. ")


class CutOff(Replayed):
    """It had read all for a minute after the last record of each partition, of one in the cluster `eu`."""

    reason = "reading has stopped: no leader"

    def __init__(self, *, is_eu_ready: bool = False) -> None:
        super().__init__(of_path(SEGMENTS), stopped=f"cluster us: {self.reason}" if is_eu_ready else self.reason)
        self.is_eu_ready = is_eu_ready

    def describe(self, group: str) -> JsonObject | None:
        form = super().describe(group)
        return form and {"cluster": "eu", **form}

    def known_ms(self, partition: int) -> int:
        clock_ms = self.state.position(partition).clock_ms
        assert clock_ms is not None
        return clock_ms + 60_000

    def status(self) -> JsonObject:
        read = {str(it): {"clock_ms": self.known_ms(it)} for it in self.state.partitions}
        read["49"] = {"clock_ms": None}  # nothing was ever written there
        eu = {"ready": self.is_eu_ready, "reason": self.reason, "partitions": read}
        return {"partitions": read, **({"clusters": {"eu": eu}} if self.is_eu_ready else {})}


def test_an_explanation_says_first_up_to_when_the_agent_has_read() -> None:
    """Whatever follows is as of then: no all-clear of now."""
    with served(agent := CutOff()) as url:
        form = agent.describe("pricing-poll")
        assert form is not None
        known_ms = agent.known_ms(form["coordinator_partition"])
        brief = kshadow("explain", "pricing-poll", "--agent", url)
        full = kshadow("explain", "pricing-poll", "--agent", url, "--full").stdout
        story = json.loads(kshadow("explain", "pricing-poll", "--agent", url, "-o", "json").stdout)
        later = kshadow("explain", "pricing-poll", "--agent", url, "--since", "1h").stdout
    first = f"As of {timestamp(known_ms)} UTC: the agent has read nothing since then."
    assert (brief.exit_code, brief.stdout.startswith(first)) == (1, True)
    assert story["summary"].startswith(f"{first} ")
    assert story["range"]["until_ms"] == known_ms
    assert full.startswith(
        f"{story['summary']}\nWhat is known of `pricing-poll` is as of {timestamp(known_ms)} UTC: "
    )
    assert f"the agent has read nothing since then ({agent.reason}).\n" in full
    assert re.search(r"Its last commit was 1 min( 0 s)? before\.", full), full
    assert f"what is known ends at {timestamp(known_ms)} UTC." in " ".join(later.split())


def test_what_is_told_of_one_cluster_is_not_older_for_another_one() -> None:
    with served(CutOff(is_eu_ready=True)) as url:
        result = kshadow("explain", "pricing-poll", "--agent", url)
    assert (result.exit_code, "As of" in result.stdout) == (1, False)
    assert "cluster us: " in result.stderr


def test_what_is_told_of_a_partition_that_is_read_is_not_older_for_another_one() -> None:
    """Which has no leader, say."""

    class ReadingOne(CutOff):
        behind: int | None = None

        def status(self) -> JsonObject:
            form, group = super().status(), self.describe("pricing-poll")
            assert group is not None
            form["partitions"][str(group["coordinator_partition"])] |= {
                "caught_up": True,
                "behind_records": self.behind,
            }
            return form

    for behind, is_old in ((0, False), (1, True), (None, True)):
        agent = ReadingOne()
        agent.behind = behind
        with served(agent) as url:
            result = kshadow("explain", "pricing-poll", "--agent", url)
        assert (result.exit_code, result.stdout.startswith("As of")) == (1, is_old)
        assert "reading has stopped: no leader" in result.stderr


def test_nothing_is_told_to_have_happened_only_as_far_as_was_read() -> None:
    for agent, more in ((Replayed(of_path(SEGMENTS)), ""), (CutOff(), ", as far as was read")):
        with served(agent) as url:
            past = kshadow("timeline", "pricing-poll", "--agent", url, "--since", "1h")
            found = kshadow("findings", "--analyzer", "coordinator_hotspot", "--agent", url)
        assert past.stderr.splitlines()[0] == f"nothing happened in that time{more}"
        assert found.stderr.splitlines()[0] == f"no findings{more}"


ROW = {
    "group": "g",
    "group_type": "classic",
    "state": "Empty",
    "generation": 1,
    "state_since_ms": 1,
    "last_commit_ms": 1,
    "partitions": 0,
    "rebalances": 0,
    "coordinator_partition": 7,
}

# 1-14: what is no kshadow agent, or no longer this version's.
OTHERS = [
    (200, b"<html>\n" + b"a" * 100, f"expected JSON, got <html> {'a' * 72}… (Expecting value: line 1 "),  # 1: a page
    (200, b"\xff\x1b[2J", "expected JSON, got \N{REPLACEMENT CHARACTER}\\u001b[2J ("),  # 2: bytes
    (200, b"[" * 100_000, "expected JSON"),  # 3: JSON too deep
    (200, b'{"a": 1}', 'got {"a": 1}: no kshadow agent, or one of another version'),  # 4
    (200, b'["a"]', 'got ["a"]: '),  # 5
    (200, b'[{"group": "g"}]', 'got [{"group": "g"}]: '),  # 6: fields are missing
    (200, json.dumps([{**ROW, "last_commit_ms": "soon"}]).encode(), 'got [{"group": "g"'),  # 7: a type
    (200, json.dumps({**ROW, "members": [{}], "offsets": [], "anomalies": []}).encode(), 'got {"group": "g"'),  # 8
    (200, b"null", "got null"),  # 9
    (404, b"Not Found", "answered 404 Not Found: Not Found; no kshadow agent, or one of"),  # 10: a web server
    (500, b"", "answered 500 Internal Server Error: nothing more"),  # 11
    (500, b'{"error": 5}', 'answered 500 Internal Server Error: {"error": 5}'),  # 12
    (302, b"", "answered 302 Found: nothing more; an agent sends nobody elsewhere: no kshadow agent, or one"),  # 13
    (403, b"\x1b[2J" + b"[" * 5000, "answered 403 Forbidden: \\u001b[2J[[["),  # 14: hostile
]


@pytest.mark.parametrize(("code", "body", "said"), OTHERS)
def test_others_that_listen(code: int, body: bytes, said: str) -> None:
    with answering(code, body) as url:
        for command in (["groups"], ["describe", "g"], ["members", "g"]):
            result = kshadow(*command, "--agent", url)
            if command == ["groups"] and body.startswith(b'{"group"'):
                continue
            assert (result.exit_code, result.stdout) == (3, ""), result.stderr
            assert said in result.stderr
            assert raw(result.stderr) == []


def test_a_proxy_that_stands_between_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a company's machine; what it answers was told as the agent's, or the agent as not being there."""
    said = "; a proxy was asked, as the variable http_proxy says: no_proxy names hosts that have none\n"
    with answering(502, b"<html>") as proxy, answering(502, b"<html>") as url:
        monkeypatch.setenv("http_proxy", proxy)
        assert kshadow("groups", "--agent", "http://kshadow.invalid:9308").stderr.endswith(said)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert "proxy" not in kshadow("groups", "--agent", url).stderr
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        away = kshadow("groups", "--agent", "http://kshadow.invalid:9308")
    assert (away.exit_code, away.stderr.endswith(said)) == (3, True)


NAMES = {"member_id": "m", "client_id": "c", "client_host": "/h", "instance_id": None}
MEMBER = {**NAMES, "subscription": [], "assignment": {}}


@pytest.mark.parametrize(
    "own",
    [
        *({name: it} for name in ("partitions", "rebalances", "coordinator_partition") for it in ("x", [1])),
        *({"members": [{**MEMBER, **it}]} for it in ({"subscription": 5}, {"assignment": {"t": 5}})),
        *({"members": [{**MEMBER, **it}]} for it in ({"client_host": 5}, {"assignment": {"t": ["x"]}})),
    ],
    ids=str,
)
def test_a_group_of_another_kind_is_another_programs(own: dict[str, object]) -> None:
    form = {**ROW, "members": [MEMBER], "offsets": [], "anomalies": [], **own}
    with answering(200, json.dumps(form).encode()) as url:
        for command in ("members", "coordinator", "assign"):
            result = kshadow(command, "g", "--agent", url)
            assert (result.exit_code, result.stdout) == (3, "")
            assert "no kshadow agent, or one of another version" in result.stderr


@pytest.mark.parametrize(("code", "body"), [(404, b"nope"), (200, b"[]")])
def test_watch_ends_where_others_listen_from_the_start(code: int, body: bytes) -> None:
    with answering(200, b"[]", paths={"/api/v1/status": (code, body)}) as url:
        result = kshadow("watch", "--plain", "--agent", url)
        assert (result.exit_code, result.stdout) == (3, "")
        assert "/api/v1/status" in result.stderr
        assert "no kshadow agent, or one of another version" in result.stderr


def test_a_lone_surrogate_where_something_else_is_expected() -> None:
    """msgspec raises another error for it, which ended the command with a traceback."""
    body = json.dumps([{"type": "rebalance", "schema": "\ud800", "group": "g", "at_ms": 1}]).encode()
    with answering(200, body) as url:
        result = kshadow("timeline", "g", "--agent", url)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "expected a list of events" in result.stderr


def test_a_fields_type_that_no_table_expects() -> None:
    """More than the shape asks is shown as it comes."""
    member = {**NAMES, "subscription": [5], "client_library": {"t": ["x", 1]}, "assignment": {}}
    form = {**ROW, "members": [member], "offsets": [], "anomalies": []}
    with answering(200, json.dumps(form).encode()) as url:
        result = kshadow("members", "g", "--agent", url)
        assert (result.exit_code, "t[x,1]" in result.stdout) == (0, True)


STALE = {"offset": 4, "since_ms": m.T0, "group": "other", "transactional_ids": ["tx"]}


def test_groups_of_which_it_is_not_known_what_was_written_lately() -> None:
    rows = [{**ROW, "stale": STALE}, {**ROW, "group": "h"}, {**ROW, "group": "i", "stale": STALE}]
    with answering(200, json.dumps(rows).encode()) as url:
        result = kshadow("groups", "--agent", url)
        assert [" as of 20" in it for it in lines(result)[1:]] == [True, False, True]
        assert result.stderr.startswith("What is known of `g` and `i` is as of ")
        assert " UTC or later: transaction `tx` that commits offsets of `other` has been open for " in result.stderr
        only = kshadow("groups", "--agent", url, "--match", "i", "-o", "json")
        assert json.loads(only.stdout)[0]["stale"] == STALE
        assert only.stderr.startswith("What is known of `i` is as of ")
        assert kshadow("groups", "--agent", url, "--match", "h").stderr == ""


def test_a_group_of_which_it_is_not_known_what_was_written_lately() -> None:
    form = {**ROW, "members": [], "offsets": [], "anomalies": [], "stale": {**STALE, "transactional_ids": []}}
    with answering(200, json.dumps(form).encode()) as url:
        result = kshadow("describe", "g", "--agent", url)
        assert "\nAs of:                 20" in result.stdout
        assert ": a transaction that commits offsets of `other` has been open for " in result.stderr


def test_groups_of_whose_partition_records_were_passed_over() -> None:
    passed = {"coordinator_partition": 7, "quarantined": {"records": 3}}
    rows = [{**ROW, **passed}, {**ROW, "group": "h"}, {**ROW, **passed, "group": "i", "stale": STALE}]
    with answering(200, json.dumps(rows).encode()) as url:
        stale, quarantined = kshadow("groups", "--agent", url).stderr.splitlines()
        assert stale.startswith("What is known of `i` is as of ")
        assert quarantined == (
            "`g` and `i` may stand otherwise than is told: 3 records of partition 7 of __consumer_offsets could not"
            " be read."
        )


def test_findings_say_of_which_groups_they_are_late() -> None:
    rows = json.dumps([{**ROW, "stale": STALE}, {**ROW, "group": "h"}]).encode()
    with answering(200, b"[]", paths={"/api/v1/groups": (200, rows)}) as url:
        assert "\nWhat is known of `g` is as of " in kshadow("findings", "--agent", url).stderr
        assert kshadow("findings", "--agent", url, "--group", "h").stderr == "no findings\n"


@pytest.mark.parametrize(
    ("why", "told"),
    [
        (b"", ""),
        (
            b" is known: it would be in partition 7 of __consumer_offsets, which this agent does not read",
            ": it would be in partition 7 of __consumer_offsets, which this agent does not read",
        ),
        (b" is known: \\u001b[2J", r": \u001b[2J"),
    ],
)
def test_a_group_that_is_not_there_may_be_hidden(why: bytes, told: str) -> None:
    rows = json.dumps([{**ROW, "stale": STALE}]).encode()
    with answering(404, b'{"error": "no such group%s"}' % why, paths={"/api/v1/groups": (200, rows)}) as url:
        result = kshadow("describe", "zzz", "--agent", url)
        assert result.exit_code == 1
        known, error = result.stderr.splitlines()
        assert known.startswith("What is known of `g` is as of ")
        assert error == f"Error: no group 'zzz' at {url}{told}; kshadow groups lists those there are"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("stale", it) for it in (None, {}, {**STALE, "since_ms": "now"}, {**STALE, "transactional_ids": [5]})),
        ("stale", {**STALE, "group": 5}),
        *(("quarantined", it) for it in (None, 5, {}, {"records": "5"})),
    ],
)
def test_staleness_of_another_kind_is_another_programs(field: str, value: object) -> None:
    with answering(200, json.dumps([{**ROW, field: value}]).encode()) as url:
        result = kshadow("groups", "--agent", url)
        assert (result.exit_code, result.stdout) == (3, "")
        assert "expected a list of groups, got [{" in result.stderr


def test_what_is_no_web_server() -> None:
    """A broker's port, as one easily gets it wrong; and nobody at all."""
    with answering_bytes(b"\x00\x00\x00\x04\x1b[2J\n", times=2) as port:
        for _ in range(2):
            result = kshadow("groups", "--agent", f"http://127.0.0.1:{port}")
            assert result.exit_code == 3
            assert f"no agent answers at http://127.0.0.1:{port}: " in result.stderr
            assert raw(result.stderr) == []
    result = kshadow("groups", "--agent", f"http://127.0.0.1:{port}")
    assert result.exit_code == 3
    assert "Connection refused; kshadow run starts one" in result.stderr


def test_an_answer_that_is_none_and_broken_off() -> None:
    """As of a proxy whose agent goes away meanwhile."""
    cut = b"HTTP/1.1 502 Bad Gateway\r\nTransfer-Encoding: chunked\r\n\r\n40\r\nno age"
    with answering_bytes(cut) as port:
        result = kshadow("groups", "--agent", f"http://127.0.0.1:{port}")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == f"Error: http://127.0.0.1:{port}/api/v1/groups answered 502 Bad Gateway: nothing more\n"


def test_the_agent_itself_fits_the_protocol() -> None:
    """mypy checks the types; this, that the stand-in has no more and no less than what is asked."""
    asked = {name for name in vars(Replayed) if not name.startswith("_")}
    assert asked <= {name for name in dir(ServedQueries) if not name.startswith("_")}


def test_hostile_origins() -> None:
    clients = {f"c{number}": hostile_origin(text) for number, text in enumerate(TEXTS.values())}
    log = Story("g").change(["a", *clients]).work(20).lose(*clients).change(clients).log
    with served(Replayed(of_log(log), origin_source=PodsByClient(clients, clients))) as url:
        for output in ("table", "json"):
            for command in ("timeline g", "explain g", "explain g --full", "describe g", "members g", "findings"):
                told = kshadow(*command.split(), "-o", output, "--agent", url)
                assert (told.exit_code, told.stderr) == (0, "")
                assert raw(told.stdout) == []
                assert "OOM-killed" in told.stdout or '"oom_killed"' in told.stdout or output == "table"
