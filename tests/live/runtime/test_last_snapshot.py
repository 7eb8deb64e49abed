"""The last snapshot fails, as on a disk that is gone, or events that nothing keeps cannot be written: the agent says
what is not saved, and ends with 1."""

import shutil
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.faults.agents import AgentProcess
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

SAID = " is not saved; they are read again from the last snapshot of "


def put_file_instead(directory: Path) -> None:
    """The agent makes a directory again that is gone."""
    while directory.is_dir():
        shutil.rmtree(directory.rename(directory.with_name("gone")))
        with suppress(FileExistsError):
            directory.touch(exist_ok=False)


@pytest.mark.thorough  # the checkpointer's own tests have what is saved
def test_the_exit_code_tells_of_it(tmp_path):
    """Of an agent alone, of one that is tried again and again, of one that shares partitions, and of one whose
    directory is there; and of one that has a history instead."""
    properties = {"offsets.topic.num.partitions": "1"}
    with EmbeddedBroker(fetch_jars(), properties=properties, heap="256m") as broker:
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(30)
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "enable.auto.commit": False})

        def commit(offset):
            consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)

        until(lambda: commit(1) is None, 60)
        agents = {}
        for name, more in {
            "alone": (),
            "again": ("--keep-trying",),
            "shares": ("--share-group", "s"),
            "good": (),
        }.items():
            kept = tmp_path / name
            options = ("--bootstrap-server", servers, "--snapshots", str(kept), "--snapshot-interval", "2s", *more)
            agents[name] = AgentProcess(tmp_path, *options, name=f"agent-{name}").start()
        # Where the history goes there is a file.
        (tmp_path / "history").mkdir()
        history = ("--bootstrap-server", servers, "--history-parquet", str(tmp_path / "history"))
        agents["writes"] = AgentProcess(tmp_path, *history, name="agent-writes").start()
        try:
            for name, agent in agents.items():
                agent.wait_ready()
                if name == "writes":
                    continue
                # Not once the file is there: its directory has still to be forced to disk.
                until(lambda agent=agent: ("kshadow_snapshot_age_seconds", "") in agent.metrics(), 60, agent.tail)
                if name != "good":
                    put_file_instead(tmp_path / name)
            put_file_instead(tmp_path / "history")
            commit(2)
            until(lambda: all(it.behind() == 0 for it in agents.values()), 60)
            stops = [threading.Thread(target=it.stop) for it in agents.values()]
            for it in stops:
                it.start()
            for it in stops:
                it.join()
        finally:
            consumer.close()
            for agent in agents.values():
                agent.kill()
    logs = {name: it.log.read_text() for name, it in agents.items()}
    assert [it.exit_codes[0] for it in agents.values()] == [1, 1, 1, 0, 1], logs
    assert [it.count(SAID) for it in logs.values()] == [1, 1, 1, 0, 0], logs
    assert " events that no spool keeps" in logs["writes"]
