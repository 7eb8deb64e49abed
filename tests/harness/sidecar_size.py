"""What the agent costs beside one quiet group of a busy cluster: memory, CPU, and that it reads one partition.

    python -m tests.harness.sidecar_size [--records 300000] [--seconds 60]

Real broker, 50 partitions of the topic with other groups' records in all of them, a real consumer that has nothing to
do but to commit. Linux: it reads /proc.
"""

from __future__ import annotations

import argparse
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.request import urlopen

from confluent_kafka import Consumer, Producer

from agent.core.protocol.hashing import partition_for_group
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from agent.tools.embedded.ports import free_ports
from agent.tools.sidecar.container import Sidecar, arguments
from tests.harness.bench.measure import Service, service
from tests.harness.bench.tools import KSHADOW
from tests.unit.cli.running import kshadow
from tests.waiting import until

PARTITIONS = 50
GROUP = "payments"
SCRAPE_S = 15.0
"""How often it is scraped, as by a Prometheus of usual settings."""
MOST_MB = 80.0
MOST_CPU = 0.01

AS_SIDECAR = tuple(
    argument
    for argument in arguments(Sidecar(image="kshadow", bootstrap_server="", groups=(GROUP,)))[1:]
    if not argument.startswith(("--bootstrap-server=", "--listen="))
)
"""What `kshadow sidecar` puts beside a consumer, but for where brokers are and where it listens."""


class Size(NamedTuple):
    """What an agent took: seconds until it was ready, megabytes after, and what share of a core over some time.

    RSS and peak sum over its processes (the observer is one of its own) and count what they share, libraries mostly,
    for each; PSS counts it once, as a container's limit does. `records` were read of `partitions` partitions.
    """

    ready_s: float
    ready_cpu_s: float
    rss_mb: float
    peak_mb: float
    pss_mb: float
    cpu: float
    records: int
    partitions: int


@dataclass
class QuietGroup:
    """A consumer with nothing to do, in a thread: it commits where it is each five seconds, as most do."""

    servers: str
    commits: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until `stop`."""
        conf = {"bootstrap.servers": self.servers, "group.id": GROUP, "auto.offset.reset": "earliest"}
        consumer = Consumer({**conf, "client.id": "payments-1", "log_level": "2", "enable.auto.commit": "false"})
        consumer.subscribe(["orders"])
        due = 0.0
        seen = False
        while not self._stop.is_set():
            seen |= consumer.poll(0.2) is not None
            if seen and time.monotonic() >= due:
                consumer.commit(offsets=consumer.position(consumer.assignment()), asynchronous=False)
                self.commits += 1
                due = time.monotonic() + 5
        consumer.close()

    def stop(self) -> None:
        """Leave the group."""
        self._stop.set()


@contextmanager
def cluster(records: int, groups: int = 200) -> Iterator[str]:
    """A broker whose topic holds so many records of other groups, and a quiet group; gives its address."""
    with EmbeddedBroker(fetch_jars(), properties={"offsets.topic.num.partitions": str(PARTITIONS)}) as broker:
        servers = broker.bootstrap_servers
        made = kshadow(
            *("generate", "--groups", groups, "--records", records, "--bootstrap-server", servers, "--create-topic")
        )
        assert made.exit_code == 0, made.stderr
        producer = Producer({"bootstrap.servers": servers, "log_level": "2"})
        for number in range(100):
            producer.produce("orders", str(number))
        producer.flush()
        quiet = QuietGroup(servers)
        thread = threading.Thread(target=quiet.run)
        thread.start()
        try:
            until(lambda: quiet.commits > 0, 30)
            yield servers
        finally:
            quiet.stop()
            thread.join()


def measure(servers: str, options: Sequence[str], seconds: float, directory: Path, settle_s: float = 10.0) -> Size:
    """Run an agent until it has caught up, then for `settle_s` and so many seconds more, scraped all the while."""
    port = free_ports(1)[0]
    url = f"http://127.0.0.1:{port}"
    command = [*KSHADOW, "run", "--bootstrap-server", servers, "--listen", f"127.0.0.1:{port}", *options]
    with service(command, env={}, cwd=directory, name="agent") as it:
        ready = it.until(lambda: _answers(f"{url}/readyz"), 120)
        _rest(it, url, settle_s)
        cpu_s, at = it.usage().cpu_s, time.monotonic()
        metrics = _rest(it, url, seconds)
        usage, passed_s = it.usage(), time.monotonic() - at
    return Size(
        ready.wall_s,
        ready.usage.cpu_s,
        usage.rss_mb,
        usage.peak_mb,
        usage.pss_mb,
        (usage.cpu_s - cpu_s) / passed_s,
        sum(value for value in _values(metrics, "kshadow_records_total")),
        len(_values(metrics, "kshadow_caught_up")),
    )


def _rest(it: Service, url: str, seconds: float) -> str:
    """Let time pass, with a scrape at its beginning and each `SCRAPE_S`; the last one's text."""
    until_s = time.monotonic() + seconds
    while True:
        with urlopen(f"{url}/metrics", timeout=10) as response:
            text: str = response.read().decode()
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            return text
        time.sleep(min(SCRAPE_S, left_s))
        if it.process.poll() is not None:
            raise RuntimeError(it.log.read_text(errors="replace")[-500:])


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def _values(text: str, name: str) -> list[int]:
    return [int(float(value)) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)]


def table(sizes: dict[str, Size]) -> str:
    """For people."""
    head = (
        "options",
        "ready s",
        "CPU s by then",
        "RSS MB",
        "peak MB",
        "PSS MB",
        "% of a core",
        "records",
        "partitions",
    )
    rows = [
        (
            name,
            f"{it.ready_s:.1f}",
            f"{it.ready_cpu_s:.1f}",
            f"{it.rss_mb:.1f}",
            f"{it.peak_mb:.1f}",
            f"{it.pss_mb:.1f}",
            f"{100 * it.cpu:.2f}",
            f"{it.records:,}",
            f"{it.partitions}",
        )
        for name, it in sizes.items()
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)
    )


def main() -> int:
    """Measure, print, and say whether the bounds hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.sidecar_size")
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    variants = {
        "as a sidecar": AS_SIDECAR,
        "and --no-lag": (*AS_SIDECAR, "--no-lag"),
        "and --admin": (*AS_SIDECAR, "--admin"),
        "all groups": (),
    }
    with TemporaryDirectory() as directory, cluster(asked.records) as servers:
        print(f"{GROUP} is in partition {partition_for_group(GROUP, PARTITIONS)} of {PARTITIONS}")
        sizes = {}
        for name, options in variants.items():
            sizes[name] = measure(servers, options, asked.seconds, Path(directory))
            print(table(sizes).splitlines()[-1], flush=True)
    print(table(sizes))
    fits = sizes["as a sidecar"].rss_mb < MOST_MB and all(
        sizes[name].pss_mb < MOST_MB and sizes[name].cpu < MOST_CPU for name in ("as a sidecar", "and --admin")
    )
    print(f"bounds ({MOST_MB:.0f} MB, {100 * MOST_CPU:.0f} % of a core): {'kept' if fits else 'NOT KEPT'}")
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
