"""The fastest engine whose masks agree is recorded; what disagrees, finds nothing or is missing is not."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from fpgm.data.splits.split import Split
from fpgm.runs.card import ModelCard, read_card
from fpgm.runs.engine import ENGINE, ONNX
from fpgm.serving import engine_choice, export
from fpgm.serving.engine_choice import choose_engine
from fpgm.serving.engines import ENGINES
from fpgm.serving.predictor import load_predictor
from tests.runs.making import make_run
from tests.serving.making import SIZE, model, onnx_file, pictures


class Square:
    """An engine with a square of 20 x 20 pixels in each image, changed as asked for."""

    card = ModelCard(net="unet", arguments={}, size=SIZE, training={})
    identity = name = "square"

    def __init__(self, extra: int = 0, speck: bool = False, missing: int = 0) -> None:
        self.plane = np.zeros((SIZE, SIZE), np.float32)
        self.plane[10:30, 10:30] = 1
        self.plane[30, 10 : 10 + extra] = 1
        self.plane[10, 10 : 10 + missing] = 0
        self.plane[60, 60] = speck

    def probabilities(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.repeat(self.plane[None], len(batch), 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    traced = onnx.load(onnx_file())  # once is enough
    monkeypatch.setattr(export, "_to_onnx", lambda net, card: traced)
    monkeypatch.setattr(engine_choice, "_ROUNDS", {1: 1, 8: 1})
    monkeypatch.setattr(engine_choice, "has_bfloat16", lambda: False)  # the same engines on every processor
    return shutil.copytree(model(), tmp_path / "model")


def stand_in(monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float], **engines: Any) -> None:
    """Let given engines be all that is installed, with given times."""
    monkeypatch.setattr(engine_choice, "is_installed", engines.__contains__)
    monkeypatch.setattr(engine_choice, "open_engine", lambda folder, name, onnx: engines[name])
    monkeypatch.setattr(engine_choice, "take_turns", lambda sides, *_, **__: {name: seconds[name] for name in sides})


def test_the_fastest_that_agrees_is_recorded_and_used(folder: Path) -> None:
    record = choose_engine(folder, pictures=pictures(4))
    assert [one.engine for one in record.timings][:2] == ["torch", "onnxruntime"]
    assert all(one.agrees for one in record.timings) and record.images == 4 and record.source == "images given"
    fastest = min(record.timings, key=lambda one: one.one)
    assert record.engine == fastest.engine == load_predictor(folder).engine.name


def test_a_named_engine_is_recorded_and_torch_takes_it_back(folder: Path) -> None:
    images = pictures(3, size=96)
    exact = load_predictor(folder).predict(images)
    record = choose_engine(folder, "onnxruntime")
    assert (record.engine, record.images, record.source) == ("onnxruntime", 24, "phantoms")
    predictor = load_predictor(folder)
    assert predictor.engine.name == "onnxruntime" and (folder / ONNX).is_file()
    assert np.allclose(predictor.predict(images)[1], exact[1], atol=1e-4)
    assert load_predictor(folder, precision="bfloat16").engine.name == "torch-bfloat16"
    choose_engine(folder, "torch")
    assert load_predictor(folder).engine.name == "torch" and not (folder / ONNX).exists()


@pytest.mark.parametrize(
    ("other", "dice", "polyps"),
    [(Square(extra=1), 800 / 801, 0), (Square(speck=True), 800 / 801, 3), (Square(missing=4), 2 * 396 / 796, 0)],
)
def test_masks_are_compared_pixel_by_pixel_and_polyp_by_polyp(
    other: Square, dice: float, polyps: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pixel more than 400 is a Dice of 800 / 801, four fewer 2 x 396 / (400 + 396)."""
    seconds = {"torch": 2.0, "onnxruntime": 1.0}
    stand_in(monkeypatch, seconds, torch=Square(), onnxruntime=other)
    record = choose_engine(folder, pictures=pictures(3))
    slow, fast = record.timings
    assert slow.least_dice == 1 and fast.least_dice == pytest.approx(dice) and fast.other_polyps == polyps
    assert record.engine == "torch"  # 800 / 801 is below 0.999 too
    with pytest.raises(ValueError, match=r"does not agree with torch .* nothing was recorded"):
        choose_engine(folder, "onnxruntime", pictures=pictures(3))
    assert record.model_dump_json(indent=1) + "\n" == (folder / ENGINE).read_text()


def test_of_those_that_agree_the_fastest_for_one_image_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = Square()
    large.plane[:] = 1  # 4096 pixels, of which one may differ
    near = Square()
    near.plane[:] = 1
    near.plane[0, 0] = 0
    seconds = {"torch": 2.0, "onnxruntime": 0.5}
    stand_in(monkeypatch, seconds, torch=large, onnxruntime=near)
    monkeypatch.setattr(engine_choice, "OnnxEngine", Square)
    monkeypatch.setattr(Square, "sha256", "f" * 64, raising=False)
    record = choose_engine(folder, pictures=pictures(2))
    assert record.engine == "onnxruntime" and record.timings[1].least_dice == pytest.approx(8190 / 8191)
    assert record.weights_sha256 == read_card(folder).weights_sha256


def test_nothing_found_is_nothing_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = Square()
    empty.plane[:] = 0
    stand_in(monkeypatch, {"torch": 1.0}, torch=empty)
    with pytest.raises(ValueError, match=r"finds nothing in the 2 images given.* --images"):
        choose_engine(folder, pictures=pictures(2))
    assert not (folder / ENGINE).exists()


def test_what_cannot_be_used_is_a_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_choice, "is_installed", lambda name: name != "openvino")
    with pytest.raises(ValueError, match=r"openvino is not installed: pip install 'fpgm\[openvino\]'"):
        choose_engine(folder, "openvino")
    monkeypatch.setattr(engine_choice, "choose_device", lambda name: SimpleNamespace(type="cuda"))
    with pytest.raises(ValueError, match="this machine has a GPU"):
        choose_engine(folder, "torch")


def test_a_combined_model_keeps_its_disagreement() -> None:
    card = ModelCard(net="ensemble", arguments={}, size=SIZE, training={})
    assert "onnxruntime" not in engine_choice._candidates("auto", card)
    with pytest.raises(ValueError, match="members disagree"):
        engine_choice._candidates("onnxruntime", card)


def test_bfloat16_is_tried_where_the_processor_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for able in (True, False):
        monkeypatch.setattr(engine_choice, "has_bfloat16", lambda able=able: able)
        monkeypatch.setattr(engine_choice, "is_installed", lambda name: True)
        names = engine_choice._candidates("auto", Square.card)
        assert [name for name in names if name.endswith("bfloat16")] == [
            name for name in ENGINES if able and name.endswith("bfloat16")
        ]


def test_validation_images_of_a_run_come_first(tmp_path: Path, phantom_store: Path) -> None:
    run = make_run(tmp_path / "run", phantom_store)
    card = read_card(run / "model")
    split = Split.load(phantom_store / "splits" / "strict-0")
    images, source = engine_choice._images(run, card, None)
    assert source == "validation images of the run" and len(images) == min(len(split.validation), 64)
    assert images.shape[1:] == (3, 64, 64) and images.max() <= 1
    config = run / "config.yaml"
    config.write_text(config.read_text().replace(str(phantom_store), str(tmp_path / "gone")))
    assert engine_choice._images(run, card, None).source == "phantoms"
    assert engine_choice._images(run / "model", card, None).source == "phantoms"
