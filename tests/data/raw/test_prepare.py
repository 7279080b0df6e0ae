"""Whole data sets: what is kept, what is left out, and what is done again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fpgm.data import manifest
from fpgm.data.parallel import Workers
from fpgm.data.raw import prepare as preparing
from fpgm.data.raw.layouts import own_folders, recognise
from fpgm.data.raw.prepare import Outcome, prepare
from fpgm.data.store import Store, open_stores
from tests.data.pictures import bundle, content, disc, save, scene, touch


def run(root: Path, out: Path, size: int = 32, workers: Workers | None = None, **options: bool) -> Outcome:
    (found,) = recognise(root)
    return prepare(found, out, size, workers, **options)


def test_a_data_set(tmp_path: Path) -> None:
    root = bundle(tmp_path / "raw/mine", 12).parent
    outcome = run(root, tmp_path / "store")
    store = open_stores(tmp_path / "store")["mine"]
    assert (outcome.status, outcome.decoded, outcome.problems) == ("written", 12, ())
    assert store.ids == tuple(str(n) for n in range(1, 13))  # 2 before 10
    assert store.manifest == outcome.manifest
    row = store.manifest.images[9]
    assert (row.id, row.image, row.mask, row.width, row.height) == (
        "10",
        "mine/images/10.png",
        "mine/masks/10.png",
        64,
        48,
    )
    expected = np.asarray(Image.fromarray(scene(10)).resize((32, 32), Image.Resampling.BILINEAR))
    assert np.array_equal(store.images([9])[0], expected)


def test_hashes_are_those_of_sha256sum(tmp_path: Path) -> None:
    root = bundle(tmp_path / "raw/mine", 1).parent
    outcome = run(root, tmp_path / "store")
    assert outcome.manifest is not None
    said = subprocess.run(
        ["sha256sum", root / "mine/images/1.png", root / "mine/masks/1.png"], capture_output=True, text=True, check=True
    )
    row = outcome.manifest.images[0]
    assert [line.split()[0] for line in said.stdout.splitlines()] == [row.image_sha256, row.mask_sha256]


def test_labelled_and_unlabelled(tmp_path: Path) -> None:
    bundle(tmp_path, 2)
    for number in (3, 4, 5):
        save(scene(number), tmp_path / f"free/{number}.jpg")
    outcome = prepare(
        own_folders("mine", tmp_path / "images", tmp_path / "masks", tmp_path / "free"), tmp_path / "s", 32
    )
    assert outcome.manifest is not None
    assert (outcome.manifest.pairs, outcome.manifest.unlabeled) == (2, 3)
    assert Store.open(tmp_path / "s/mine").has_mask.tolist() == [True, True, False, False, False]


def test_bad_files_are_left_out_and_listed(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "raw/mine", 8)
    (folder / "images/1.png").write_text("no picture")
    (folder / "masks/2.png").unlink()
    save(disc() // 255 * 2, folder / "masks/3.png")  # a class of many, not 0/1
    save(disc(20, 20, 5), folder / "masks/4.png")
    save(scene(5), folder / "masks/5.png")
    save(scene(6), folder / "images/6.jpg")
    save(disc(), folder / "masks/99.png")
    outcome = run(folder.parent, tmp_path / "store")
    assert outcome.manifest is not None
    assert [row.id for row in outcome.manifest.images] == ["7", "8"]
    assert {problem.file: problem.kind for problem in outcome.problems} == {
        "mine/images/1.png": "unreadable",
        "mine/images/2.png": "missing mask",
        "mine/masks/3.png": "empty mask",
        "mine/masks/4.png": "mis-sized mask",
        "mine/masks/5.png": "mask not binary",
        "mine/images/6.jpg": "duplicate stem",
        "mine/images/6.png": "duplicate stem",
        "mine/masks/6.png": "duplicate stem",
        "mine/masks/99.png": "missing image",
    }
    assert outcome.manifest.problems == outcome.problems
    assert outcome.manifest.skipped["duplicate stem"] == 3
    again = run(folder.parent, tmp_path / "store")  # the verdicts are remembered
    assert (again.status, again.problems) == ("up to date", outcome.problems)


def test_what_became_a_pipe_is_left_out_and_not_waited_for(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "raw/mine", 2)
    found = recognise(folder.parent)
    for name in ("images/1.png", "masks/2.png"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
    outcome = prepare(*found, tmp_path / "store", 32)
    assert [problem.reason for problem in outcome.problems] == ["it is not a regular file"] * 2


def test_wrong_count_against_the_catalogue(tmp_path: Path) -> None:
    outcome = run(bundle(tmp_path / "CVC-300", 3, first=149), tmp_path / "store")
    (problem,) = outcome.problems
    assert (problem.kind, problem.file) == ("wrong count", "")
    assert problem.reason == "CVC-300: expected 60 pairs, found 3 usable ones"
    assert outcome.manifest is not None
    assert outcome.manifest.skipped == {}


def test_nothing_usable_writes_nothing(tmp_path: Path) -> None:
    touch(tmp_path / "raw/mine", "images/1.png", "masks/1.png")
    outcome = run(tmp_path / "raw", tmp_path / "store")
    assert (outcome.status, outcome.manifest) == ("nothing usable", None)
    assert [problem.kind for problem in outcome.problems] == ["empty file"]
    assert not (tmp_path / "store").exists()


# name -> image file, mask file, how the mask is written
NATIVE: dict[str, tuple[str, str, Callable[[np.ndarray], np.ndarray]]] = {
    "Kvasir-SEG": ("Kvasir-SEG/images/{}.jpg", "Kvasir-SEG/masks/{}.jpg", lambda m: np.stack([m] * 3, axis=2)),
    "CVC-ClinicDB": ("x/Original/{}.tif", "x/Ground Truth/{}.tif", lambda m: m),
    "CVC-ColonDB": ("x/{}.tiff", "x/p{}.tiff", lambda m: m),
    "ETIS-LaribPolypDB": ("x/{}.tif", "x/Ground Truth/p{}.tif", lambda m: m > 0),
    "BKAI-IGH": ("x/train/{}.jpeg", "x/train_gt/{}.jpeg", lambda m: np.stack([0 * m, m, 0 * m], axis=2)),
}


@pytest.mark.parametrize("name", NATIVE)
def test_native_files_give_the_pictures_back(tmp_path: Path, name: str) -> None:
    image_file, mask_file, write = NATIVE[name]
    for number in (1, 2):
        save(scene(number, 256, 256), tmp_path / "raw" / image_file.format(number))
        save(write(disc(256, 256, 40 * number)), tmp_path / "raw" / mask_file.format(number))
    outcome = run(tmp_path / "raw", tmp_path / "store", size=256)
    assert outcome.name == name
    store = open_stores(tmp_path / "store")[name]
    for place, number in enumerate((1, 2)):
        assert np.abs(store.images([place])[0].astype(int) - scene(number, 256, 256)).mean() < 3
        assert (store.masks([place])[0] != (disc(256, 256, 40 * number) > 0)).mean() < 0.002


def test_a_folder_whose_name_cannot_be_that_of_a_data_set(tmp_path: Path) -> None:
    root = bundle(tmp_path / "raw/=mine", 1).parent
    with pytest.raises(ValueError, match="which --name can change, is '=mine'"):
        run(root, tmp_path / "store")
    assert not (tmp_path / "store").exists()


# ---- doing it again


def test_same_input_same_bytes_however_many_workers(tmp_path: Path) -> None:
    root = bundle(tmp_path / "raw/mine", 20).parent
    run(root, tmp_path / "one")
    with Workers(2) as workers:
        run(root, tmp_path / "two", workers=workers)
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_up_to_date_decodes_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = bundle(tmp_path / "raw/mine", 3).parent
    run(root, tmp_path / "store")
    times = [path.stat().st_mtime_ns for path in (tmp_path / "store/mine").iterdir()]
    monkeypatch.setattr(preparing, "decode_run", lambda *_, **__: pytest.fail("decoded"))
    outcome = run(root, tmp_path / "store")
    assert (outcome.status, outcome.decoded) == ("up to date", 0)
    assert [path.stat().st_mtime_ns for path in (tmp_path / "store/mine").iterdir()] == times


def test_only_what_changed_is_decoded_and_the_bytes_are_those_of_a_fresh_run(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "raw/mine", 6)
    for number in (10, 11):
        save(scene(number), folder.parent / f"free/{number}.png")

    def again(out: str) -> Outcome:
        paths = folder / "images", folder / "masks", folder.parent / "free"
        return prepare(own_folders("mine", *paths), tmp_path / out, 32, replace=True)

    again("store")
    save(disc(radius=5), folder / "masks/2.png")  # changed
    save(scene(30), folder.parent / "free/11.png")  # changed
    (folder / "images/3.png").unlink()  # gone
    (folder / "masks/3.png").unlink()
    save(scene(7), folder / "images/7.png")  # new
    save(disc(), folder / "masks/7.png")
    outcome = again("store")
    assert (outcome.status, outcome.decoded) == ("written", 3)
    again("fresh")
    assert content(tmp_path / "store") == content(tmp_path / "fresh")


@pytest.mark.parametrize("change", ["size", "rules", "versions"])
def test_other_settings_decode_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    root = bundle(tmp_path / "raw/mine", 3).parent
    run(root, tmp_path / "store")
    if change == "rules":
        monkeypatch.setattr(preparing, "rules", lambda keep_empty: {"image": "other"})
    if change == "versions":
        later = {**manifest.versions(), "pillow": "99"}
        monkeypatch.setattr(preparing, "versions", lambda: later)
        save(scene(50), root / "mine/images/1.png")  # a store is never of two releases of the decoder
    outcome = run(root, tmp_path / "store", size=48 if change == "size" else 32, replace=True)
    assert (outcome.status, outcome.decoded) == ("written", 3)


def test_a_moved_root_is_up_to_date(tmp_path: Path) -> None:
    root = bundle(tmp_path / "raw/mine", 2).parent
    run(root, tmp_path / "store")
    root.rename(tmp_path / "elsewhere")
    assert run(tmp_path / "elsewhere", tmp_path / "store").status == "up to date"


@pytest.mark.parametrize("file", ["data.h5", "manifest.json"])
def test_a_damaged_store_is_made_again(tmp_path: Path, file: str) -> None:
    root = bundle(tmp_path / "raw/mine", 3).parent
    run(root, tmp_path / "store")
    before = content(tmp_path / "store")
    (tmp_path / "store/mine" / file).write_bytes(b"{")
    assert run(root, tmp_path / "store").status == "written"
    assert content(tmp_path / "store") == before


def test_progress_is_told(tmp_path: Path) -> None:
    (found,) = recognise(bundle(tmp_path / "raw/mine", 3).parent)
    told: list[tuple[str, int, int]] = []
    prepare(found, tmp_path / "store", 32, progress=lambda *step: told.append(step))
    assert told == [(stage, done, 3) for stage in ("hash", "prepare") for done in (1, 2, 3)]


# ---- the public data sets


def test_real_subset(real_data: Path, tmp_path: Path) -> None:
    for name in ("Kvasir-SEG", "CVC-ColonDB", "CVC-300"):
        for side in ("images", "masks"):
            (tmp_path / "raw" / name / side).mkdir(parents=True)
            for path in sorted((real_data / name / side).iterdir(), key=lambda path: path.stem)[:20]:
                (tmp_path / "raw" / name / side / path.name).symlink_to(path)
    for found in recognise(tmp_path / "raw"):
        outcome = prepare(found, tmp_path / "store", 64)
        assert outcome.manifest is not None
        assert outcome.manifest.pairs == 20
        assert [problem.kind for problem in outcome.problems] == ["wrong count"]
    kvasir = open_stores(tmp_path / "store")["Kvasir-SEG"]
    assert 0.02 < kvasir.masks(range(20)).mean() < 0.5
    assert kvasir.images(range(20)).std() > 20
