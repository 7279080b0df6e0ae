"""What the analyses share, against numpy and by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fpgm.analysis import profiles
from fpgm.analysis.profiles import (
    choose,
    chunks,
    curve,
    generator,
    labeled_ids,
    measure_likeness,
    outline,
    profiles_of,
    seen,
)
from fpgm.spectrum import edge_mask
from tests.analysis.pictures import Pictures, clinics, square
from tests.data.making import make_store, scene
from tests.spectrum import naive


def test_curve_is_mean_and_deviation_over_images() -> None:
    mean, sd, images = curve(np.array([[1.0, 4.0], [3.0, 4.0]]))
    assert (mean.tolist(), sd.tolist(), images) == ([2, 4], [1, 0], 2)


def test_compare_tells_shape_from_amplitude() -> None:
    profile = np.array([4.0, 2.0, 1.0, 1.0])
    assert measure_likeness(profile, 3 * profile) == (pytest.approx(1), pytest.approx(0), pytest.approx(2))


def test_compare_by_hand() -> None:
    # shapes (.5, .3, .2) and (.4, .4, .2): |difference| = sqrt(.02), |first| = sqrt(.38)
    first, second = np.array([5.0, 3.0, 2.0]), np.array([4.0, 4.0, 2.0])
    alike = measure_likeness(first, second)
    assert alike.distance == pytest.approx(np.sqrt(0.02 / 0.38))
    assert alike.amplitude_distance == pytest.approx(np.sqrt(2 / 38))
    assert alike.correlation == pytest.approx(np.corrcoef(first, second)[0, 1])


def test_profiles_are_the_paper_s() -> None:
    rng = np.random.default_rng(0)
    image, mask = rng.random((3, 16, 16)), square(6, 16)
    grey = torch.from_numpy(0.299 * image[0] + 0.587 * image[1] + 0.114 * image[2])
    own = profiles_of((grey * edge_mask(torch.from_numpy(mask)[None])[0])[None])
    np.testing.assert_allclose(own[0], naive.edge_profile(image, mask), rtol=1e-9)


def test_outline_keeps_brightness_and_loses_texture() -> None:
    grey = torch.tensor([[[0.2, 0.4], [0.9, 0.9]], [[0.5, 0.5], [0.5, 0.5]]])
    band = torch.tensor([[[True, True], [False, False]], [[False, False], [False, False]]])
    torch.testing.assert_close(outline(grey, band), torch.tensor([[[0.3, 0.3], [0, 0]], [[0.0, 0], [0, 0]]]))


def test_chunks_bound_memory_and_tell_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "CHUNK_PIXELS", 10 * 32 * 32)
    pool, told = Pictures(clinics()), []
    parts = list(chunks(pool, lambda done, total: told.append((done, total))))
    assert pool.read == [10, 10, 4]
    assert told == [(10, 24), (20, 24), (24, 24)]
    slices, *sides = zip(*parts, strict=True)
    assert [part.start for part in slices] == [0, 10, 20] and slices[-1].stop == 24
    image, mask = map(torch.cat, sides)
    assert (image.permute(0, 2, 3, 1).mul(255).round().byte().numpy() == pool.images(np.arange(24))).all()
    assert (mask.numpy() == pool.masks(np.arange(24))).all()


def test_one_image_is_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "CHUNK_PIXELS", 1)
    assert sum(1 for _ in chunks(Pictures(clinics(2)), lambda done, total: None)) == 4


def test_labeled_ids_leave_out_what_has_no_mask(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    stores = {"here": make_store(tmp_path, "here", {str(k): scene(rng) for k in range(3)}, bare=["1"])}
    assert labeled_ids(stores) == {"here": ["here/0", "here/2"]}
    stores["bare"] = make_store(tmp_path, "bare", {"0": scene(rng)}, bare=["0"])
    with pytest.raises(ValueError, match="bare has no image with a mask"):
        labeled_ids(stores)


def test_convention_the_mixture_leaves_out_unseen_sets() -> None:
    assert seen(["Kvasir-SEG", "CVC-300", "my clinic"]) == ["Kvasir-SEG", "my clinic"]
    assert seen(["CVC-300", "BKAI-IGH"]) == ["CVC-300", "BKAI-IGH"]


def test_choose_draws_in_the_order_of_the_list() -> None:
    ids = [str(k) for k in range(50)]
    drawn = choose(ids, 10, generator(0, 0))
    assert len(set(drawn)) == 10 and drawn == sorted(drawn, key=int)
    assert drawn != choose(ids, 10, generator(1, 0)) and drawn == choose(ids, 10, generator(0, 0))
    assert choose(ids, 99, generator(0, 0)) == choose(ids, None, generator(0, 0)) == ids
    with pytest.raises(ValueError, match="1 or more, got 0"):
        choose(ids, 0, generator(0, 0))


def test_negative_seed() -> None:
    with pytest.raises(ValueError, match="the seed is -1"):
        generator(-1, 0)
