"""A disk that is full or read-only: a sentence that names the file, and what was saved is intact.

The disk is a small tmpfs of its own. Where none can be mounted, a limit on the size of files stands in for a full one.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fpgm.evaluation import evaluate_run
from tests.data.pictures import content
from tests.faults.making import drafts, refusal, works
from tests.processes import alone
from tests.training.running import arguments, same

FULL = "No space left on device"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Give an empty disk of 64 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", disk], check=True)


def leave(disk: Path, free: int) -> None:
    """Shrink the disk until `free` bytes are left."""
    remount(disk, f"size={-(-(shutil.disk_usage(disk).used + free) // 4096) * 4}k")


def synth(out: Path, seed: int = 0) -> list[str]:
    options = ["--count", "30", "--size", "128", "--workers", "1", "--domains", "phantom-a", "--seed", str(seed)]
    return ["data", "synth", "--out", str(out), *options]


def in_process(command: list[str], limit: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command whose files may not be longer than a limit: as where the disk is full, with another name."""

    def obey() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    words = [sys.executable, "-m", "fpgm", *command]
    return subprocess.run(words, env=alone(), capture_output=True, text=True, preexec_fn=obey)


def test_prepare_on_a_full_disk_leaves_the_old_store(disk: Path) -> None:
    """In a process of its own, because HDF5 prints what goes wrong when it ends."""
    works(synth(disk / "store"))
    before = content(disk)
    for free in (0, 2**20, 2**22 + 2**18):  # before the first image, before the first reaches the disk, later
        leave(disk, free)
        done = in_process(synth(disk / "store", seed=1))
        place = disk / "store" / "phantom-a" / "data.h5"
        assert done.returncode == 2 and FULL in done.stderr and f"fpgm: {place} " in done.stderr
        assert done.stderr.count("\n") == 1 and content(disk) == before
    remount(disk, "size=64m")
    works(synth(disk / "store", seed=1))
    assert content(disk).keys() == before.keys() and content(disk) != before


def test_prepare_where_no_file_may_be_long_leaves_the_old_store(tmp_path: Path) -> None:
    works(synth(tmp_path / "store"))
    before = content(tmp_path)
    done = in_process(synth(tmp_path / "store", seed=1), limit=2**22 + 2**18)
    assert done.returncode == 2 and "File too large; free some space" in done.stderr
    assert done.stderr.count("\n") == 1 and content(tmp_path) == before


def test_training_on_a_full_disk_keeps_its_checkpoint(
    whole: Path, small_store: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is room for two checkpoints and a half: the third, that of step 4 beside the best, finds none."""
    run, checkpoint = disk / "run", whole / "checkpoints" / "last.safetensors"
    leave(disk, 5 * checkpoint.stat().st_size // 2)
    said = refusal(capsys, arguments(small_store, run, method="bcpnet"))
    assert f"{run / 'checkpoints' / 'last.safetensors'} cannot be written" in said and FULL in said
    saved = (run / "checkpoints" / "last.safetensors").read_bytes()
    assert b'\\"next_step\\": 2' in saved and not drafts(run)
    again = arguments(small_store, run, "--resume", method="bcpnet")
    leave(disk, 0)
    assert FULL in refusal(capsys, again)
    assert (run / "checkpoints" / "last.safetensors").read_bytes() == saved
    remount(disk, "size=64m")
    works(again)
    same(whole, run)


def test_evaluation_and_report_on_a_full_disk_keep_what_they_had(
    whole: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = disk / "run", disk / "report"
    shutil.copytree(whole, run, ignore=shutil.ignore_patterns("evaluation"))
    evaluate, report = ["evaluate", str(run), "--workers", "1"], ["report", str(run), "--out", str(out)]
    works([*evaluate, "--datasets", "phantom-a"])
    works(report)
    before = content(disk)
    leave(disk, 2 * 4096)
    said = refusal(capsys, evaluate)
    assert FULL in said and str(run / "evaluation" / "phantom-") in said
    assert FULL in refusal(capsys, report)
    assert {name: data for name, data in content(disk).items() if name in before} == before and not drafts(disk)
    remount(disk, "size=64m")
    works(evaluate)
    works(report)
    assert content(run / "evaluation") == content(whole / "evaluation")


def test_a_read_only_disk_is_read_and_not_written(
    whole: Path, small_store: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = disk / "run"
    shutil.copytree(whole, run)
    remount(disk, "ro")
    before = content(disk)
    writing = {
        "new": arguments(small_store, disk / "new"),
        "run": arguments(small_store, run, "--resume", method="bcpnet"),
        "report": ["report", str(run), "--out", str(disk / "report")],
        "store": synth(disk / "store"),
        "prior": ["prior", "learn", "--data", str(small_store), "--out", str(disk / "prior.json")],
    }
    for place, command in writing.items():
        said = refusal(capsys, command)
        assert "Read-only file system" in said and str(disk / place) in said
    evaluate_run(run, device=torch.device("cpu"))  # all of it is there already
    assert content(disk) == before


def test_a_file_in_the_place_of_a_folder_is_named(
    whole: Path, small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a user without rights meets too, and a superuser is not spared."""
    (tmp_path / "file").write_text("mine")
    for command in (
        synth(tmp_path / "file" / "store"),
        ["report", str(whole), "--out", str(tmp_path / "file" / "report")],
    ):
        assert str(tmp_path / "file") in refusal(capsys, command)
    assert (tmp_path / "file").read_text() == "mine"
