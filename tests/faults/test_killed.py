"""SIGKILL during prepare, training, evaluation, report and reproduce: what was saved is there, the next run goes on.

Beside these, `tests/methods/test_contract.py` breaks every method off in each of its stages and compares the weights,
`tests/experiments` kills processes and Ray workers that compute cells, and
`tests/data/batches/test_prefetch.py` the processes that prepare batches.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fpgm.data.raw.layouts import recognise
from fpgm.data.raw.prepare import prepare
from fpgm.files import LOCK
from fpgm.tensors import read_tensors
from fpgm.training import checkpoint
from tests.cli.making import command as reproduce
from tests.cli.making import runs
from tests.data.pictures import bundle, content, disc, save
from tests.faults.making import drafts, kill_at, works
from tests.processes import PATIENCE, alive, children, wait, wait_until_stopped
from tests.training.running import arguments, same

# Runs `fpgm`; it stands still when its workers have given back twenty images for the store that is being written.
HALFWAY = """
import os, signal, sys
from pathlib import Path
from fpgm.data.parallel import Workers
real = Workers.map
def map(self, *arguments, **options):
    for number, item in enumerate(real(self, *arguments, **options)):
        if number == 20 and list(Path(sys.argv[1]).glob(".data.h5.*.part")):
            os.kill(os.getpid(), signal.SIGSTOP)
        yield item
Workers.map = map
from fpgm.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("finished_before", [False, True], ids=["first run", "second run"])
def test_prepare_leaves_nothing_that_looks_finished(tmp_path: Path, finished_before: bool) -> None:
    folder, out = bundle(tmp_path / "raw/mine", 1), tmp_path / "store"
    if finished_before:
        prepare(*recognise(folder.parent), out, 32)
    before = content(out)
    noise = np.random.default_rng(0).integers(0, 256, (400, 400, 3), dtype=np.uint8)
    source, mask = save(noise, tmp_path / "noise.png"), save(disc(400, 400, 90), tmp_path / "mask.png")
    for number in range(2, 60):
        shutil.copy(source, folder / f"images/{number}.png")
        shutil.copy(mask, folder / f"masks/{number}.png")
    command = ["data", "prepare", "--root", str(folder.parent), "--out", str(out), "--size", "32", "--workers", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", HALFWAY, out / "mine", *command], stdout=subprocess.PIPE, text=True
    )
    wait_until_stopped(process.pid)
    family = children(process.pid)
    assert len(family) >= 2 and len(list(out.glob("mine/.data.h5.*.part"))) == 1
    process.kill()
    process.communicate(timeout=PATIENCE)
    wait(lambda: not any(map(alive, family)))  # the workers end too
    left = {name: data for name, data in content(out).items() if not name.endswith((".part", LOCK))}
    assert left == {
        name: data for name, data in before.items() if not name.endswith(LOCK)
    }  # nothing, or the store of the run before
    for number in range(10, 60):
        (folder / f"images/{number}.png").unlink()
        (folder / f"masks/{number}.png").unlink()
    assert prepare(*recognise(folder.parent), out, 32).status == "written"
    assert sorted(path.name for path in (out / "mine").iterdir()) == [LOCK, "data.h5", "manifest.json"]  # no remains


def test_training_killed_in_each_stage_ends_like_one_that_was_not(
    whole: Path, small_store: Path, tmp_path: Path
) -> None:
    """Steps 1 to 4 are the first stage, and every second one is saved; the kill comes while that is done."""
    run = tmp_path / "run"
    again = arguments(small_store, run, "--resume", method="bcpnet")
    kill_at("last.safetensors", 2, arguments(small_store, run, method="bcpnet"))
    assert next_step(run) == 2
    kill_at("last.safetensors", 3, again)  # after those of steps 4 and 6
    assert next_step(run) == 6 and len(drafts(run)) == 1
    works(again)
    same(whole, run)
    assert not drafts(run)


def next_step(run: Path) -> int:
    _, content = read_tensors(run / "checkpoints" / "last.safetensors", checkpoint.FORMAT)
    return int(content["record"]["next_step"])


def test_evaluation_keeps_what_it_had_and_goes_on(whole: Path, run: Path) -> None:
    shutil.rmtree(run / "evaluation")
    command = ["evaluate", str(run), "--workers", "1"]
    works([*command, "--datasets", "phantom-b"])
    saved = content(run / "evaluation")
    kill_at("phantom-c.csv", 1, command)
    left = content(run / "evaluation")
    assert {name: left[name] for name in saved} == saved  # the record too
    works(["report", str(run), "--out", str(run / "report")])
    works(command)
    assert content(run / "evaluation") == content(whole / "evaluation")


def test_a_report_is_the_old_one_or_the_new_one(whole: Path, tmp_path: Path) -> None:
    command = ["report", str(whole), "--out", str(tmp_path)]
    (tmp_path / "index.html").write_text("the old one")
    kill_at("index.html", 1, command)
    assert (tmp_path / "index.html").read_text() == "the old one"
    works(command)
    assert "</html>" in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("prior.json", ["prior", "learn", "--data", "STORE", "--out", "OUT/prior.json"]),
        ("signature.csv", ["analyze", "signature", "--data", "STORE", "--out", "OUT"]),
        ("model.pt2", ["export", "RUN", "--format", "torch", "--out", "OUT/model.pt2"]),
    ],
)
def test_what_a_killed_command_left_is_cleared_by_the_next(
    file: str, command: list[str], whole: Path, small_store: Path, tmp_path: Path
) -> None:
    places = {"STORE": small_store, "OUT": tmp_path, "RUN": whole}
    for word, place in places.items():
        command = [text.replace(word, str(place)) for text in command]
    kill_at(file, 1, command)
    assert len(drafts(tmp_path)) == 1
    works(command)
    assert (tmp_path / file).is_file() and not drafts(tmp_path)


def test_reproduce_goes_on(small_store: Path, tmp_path: Path) -> None:
    words = reproduce(small_store, tmp_path, "--methods", "supervised", iterations=16)
    folder = tmp_path / "strict" / "mini" / "10pct" / "supervised" / "seed-0"
    kill_at("last.safetensors", 2, words)
    assert not (folder / "cell.json").exists()
    kept = (folder / "metrics.csv").read_text().splitlines()[1]
    kill_at("phantom-c.csv", 1, words)  # the same command trained to the end, and dies in the evaluation
    rows = (folder / "metrics.csv").read_text().splitlines()
    assert rows[1].startswith(kept) and len(rows) == 17  # speed and all: the first step was not computed again
    assert not (folder / "cell.json").exists() and not (folder / "evaluation" / "evaluation.json").exists()
    trained = (folder / "metrics.csv").read_bytes()
    works(words)
    assert (folder / "metrics.csv").read_bytes() == trained and runs(tmp_path)["supervised"]["attempts"] == 1
    assert len(json.loads((folder / "evaluation" / "evaluation.json").read_text())["datasets"]) == 6
