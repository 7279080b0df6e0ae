"""Load `fpgm serve` on loopback: requests per second, latency, errors, memory; beside it predictor and network alone.

    python benchmarks/serve.py [--seconds 30] [--clients 8] [--hostile 0] [--size 256] [--run RUN]

The model is the paper's UNet with random weights unless a run is given, the frame a JPEG of 622 x 529. Clients and
server share the machine. With `--hostile 50` as many other clients, at ten other loopback addresses, hold connections
idle, send an upload byte by byte, send files that are too large, and JPEG files with too many scans. The exit code is
1 if an honest request fails or the memory is not flat.
"""

from __future__ import annotations

from harness import compare, memory

import argparse
import io
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import numpy as np

KINDS = ("idle", "slow", "oversize", "bomb")
RATE, LATE = 0.9, 3.0  # least of the network's images per second; most of one client's latency
FLAT = 1.1  # of the memory's median in the last third over that in the first third after the warm-up


def make_run(folder: Path, size: int) -> Path:
    """Write a model of the paper's UNet."""
    from fpgm.model import save_model
    from fpgm.nets import build
    from fpgm.runs.card import ModelCard

    save_model(folder / "model", build("unet"), ModelCard(net="unet", arguments={}, size=size, training={}))
    return folder


def make_frame() -> bytes:
    """A phantom as a JPEG file of the size of a Kvasir frame."""
    from PIL import Image

    from fpgm.data.synthetic import phantom

    picture = Image.fromarray(phantom("phantom-a", 0, size=512).image).resize((622, 529))
    picture.save(file := io.BytesIO(), "jpeg", quality=92)
    return file.getvalue()


def make_bomb() -> bytes:
    """A progressive JPEG of a 4K frame whose last scan is repeated a thousand times."""
    from PIL import Image

    Image.new("RGB", (3840, 2160)).save(file := io.BytesIO(), "jpeg", progressive=True)
    good = file.getvalue()
    return good[:-2] + good[good.rindex(b"\xff\xda") : -2] * 1000 + good[-2:]


@contextmanager
def serving(run: Path) -> Iterator[tuple[int, int]]:
    """Give port and process id of a server."""
    command = [sys.executable, "-m", "fpgm", "serve", str(run), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:(\d+)", said)
            assert found, said
            yield int(found.group(1)), process.pid
        finally:
            process.terminate()


def ask(port: int, frame: bytes, end: float, spent: list[float], errors: list[str]) -> None:
    """One client: send the frame over and over on one connection."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    while time.perf_counter() < end:
        start = time.perf_counter()
        try:
            connection.request("POST", "/api/predict", frame)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200 or b'"polyps"' not in body:
                errors.append(f"{answer.status} {body[:200]!r}")
        except (OSError, HTTPException) as error:
            errors.append(repr(error))
            connection.close()
        spent.append(time.perf_counter() - start)


def attack(port: int, kind: str, address: str, bomb: bytes, end: float) -> None:
    """One hostile client: do the same over and over, whatever the answer."""
    head = "POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n"
    while time.perf_counter() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 10, (address, 0)) as client:
            if kind == "idle":
                client.recv(1)
            elif kind == "slow":
                client.sendall(head.format(10**6).encode())
                while time.perf_counter() < end:
                    client.sendall(b"x")
                    time.sleep(0.5)
            elif kind == "oversize":
                client.sendall(head.format(30 * 2**20).encode() + bytes(30 * 2**20))
                client.recv(2000)
            else:
                client.sendall(head.format(len(bomb)).encode() + bomb)
                client.recv(2000)
        time.sleep(0.1)


@contextmanager
def attacked(port: int, hostile: int, seconds: float) -> Iterator[None]:
    """Let hostile clients work for a number of seconds."""
    bomb, end = make_bomb(), time.perf_counter() + seconds
    threads = [
        threading.Thread(target=attack, args=(port, KINDS[i % len(KINDS)], f"127.0.0.{2 + i % 10}", bomb, end))
        for i in range(hostile)
    ]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()


def load(port: int, pid: int, frame: bytes, clients: int, seconds: float) -> tuple[list[float], list[str], list[float]]:
    """Let clients ask at the same time: seconds of each request, errors, and the server's memory in MB over time."""
    spent: list[float] = []
    errors: list[str] = []
    held: list[float] = []
    end = time.perf_counter() + seconds
    threads = [threading.Thread(target=ask, args=(port, frame, end, spent, errors)) for _ in range(clients)]
    for thread in threads:
        thread.start()
    while time.perf_counter() < end:
        held.append(family_memory(pid))
        time.sleep(min(0.25, seconds / 20))
    for thread in threads:
        thread.join()
    return spent, errors, held


def family_memory(pid: int) -> float:
    """MB that a server and the processes it has started hold."""
    lists = [task / "children" for task in Path(f"/proc/{pid}/task").iterdir()]
    total = memory(pid=pid)
    for child in " ".join(one.read_text() for one in lists if one.exists()).split():
        with suppress(OSError, StopIteration):  # it has just ended
            total += memory(pid=child)
    return total


def alone(run: Path, frame: bytes, seconds: float) -> float:
    """Images per second of the same work in this process, one after the other."""
    from fpgm.data.pictures import read_picture
    from fpgm.serving.predictor import describe, load_predictor

    predictor, count = load_predictor(run), 0
    predictor.predict([read_picture(frame)])
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        masks, probabilities = predictor.predict([read_picture(frame)])
        describe(masks[0], probabilities[0])
        count += 1
    return count / (time.perf_counter() - start)


def network(run: Path, seconds: float) -> float:
    """Images per second of the network alone, in passes of one image or of as many as it takes at a time."""
    from fpgm.serving.predictor import BATCH, load_engine

    engine, rates = load_engine(run), []
    for size in (1, BATCH):
        batch = np.random.default_rng(0).random((size, 3, engine.card.size, engine.card.size), np.float32)
        engine.probabilities(batch)
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < seconds / 2:
            engine.probabilities(batch)
            count += size
        rates.append(count / (time.perf_counter() - start))
    return max(rates)


def measure(run: Path, clients: int, seconds: float, hostile: int) -> bool:
    """Print the figures; return whether all went well."""
    frame = make_frame()
    before = alone(run, frame, seconds / 6)
    with serving(run) as (port, pid):
        load(port, pid, frame, clients, seconds / 6)  # warm-up
        single = float(np.median(load(port, pid, frame, 1, seconds / 6)[0]))
        with attacked(port, hostile, seconds):
            start = time.perf_counter()
            spent, errors, held = load(port, pid, frame, clients, seconds)
            rate = len(spent) / (time.perf_counter() - start)  # the last requests end a little later
    bare = (before + alone(run, frame, seconds / 6)) / 2
    net = network(run, seconds / 6)
    middle, late = np.percentile(spent, [50, 95])
    third = max(1, len(held) // 3)
    first, last = float(np.median(held[:third])), float(np.median(held[-third:]))
    print(f"  {len(spent)} requests in {seconds:g} s, {len(errors)} errors, at most {max(held):.0f} MB")
    print(f"  latency: median {middle * 1e3:.0f} ms, 95th percentile {late * 1e3:.0f} ms")
    both = {"unit": "requests/s", "fast": True}
    compare("serve", f"{clients} clients", 1 / rate, 1 / bare, "the predictor alone", **both)
    compare("serve", f"{clients} clients", 1 / rate, 1 / net, "the network alone", target=RATE, **both)
    compare("serve", f"95th percentile of {clients} clients", late, single, "one client's median", target=LATE)
    compare("serve", "memory, last third of the time", last, first, "first third", target=FLAT, unit="MB")
    for error in sorted(set(errors))[:5]:
        print(f"  error: {error}")
    return not errors and last <= FLAT * first


def main() -> int:
    """Load the server of a run, or of a new model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--hostile", type=int, default=0, help="clients that attack the server meanwhile")
    parser.add_argument("--size", type=int, default=256, help="of the new model's images")
    parser.add_argument("--run", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = options.run or make_run(Path(folder), options.size)
        return 0 if measure(run, options.clients, options.seconds, options.hostile) else 1


if __name__ == "__main__":
    sys.exit(main())
