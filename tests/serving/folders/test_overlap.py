"""Items come in order, a bounded number ahead; errors in their turn; nothing stays behind."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import closing

import pytest

from fpgm.serving.folders.overlap import prefetched


def count(total: int, made: list[int], ended: threading.Event | None = None) -> Generator[int, None, None]:
    try:
        for number in range(total):
            made.append(number)
            yield number
    finally:
        if ended:
            ended.set()


@pytest.mark.parametrize("ahead", [1, 3])
def test_all_items_come_in_order_made_by_another_thread(ahead: int) -> None:
    def names() -> Generator[str, None, None]:
        for _ in range(5):
            yield threading.current_thread().name

    assert set(prefetched(names(), ahead)) == {"fpgm-prefetch"}
    assert list(prefetched(count(20, []), ahead)) == list(range(20))
    assert list(prefetched(count(0, []), ahead)) == []


def test_no_more_is_made_than_asked_for() -> None:
    made: list[int] = []
    with closing(prefetched(count(50, made), 2)) as items:
        assert [next(items) for _ in range(3)] == [0, 1, 2]
        threading.Event().wait(0.05)
        assert 3 <= len(made) <= 3 + 2 + 1  # two wait, one is at the door


def test_an_error_comes_after_what_was_made_before_it() -> None:
    def broken() -> Generator[int, None, None]:
        yield 1
        raise ValueError("damaged")

    items = prefetched(broken())
    assert next(items) == 1
    with pytest.raises(ValueError, match="damaged"):
        next(items)


def test_who_stops_early_leaves_no_thread() -> None:
    ended = threading.Event()
    with closing(prefetched(count(1000, [], ended))) as items:
        next(items)
    assert ended.is_set() and not [one for one in threading.enumerate() if one.name == "fpgm-prefetch"]
