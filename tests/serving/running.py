"""A run folder, pictures good and bad, and a server in a process of its own."""

from __future__ import annotations

import base64
import io
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from fpgm.data.synthetic import phantom
from fpgm.spectrum import FrequencyPrior
from tests.forks import fpgm
from tests.processes import PATIENCE, alone
from tests.serving.making import SIZE, model


def make_run(folder: Path, *, prior: bool = True) -> Path:
    """Write a run folder: the small model, and the prior of a phantom."""
    shutil.copytree(model(), folder / "model", dirs_exist_ok=True)
    if prior:
        sample, learned = phantom("phantom-a", 0, size=SIZE), FrequencyPrior()
        image = torch.from_numpy(sample.image).permute(2, 0, 1)[None] / 255
        learned.update(image, torch.from_numpy(sample.mask)[None].float())
        learned.save(folder / "prior.json")
    return folder


def picture(data: bytes | str) -> NDArray[np.uint8]:
    """Return the pixels of a picture file, or of a data URL that holds one."""
    held = base64.b64decode(data.partition(",")[2]) if isinstance(data, str) else data
    return np.asarray(Image.open(io.BytesIO(held)))


def png_header(side: int, *, data: bool = True) -> bytes:
    """A PNG file that claims side x side pixels and holds none."""
    chunks = [b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)] + [b"IDAT" + zlib.compress(b"")] * data
    packed = (struct.pack(">I", len(one) - 4) + one + struct.pack(">I", zlib.crc32(one)) for one in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


@contextmanager
def serving(run: Path, *, fresh: bool = False) -> Iterator[str]:
    """Give the address of `fpgm serve RUN`; at the end it is asked to stop and must do so well.

    Args:
        run: the run folder.
        fresh: whether it gets an interpreter of its own, in the place of a fork.
    """
    command = ["serve", str(run), "--port", "0"]
    process = _fresh(command) if fresh else fpgm(command)
    assert process.stdout is not None
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                break
        else:
            raise AssertionError("".join(lines))
        yield found.group()
        guard = threading.Timer(PATIENCE, process.kill)
        guard.start()
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait() == 0 and "Traceback" not in rest, rest
        guard.cancel()
    finally:
        process.kill()
        process.wait()


def _fresh(command: list[str]) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "fpgm", *command]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=alone())
