"""Signals that are put off: they come after the block, and once."""

import os
import signal

import pytest

from agent.common.interrupts import deferred_interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_after_the_block(number):
    came = []
    before = signal.signal(number, lambda it, _: came.append(it))
    try:
        with deferred_interrupts():
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
            assert came == []
        assert came == [number]
        os.kill(os.getpid(), number)
        assert came == [number, number]
    finally:
        signal.signal(number, before)


def test_ctrl_c_is_raised_behind_it():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    done = []

    def interrupted():
        with deferred_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("whole")

    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == ["whole"]
