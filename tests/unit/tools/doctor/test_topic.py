"""What a sample of the topic tells."""

from __future__ import annotations

from agent.core.protocol.hashing import GroupPartitioner, partition_for_group
from agent.tools.doctor.checks import CheckOutcome, DoctorRequest
from agent.tools.doctor.topic import TopicSample, check_placement

REQUEST = DoctorRequest({"bootstrap.servers": "b:9092"})
KAFKAS_ID = "a3NoYWRvdy1lbWJlZGRlZA"


def test_one_group_that_stands_elsewhere_is_told_with_what_may_have_moved_it() -> None:
    """As in a topic that was given more partitions: 6 were 9 on a live cluster."""
    names = [f"g{number}" for number in range(6)]
    places = {name: partition_for_group(name, 6, GroupPartitioner.KAFKA) for name in names}
    before = check_placement(REQUEST, TopicSample(places=places), 6, KAFKAS_ID)
    assert before.outcome is CheckOutcome.OK
    after = check_placement(REQUEST, TopicSample(places=places), 9, KAFKAS_ID)
    assert after.outcome is CheckOutcome.WARNING
    assert "1 where neither Kafka's nor Redpanda's does" in after.found
    assert "was the topic's number of partitions changed? Then read all of it, without --group" in after.fix
