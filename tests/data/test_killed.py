"""What a run that is killed leaves behind."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fpgm.data.building import build
from fpgm.data.layouts import recognise
from tests.data.pictures import bundle, content, disc, save


def children(process: int) -> set[int]:
    """All descendants of a process, from /proc."""
    try:
        direct = {int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()}
    except FileNotFoundError:
        return set()
    return direct.union(*(children(child) for child in direct))


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait(condition: object, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("finished_before", [False, True], ids=["first run", "second run"])
def test_a_killed_run_leaves_nothing_that_looks_finished(tmp_path: Path, finished_before: bool) -> None:
    folder, out = bundle(tmp_path / "raw/mine", 1), tmp_path / "store"
    if finished_before:
        build(*recognise(folder.parent), out, 32)
    before = content(out)
    noise = np.random.default_rng(0).integers(0, 256, (400, 400, 3), dtype=np.uint8)
    source, mask = save(noise, tmp_path / "noise.png"), save(disc(400, 400, 90), tmp_path / "mask.png")
    for number in range(2, 500):
        shutil.copy(source, folder / f"images/{number}.png")
        shutil.copy(mask, folder / f"masks/{number}.png")
    command = ["data", "prepare", "--root", str(folder.parent), "--out", str(out), "--size", "32", "--workers", "2"]
    process = subprocess.Popen([sys.executable, "-m", "fpgm", *command], stdout=subprocess.DEVNULL)
    wait(lambda: list(out.glob("mine/.data.h5.*.part")) and len(children(process.pid)) >= 2)
    family = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL
    wait(lambda: not any(map(alive, family)))  # the workers end too
    left = {name: data for name, data in content(out).items() if not name.endswith(".part")}
    assert left == before  # nothing, or the store of the run before
    for number in range(10, 500):
        (folder / f"images/{number}.png").unlink()
        (folder / f"masks/{number}.png").unlink()
    assert build(*recognise(folder.parent), out, 32).status == "written"
    assert sorted(path.name for path in (out / "mine").iterdir()) == [
        "data.h5",
        "manifest.json",
    ]  # the remains are gone
