"""Metrics against medpy, MONAI and masks drawn by hand."""

from __future__ import annotations

import itertools
import math
import warnings
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from medpy.metric import binary as medpy
from monai.metrics import compute_average_surface_distance, compute_hausdorff_distance
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import gaussian_filter

from fpgm import metrics
from fpgm.metrics import pair_metrics, reported_metrics

Mask = NDArray[np.bool_]
shapes = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=24)
pairs = shapes.flatmap(lambda s: st.tuples(hnp.arrays(np.bool_, s), hnp.arrays(np.bool_, s)))
spacings = st.tuples(st.floats(0.1, 9), st.floats(0.1, 9))


def pixels(*positions: tuple[int, int], shape: tuple[int, int] = (30, 30)) -> Mask:
    mask = np.zeros(shape, dtype=np.bool_)
    for position in positions:
        mask[position] = True
    return mask


def random_shape(rng: np.random.Generator, smoothness: float, size: int = 96) -> Mask:
    field = gaussian_filter(rng.normal(size=(size, size)), smoothness)
    return np.asarray(field > np.quantile(field, 0.7))


def by_medpy(pred: Mask, true: Mask, spacing: tuple[float, float] = (1.0, 1.0)) -> dict[str, float]:
    return {
        "dice": medpy.dc(pred, true),
        "jaccard": medpy.jc(pred, true),
        "hd95": medpy.hd95(pred, true, voxelspacing=spacing),
        "asd": medpy.assd(pred, true, voxelspacing=spacing),
    }


# by hand


def test_two_pixels() -> None:
    a, b = pixels((2, 3)), pixels((6, 6))
    # 4 rows and 3 columns apart
    assert pair_metrics(a, b, on_empty="nan") == {"dice": 0, "jaccard": 0, "hd95": 5, "asd": 5}
    # rows are 2 high: 8 and 6 half-wide columns → sqrt(64 + 2.25)
    far = pair_metrics(a, b, on_empty="nan", spacing=(2.0, 0.5))
    assert far["hd95"] == far["asd"] == pytest.approx(math.sqrt(64 + 2.25))


def test_shifted_square() -> None:
    a, b = np.zeros((20, 20), int), np.zeros((20, 20), int)
    a[5:9, 5:9] = 1
    b[5:9, 6:10] = 1
    got = pair_metrics(a, b, on_empty="nan")
    # 12 of 16 pixels are common, 20 in either
    assert got["dice"] == 24 / 32
    assert got["jaccard"] == 12 / 20
    # 12 surface pixels each: the 4 of a's left column are 1 from b's, the inner 2 of its right column 1 from b's
    # right column, the other 6 lie on b's surface; the same from b to a
    assert got["asd"] == (6 + 6) / 24
    assert got["hd95"] == 1


def test_surface_of_a_full_image_is_its_frame() -> None:
    full, centre = np.ones((5, 5), bool), pixels((2, 2), shape=(5, 5))
    # 16 frame pixels: 4 middles of sides, 4 corners and 8 between them
    forth = 4 * 2 + 8 * math.sqrt(5) + 4 * math.sqrt(8)
    assert pair_metrics(full, centre, on_empty="nan", asd="directed")["asd"] == pytest.approx(forth / 16)
    assert pair_metrics(centre, full, on_empty="nan", asd="directed")["asd"] == 2


# conventions


def test_convention_hd95_names() -> None:
    # prediction → truth [0]; truth → prediction [0, 10, 20]
    pred, true = pixels((0, 0)), pixels((0, 0), (0, 10), (0, 20))
    # together [0, 0, 10, 20]: rank 0.95 · 3 = 2.85
    assert pair_metrics(pred, true, on_empty="nan")["hd95"] == pytest.approx(18.5)
    assert pair_metrics(pred, true, on_empty="nan", hd95="pooled")["hd95"] == pytest.approx(18.5)
    # the larger direction alone: rank 0.95 · 2 = 1.9
    assert pair_metrics(pred, true, on_empty="nan", hd95="larger")["hd95"] == pytest.approx(19)
    assert pair_metrics(true, pred, on_empty="nan", hd95="larger")["hd95"] == pytest.approx(19)


def test_convention_asd_names() -> None:
    pred, true = pixels((0, 0)), pixels((0, 0), (0, 10), (0, 20))
    # the four distances together, not the mean of the two directed means (which would be 5)
    assert pair_metrics(pred, true, on_empty="nan")["asd"] == 30 / 4
    assert pair_metrics(pred, true, on_empty="nan", asd="directed")["asd"] == 0
    assert pair_metrics(true, pred, on_empty="nan", asd="directed")["asd"] == 10


NAN = math.nan
DIAGONAL = math.hypot(30 * 2, 40 * 0.5)


@pytest.mark.parametrize(
    ("on_empty", "which", "overlap", "distance"),
    [
        ("penalise", "pred", 0, DIAGONAL),
        ("penalise", "true", 0, DIAGONAL),
        ("penalise", "both", 1, 0),
        ("released", "pred", 0, 0),
        ("released", "true", 0, NAN),
        ("released", "both", 0, 0),
        ("nan", "pred", 0, NAN),
        ("nan", "true", 0, NAN),
        ("nan", "both", NAN, NAN),
    ],
)
def test_convention_on_empty(on_empty: Any, which: str, overlap: float, distance: float) -> None:
    some, none = pixels((3, 3), shape=(30, 40)), np.zeros((30, 40), bool)
    pred, true = none if which != "true" else some, none if which != "pred" else some
    got = pair_metrics(pred, true, on_empty=on_empty, spacing=(2.0, 0.5))
    expected = {"dice": overlap, "jaccard": overlap, "hd95": distance, "asd": distance}
    assert got == pytest.approx(expected, nan_ok=True)


@given(pairs, spacings)
def test_convention_diagonal_bounds_every_distance(pair: tuple[Mask, Mask], spacing: tuple[float, float]) -> None:
    pred, true = pair
    assume(pred.any() and true.any())
    miss = pair_metrics(np.zeros_like(true), true, on_empty="penalise", spacing=spacing)["hd95"]
    assert pair_metrics(pred, true, on_empty="penalise", spacing=spacing)["hd95"] < miss


# against other libraries


@settings(deadline=None)
@given(pairs, spacings)
def test_equals_medpy_on_any_masks(pair: tuple[Mask, Mask], spacing: tuple[float, float]) -> None:
    pred, true = pair
    assume(pred.any() and true.any())
    got = pair_metrics(pred, true, on_empty="nan", spacing=spacing)
    assert got == pytest.approx(by_medpy(pred, true, spacing), abs=1e-9)
    directed = pair_metrics(pred, true, on_empty="nan", spacing=spacing, asd="directed")["asd"]
    assert directed == pytest.approx(medpy.asd(pred, true, voxelspacing=spacing), abs=1e-9)


@given(pairs)
def test_the_released_line_is_what_the_released_code_computes(pair: tuple[Mask, Mask]) -> None:
    """Its test script: 0 in all four for an empty prediction, else these four functions of medpy."""
    pred, true = pair
    assume(true.any() or not pred.any())  # a truth that alone is empty stops it
    functions = {"dice": medpy.dc, "jaccard": medpy.jc, "hd95": medpy.hd95, "asd": medpy.asd}
    expected = {name: function(pred, true) if pred.any() else 0 for name, function in functions.items()}
    assert reported_metrics(pred, true)[1] == pytest.approx(expected, abs=1e-9)


@given(pairs)
def test_both_lines_of_a_report_are_pair_metrics(pair: tuple[Mask, Mask]) -> None:
    first, second = reported_metrics(*pair)
    assert first == pair_metrics(*pair, on_empty="penalise")
    assert second == pytest.approx(pair_metrics(*pair, on_empty="released", asd="directed"), nan_ok=True)


@pytest.mark.parametrize("unused", ["cdist", "distance_transform_edt"])
def test_equals_medpy_both_ways_of_finding_distances(unused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, unused, None)  # calling it would fail
    rng = np.random.default_rng(3)
    for _ in range(5):
        pred, true = (random_shape(rng, 0.5 if unused == "cdist" else 12) for _ in range(2))
        got = pair_metrics(pred, true, on_empty="nan", spacing=(1.5, 0.7))
        assert got == pytest.approx(by_medpy(pred, true, (1.5, 0.7)), abs=1e-9)


@pytest.mark.parametrize("smoothness", [0.5, 3, 12])
def test_equals_monai(smoothness: float) -> None:
    rng = np.random.default_rng(5)
    pred, true = (random_shape(rng, smoothness) for _ in range(2))
    a, b = (torch.from_numpy(mask)[None, None].float() for mask in (pred, true))
    got = pair_metrics(pred, true, on_empty="nan", hd95="larger", spacing=(1.5, 0.7))
    options: dict[str, Any] = {"include_background": True, "spacing": (1.5, 0.7)}
    hd95 = compute_hausdorff_distance(a, b, percentile=95, **options).item()
    assert got["hd95"] == pytest.approx(hd95, rel=1e-5)
    asd = compute_average_surface_distance(a, b, symmetric=True, **options).item()
    assert got["asd"] == pytest.approx(asd, rel=1e-5)
    directed = pair_metrics(pred, true, on_empty="nan", asd="directed", spacing=(1.5, 0.7))["asd"]
    expected = compute_average_surface_distance(a, b, symmetric=False, **options).item()
    assert directed == pytest.approx(expected, rel=1e-5)


def test_equals_medpy_on_real_masks(real_data: Path) -> None:
    files = sorted(real_data.glob("*/masks/*.png"))
    masks = [np.asarray(Image.open(f).convert("L").resize((256, 256), 0)) > 127 for f in files[::400]]
    for pred, true in itertools.pairwise(masks):
        assert pair_metrics(pred, true, on_empty="nan") == pytest.approx(by_medpy(pred, true), abs=1e-9)


# invariants


@settings(deadline=None)
@given(pairs)
def test_invariants(pair: tuple[Mask, Mask]) -> None:
    pred, true = pair
    got = pair_metrics(pred, true, on_empty="penalise")
    assert got["jaccard"] == pytest.approx(got["dice"] / (2 - got["dice"]))
    assert pair_metrics(true, pred, on_empty="penalise") == pytest.approx(got)
    assert pair_metrics(pred.T, true.T, on_empty="penalise") == pytest.approx(got)
    assert pair_metrics(pred, pred, on_empty="penalise") == {"dice": 1, "jaccard": 1, "hd95": 0, "asd": 0}
    scaled = pair_metrics(pred, true, on_empty="penalise", spacing=(3.0, 3.0))
    assert (scaled["hd95"], scaled["asd"]) == pytest.approx((3 * got["hd95"], 3 * got["asd"]))


@given(pairs, st.integers(1, 5), st.integers(1, 5))
def test_place_in_the_image_does_not_matter(pair: tuple[Mask, Mask], rows: int, columns: int) -> None:
    pred, true = pair
    moved = [np.pad(mask, ((rows, 2), (columns, 3))) for mask in pair]
    got = pair_metrics(pred, true, on_empty="nan")
    assert pair_metrics(moved[0], moved[1], on_empty="nan") == pytest.approx(got, nan_ok=True)


# input


def test_zero_one_masks_of_any_type_are_equal_to_boolean_ones() -> None:
    pred, true = pixels((2, 2), (2, 3)), pixels((2, 3))
    expected = pair_metrics(pred, true, on_empty="nan")
    for kind in (np.uint8, np.int64, np.float32):
        assert pair_metrics(pred.astype(kind), true.astype(kind), on_empty="nan") == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pred": np.full((4, 4), 255, np.uint8)}, r"pred holds 255.*mask > 127"),
        ({"true": np.full((4, 4), 0.7)}, r"true holds 0\.7.*probability > 0\.5"),
        ({"true": np.full((4, 4), np.nan)}, "true holds nan"),
        ({"pred": np.zeros((1, 4, 4), bool)}, r"pred has shape \(1, 4, 4\).*\(H, W\)"),
        ({"pred": np.zeros((0, 4), bool)}, r"pred has shape \(0, 4\)"),
        ({"true": np.zeros((4, 5), bool)}, r"pred is \(4, 4\) and true is \(4, 5\)"),
        ({"spacing": (1.0, 0.0)}, r"spacing is \(1\.0, 0\.0\).*both positive"),
        ({"spacing": (1.0,)}, "height and the width"),
        ({"spacing": (1.0, math.nan)}, "both positive"),
        ({"on_empty": "zero"}, "on_empty is 'zero': choose one of penalise, released, nan"),
        ({"hd95": "max"}, "hd95 is 'max': choose one of pooled, larger"),
        ({"asd": "mean"}, "asd is 'mean': choose one of symmetric, directed"),
    ],
)
def test_mistakes_are_explained(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "pred": np.ones((4, 4), bool),
        "true": np.ones((4, 4), bool),
        "on_empty": "nan",
    }
    with pytest.raises(ValueError, match=message):
        pair_metrics(**(arguments | change))


def test_on_empty_has_no_default() -> None:
    with pytest.raises(TypeError, match="on_empty"):
        pair_metrics(np.ones((4, 4)), np.ones((4, 4)))  # type: ignore[call-arg]  # wrong on purpose


def test_inputs_are_left_alone_and_nothing_warns() -> None:
    pred, true = pixels((1, 1)), pixels((1, 2))
    before = pred.copy(), true.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pair_metrics(pred, true, on_empty="penalise")
        pair_metrics(np.zeros_like(pred), true, on_empty="released")
    assert (pred == before[0]).all() and (true == before[1]).all()
