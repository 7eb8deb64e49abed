"""What is remembered and said of what was passed over; the search itself is tried on a broker."""

from __future__ import annotations

from agent.kafka.source.quarantine import MAX_PIECES, PassedOver, Quarantine, QuarantineReason
from agent.runtime.queries import passed_over_text


def piece(partition: int, first: int, end: int, reason: QuarantineReason = QuarantineReason.UNPACK) -> PassedOver:
    return PassedOver(partition, first, end, reason, "could not")


def test_all_are_counted_and_the_newest_kept() -> None:
    it = Quarantine()
    for number in range(MAX_PIECES + 5):
        it.add(piece(0, 10 * number, 10 * number + 2))
    it.add(piece(1, 0, 1, QuarantineReason.CORRUPT))
    assert it.records == {QuarantineReason.UNPACK: 2 * (MAX_PIECES + 5), QuarantineReason.CORRUPT: 1}
    assert [one.first for one in it.pieces] == [*(10 * number for number in range(6, MAX_PIECES + 5)), 0]


def test_a_search_that_goes_on_adds_to_what_the_one_before_found() -> None:
    it = Quarantine()
    for one in (piece(0, 1, 5), piece(1, 5, 6), piece(0, 5, 9), piece(0, 9, 10, QuarantineReason.CORRUPT)):
        it.add(one)
    assert it.pieces == (piece(1, 5, 6), piece(0, 1, 9), piece(0, 9, 10, QuarantineReason.CORRUPT))
    assert it.records == {QuarantineReason.UNPACK: 9, QuarantineReason.CORRUPT: 1}


def test_of_a_log_that_is_no_more_nothing_is_remembered() -> None:
    it = Quarantine()
    it.add(piece(0, 1, 2))
    it.add(piece(1, 1, 2))
    it.forget(0)
    assert it.pieces == (piece(1, 1, 2),)
    it.forget()
    assert it.pieces == ()
    assert it.records == {QuarantineReason.UNPACK: 2}


def test_where_why_and_what_to_do() -> None:
    assert str(piece(3, 7, 8)).startswith("partition 3 offset 7: passed over (unpack): could not; it is damaged, or")
    assert "offset 7 to 8: passed over (corrupt)" in str(piece(3, 7, 9, QuarantineReason.CORRUPT))
    for reason in QuarantineReason:
        assert piece(0, 0, 1, reason).advice
    text = passed_over_text([piece(number, 0, 2) for number in range(7)])
    assert text.startswith("14 records could not be read and were passed over (partitions 0, 1, 2, 3, 4, …): ")
    assert text.endswith(str(piece(6, 0, 2)))
    one = passed_over_text([piece(3, 0, 1)])
    assert one.startswith("1 record could not be read and was passed over (partitions 3): ")
