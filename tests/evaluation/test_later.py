"""Images that came after the training: scored beside the run's own, refused where they were trained on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fpgm.cli import main
from fpgm.data.splits.split import Split
from fpgm.data.store import Store, open_stores
from fpgm.evaluation import evaluate_folders, evaluate_later, evaluate_run
from fpgm.evaluation import run as evaluation_run
from fpgm.evaluation.later import is_later
from fpgm.report.pages.report import write_report
from fpgm.runs.evaluation import read_evaluation
from fpgm.runs.images import read_training_images, write_training_images
from fpgm.runs.results import read_result
from tests.runs.making import make_run, ship

CPU = torch.device("cpu")


@pytest.fixture
def run(tmp_path: Path, phantom_store: Path) -> Path:
    return make_run(tmp_path / "run", phantom_store)


@pytest.fixture
def other(tmp_path: Path, phantom_store: Path) -> Path:
    """A store of another seed: as many phantoms of one domain, under a name of its own."""
    store = tmp_path / "other"
    command = ["data", "synth", "--out", str(store), "--count", "6", "--size", "64", "--seed", "9", "--workers", "1"]
    assert main([*command, "--domains", "phantom-a"]) == 0
    write_folders(store / "phantom-a", tmp_path / "raw")
    return make_store(tmp_path / "raw", tmp_path / "later", "clinic")


def write_folders(store: Path, folder: Path, count: int = 6) -> Path:
    """Write the first images and masks of a data set as pictures."""
    source = Store.open(store)
    for kind in ("images", "masks"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for row in range(count):
        name = f"{source.ids[row]}.png"
        Image.fromarray(source.images([row])[0]).save(folder / "images" / name)
        Image.fromarray(source.masks([row])[0] * np.uint8(255)).save(folder / "masks" / name)
    return folder


def make_store(folder: Path, out: Path, name: str, size: int = 64) -> Path:
    command = ["data", "prepare", "--images", str(folder / "images"), "--masks", str(folder / "masks")]
    assert main([*command, "--name", name, "--out", str(out), "--size", str(size), "--workers", "1"]) == 0
    return out


def test_another_store_is_scored_whole_beside_the_runs_own_sets(run: Path, other: Path, tmp_path: Path) -> None:
    evaluate_run(run, datasets=["phantom-b"], device=CPU)
    own = (run / "evaluation" / "phantom-b.csv").stat().st_mtime_ns
    assert is_later(run, other, None) and evaluate_later(run, other, device=CPU) == ["clinic"]
    record = read_evaluation(run)
    assert list(record.datasets) == ["phantom-b", "clinic"] and record.protocol == "strict"
    entry = record.datasets["clinic"]
    assert (entry.images, entry.unseen, entry.after_training, entry.near_duplicates) == (6, True, True, ())
    evaluate_run(run, datasets=["phantom-c"], device=CPU)
    assert set(read_evaluation(run).datasets) == {"phantom-b", "phantom-c", "clinic"}
    assert (run / "evaluation" / "phantom-b.csv").stat().st_mtime_ns == own
    assert "| clinic (unseen, after training) | 6 |" in (run / "model" / "MODEL_CARD.md").read_text()
    page = write_report([read_result(run)], [], tmp_path / "report").read_text()
    assert "clinic (unseen, after training)" in page and "clinic/" in page  # a picture of it, by its id
    assert "No pictures of clinic" not in page and "clinic came after the training; near duplicates" in page


def test_a_second_call_computes_nothing_and_other_weights_void_it(
    run: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate_later(run, other, device=CPU)
    with monkeypatch.context() as patched:
        patched.setattr(evaluation_run, "evaluate_pools", None)
        evaluate_later(run, other, device=CPU)
    ship(run, seed=3)
    evaluate_run(run, datasets=["phantom-a"], device=CPU)
    left = {path.name for path in (run / "evaluation").iterdir() if path.is_file()}
    assert left == {"evaluation.json", "phantom-a.csv", "phantom-a.npz", "phantom-a.details.json"}


def test_folders_are_prepared_at_the_models_size(run: Path, other: Path, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    evaluate_later(run, other, device=CPU)
    evaluate_folders(run, raw / "images", raw / "masks", "ward", device=CPU)
    record = read_evaluation(run)
    assert record.datasets["ward"].store == "evaluation/store" and set(record.datasets) == {"clinic", "ward"}
    lines = [(run / "evaluation" / f"{name}.csv").read_text().replace(f"{name}/", "") for name in ("clinic", "ward")]
    assert lines[0] == lines[1]
    moved = run.rename(tmp_path / "moved")
    assert read_result(moved).stores["ward"] == moved / "evaluation" / "store"


@pytest.mark.parametrize("listed", [True, False], ids=["hashes in the run", "hashes from the store"])
def test_training_and_validation_images_are_refused(
    run: Path, phantom_store: Path, tmp_path: Path, listed: bool
) -> None:
    split = Split.load(phantom_store / "splits" / "strict-0")
    name, _, id_ = split.validation[0].partition("/")
    source = Store.open(phantom_store / name)
    raw = write_folders(phantom_store / "phantom-f", tmp_path / "raw", 3)  # unseen, and fine
    row = source.ids.index(id_)
    Image.fromarray(source.images([row])[0]).save(raw / "images" / "x.png")
    Image.fromarray(source.masks([row])[0] * np.uint8(255)).save(raw / "masks" / "x.png")
    if listed:
        list_images(run, phantom_store, split)
        config = (run / "config.yaml").read_text()
        (run / "config.yaml").write_text(config.replace(str(phantom_store), str(tmp_path / "gone")))
    with pytest.raises(
        ValueError, match=rf"1 of 4 images of ward are training .*\(ward/x is {name}/{id_}\).*leave them"
    ):
        evaluate_folders(run, raw / "images", raw / "masks", "ward", device=CPU)
    assert not (run / "evaluation" / "store" / "ward").exists()
    (raw / "images" / "x.png").unlink()
    evaluate_folders(run, raw / "images", raw / "masks", "ward", device=CPU)
    assert read_evaluation(run).datasets["ward"].near_duplicates == ()


def list_images(run: Path, store: Path, split: Split) -> None:
    """Write what `fpgm train` writes."""
    from fpgm.data.batches.pool import Pool
    from fpgm.runs.images import describe_training_images

    stores = open_stores(store)
    parts = {"labeled": split.labeled("16"), "unlabeled": split.unlabeled("16"), "validation": split.validation}
    write_training_images(
        run, describe_training_images(split, {name: Pool(stores, ids) for name, ids in parts.items()})
    )


def test_near_duplicates_are_listed_and_not_refused(run: Path, phantom_store: Path, tmp_path: Path) -> None:
    split = Split.load(phantom_store / "splits" / "strict-0")
    name, _, id_ = split.train[0].partition("/")
    source = Store.open(phantom_store / name)
    raw = write_folders(phantom_store / "phantom-f", tmp_path / "raw", 2)
    row = source.ids.index(id_)
    pixels = source.images([row])[0]
    Image.fromarray((pixels * 0.97).astype(np.uint8)).save(raw / "images" / "x.png")
    Image.fromarray(source.masks([row])[0] * np.uint8(255)).save(raw / "masks" / "x.png")
    evaluate_folders(run, raw / "images", raw / "masks", "ward", device=CPU)
    assert read_evaluation(run).datasets["ward"].near_duplicates == (("ward/x", f"{name}/{id_}"),)


def test_without_hashes_and_store_the_record_says_so(run: Path, other: Path, tmp_path: Path) -> None:
    config = (run / "config.yaml").read_text()
    store = json.loads(json.dumps(config)).split("store: ")[1].split("\n")[0]
    (run / "config.yaml").write_text(config.replace(store, str(tmp_path / "gone")))
    assert read_training_images(run) is None
    evaluate_later(run, other, device=CPU)
    record = read_evaluation(run)
    assert record.datasets["clinic"].near_duplicates is None and record.protocol == "unknown"


def test_a_split_of_the_other_store_chooses_its_test_and_unseen_images(run: Path, other: Path, tmp_path: Path) -> None:
    ids = [f"clinic/{id_}" for id_ in Store.open(other / "clinic").ids]
    Split(tuple(ids[:2]), tuple(ids[2:3]), tuple(ids[3:]), (), protocol="imported", seed=0).save(
        other / "splits" / "mine"
    )
    for split in ("mine", str(other / "splits" / "mine")):
        evaluate_later(run, other, split=split, device=CPU)
        assert read_result(run).scores["clinic"].ids == tuple(ids[3:])
    evaluate_later(run, other, split="all", device=CPU)
    assert len(read_result(run).scores["clinic"].ids) == 6


def test_what_cannot_be_scored_is_said(run: Path, other: Path, phantom_store: Path, tmp_path: Path) -> None:
    def refused(store: Path, **options: object) -> str:
        with pytest.raises((ValueError, OSError)) as caught:
            evaluate_later(run, store, device=CPU, **options)  # type: ignore[arg-type]  # settings by **
        return str(caught.value)

    assert "has no images with masks of ward, only of clinic" in refused(other, datasets=["ward"])
    assert "has no split mine, nor any other: make one with `fpgm data split" in refused(other, split="mine")
    assert f"there is no store {tmp_path / 'gone'}" in refused(tmp_path / "gone")
    assert "was trained with a data set phantom-" in refused(phantom_store)
    large = make_store(tmp_path / "raw", tmp_path / "large", "clinic", size=80)
    assert "trained on images of 64 x 64 pixels, but" in refused(large)
    shutil.rmtree(tmp_path / "raw" / "masks")
    (tmp_path / "raw" / "masks").mkdir()
    with pytest.raises(ValueError, match="--masks: no pictures"):
        evaluate_folders(run, tmp_path / "raw" / "images", tmp_path / "raw" / "masks", "ward", device=CPU)
    assert not (run / "evaluation").exists()
