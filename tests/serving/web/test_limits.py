"""Places, threads and uploads: shared between clients, and freed by those who leave."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest
from fastapi import HTTPException

from fpgm.serving.web.limits import Limits, Queue, read_body, read_upload
from tests.data.pictures import scan_bomb, tile_bomb
from tests.processes import PATIENCE


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    async def poll() -> None:
        while not condition():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(poll(), PATIENCE)


def test_clients_take_turns() -> None:
    """Two threads, both at requests of `a`: the first that is free goes to `b`, though `a` has waited longer."""
    done: list[str] = []
    names = ["a1", "a2", "a3", "a4", "b1"]
    go = {name: threading.Event() for name in names}

    def work(name: str) -> None:
        go[name].wait(PATIENCE)
        done.append(name)

    async def ask() -> None:
        queue = Queue(Limits(threads=2))
        tasks = [asyncio.ensure_future(queue.run(name[0], partial(work, name))) for name in names]
        await settle()
        go["b1"].set()
        go["a1"].set()
        await until(lambda: len(done) == 2)
        assert done == ["a1", "b1"]
        for event in go.values():
            event.set()
        await asyncio.gather(*tasks)
        queue.close()

    asyncio.run(ask())
    assert sorted(done) == names


def test_who_leaves_the_queue_is_not_computed_and_gives_way() -> None:
    done: list[str] = []
    go = threading.Event()

    async def ask() -> None:
        queue = Queue(Limits(threads=1))
        first = asyncio.ensure_future(queue.run("a", lambda: go.wait(PATIENCE)))
        second = asyncio.ensure_future(queue.run("b", lambda: done.append("b")))
        third = asyncio.ensure_future(queue.run("c", lambda: done.append("c")))
        await settle()
        second.cancel()
        first.cancel()  # its thread is not free before the work ends
        await settle()
        assert not done and len(queue._running) == 1
        go.set()
        await third
        await until(lambda: not queue._running)
        queue.close()

    asyncio.run(ask())
    assert done == ["c"]


def test_a_turn_that_was_given_to_one_who_left_goes_on_to_the_next() -> None:
    done: list[str] = []

    async def ask() -> None:
        queue = Queue(Limits(threads=1))
        queue._running["other"] = "z", 0.0
        first = asyncio.ensure_future(queue.run("a", lambda: done.append("a")))
        second = asyncio.ensure_future(queue.run("b", lambda: done.append("b")))
        await settle()
        del queue._running["other"]
        queue._call_next()  # the turn is given to the first, and not taken yet
        first.cancel()
        await second
        queue.close()

    asyncio.run(ask())
    assert done == ["b"]


def test_one_client_may_not_take_all() -> None:
    queue = Queue(Limits(per_client=2))
    with queue.request("a"), queue.request("a"):
        with pytest.raises(HTTPException) as caught, queue.request("a"):
            pass
        assert caught.value.status_code == 429 and "Your address has 2 requests" in caught.value.detail
        with queue.request("b"):
            pass
    with queue.request("a"):
        pass
    assert not +queue._clients


def test_uploads_share_their_memory() -> None:
    queue = Queue(Limits(places=1, max_bytes=100))
    with queue.request("a") as one:
        one(60)
        with pytest.raises(HTTPException) as caught, queue.request("b") as other:
            other(30)
            other(30)
        assert caught.value.status_code == 503
        one(40)
    assert queue._held == 0


def test_the_server_knows_when_no_worker_answers() -> None:
    go = threading.Event()

    async def ask() -> None:
        queue = Queue(Limits(threads=2, stalled=0))
        assert not queue.is_stalled()
        tasks = [asyncio.ensure_future(queue.run("a", lambda: go.wait(PATIENCE)))]
        await settle()
        assert not queue.is_stalled()  # the other thread is free
        tasks.append(asyncio.ensure_future(queue.run("a", lambda: go.wait(PATIENCE))))
        await settle()
        assert queue.is_stalled()
        go.set()
        await asyncio.gather(*tasks)
        await until(lambda: not queue.is_stalled())
        queue.close()

    asyncio.run(ask())


def test_an_upload_may_not_pause_for_long() -> None:
    async def stop() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    with pytest.raises(HTTPException) as caught:
        asyncio.run(read_body(stop(), Limits(pause=0.1)))
    assert caught.value.status_code == 408 and "paused for 0.1" in caught.value.detail


def test_nothing_is_kept_of_an_upload_that_says_it_is_too_large() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"xxxx"

    kept: list[int] = []
    with pytest.raises(HTTPException) as caught:
        asyncio.run(read_body(pieces(), Limits(max_bytes=15), kept.append, declared=16))
    assert caught.value.status_code == 413 and not kept


@pytest.mark.parametrize(("data", "words"), [(scan_bomb(1000), "1000 scans"), (tile_bomb(46336), "46,336 x 46,336")])
def test_an_upload_that_costs_too_much_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(HTTPException) as caught:
        read_upload(data, Limits())
    assert caught.value.status_code == 422 and words in caught.value.detail
