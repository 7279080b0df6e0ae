"""Decoding processes: reused, replaced when a file kills them, and gone with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from PIL import Image

from fpgm.data import headers, sandbox
from fpgm.data.pictures import Refused, read_frames, read_picture
from tests.data.pictures import encoded, scan_bomb, tile_bomb
from tests.processes import alive, children, wait

GOOD = encoded(Image.new("RGB", (6, 4), "red"))
FILM = encoded(Image.new("L", (6, 4)), "TIFF", save_all=True, append_images=[Image.new("L", (5, 3))] * 3)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Begin and end without a process."""
    sandbox.stop_decoders()
    yield
    sandbox.stop_decoders()


def test_a_process_is_reused() -> None:
    for _ in range(3):
        assert read_picture(GOOD).getpixel((0, 0)) == (255, 0, 0)
    assert len(sandbox._idle) == 1


def test_a_picture_that_takes_too_long_costs_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the header is switched off: the decoder's own limit must do."""
    monkeypatch.setattr(headers, "MAX_SCANS", 10**9)
    with pytest.raises(Refused, match="it takes too long to decode") as caught:
        read_picture(scan_bomb(100_000, 640, 480))
    assert caught.value.kind == "too costly" and not sandbox._idle
    assert read_picture(GOOD).size == (6, 4)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit on memory is Linux's")
def test_a_tile_takes_no_more_memory_than_its_picture_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the header is switched off, as above."""
    monkeypatch.setattr(headers, "MAX_TILE", 2**60)
    with pytest.raises(Refused, match="more memory than a picture of its size"):
        read_picture(tile_bomb(46336))


def test_a_process_that_does_not_answer_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    read_picture(GOOD)
    (decoder,) = sandbox._idle
    decoder.process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(sandbox, "WALL_SECONDS", 0.0)
    with pytest.raises(Refused, match="it takes too long"):
        read_picture(GOOD)
    assert not alive(decoder.process.pid)


def test_a_crash_is_said_and_a_process_that_died_is_replaced() -> None:
    read_picture(GOOD)
    (decoder,) = sandbox._idle
    decoder.process.send_signal(signal.SIGSEGV)
    with pytest.raises(sandbox.DecoderDied, match="crashed \\(exit code -11\\)"):
        list(decoder.ask({"kind": "picture", "most": 100}, GOOD))
    assert read_picture(GOOD).size == (6, 4)


def test_an_answer_that_is_left_early_is_not_mixed_with_the_next() -> None:
    count, frames = read_frames(FILM)
    assert count == 4 and next(frames).size == (6, 4)
    assert read_picture(GOOD).size == (6, 4)  # by another process
    del frames
    assert [frame.size for frame in read_frames(FILM)[1]] == [(6, 4)] + [(5, 3)] * 3


PARENT = """
import signal, sys, time
from fpgm.data.pictures import read_picture
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts jobs in the background without it
read_picture(bytes.fromhex(sys.argv[1]))
print("decoded", flush=True)
time.sleep(1e6)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_processes_die_with_their_parent(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, GOOD.hex()], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout and parent.stdout.readline() == "decoded\n"
        (decoder,) = children(parent.pid)
        parent.send_signal(number)
        parent.wait()
        wait(lambda: not alive(decoder))


def test_a_script_without_a_guard_can_decode() -> None:
    """`multiprocessing` would run the script again."""
    script = f"from fpgm.data.pictures import read_picture\nprint(read_picture({GOOD!r}).size)\n"
    done = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True, check=False)
    assert done.stdout == "(6, 4)\n", done.stderr


def test_a_fork_does_not_speak_to_its_parent_s_process() -> None:
    read_picture(GOOD)
    if (child := os.fork()) == 0:
        os._exit(0 if not sandbox._idle else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert read_picture(GOOD).size == (6, 4) and len(sandbox._idle) == 1
