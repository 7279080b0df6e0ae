"""Make the next items in a thread while the last ones are used."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from contextlib import closing
from typing import TypeVar

Item = TypeVar("Item")
_SECONDS = 0.1  # between two looks whether anybody still waits


def prefetched(items: Generator[Item, None, None], ahead: int = 1) -> Generator[Item, None, None]:
    """Yield items in order, of which a thread makes up to `ahead` before they are asked for.

    An error of theirs is raised in its turn. Whoever stops early should close the iterator: the thread then ends after
    the item that it is at, and closes `items`.
    """
    made: queue.Queue[tuple[str, Item | BaseException | None]] = queue.Queue(ahead)
    left = threading.Event()

    def put(kind: str, value: Item | BaseException | None = None) -> None:
        while not left.is_set():
            try:
                return made.put((kind, value), timeout=_SECONDS)
            except queue.Full:
                continue

    def work() -> None:
        try:
            with closing(items):
                for item in items:
                    put("item", item)
                    if left.is_set():
                        return
            put("end")
        except BaseException as error:  # raised in the other thread
            put("error", error)

    thread = threading.Thread(target=work, name="fpgm-prefetch", daemon=True)
    thread.start()
    try:
        while True:
            kind, value = made.get()
            if kind == "end":
                return
            if kind == "error":
                assert isinstance(value, BaseException)
                raise value
            yield value  # type: ignore[misc]  # of an item, the item
    finally:
        left.set()
        thread.join()
