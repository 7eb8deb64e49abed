from agent.passing import Passing


def test_without_a_record_the_wall_tells_the_time():
    assert Passing().now_ms(5.0, 1_000_000) == 1_000_000


def test_records_tell_the_time_and_a_steady_clock_what_passed_since():
    passing = Passing()
    passing.arrived(100_000, 10.0)
    assert passing.now_ms(12.5, 102_600) == 102_500
    # A late one changes nothing, a newer one does.
    passing.arrived(90_000, 12.0)
    assert passing.now_ms(12.5, 102_600) == 102_500
    passing.arrived(102_550, 12.5)
    assert passing.now_ms(12.5, 102_600) == 102_550


def test_a_wall_clock_that_jumps_ahead_is_not_believed():
    passing = Passing()
    passing.arrived(100_000, 10.0)
    assert passing.now_ms(11.0, 100_000 + 3_600_000) == 101_000


def test_a_record_that_claims_the_future_is_not_believed():
    passing = Passing()
    passing.arrived(10**15, 10.0)
    assert passing.now_ms(11.0, 101_000) == 101_000
