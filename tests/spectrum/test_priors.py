"""Eq. 5: the learnt prior, its file, and the heuristic priors of the ablation."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fpgm.spectrum import FrequencyPrior, amplitude, edge_profiles, generic_profile, low_pass, radius_grid, resample
from fpgm.training.devices import leave_process_group
from tests.forks import run_ranks
from tests.spectrum import naive
from tests.spectrum.strategies import disc, images


def batch(seed: int = 0, count: int = 2, size: tuple[int, int] = (16, 18), radius: float = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, 3, *size, generator=generator), disc(*size, radius).expand(count, -1, -1)


@given(images(), st.floats(1, 12))
def test_edge_profiles_equal_the_double_loop(image: Tensor, radius: float) -> None:
    mask = disc(*image.shape[-2:], radius)
    expected = [naive.edge_profile(one, mask.numpy()) for one in image.numpy()]
    assert np.allclose(edge_profiles(image, mask.expand(len(image), -1, -1)), expected, atol=1e-12)


@given(images(square=True))
def test_edge_profiles_ignore_flips_and_turns_of_both(image: Tensor) -> None:
    mask = disc(*image.shape[-2:], 3).expand(len(image), -1, -1)
    profiles = edge_profiles(image, mask)
    assert torch.allclose(edge_profiles(image.flip(-1), mask.flip(-1)), profiles, atol=1e-12)
    turned = edge_profiles(image.rot90(1, (-2, -1)), mask.rot90(1, (-2, -1)))
    assert torch.allclose(turned, profiles, atol=1e-12)


def test_convention_the_average_starts_at_the_first_batch_and_moves_once_per_batch() -> None:
    prior = FrequencyPrior()
    first, second = edge_profiles(*batch(1)).mean(0), edge_profiles(*batch(2)).mean(0)
    prior.update(*batch(1))
    assert torch.allclose(prior.profile, first)
    prior.update(*batch(2))
    assert torch.allclose(prior.profile, 0.999 * first + 0.001 * second)
    assert (int(prior.updates), int(prior.samples), prior.size.tolist()) == (2, 4, [16, 18])


def test_convention_the_first_sample_dominates_a_pass_over_seventy() -> None:
    prior, (image, mask) = FrequencyPrior(), batch(0, 1)
    prior.update(image, mask)
    first = prior.profile.clone()
    for _ in range(70):
        prior.update(1e-6 * image, mask)
    assert torch.allclose(prior.profile / first, torch.tensor(0.999**70), rtol=1e-4)  # 93 %


@given(st.floats(0, 0.9999), st.integers(1, 12))
def test_debiased_weights_are_those_of_adam(momentum: float, steps: int) -> None:
    prior, raw = FrequencyPrior(momentum, debias=True), torch.zeros(8)
    for seed in range(steps):
        prior.update(*batch(seed, 1))
        raw = momentum * raw + (1 - momentum) * edge_profiles(*batch(seed, 1))[0]
    assert torch.allclose(prior.profile, raw / (1 - momentum**steps), rtol=1e-3)


def test_momentum_zero_is_the_last_batch_and_one_the_first() -> None:
    last, first, mean = FrequencyPrior(0), FrequencyPrior(1), FrequencyPrior(1, debias=True)
    profiles = [edge_profiles(*batch(seed)).mean(0) for seed in range(3)]
    for seed in range(3):
        for prior in (last, first, mean):
            prior.update(*batch(seed))
    assert torch.allclose(last.profile, profiles[-1])
    assert torch.allclose(first.profile, profiles[0])
    assert torch.allclose(mean.profile, torch.stack(profiles).mean(0))  # the limit of the debiased weights


def test_convention_empty_masks_are_skipped_and_counted() -> None:
    image, mask = batch(0, 3)
    mask = mask.clone()
    mask[1] = 0
    prior = FrequencyPrior()
    prior.update(image, mask)
    assert torch.allclose(prior.profile, edge_profiles(image, mask)[[0, 2]].mean(0))
    before = prior.profile.clone()
    prior.update(image, torch.zeros_like(mask))
    assert torch.equal(prior.profile, before)
    assert (int(prior.updates), int(prior.samples), int(prior.skipped)) == (1, 2, 4)


def test_only_empty_masks_leave_the_prior_unlearnt() -> None:
    prior = FrequencyPrior()
    prior.update(torch.rand(2, 3, 16, 16), torch.zeros(2, 16, 16))
    assert not prior.learnt and int(prior.skipped) == 2
    prior.update(*batch(0, 2, (24, 24)))  # the size is still free
    assert prior.learnt and prior.size.tolist() == [24, 24]


@pytest.mark.parametrize(
    ("image", "mask", "message"),
    [
        (torch.rand(2, 3, 20, 20), disc(20, 20, 4).expand(2, -1, -1), "learnt at 16x18 pixels.*20x20"),
        (torch.full((2, 3, 16, 18), float("nan")), disc(16, 18, 4).expand(2, -1, -1), r"images \[0, 1\].*unchanged"),
        (torch.rand(2, 3, 16, 18), disc(16, 18, 4)[None], "do not belong together"),
        (torch.rand(2, 3, 16, 18), 255 * disc(16, 18, 4).expand(2, -1, -1), "mask > 127"),
    ],
)
def test_a_refused_batch_leaves_the_prior_unchanged(image: Tensor, mask: Tensor, message: str) -> None:
    prior = FrequencyPrior()
    prior.update(*batch())
    before = {name: value.clone() for name, value in prior.state_dict().items()}
    with pytest.raises(ValueError, match=message):
        prior.update(image, mask)
    assert all(torch.equal(before[name], value) for name, value in prior.state_dict().items())


def test_a_bad_pixel_off_the_edge_is_found_too() -> None:
    image, mask = batch()
    image[1, 0, 0, 0] = math.inf
    with pytest.raises(ValueError, match=r"images \[1\]"):
        FrequencyPrior().update(image, mask)


def test_has_no_gradient_and_no_parameters() -> None:
    prior, (image, mask) = FrequencyPrior(), batch()
    prior.update(image.requires_grad_(), mask)
    assert not prior.profile.requires_grad and not list(prior.parameters())


def test_half_images_are_learnt_in_single_precision() -> None:
    prior, (image, mask) = FrequencyPrior(), batch()
    prior.update(image.half(), mask)
    assert prior.profile.dtype == torch.float32
    assert torch.allclose(prior.profile, edge_profiles(image, mask).mean(0), rtol=1e-2)


def test_autocast_changes_nothing() -> None:
    inside, outside = FrequencyPrior(), FrequencyPrior()
    with torch.autocast("cpu", torch.bfloat16):
        inside.update(*batch())
    outside.update(*batch())
    assert torch.equal(inside.profile, outside.profile)


def test_compiled_updates_are_the_same() -> None:
    eager, compiled = FrequencyPrior(0.9), FrequencyPrior(0.9)
    step = torch.compile(compiled.update, backend="aot_eager")  # the graph is ours, its code torch's
    for seed in range(3):
        eager.update(*batch(seed))
        step(*batch(seed))
    assert torch.allclose(eager.profile, compiled.profile, rtol=1e-5)


def test_bad_momentum_is_explained() -> None:
    with pytest.raises(ValueError, match=r"momentum in \[0, 1\], got 1.5"):
        FrequencyPrior(1.5)


def test_state_round_trips_into_a_fresh_prior() -> None:
    prior, other = FrequencyPrior(0.9, debias=True), FrequencyPrior(0.9, debias=True)
    prior.update(*batch(0))
    other.load_state_dict(prior.state_dict())
    prior.update(*batch(1))
    other.update(*batch(1))
    assert torch.equal(prior.profile, other.profile)


class TestFile:
    def saved(self, folder: Path) -> tuple[FrequencyPrior, Path, dict[str, Any]]:
        prior, path = FrequencyPrior(0.9, debias=True), folder / "prior.json"
        prior.update(*batch())
        prior.save(path)
        return prior, path, json.loads(path.read_text())

    def test_round_trips_exactly(self, tmp_path: Path) -> None:
        prior, path, record = self.saved(tmp_path)
        other = FrequencyPrior.load(path)
        assert all(torch.equal(value, other.state_dict()[name]) for name, value in prior.state_dict().items())
        assert (other.momentum, other.debias) == (0.9, True)
        assert record["size"] == [16, 18] and record["samples"] == 2 and record["conventions"]["fft"] == "ortho"

    def test_a_prior_that_learnt_nothing_is_not_saved(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="learnt nothing yet"):
            FrequencyPrior().save(tmp_path / "prior.json")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"format": "other"}, "does not say"),
            ({"conventions": {"fft": "backward"}}, "conventions"),
            ({"momentum": 2}, "momentum must be a number"),
            ({"momentum": True}, "momentum must be a number"),
            ({"debias": "no"}, "debias must be true or false"),
            ({"samples": 0}, "samples must be a count"),
            ({"updates": 1.5}, "updates must be a count"),
            ({"skipped": -1}, "skipped must be a count"),
            ({"size": [16]}, "size must be"),
            ({"size": [2, 16]}, "size must be"),
            ({"profile": [1.0] * 7}, "list of 8 amplitudes"),
            ({"profile": [1.0] * 7 + [-1.0]}, "not a finite amplitude"),
            ({"profile": [1.0] * 7 + [math.nan]}, "not a finite amplitude"),
            ({"profile": [1.0] * 7 + [1e300]}, "not a finite amplitude"),
            ({"profile": [1.0] * 7 + ["1"]}, "not a finite amplitude"),
            ({"profile": [0.0] * 8}, "zero everywhere"),
        ],
    )
    def test_a_malformed_file_is_refused(self, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        _, path, record = self.saved(tmp_path)
        path.write_text(json.dumps({**record, **change}))
        with pytest.raises(ValueError, match=f"{path.name}.*{message}"):
            FrequencyPrior.load(path)

    @pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"[1, 2]", b"null", b"[" * 100_000])
    def test_what_is_no_prior_at_all_is_refused(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "prior.json"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"prior\.json is not a"):
            FrequencyPrior.load(path)

    def test_a_missing_file_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"none\.json"):
            FrequencyPrior.load(tmp_path / "none.json")


def test_convention_the_generic_prior_is_one_over_r_plus_one() -> None:
    assert torch.allclose(generic_profile(4), torch.tensor([1, 1 / 2, 1 / 3, 1 / 4]))
    with pytest.raises(ValueError, match="at least 4 radii, got 3"):
        generic_profile(3)


@given(images(), st.floats(0, 30))
def test_low_pass_keeps_what_is_inside_and_nothing_else(image: Tensor, cutoff: float) -> None:
    height, width = image.shape[-2:]
    inside = radius_grid(height, width) * 128 <= cutoff * (min(height, width) // 2)
    before, after = torch.fft.fft2(image, norm="ortho"), torch.fft.fft2(low_pass(image, cutoff), norm="ortho")
    assert torch.allclose(after, before * inside, atol=1e-12)


def test_convention_low_pass_is_a_filter_of_radius_sixteen_inclusive() -> None:
    image = torch.rand(1, 3, 256, 256, dtype=torch.float64)
    spectrum = amplitude(low_pass(image))[0, 0]
    assert spectrum[0, 16] > 1e-6 and spectrum[0, 17] < 1e-12
    assert torch.allclose(low_pass(image, 200), image)
    assert torch.allclose(low_pass(image, 0), image.mean((-2, -1), keepdim=True).expand_as(image))
    assert low_pass(image.half()).dtype == torch.float16
    with pytest.raises(ValueError, match="cutoff radius >= 0, got -1"):
        low_pass(image, -1)


@pytest.mark.parametrize("size", [32, 64, 128])
def test_convention_a_cutoff_goes_to_another_size_as_a_prior_does(size: int) -> None:
    image = torch.rand(1, 1, size, size, dtype=torch.float64)
    kept = amplitude(low_pass(image, 32))[0, 0, 0, : size // 2] > 1e-12
    step = (torch.arange(128) <= 32).float()
    assert torch.equal(kept, resample(step, size // 2) == 1)


def _learn_on_a_rank(rank: int, world_size: int, folder: str) -> None:
    dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=world_size)
    prior = FrequencyPrior(0.5)
    for step in range(2):
        image, mask = batch(step, 4)
        mask = mask.clone()
        mask[3] = 0  # uneven: rank 1 keeps one image, rank 0 two
        prior.update(image[2 * rank : 2 * rank + 2], mask[2 * rank : 2 * rank + 2])
    prior.save(f"{folder}/{rank}.json")
    leave_process_group()


def test_ranks_share_one_prior_equal_to_that_of_one_process(tmp_path: Path) -> None:
    run_ranks(_learn_on_a_rank, 2, str(tmp_path))
    ranks = [FrequencyPrior.load(tmp_path / f"{rank}.json") for rank in range(2)]
    alone = FrequencyPrior(0.5)
    for step in range(2):
        image, mask = batch(step, 4)
        mask = mask.clone()
        mask[3] = 0
        alone.update(image, mask)
    assert torch.equal(ranks[0].profile, ranks[1].profile)
    assert torch.allclose(ranks[0].profile, alone.profile, rtol=1e-6)
    assert [int(prior.samples) for prior in ranks] == [6, 6] and int(ranks[0].skipped) == 2
