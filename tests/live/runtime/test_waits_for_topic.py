"""A cluster on which no group has committed yet: the agent waits for the topic, says so, and begins when it comes."""

import re
import signal
import time

import httpx
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from agent.tools.doctor import CheckOutcome, DoctorRequest, examine
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.unit.cli.running import spawn
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")


def commit(servers):
    """As the first group of a cluster does."""
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("orders", b"1")
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "first", "enable.auto.commit": False})
    deadline = time.monotonic() + 60
    while True:
        try:
            consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
            break
        except KafkaException:
            assert time.monotonic() < deadline
            time.sleep(0.5)
    consumer.close()


def line_with(text, process, said):
    """Among the lines that were read, or behind them."""
    for line in said:
        if text in line:
            return line
    for line in process.stderr:
        said.append(line.decode())
        if text in said[-1]:
            return said[-1]
    pytest.fail("it ended")


def url_of(process, said):
    return line_with(" serving http", process, said).split(" serving ")[1].strip().removesuffix("/metrics")


def until_ready_says(url, pattern):
    def said():
        answer = httpx.get(f"{url}/readyz", timeout=10)
        return f"{answer.status_code} {answer.text}"

    until(lambda: re.match(pattern, said()), said=said)


def time_of(metric, url):
    return float(re.search(rf"^{metric} (.*)$", httpx.get(f"{url}/metrics").text, re.MULTILINE)[1])


def test_it_waits_and_begins(tmp_path):
    """Of all partitions, and of one group's, which are looked up before anything is read; and with what the file says
    by then. That brokers go away later, and come back, is in the log."""
    file = tmp_path / "kshadow.yaml"
    file.write_text("deny-group: first")
    with EmbeddedBroker(fetch_jars(), properties={"offsets.topic.num.partitions": "4"}, heap="256m") as broker:
        servers = broker.bootstrap_servers
        for question in (("groups",), ("explain", "first"), ("coordinator", "first")):
            asking = spawn(*question, "--bootstrap-server", servers)
            assert "the cluster has none" in asking.communicate(timeout=60)[1].decode()
            assert asking.returncode == 3
        time.sleep(1)  # What makes the topic has it made, and waits for nothing.
        (topic,) = (it for it in examine(DoctorRequest({"bootstrap.servers": servers})) if it.check == "topic")
        assert topic.outcome is CheckOutcome.WARNING
        assert "kshadow run waits for it" in topic.fix[0]
        options = ("run", "--bootstrap-server", servers, "--listen", "127.0.0.1:0")
        processes = [spawn(*options), spawn(*options, "--group", "first"), spawn("--config", file, *options)]
        try:
            said = [[], [], []]
            urls = [url_of(*it) for it in zip(processes, said, strict=True)]
            for url in urls:
                until_ready_says(url, "503 .*the cluster has none; it is made when the first consumer group asks")
                assert httpx.get(f"{url}/healthz").status_code == 200
                assert "kshadow_source_healthy 0.0" in httpx.get(f"{url}/metrics").text
            for it in zip(processes, said, strict=True):
                # Told once the agent that found no topic has ended, if nobody changes its configuration before.
                line_with("waiting for it", *it)
            file.write_text("deny-group: another")
            reloaded = "kshadow_config_last_reload_success_timestamp_seconds"
            until(lambda: time_of(reloaded, urls[2]) >= file.stat().st_mtime)
            commit(servers)
            for url in urls:
                until_ready_says(url, "200 caught up")
                # The topic is there before the first commit is, and may be read to its end between them.
                until(lambda url=url: [it["group"] for it in httpx.get(f"{url}/api/v1/groups").json()] == ["first"])
            unknown = [httpx.get(f"{url}/api/v1/groups/fourth").json()["error"] for url in urls[:2]]
            assert unknown[0] == "no such group"
            elsewhere = r"it would be in partition \d of __consumer_offsets, which this agent does not read"
            assert re.fullmatch(f"no such group is known: {elsewhere}", unknown[1])
            broker.kill()
            until_ready_says(urls[0], "503 .*reading has stopped")
            broker.restart()
            for url in urls:
                until_ready_says(url, "200 ")
            for process in processes:
                process.send_signal(signal.SIGTERM)
            for process, lines in zip(processes, said, strict=True):
                lines.append(process.communicate(timeout=60)[1].decode())
        finally:
            for process in processes:
                process.kill()
                process.communicate()
        assert [process.returncode for process in processes] == [0, 0, 0]
        for lines, url in zip(said, urls, strict=True):
            assert "".join(lines).count("waiting for it") == 1
            found = rf"caught up: (0 groups|1 group \(1 Empty\)); 0 findings; the page: {re.escape(url)}/"
            assert re.search(found, "".join(lines))
            stopped = r"WARNING kshadow: reading has stopped: .*\n(?:.*\n)*.*reading works again, after \d+ s\n"
            assert re.search(stopped, "".join(lines))
