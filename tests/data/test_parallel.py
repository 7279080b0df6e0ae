"""Order, boundedness and a clean end of work in other processes."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest

from fpgm.data.parallel import Workers


def square(number: int) -> int:
    return number * number


def die(number: int, at: int) -> int:
    if number == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def fail(number: int) -> int:
    raise ValueError(f"no {number}")


def test_one_worker_is_this_process_and_lazy() -> None:
    seen: list[int] = []
    results = Workers(1).map(seen.append, range(5))
    next(results)
    assert seen == [0]


def test_order_is_kept_and_the_processes_serve_several_maps() -> None:
    with Workers(2) as workers:
        assert list(workers.map(square, range(50))) == [n * n for n in range(50)]
        assert list(workers.map(square, range(3))) == [0, 1, 4]


def test_a_slow_consumer_holds_the_source_back() -> None:
    taken: list[int] = []

    def source() -> object:
        for number in range(10_000):
            taken.append(number)
            yield number

    with Workers(2) as workers:
        results = workers.map(square, source())  # type: ignore[arg-type]
        assert [next(results) for _ in range(10)] == [n * n for n in range(10)]
        assert len(taken) < 60


def test_an_error_of_the_function_comes_through() -> None:
    with Workers(2) as workers, pytest.raises(ValueError, match="no 0"):
        list(workers.map(fail, range(3)))


def test_a_worker_that_dies_is_said_in_words() -> None:
    with Workers(2) as workers, pytest.raises(OSError, match="a worker process died"):
        list(workers.map(partial(die, at=7), range(40)))


@pytest.mark.parametrize("count", [0, -1])
def test_at_least_one(count: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Workers(count)
