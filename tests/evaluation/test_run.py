"""A predictor against a pool, and a run against its test and unseen images."""

from __future__ import annotations

import csv
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from fpgm import __version__
from fpgm.cli import main
from fpgm.data.batches.pool import Pool
from fpgm.data.parallel import Workers
from fpgm.data.splits.protocols import draw
from fpgm.data.splits.split import Split
from fpgm.data.store import open_stores
from fpgm.evaluation import Row, compare, evaluate, evaluate_run, held_out, predict_masks, score, write_rows
from fpgm.evaluation import run as evaluation_run
from fpgm.metrics import reported_metrics
from fpgm.model import load_model
from fpgm.runs.evaluation import FORMAT
from tests.runs.making import make_run, ship

CPU = torch.device("cpu")
PHANTOMS = [f"phantom-{letter}" for letter in "abcdef"]


class Bright(nn.Module):
    """Calls bright red pixels polyp; remembers how many images came together."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def forward(self, image: Tensor) -> Tensor:
        assert not self.training
        self.sizes.append(len(image))
        return torch.stack([torch.full_like(image[:, 0], 0.6), image[:, 0]], 1)


@pytest.fixture
def pool(phantom_store: Path) -> Pool:
    return Pool(open_stores(phantom_store), Split.load(phantom_store / "splits" / "strict-0").test)


@pytest.fixture
def run(tmp_path: Path, phantom_store: Path) -> Path:
    return make_run(tmp_path / "run", phantom_store)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_rows_are_the_metrics_of_each_image(pool: Pool) -> None:
    predictor = Bright().train()
    rows = [row for row, _ in compare(predictor, pool, device=CPU, batch_size=5)]
    assert [row.id for row in rows] == list(pool.ids) and max(predictor.sizes) == 5
    assert predictor.training  # as it was before
    for index in (0, len(pool) - 1):
        mask = pool.images(np.array([index]))[0, ..., 0] / np.float32(255) > 0.6
        truth = pool.masks(np.array([index]))[0]
        penalised, released = reported_metrics(mask, truth)
        expected = {"id": pool.ids[index], **penalised, "predicted": mask.sum(), "true": truth.sum()}
        expected |= {f"released_{name}": value for name, value in released.items()}
        assert rows[index]._asdict() == expected


def test_processes_give_the_same_rows_and_masks(pool: Pool) -> None:
    alone = list(compare(Bright(), pool, device=CPU))
    with Workers(2) as workers:
        together = list(compare(Bright(), pool, device=CPU, workers=workers))
    assert [one.row for one in alone] == [one.row for one in together] == evaluate(Bright(), pool, device=CPU)
    assert all(np.array_equal(a.packed, b.packed) for a, b in zip(alone, together, strict=True))


def test_processes_do_without_torch() -> None:
    script = "import sys, fpgm.evaluation; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_masks_have_no_gradient_and_the_size_of_the_image(pool: Pool) -> None:
    masks = predict_masks(Bright().eval(), pool.images(np.arange(3)), CPU)
    assert masks.shape == (3, 64, 64) and masks.dtype == np.bool_


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_logits_that_are_not_finite_give_no_mask(pool: Pool, value: float) -> None:
    class Lost(nn.Module):
        def forward(self, image: Tensor) -> Tensor:
            return torch.full((len(image), 2, *image.shape[2:]), value)

    with pytest.raises(ValueError, match=r"not finite.*lower optimizer\.lr"):
        evaluate(Lost(), pool, device=torch.device("cpu"))


@given(st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_the_mask_is_where_the_most_likely_class_is_not_the_background(classes: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(-2, 3, (2, classes, 6, 6), generator=generator).float()  # ties too: the first class wins

    class Fixed(nn.Module):
        def forward(self, image: Tensor) -> Tensor:
            return logits

    found = predict_masks(Fixed(), np.zeros((2, 6, 6, 3), np.uint8), CPU)
    assert np.array_equal(found, logits.argmax(1).numpy() > 0)


FAR = math.hypot(4, 4)


@pytest.mark.parametrize(
    ("mask", "truth", "penalised", "released"),
    [
        ("", "1", (0, 0, FAR, FAR), (0, 0, 0, 0)),  # a missed polyp
        ("1", "", (0, 0, FAR, FAR), (0, 0, math.nan, math.nan)),  # a false alarm, where the released code stops
        ("", "", (1, 1, 0, 0), (0, 0, 0, 0)),  # rightly nothing
        # distances 0 from the prediction; 0, 1 from the truth: 95 % of rank 2 is 0.9
        ("1", "11", (2 / 3, 1 / 2, 0.9, 1 / 3), (2 / 3, 1 / 2, 0.9, 0)),
        ("11", "1", (2 / 3, 1 / 2, 0.9, 1 / 3), (2 / 3, 1 / 2, 0.9, 1 / 2)),
    ],
)
def test_both_rules_for_empty_masks(
    mask: str, truth: str, penalised: tuple[float, ...], released: tuple[float, ...]
) -> None:
    pictures = [np.array([len(text) > place for place in range(16)]).reshape(4, 4) for text in (mask, truth)]
    row, packed = score(("a/1", pictures[0], pictures[1].astype(np.uint8)))
    assert row == ("a/1", *map(pytest.approx, penalised), *(pytest.approx(v, nan_ok=True) for v in released), *row[-2:])
    assert row[-2:] == (len(mask), len(truth))
    assert np.array_equal(np.unpackbits(packed, axis=-1, count=4).astype(bool), pictures[0])


@given(st.lists(st.floats(0, 1e3), min_size=8, max_size=8))
def test_numbers_come_back_from_csv_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    path = tmp_path_factory.getbasetemp() / "rows.csv"
    write_rows(path, [Row("a, b/1", *values, 10, 20), Row("a/2", *[math.nan] * 8, 0, 0)])
    first, second = rows_of(path)
    assert first["id"] == "a, b/1" and [float(first[name]) for name in Row._fields[1:9]] == values
    assert first["predicted"] == "10" and first["true"] == "20" and math.isnan(float(second["released_asd"]))


def test_a_run_is_scored_on_each_test_and_unseen_set(run: Path, phantom_store: Path) -> None:
    told: list[tuple[str, int, int]] = []
    folder = evaluate_run(run, device=CPU, advance=lambda *values: told.append(values))
    split = Split.load(phantom_store / "splits" / "strict-0")
    record = json.loads((folder / "evaluation.json").read_text())
    assert folder == run / "evaluation" and list(record["datasets"]) == PHANTOMS
    assert (record["format"], record["size"], record["split"], record["split_seed"], record["protocol"]) == (
        "fpgm-evaluation-3",
        64,
        "strict-0",
        0,
        "strict",
    )
    predictor, card = load_model(run)
    assert record["weights_sha256"] == card.weights_sha256
    for name, entry in record["datasets"].items():
        held = split.unseen if name in ("phantom-e", "phantom-f") else split.test
        ids = [id_ for id_ in held if id_.startswith(f"{name}/")]
        assert entry["unseen"] == (held is split.unseen) and entry["images"] == len(ids)
        pool = Pool(open_stores(phantom_store), ids)
        rows = evaluate(predictor, pool, device=CPU)
        write_rows(run / "expected.csv", rows)
        assert (run / "expected.csv").read_bytes() == (folder / f"{name}.csv").read_bytes()
        with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
            masks = np.unpackbits(file["masks"], axis=-1, count=64)
        assert [int(mask.sum()) for mask in masks] == [row.predicted for row in rows]
        assert 0 < min(row.predicted for row in rows) <= max(row.predicted for row in rows) < 64**2
        assert np.array_equal(masks > 0, predict_masks(predictor, pool.images(np.arange(len(ids))), CPU))
    assert told[-1] == ("phantom-f", 20, 20) and len(told) == sum(e["images"] for e in record["datasets"].values())


def state(run: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in (run / "evaluation").iterdir()}


def test_a_second_evaluation_computes_nothing(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate_run(run, device=CPU)
    before = state(run)
    monkeypatch.setattr(evaluation_run, "evaluate_pools", None)
    evaluate_run(run, device=CPU)
    evaluate_run(run, datasets=["Phantom F"], device=CPU)  # an alias
    assert state(run) == before


def test_the_format_decides_whether_an_evaluation_is_kept(run: Path) -> None:
    evaluate_run(run, device=CPU)
    record = run / "evaluation" / "evaluation.json"
    record.write_text(record.read_text().replace(f'"{__version__}"', '"9.9.9"'))
    before = state(run)
    evaluate_run(run, device=CPU)
    assert state(run) == before
    record.write_text(record.read_text().replace(FORMAT, "fpgm-evaluation-0"))
    before = state(run)
    evaluate_run(run, device=CPU)
    assert all(state(run)[name][0] != before[name][0] for name in before)


def test_the_run_of_an_unknown_method_is_evaluated(run: Path) -> None:
    config = yaml.safe_load((run / "config.yaml").read_text())
    config |= {"method": "my_method", "arguments": {"strength": 3}}
    config["data"]["new_setting"] = 1
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    evaluate_run(run, datasets=["phantom-a"], device=CPU)
    assert main(["evaluate", str(run), "--datasets", "phantom-a", "--workers", "1"]) == 0
    assert "phantom-a" in (run / "model" / "MODEL_CARD.md").read_text()


@pytest.mark.parametrize("text", ["", "[]", "{", "data: !!bool x", "data: {store: 3, split: strict-0}"])
def test_a_configuration_without_store_and_split_is_refused(run: Path, text: str) -> None:
    (run / "config.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"config\.yaml is not (the configuration of a run|readable YAML)"):
        evaluate_run(run, device=CPU)


def test_other_weights_are_evaluated_anew(run: Path) -> None:
    evaluate_run(run, device=CPU)
    before = state(run)
    ship(run, seed=3)
    evaluate_run(run, datasets=["phantom-a"], device=CPU)
    assert set(state(run)) == {
        "evaluation.json",
        "phantom-a.csv",
        "phantom-a.npz",
        "phantom-a.details.json",
    }  # nothing of the old weights
    evaluate_run(run, device=CPU)
    after = state(run)
    assert set(after) == set(before) and all(after[name][0] != before[name][0] for name in before)


@pytest.mark.parametrize("file", ["phantom-b.csv", "phantom-b.npz"])
def test_only_what_is_not_there_or_was_changed_is_computed(run: Path, file: str) -> None:
    evaluate_run(run, datasets=["phantom-a", "phantom-b"], device=CPU)
    first = state(run)
    (run / "evaluation" / file).write_bytes(b"edited")
    evaluate_run(run, device=CPU)
    second = state(run)
    assert second["phantom-a.csv"] == first["phantom-a.csv"] and second["phantom-a.npz"] == first["phantom-a.npz"]
    assert second["phantom-b.csv"][1] == first["phantom-b.csv"][1] and "phantom-f.csv" in second
    assert list(json.loads(second["evaluation.json"][1])["datasets"]) == PHANTOMS


def test_other_images_of_the_same_names_are_evaluated_anew(run: Path, phantom_store: Path, tmp_path: Path) -> None:
    evaluate_run(run, datasets=["phantom-a"], device=CPU)
    other = tmp_path / "other"
    command = ["data", "synth", "--out", str(other), "--count", "20", "--size", "64", "--seed", "9", "--workers", "1"]
    assert main([*command, "--domains", "phantom-a"]) == 0
    shutil.copytree(phantom_store / "splits", other / "splits")
    before = state(run)
    evaluate_run(run, other, ["phantom-a"], device=CPU)
    assert state(run)["phantom-a.csv"][1] != before["phantom-a.csv"][1]


def test_an_interrupted_evaluation_has_what_it_had_before(run: Path) -> None:
    evaluate_run(run, datasets=["phantom-b"], device=CPU)
    before = state(run)

    def stop(name: str, done: int, total: int) -> None:
        if name == "phantom-c":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate_run(run, device=CPU, advance=stop)
    left = state(run)
    assert (
        left["evaluation.json"][1] == before["evaluation.json"][1] and left["phantom-b.csv"] == before["phantom-b.csv"]
    )
    evaluate_run(run, device=CPU)
    assert list(json.loads((run / "evaluation" / "evaluation.json").read_text())["datasets"]) == PHANTOMS


@pytest.mark.parametrize("text", ["", "[]", "null", '{"datasets": []}', "{"])
def test_a_damaged_record_counts_as_none(run: Path, text: str) -> None:
    evaluate_run(run, datasets=["phantom-a"], device=CPU)
    whole = (run / "evaluation" / "evaluation.json").read_bytes()
    (run / "evaluation" / "evaluation.json").write_text(text)
    evaluate_run(run, datasets=["phantom-a"], device=CPU)
    assert (run / "evaluation" / "evaluation.json").read_bytes() == whole


def test_what_cannot_be_evaluated_is_said(run: Path, phantom_store: Path, tmp_path: Path) -> None:
    def refused(**changes: object) -> str:
        with pytest.raises((ValueError, OSError)) as caught:
            evaluate_run(**{"run": run, "device": CPU, **changes})  # type: ignore[arg-type]  # arguments of several types
        return str(caught.value)

    assert "is not a run: it has no config.yaml" in refused(run=tmp_path)
    assert "no test or unseen images of phantom-z, Kvasir-SEG, only of phantom-a" in refused(
        datasets=["phantom-z", "kvasir"]
    )
    assert f"there is no store {tmp_path / 'gone'}; give that of {run}, with its split" in refused(
        store=tmp_path / "gone"
    )
    assert "has no split strict-0, with which" in refused(store=tmp_path)
    small = tmp_path / "small"
    command = ["data", "synth", "--out", str(small), "--size", "80", "--workers", "1", "--domains", "phantom-a"]
    assert main([*command, "--count", "3"]) == 0
    shutil.copytree(phantom_store / "splits", small / "splits")
    assert "does not hold phantom-b" in refused(store=small)
    assert "images are not in the store" in refused(store=small, datasets=["phantom-a"])
    assert main([*command, "--count", "20"]) == 0
    assert "trained on images of 64 x 64 pixels" in refused(store=small, datasets=["phantom-a"])
    (run / "model" / "model.safetensors").write_bytes(b"")
    assert "is not the file that model.json describes" in refused()
    (run / "model" / "model.json").unlink()
    assert f"is not finished: it has no model/model.json; go on with `fpgm train … --out {run} --resume`" in refused()
    assert not (run / "evaluation").exists()


def test_another_split_of_the_same_name_is_refused(run: Path, phantom_store: Path, tmp_path: Path) -> None:
    """Its test images may have been trained on."""
    other = tmp_path / "store"
    shutil.copytree(phantom_store, other)
    shutil.rmtree(other / "splits" / "strict-0")
    draw(open_stores(phantom_store), "strict", 1).save(other / "splits" / "strict-0")
    with pytest.raises(ValueError, match=r"is not the one .* was trained with"):
        evaluate_run(run, other, device=torch.device("cpu"))


def test_a_set_is_held_out_whole_or_not_at_all() -> None:
    def split(test: tuple[str, ...], unseen: tuple[str, ...]) -> Split:
        return Split(("a/1",), (), test, unseen, protocol="imported", seed=0)

    sets = held_out(split(("a/2", "b/1", "a/3"), ("c/1",)))
    assert sets == {"a": (("a/2", "a/3"), False), "b": (("b/1",), False), "c": (("c/1",), True)}
    with pytest.raises(ValueError, match="b has test images and unseen ones"):
        held_out(split(("b/1",), ("b/2",)))
    with pytest.raises(ValueError, match="neither test nor unseen"):
        held_out(split((), ()))
