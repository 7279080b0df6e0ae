"""Order, boundedness and a clean end of work in other processes."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial

import pytest

from fpgm.data import parallel
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
        results = workers.map(square, source())  # type: ignore[arg-type]  # a generator, typed as an object
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


@pytest.mark.parametrize(
    ("each", "total", "here"),
    [
        (0.001, 1000, 1000),  # a second in all: never worth it
        (0.01, 1000, 50),  # half a second shows that 9.5 are left
        (0.25, 10, 10),  # half a second shows that 2 are left
        (1.0, 6, 1),  # the first shows that 5 are left
    ],
)
def test_this_process_goes_on_until_others_are_worth_it(each: float, total: int, here: int) -> None:
    now = 0.0

    def work(item: int) -> int:
        nonlocal now
        now += each
        return item + 1

    items = iter(range(total))
    found = list(parallel._begin(work, items, total, lambda: now))
    assert found == list(range(1, here + 1)) and next(items, None) == (here if here < total else None)


def test_what_this_process_began_others_end_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_PROBE", 0.0)
    monkeypatch.setattr(parallel, "_WORTH", 0.0)
    with Workers(2) as workers:
        assert list(workers.map(abs, range(-9, 0), 9)) == list(range(9, 0, -1))
        assert workers._started
    monkeypatch.setattr(parallel, "_WORTH", 9.0)
    with Workers(2) as workers:
        assert list(workers.map(abs, range(-9, 0), 9)) == list(range(9, 0, -1)) and not workers._started


def test_work_that_waits_overlaps_in_one_process_and_stays_in_order() -> None:
    both = threading.Barrier(2, timeout=5)

    def wait(number: int) -> int:
        both.wait()  # passes only if two are at work
        return number

    assert list(Workers(1).map(wait, range(6), waits=True)) == list(range(6))
    found = Workers(1).map(fail, range(9), waits=True)
    with pytest.raises(ValueError, match="no 0"):
        next(found)
    begun: list[int] = []
    results = Workers(1).map(lambda number: begun.append(number) or number, range(1000), waits=True)
    assert next(results) == 0 and len(begun) <= 3  # type: ignore[func-returns-value]  # append gives none, so the number counts
    results.close()  # type: ignore[attr-defined]  # it is a generator
    assert len(begun) <= 3
