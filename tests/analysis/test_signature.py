"""The signature: against the naive profile, and on data sets whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from fpgm.analysis import profiles
from fpgm.analysis.signature import MIXTURE, Signature, signature
from tests.analysis.pictures import Pictures, clinics, flat, noise, square
from tests.spectrum import naive


def measure(pairs: dict[str, tuple[np.ndarray, np.ndarray]], seed: int = 0) -> Signature:
    return signature(Pictures(pairs), seed=seed)


def test_curves_are_means_of_naive_profiles() -> None:
    pairs = clinics(4)
    result = measure(pairs)
    for name in ("large", "small"):
        own = [
            naive.edge_profile(image.transpose(2, 0, 1) / 255, mask)
            for key, (image, mask) in pairs.items()
            if key.startswith(name)
        ]
        np.testing.assert_allclose(result.sets[name].curve.mean, np.mean(own, 0), rtol=1e-4)
        np.testing.assert_allclose(result.sets[name].curve.sd, np.std(own, 0), rtol=1e-2, atol=1e-5)
        bands = [naive.edge_band(mask).sum() for key, (_, mask) in pairs.items() if key.startswith(name)]
        assert result.sets[name].edge_pixels == np.mean(bands)


def test_halves_are_of_one_set_and_make_up_its_mean() -> None:
    result = measure(clinics(6))
    for entry in result.sets.values():
        first, second = entry.halves
        assert first.images == second.images == entry.curve.images // 2
        np.testing.assert_allclose((first.mean + second.mean) / 2, entry.curve.mean)


def test_sets_with_polyps_of_other_size_are_farther_apart_than_halves() -> None:
    result = measure(clinics(20))
    (pair,) = (entry for entry in result.comparisons if entry.kind == "sets")
    assert pair.times_halves is not None and pair.times_halves > 3
    # pixels are noise here: all that sets the sets apart is the outline
    assert pair.outline_distance == pytest.approx(pair.likeness.distance, rel=0.25)


def test_a_set_divided_at_random_gives_two_sets_as_near_as_halves() -> None:
    rng = np.random.default_rng(1)
    masks = [square(int(rng.integers(5, 17))) for _ in range(80)]
    pairs = {f"{'ab'[k % 2]}/{k}": (noise(rng), mask) for k, mask in enumerate(masks)}
    (pair,) = (entry for entry in measure(pairs).comparisons if entry.kind == "sets")
    assert pair.times_halves is not None and 0.5 < pair.times_halves < 2


def test_equal_images_have_no_distance_and_no_spread() -> None:
    result = measure({f"one/{k}": (flat(100), square(8)) for k in range(4)})
    assert list(result.sets) == ["one"]  # a mixture of one set is that set
    assert result.comparisons[0].likeness.distance == pytest.approx(0, abs=1e-7)
    assert result.sets["one"].spread == pytest.approx(0, abs=1e-6)


def test_the_outline_of_a_flat_image_is_its_edge() -> None:
    entry = measure({f"one/{k}": (flat(100), square(5 + k)) for k in range(4)}).sets["one"]
    np.testing.assert_allclose(entry.outline.mean, entry.curve.mean, rtol=1e-5)
    noisy = measure({key: pair for key, pair in clinics(4).items() if key.startswith("large")}).sets["large"]
    assert np.abs(noisy.outline.mean / noisy.curve.mean - 1).max() > 0.05


def test_invisible_edges_are_skipped_and_counted() -> None:
    pairs = {f"one/{k}": (flat(100), square(8)) for k in range(3)}
    extra = {"one/black": (flat(0), square(8)), "one/empty": (flat(100), square(0))}
    with_them, without = measure({**pairs, **extra}).sets["one"], measure(pairs).sets["one"]
    assert (with_them.skipped, with_them.curve.images) == (2, 3)
    np.testing.assert_allclose(with_them.curve.mean, without.curve.mean)
    with pytest.raises(ValueError, match="one has 1 images with a visible edge"):
        measure({"one/0": pairs["one/0"], **extra})


def test_the_mixture_is_of_the_sets_that_are_not_unseen() -> None:
    pairs = {f"{name}/{k}": (flat(90 + k), square(6 + k)) for name in ("x", "y", "CVC-300") for k in range(4)}
    result = measure(pairs)
    assert result.mixture == ("x", "y")
    assert result.sets[MIXTURE].curve.images == 8
    assert not any(MIXTURE in (entry.first, entry.second) for entry in result.comparisons if entry.kind == "sets")


def test_videos_are_kept_apart_where_they_are_known() -> None:
    # Twelve videos of ClinicDB with two frames each, alike within a video: random halves share them.
    frames = [1, 26, 51, 68, 79, 104, 127, 152, 178, 200, 206, 228]
    rng = np.random.default_rng(0)
    polyps = {frame: square(int(rng.integers(3, 20))) for frame in frames}
    pairs = {f"CVC-ClinicDB/{f + k}": (flat(99), polyps[f]) for f in frames for k in range(2)}
    found = {entry.kind: entry.likeness.distance for entry in measure(pairs).comparisons}
    assert found["video halves"] > 1.1 * found["halves"]
    assert measure(pairs).sets["CVC-ClinicDB"].videos == 12
    few = {key: pair for key, pair in pairs.items() if int(key.split("/")[1]) < 100}
    assert {entry.kind for entry in measure(few).comparisons} == {"halves"}  # five videos are too few


def test_seed_decides() -> None:
    pairs = clinics(6)
    first, again, other = measure(pairs), measure(pairs), measure(pairs, seed=1)
    assert first.comparisons == again.comparisons
    assert first.comparisons != other.comparisons
    np.testing.assert_array_equal(first.sets["large"].curve.mean, other.sets["large"].curve.mean)


def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = measure(clinics(5))
    monkeypatch.setattr(profiles, "CHUNK_PIXELS", 3 * 32 * 32)
    parts = measure(clinics(5))
    for one, two in zip(whole.comparisons, parts.comparisons, strict=True):
        assert one.likeness == pytest.approx(two.likeness, rel=1e-5)
