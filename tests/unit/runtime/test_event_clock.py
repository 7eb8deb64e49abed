from agent.runtime.event_clock import PATIENCE_S, EventClock

WALL = 1_790_000_000_000


def test_without_a_record_of_now_the_wall_is_believed_after_a_while_only():
    passing = EventClock()
    passing.record_read(0, WALL - 7_200_000, 0.0)
    assert passing.now_ms(5.0, WALL) is None
    assert passing.now_ms(5.0 + PATIENCE_S / 2, WALL + 15_000) is None
    assert passing.now_ms(5.0 + PATIENCE_S, WALL + 30_000) == WALL + 30_000
    passing.record_arrived(WALL - 7_170_000, 6.0 + PATIENCE_S, WALL)
    assert passing.now_ms(7.0 + PATIENCE_S, WALL + 32_000) == WALL - 7_169_000


def test_a_wall_that_shows_what_the_last_record_did_is_believed_at_once():
    passing = EventClock()
    passing.record_read(0, WALL - 3_000, 0.0)
    assert passing.now_ms(5.0, WALL) == WALL


def test_records_tell_the_time_and_a_steady_clock_what_passed_since():
    passing = EventClock()
    passing.record_arrived(100_000, 10.0, 102_600)
    assert passing.now_ms(12.5, 102_600) == 102_500
    # A late one changes nothing, a newer one does.
    passing.record_arrived(90_000, 12.0, 102_600)
    assert passing.now_ms(12.5, 102_600) == 102_500
    passing.record_arrived(102_550, 12.5, 102_600)
    assert passing.now_ms(12.5, 102_600) == 102_550


def test_a_wall_clock_that_jumps_ahead_is_not_believed():
    passing = EventClock()
    passing.record_arrived(100_000, 10.0, 102_600)
    assert passing.now_ms(11.0, 100_000 + 3_600_000) == 101_000


def test_a_record_that_claims_the_future_is_not_believed():
    passing = EventClock()
    passing.record_arrived(100_000, 10.0, 101_000)
    passing.record_arrived(10**15, 10.0, 101_000)
    assert passing.now_ms(11.0, 101_000) == 101_000


def test_a_record_that_is_ahead_of_a_wall_that_is_ahead_itself_is_no_clock():
    """Found by simulation, seed 53: of the two the lesser was believed, so time was the wall's, which was wrong."""
    passing, wall_ms = EventClock(), WALL + 180_000
    passing.record_arrived(WALL, 10.0, wall_ms)
    passing.record_arrived(WALL + 3_600_000, 11.0, wall_ms + 1_000)
    assert passing.now_ms(12.0, wall_ms + 2_000) == WALL + 2_000


def test_a_record_may_be_as_late_as_the_wall_unless_most_partitions_show_that_the_wall_is_behind():
    passing = EventClock()
    assert passing.latest_ms(10.0, WALL) == WALL
    for partition in (0, 1):
        passing.record_read(partition, WALL + 3_600_000, 10.0)
        assert passing.latest_ms(11.0, WALL) == WALL, "one record that claims the future, or two, show nothing"
    passing.record_read(2, WALL - 1_000, 10.0)
    passing.record_read(3, WALL - 1_000, 10.0)
    assert passing.latest_ms(11.0, WALL) == WALL
    passing.record_read(2, WALL + 3_600_500, 10.5)
    passing.record_read(3, WALL + 3_600_500, 10.5)
    assert passing.latest_ms(11.0, WALL) == WALL + 3_601_000


def test_partitions_that_another_replica_took_over_tell_nothing_any_more():
    passing = EventClock()
    for partition in range(4):
        passing.record_read(partition, WALL + 3_600_000, 10.0)
    assert passing.latest_ms(10.0, WALL) == WALL + 3_600_000
    passing.forget([1, 2, 9])
    assert passing.latest_ms(10.0, WALL) == WALL
