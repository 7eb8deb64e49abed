"""What a new user types, in order: every command, in each format, well and badly.

`{data}` is a directory of segment files, `{tmp}` an empty one, `{broker}` and `{agent}` the live demo's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

TABLE = "table"
FORMATS = (TABLE, "wide", "json", "ndjson", "yaml")


class Step(NamedTuple):
    """A command line, the exit code that it is to have, and what a user would do with it."""

    line: str
    code: int = 0
    formats: tuple[str, ...] = ("",)
    """Values of -o, each tried; the empty one is none at all."""
    stdin: str | None = None
    about: str = ""

    @property
    def words(self) -> list[str]:
        """Its arguments. No word of them has a blank."""
        return self.line.split()

    def each(self) -> Iterator[list[str]]:
        """The arguments for each format."""
        for format_ in self.formats:
            yield [*self.words, "-o", format_] if format_ else self.words


def in_all_formats(line: str, code: int = 0, **more: str) -> Step:
    """A step in each format, and without one."""
    return Step(line, code, ("", *FORMATS), **more)  # type: ignore[arg-type]


FROM = "--from {data}"
PROBLEM = '{"assignor":"range","partitions":{"t":3},"members":{"m-1":{"topics":["t"]},"m-2":{"topics":["t"]}}}\n'

TOP: tuple[Step, ...] = (
    Step("", 2, about="what is there?"),
    Step("--help"),
    Step("-h"),
    Step("--version"),
    Step("help", 2),
    Step("--nonsense", 2),
    Step("group", 2, about="a typing error"),
    Step("--config nowhere.yaml groups", 2),
    Step("--config {tmp}/wrong.yaml groups", 2),
)

QUERIES: tuple[Step, ...] = (
    in_all_formats(f"groups {FROM}"),
    Step(f"groups {FROM} --sort-by rebalances:desc --type classic"),
    Step(f"groups {FROM} --match pricing-* --state Empty -o wide"),
    in_all_formats(f"describe pricing-poll {FROM}"),
    Step(f"describe fraud-848 {FROM}", about="KIP-848"),
    Step(f"describe quota-kstreams {FROM}", about="Streams"),
    in_all_formats(f"members fraud-848 {FROM}"),
    in_all_formats(f"lag ads-eos {FROM}"),
    in_all_formats(f"timeline pricing-poll {FROM}"),
    Step(f"timeline pricing-poll {FROM} --limit 3"),
    Step(f"timeline pricing-poll {FROM} --since 1m"),
    Step(f"timeline pricing-poll {FROM} --event rebalance --cause poll_timeout"),
    in_all_formats(f"explain pricing-poll {FROM}"),
    Step(f"explain fraud-848 {FROM} --since 2026-11-21T07:00:00Z"),
    Step(f"explain geo-stream {FROM}"),
    in_all_formats(f"verdict pricing-poll {FROM}", 3, about="no rollout"),
    in_all_formats(f"findings {FROM}"),
    Step(f"findings {FROM} --since 1d --severity warning"),
    Step(f"findings {FROM} --since 1d --group ads-eos", about="nothing found"),
    in_all_formats(f"whatif pricing-poll {FROM}"),
    Step(f"whatif pricing-poll {FROM} --static --session-timeout 1m"),
    Step(f"whatif fraud-848 {FROM}", 1, about="what cannot be replayed"),
    in_all_formats(f"assign pricing-poll {FROM}"),
    Step(f"assign pricing-poll {FROM} --members"),
    Step(f"assign pricing-poll {FROM} --partitions orders=24 --assignor sticky"),
    Step("assign -", stdin=PROBLEM),
    Step("assign - -o ndjson", stdin=PROBLEM),
    Step("assign -", 1, stdin="nonsense\n"),
    in_all_formats("coordinator pricing-poll"),
    Step(f"watch {FROM} --plain", about="what a screen reader reads"),
    Step(f"report {FROM} --out {{tmp}}/report.html"),
    Step(f"report pricing-poll {FROM} --since 1h --title Tonight --out {{tmp}}/poll.html"),
)

CONTEXTS: tuple[Step, ...] = (
    Step("context list", about="there are none"),
    Step("context current", 2),
    Step("context set here --from {data}"),
    Step("context set prod --agent http://localhost:1"),
    in_all_formats("context list"),
    Step("context current"),
    in_all_formats("context show"),
    Step("groups", about="without a source: the context's"),
    Step("context use prod"),
    Step("groups", 3, about="nobody listens there"),
    Step("--context here groups"),
    Step("--context nowhere groups", 2),
    Step("context use nowhere", 2),
    Step("context set prod --property sasl.password=secret", 2, about="no secrets in it"),
    Step("context rename prod production"),
    Step("context delete production"),
    Step("context list"),
    Step("context delete here"),
)

WRONG_QUERIES: tuple[Step, ...] = (
    Step("groups", 2, about="which cluster?"),
    Step(f"groups {FROM} --agent http://localhost:1", 2),
    Step("groups --from {tmp}/nowhere", 2),
    Step("groups --from {tmp}", 2, about="a directory without segments"),
    Step("groups --bootstrap-server localhost:1", 3),
    Step("groups --bootstrap-server localhost", 3, about="no port"),
    Step("groups --agent http://localhost:1", 3),
    Step("groups --agent localhost:1", 2, about="no scheme"),
    Step(f"groups {FROM} -o xml", 2),
    Step(f"groups {FROM} -X security.protocol=SSL", 2),
    Step("describe", 2),
    Step("describe pricing-poll", 2),
    Step(f"describe pricing-pool {FROM}", 1, about="a typing error"),
    Step(f"explain nobody {FROM}", 1),
    Step(f"findings {FROM} --group nobody", 1),
    Step(f"timeline pricing-poll {FROM} --since yesterday", 2),
    Step(f"timeline pricing-poll {FROM} --since 1h --until 2h", 2),
    Step(f"timeline pricing-poll {FROM} --limit 0", 2),
    Step(f"groups {FROM} --sort-by nonsense", 2),
    Step(f"groups {FROM} --state Asleep", 2),
    Step(f"timeline pricing-poll {FROM} --cause bad_luck", 2),
    Step(f"findings {FROM} --severity bad", 2),
    Step("watch", 2),
    Step(f"watch {FROM} --interval 0", 2),
    Step(f"report {FROM}", 2, about="where to?"),
    Step(f"report nobody {FROM} --out {{tmp}}/nobody.html", 1),
    Step(f"findings {FROM} --tune nonsense.x=1", 2),
    Step("whatif pricing-poll --agent http://localhost:1", 3),
    Step(f"whatif pricing-poll {FROM} --session-timeout 5", 2),
    Step("assign nowhere.ndjson", 2),
    Step("coordinator pricing-poll --bootstrap-server localhost:1", 3),
    Step("coordinator pricing-poll --offsets-partitions 0", 2),
)

RECORDS: tuple[Step, ...] = (
    in_all_formats("decode {data}/__consumer_offsets-32"),
    Step("decode {data}/__consumer_offsets-32 --payloads raw -o table"),
    Step("decode {tmp}/damaged.ndjson", 1),
    Step("decode -", stdin=""),
    Step("decode", 2),
    in_all_formats("replay {data}"),
    Step("replay {data} --group pricing-poll --analyzers none -o table"),
    Step("replay {tmp}/damaged.ndjson", 1),
    Step("replay {data} --broker-log {tmp}/nowhere", 2),
    Step("generate --groups 3 --records 500 --seed 7 --out {tmp}/made --truth {tmp}/truth.ndjson"),
    Step("groups --from {tmp}/made"),
    Step("generate --groups 3 --records 500 --out {tmp}/made", 2, about="what is there is not overwritten"),
    Step("generate", 2),
    Step("generate --mix nonsense --out {tmp}/other", 2),
)

AROUND: tuple[Step, ...] = (
    Step("completion bash"),
    Step("completion zsh"),
    Step("completion fish"),
    Step("completion tcsh", 2),
    in_all_formats("analyzers"),
    Step("analyzers session_timeout"),
    Step("analyzers sesion_timeout", 2),
    in_all_formats("doctor --bootstrap-server localhost:1 --timeout 0.5", 3),
    Step("doctor", 2),
    in_all_formats("config show"),
    Step("config show --no-lag --listen :9308"),
    Step("config show --listen nonsense", 2),
    Step("config check {tmp}/right.yaml"),
    Step("config check {tmp}/wrong.yaml", 2),
    Step("config check", 2),
    Step("config", 2),
    Step("sidecar", 2),
    Step("sidecar render --bootstrap-server kafka:9092 --group payments"),
    Step("sidecar inject {tmp}/deployment.yaml --bootstrap-server kafka:9092 --group payments"),
    Step("sidecar inject {tmp}/right.yaml --bootstrap-server kafka:9092 --group payments", 1),
    Step("sidecar render", 2),
    Step("spark", 2),
    Step("spark backfill", 2),
    Step("spark rollup --history {tmp}/nowhere --out {tmp}/rollups", 2),
    Step("spark report --rollups {tmp}/nowhere --out {tmp}/x.html", 2),
    Step("spark stream", 2),
    Step("spark compact", 2),
    Step("history", 2),
    Step("history rollup --history {tmp}/nowhere --out {tmp}/rollups", 2),
    Step("history report --rollups {tmp}/nowhere --out {tmp}/x.html", 2),
    Step("history query --rollups {tmp}/nowhere SHOW", 2),
    in_all_formats("schema"),
    Step("schema coordinator"),
    Step("schema nothing", 2),
    Step("run --bootstrap-server localhost:1 --listen 127.0.0.1:0", 3),
    Step("run", 2),
    Step("run --bootstrap-server localhost:1 --listen nonsense", 2),
    Step("run --bootstrap-server localhost:1 --shard 9/3", 2),
    Step("demo --nonsense", 2),
)

BROKER = "--bootstrap-server {broker}"
AGENT = "--agent {agent}"
GROUP = "payments-crash"
LIVE: tuple[Step, ...] = (
    *(
        in_all_formats(f"{line} {source}")
        for source in (BROKER, AGENT)
        for line in (
            "groups",
            f"describe {GROUP}",
            f"members {GROUP}",
            f"lag {GROUP}",
            f"timeline {GROUP} --since 1h",
            f"explain {GROUP}",
            "findings",
            f"assign {GROUP}",
        )
    ),
    Step(f"explain checkout-crash-loop {AGENT}"),
    Step(f"explain telemetry-kip848 {AGENT}"),
    Step(f"explain shipping-rolling-deploy {AGENT}"),
    Step(f"explain invoices-slow-batch {BROKER}"),
    Step(f"explain search-lopsided {AGENT}"),
    Step(f"whatif shipping-rolling-deploy {BROKER}"),
    Step(f"report {AGENT} --since 1h --out {{tmp}}/agent.html"),
    Step(f"report {BROKER} --out {{tmp}}/broker.html"),
    Step(f"describe payments-crush {AGENT}", 1),
    Step(f"coordinator {GROUP} {BROKER}"),
    in_all_formats(f"doctor {BROKER}"),
)

OFFLINE = (*TOP, *QUERIES, *CONTEXTS, *WRONG_QUERIES, *RECORDS, *AROUND)
