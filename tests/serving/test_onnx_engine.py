"""ONNX files: the same probabilities as torch, a card inside, nothing accepted that was changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from fpgm.model import load_model, save_model
from fpgm.regions import clean
from fpgm.runs.card import Calibration, parse_card, read_card
from fpgm.serving import export
from fpgm.serving.export import export_onnx
from fpgm.serving.onnx_engine import OnnxEngine, digest
from fpgm.serving.predictor import describe, load_predictor
from tests.serving.making import SIZE, SPECKS, model, onnx_file, pictures, run_without


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Export the graph of the small model, which another card does not change: once is enough."""
    graph = onnx.load(onnx_file())
    monkeypatch.setattr(export, "_to_onnx", lambda net, card: graph)


@pytest.mark.parametrize("count", [1, 3])
def test_torch_and_onnxruntime_see_the_same(count: int) -> None:
    images = pictures(count, size=96)
    ours, theirs = (load_predictor(path).predict(images) for path in (onnx_file(), model()))
    planes = np.array(theirs[1])
    assert np.allclose(ours[1], planes, atol=1e-4) and planes.max() > 0.5
    sure = np.abs(planes - 0.5) > 1e-4  # elsewhere the two may round to different sides
    assert np.array_equal(np.array(ours[0])[sure], np.array(theirs[0])[sure]) and sure.mean() > 0.99


def test_the_file_says_all_that_is_needed() -> None:
    proto = onnx.load(onnx_file())
    (image,), (logits,) = proto.graph.input, proto.graph.output
    shapes = [[side.dim_param or side.dim_value for side in one.type.tensor_type.shape.dim] for one in (image, logits)]
    assert (image.name, logits.name) == ("image", "logits")
    assert shapes == [["batch", 3, SIZE, SIZE], ["batch", 2, SIZE, SIZE]]
    text = {prop.key: prop.value for prop in proto.metadata_props}["fpgm"]
    engine = OnnxEngine(onnx_file())
    assert parse_card(text, "it") == read_card(model()) == engine.card
    assert (engine.card.size, engine.card.classes) == (SIZE, ("background", "polyp"))


def test_no_folder_of_this_machine_is_in_the_file() -> None:
    data = onnx_file().read_bytes()
    assert b"site-packages" not in data and b".py" not in data and str(Path(__file__).parents[2]).encode() not in data


@settings(max_examples=25)
@given(st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_a_changed_byte_is_refused(place: float, change: int) -> None:
    data = bytearray(onnx_file().read_bytes())
    data[int(place * len(data))] ^= change
    path = onnx_file().with_name("changed.onnx")
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"changed or cut short|not an ONNX file of"):
        OnnxEngine(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    whole = onnx_file().read_bytes()
    found = digest(whole)
    assert found is not None
    foreign = onnx.load(onnx_file())
    del foreign.metadata_props[:]
    contents = {
        "cut": whole[:-1000],
        "longer": whole + b"\0",
        "swapped": whole.replace(found.encode(), b"f" * 64),
        "text": b"hello",
        "empty": b"",
        "foreign": foreign.SerializeToString(),
    }
    for name, content in contents.items():
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=name):
            load_predictor(path)
    with pytest.raises(FileNotFoundError, match=r"gone\.onnx"):
        load_predictor(tmp_path / "gone.onnx")


def test_a_device_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"--device mps cannot be used here: onnxruntime offers .*CPU"):
        OnnxEngine(onnx_file(), "mps")


def test_a_precision_that_it_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="has its own precision"):
        load_predictor(onnx_file(), precision="bfloat16")


def test_several_classes_are_all_foreground(monkeypatch: pytest.MonkeyPatch) -> None:
    class Session:
        def run(self, batch: object) -> np.ndarray:
            return np.log(np.array([[[[2.0]], [[1.0]], [[5.0]]]], np.float32)) + 100  # shares 2, 1 and 5 of 8

    engine = OnnxEngine(onnx_file())
    monkeypatch.setattr(engine, "_session", Session())
    assert engine.probabilities(np.zeros((1, 3, 1, 1), np.float32)) == pytest.approx(6 / 8, abs=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_are_not_finite_are_refused(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    class Session:
        def run(self, batch: object) -> np.ndarray:
            return np.full((1, 2, 1, 1), value, np.float32)

    engine = OnnxEngine(onnx_file())
    monkeypatch.setattr(engine, "_session", Session())
    with pytest.raises(ValueError, match="values that are not finite, of which no mask can be made"):
        engine.probabilities(np.zeros((1, 3, 1, 1), np.float32))


def test_the_command_needs_no_torch(tmp_path: Path) -> None:
    pictures(1, size=100)[0].save(tmp_path / "image.png")
    script = "from fpgm.cli import main; code = main(sys.argv[1:]); print('torch' in sys.modules); sys.exit(code)"
    blocked = "torch onnx onnxscript safetensors kornia lightning_fabric h5py matplotlib fpgm.nets fpgm.training"
    arguments = ["predict", str(onnx_file()), str(tmp_path / "image.png"), "--out", str(tmp_path / "out"), "--average"]
    done = run_without(blocked, script, *arguments)
    assert done.returncode == 0 and done.stdout.endswith("False\n"), done.stderr
    (mask,), (plane,) = load_predictor(model(), average=True).predict([tmp_path / "image.png"])
    sure = np.abs(plane - 0.5) > 1e-4  # elsewhere the two may round to different sides
    found = np.asarray(Image.open(tmp_path / "out" / "masks" / "image.png")) > 0
    assert np.array_equal(found[sure], mask[sure]) and 0 < mask[sure].mean() < 1 and sure.mean() > 0.99


def test_without_onnxruntime_it_says_what_to_install() -> None:
    script = "import fpgm\ntry: fpgm.load_predictor(sys.argv[1])\nexcept ValueError as error: print(error)"
    assert "pip install onnxruntime" in run_without("onnxruntime openvino", script, str(onnx_file())).stdout


def test_both_engines_have_the_temperature_and_the_same_masks(tmp_path: Path, traced: None) -> None:
    net, card = load_model(model())
    fitted = Calibration(temperature=2.0, images=4, error_before=0.2, error_after=0.1)
    save_model(tmp_path / "model", net, card.model_copy(update={"calibration": fitted}))
    export_onnx(tmp_path / "model", tmp_path / "warm.onnx")
    images = pictures(3, size=96)  # enlarged: masks must not move there either
    masks, planes = load_predictor(model()).predict(images)
    for path in (tmp_path / "model", tmp_path / "warm.onnx"):
        again, warm = load_predictor(path).predict(images)
        assert np.mean(np.array(again) != np.array(masks)) == (0 if path.is_dir() else pytest.approx(0, abs=1e-3))
        odds = [plane / (1 - plane) for plane in planes]
        assert np.allclose(warm, [np.sqrt(one) / (1 + np.sqrt(one)) for one in odds], atol=1e-3)


def test_both_engines_leave_out_specks_as_the_evaluation_does(tmp_path: Path, traced: None) -> None:
    net, card = load_model(model())
    area = SPECKS.model_copy(update={"share": 40 / SIZE**2})
    save_model(tmp_path / "model", net, card.model_copy(update={"least_area": area}))
    export_onnx(tmp_path / "model", tmp_path / "clean.onnx")
    images = pictures(6)
    masks, _ = load_predictor(model()).predict(images)
    expected = [clean(mask, min_area=40) for mask in masks]
    assert any((one != mask).any() for one, mask in zip(expected, masks, strict=True))
    for path in (tmp_path / "model", tmp_path / "clean.onnx"):
        assert np.mean(np.array(load_predictor(path).predict(images)[0]) != np.array(expected)) < 1e-3
        assert np.mean(np.array(load_predictor(path, min_area=0).predict(images)[0]) != np.array(masks)) < 1e-3
    (large,), _ = load_predictor(tmp_path / "model").predict([images[0].resize((2 * SIZE, 3 * SIZE))])
    assert all(
        found.area >= 240 for found in describe(large, large.astype(np.float32))
    )  # 6 x 40: a share of the picture
