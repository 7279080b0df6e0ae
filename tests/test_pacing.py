"""Times in words, and when a line is due, by a clock that the test moves."""

from __future__ import annotations

import pytest

from fpgm.pacing import Pace, duration
from tests.clock import Clock


@pytest.mark.parametrize(
    ("seconds", "text"), [(12, "12 s"), (99, "99 s"), (300, "5 min"), (7500, "2 h 5 min"), (273_600, "3 d 4 h")]
)
def test_a_time_for_a_person(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_line_is_due_every_so_often() -> None:
    clock = Clock()
    pace = Pace(0, 100, every=30, clock=clock)
    due = []
    for _ in range(10):  # 10, 20 … 100 s
        clock.now += 10
        due.append(pace.due())
    assert due == [False, False, True] * 3 + [False]
    pace.restart()
    clock.now += 29
    assert not pace.due()


def test_the_rest_takes_as_long_as_what_was_done_here() -> None:
    clock = Clock()
    pace = Pace(40, 100, clock=clock)  # a resumed run
    assert pace.left(40) == ""
    clock.now += 20
    assert pace.left(50) == ", about 100 s left".replace("100 s", "2 min")  # 2 s each, 50 to come
    assert pace.left(100) == ""
