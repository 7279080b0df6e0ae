"""Pictures of any size: prepared as in training, probabilities resized back as torch does it, averaged, cleaned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

import fpgm
from fpgm.data.pictures import prepare_image
from fpgm.evaluation import predict_masks
from fpgm.model import load_model, save_model
from fpgm.serving.predictor import Predictor, load_predictor
from tests.serving.making import SIZE, Red, model, pictures, run_without


def noise(height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def test_a_model_predicts_what_was_evaluated() -> None:
    """At the network's own size nothing is resized: the masks are those of `fpgm evaluate`, pixel for pixel."""
    images = [np.asarray(picture) for picture in pictures(12)]
    net, _ = load_model(model())
    expected = predict_masks(net, np.stack(images), torch.device("cpu"))
    masks, probabilities = fpgm.load_predictor(model()).predict(images)
    assert np.array_equal(masks, expected) and 0 < expected.mean() < 1
    assert all(plane.dtype == np.float32 and plane.min() >= 0 and plane.max() <= 1 for plane in probabilities)


@given(st.integers(1, 70), st.integers(1, 70))
def test_every_size_comes_back(height: int, width: int) -> None:
    (mask,), (probability,) = Predictor(Red()).predict([noise(height, width)])
    assert mask.shape == probability.shape == (height, width)
    assert mask.dtype == bool and np.array_equal(mask, probability >= 0.5)


@given(st.integers(16, 70), st.integers(16, 70))
def test_probabilities_are_enlarged_as_torch_does_it(height: int, width: int) -> None:
    image = noise(height, width)
    (_,), (probability,) = Predictor(Red()).predict([image])
    small = torch.from_numpy(prepare_image(Image.fromarray(image), 16)[..., 0]).float()[None, None] / 255
    expected = torch.nn.functional.interpolate(small, (height, width), mode="bilinear", align_corners=False)
    assert np.allclose(probability, expected[0, 0].numpy(), atol=1e-5)


def test_convention_a_probability_equal_to_the_threshold_is_foreground() -> None:
    image = np.zeros((16, 16, 3), np.uint8)
    image[:8, :, 0], image[8:, :, 0] = 51, 50  # 51 / 255 = 0.2
    (mask,), _ = Predictor(Red(), threshold=float(np.float32(0.2))).predict([image])
    assert mask[:8].all() and not mask[8:].any()


def test_pictures_of_several_sizes_share_a_pass_and_keep_their_order() -> None:
    engine = Red()
    shades = list(range(0, 250, 25))
    images = [np.full((10 + shade, 300 - shade, 3), shade, np.uint8) for shade in shades]
    _, probabilities = Predictor(engine, batch_size=4).predict(images)
    assert engine.batches == [4, 4, 2]
    assert [plane.shape for plane in probabilities] == [image.shape[:2] for image in images]
    assert [round(float(plane.mean()) * 255) for plane in probabilities] == shades


def test_the_size_of_a_pass_changes_nothing() -> None:
    images = pictures(5, size=90)
    alone, together = (Predictor(load_predictor(model()).engine, batch_size=size).predict(images)[1] for size in (1, 5))
    assert np.allclose(alone, together, atol=1e-5)
    assert load_predictor(model()).predict([]) == ([], [])


class Corner(Red):
    """Sees the left edge alone, whatever is shown: the mean over flips and turns sees all edges."""

    def probabilities(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        super().probabilities(batch)
        found = np.zeros_like(batch[:, 0])
        found[:, :, 0] = 1
        return found


def test_averaging_is_over_all_eight_flips_and_turns() -> None:
    (_,), (probability,) = Predictor(Corner(), average=True).predict([noise(16, 16)])
    # each edge is seen in 2 of the 8 views, a corner belongs to two edges
    expected = np.zeros((16, 16))
    expected[0] += 0.25
    expected[-1] += 0.25
    expected[:, 0] += 0.25
    expected[:, -1] += 0.25
    assert np.allclose(probability, expected)


def test_averaging_turns_views_back() -> None:
    """An engine that treats all directions alike sees the same with and without."""
    image = noise(16, 16)
    plain, averaged = (Predictor(Red(), average=average).predict([image])[1][0] for average in (False, True))
    assert np.allclose(plain, averaged, atol=1e-6)
    mirrored = load_predictor(model(), average=True).predict([pictures(1)[0].transpose(Image.Transpose.ROTATE_90)])
    upright = load_predictor(model(), average=True).predict(pictures(1))
    assert np.allclose(np.rot90(upright[1][0]), mirrored[1][0], atol=1e-5)


def test_cleaning_follows_the_threshold() -> None:
    image = np.zeros((16, 16, 3), np.uint8)
    image[1:4, 1:4, 0] = image[8:10, 8:10, 0] = 255  # 9 and 4 pixels
    for settings, area in (({}, 13), ({"min_area": 5}, 9), ({"min_area": 10}, 0), ({"keep_largest": True}, 9)):
        (mask,), _ = Predictor(Red(), **settings).predict([image])
        assert mask.sum() == area


def test_arrays_pictures_and_paths_are_the_same(tmp_path: Path) -> None:
    image = noise(30, 20)
    Image.fromarray(image).save(tmp_path / "image.png")
    given: list[object] = [image, Image.fromarray(image), tmp_path / "image.png", str(tmp_path / "image.png")]
    _, planes = Predictor(Red()).predict(given)  # type: ignore[arg-type]  # pictures of several types
    assert all(np.array_equal(plane, planes[0]) for plane in planes)
    _, (grey,) = Predictor(Red()).predict([image[..., 0]])
    assert np.array_equal(grey, planes[0])  # its red is the red of the others


def test_convention_a_file_is_turned_upright_a_picture_in_memory_is_not(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    Image.fromarray(noise(30, 20)).save(tmp_path / "turned.png", exif=exif)
    masks, _ = Predictor(Red()).predict([tmp_path / "turned.png", Image.open(tmp_path / "turned.png")])
    assert [mask.shape for mask in masks] == [(20, 30), (30, 20)]


def test_bfloat16_is_near() -> None:
    exact, rough = (load_predictor(model(), precision=name).predict(pictures(12)) for name in ("float32", "bfloat16"))
    assert not np.array_equal(exact[1], rough[1])
    assert np.abs(np.array(exact[1]) - rough[1]).mean() < 0.01
    assert (np.array(exact[0]) == rough[0]).mean() > 0.98
    identities = {load_predictor(model(), precision=name).engine.identity for name in ("float32", "bfloat16", "auto")}
    assert len(identities) == 2  # auto is one of the others


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 0.0}, "threshold is 0.0: give a probability above 0"),
        ({"threshold": 1.1}, "threshold is 1.1"),
        ({"threshold": float("nan")}, "threshold is nan"),
        ({"min_area": -1}, "min_area is -1"),
        ({"device": "quantum"}, "--device quantum cannot be used here"),
        ({"precision": "float8"}, "precision is 'float8': expected float32"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_predictor(model(), **settings)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    "image", [np.zeros((4, 4, 3), np.float32), np.zeros((4, 4, 4), np.uint8), np.zeros((0, 4, 3), np.uint8)]
)
def test_bad_arrays_are_refused(image: NDArray[np.uint8]) -> None:
    with pytest.raises(ValueError, match=r"give uint8 \(H, W, 3\)"):
        Predictor(Red()).predict([image])


def test_bad_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(ValueError, match="no picture of a known format"):
        Predictor(Red()).predict([tmp_path / "text.png"])
    with pytest.raises(FileNotFoundError):
        Predictor(Red()).predict([tmp_path / "none.png"])
    with pytest.raises(FileNotFoundError, match="holds no model"):
        load_predictor(tmp_path)


@pytest.mark.parametrize("average", [False, True])
def test_a_network_whose_values_are_not_finite_finds_nothing_and_says_so(average: bool, tmp_path: Path) -> None:
    net, card = load_model(model())
    with torch.no_grad():
        for value in net.parameters():
            value.fill_(3e38)  # finite, unlike what they make of an image
    save_model(tmp_path, net, card)
    with pytest.raises(ValueError, match="values that are not finite, of which no mask can be made"):
        load_predictor(tmp_path, average=average).predict(pictures(1))


def test_a_model_needs_no_training_code_store_or_method(tmp_path: Path) -> None:
    pictures(1, size=100)[0].save(tmp_path / "image.png")
    blocked = (
        "fpgm.training fpgm.methods fpgm.config fpgm.evaluation fpgm.experiments fpgm.losses fpgm.data.store "
        "fpgm.data.batches.streams h5py lightning_fabric kornia matplotlib monai onnxruntime"
    )
    script = """
import fpgm
(mask,), _ = fpgm.load_predictor(sys.argv[1]).predict([sys.argv[2]])
print(mask.shape, mask.sum())
"""
    done = run_without(blocked, script, str(model()), str(tmp_path / "image.png"))
    (mask,), _ = load_predictor(model()).predict([tmp_path / "image.png"])
    assert done.stdout.split(") ") == ["(100, 100", f"{mask.sum()}\n"], done.stderr
    assert mask.sum() > 0 and SIZE != 100


def test_without_torch_a_folder_is_refused_with_a_way_out() -> None:
    script = "import fpgm\ntry: fpgm.load_predictor(sys.argv[1])\nexcept ValueError as error: print(error)"
    assert "export the model to ONNX" in run_without("torch", script, str(model())).stdout
