"""FPGM: both recipes, every switch, and the grouping of passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch
from fpgm.losses import cross_entropy_dice, dice, pseudo_label
from fpgm.methods import Step
from fpgm.methods.fpgm import FPGM
from fpgm.methods.parts.perturbations import channel_dropout
from fpgm.nets import UNet
from fpgm.spectrum import FrequencyPrior, align, edge_profiles, low_pass
from tests.methods.drive import CHANNELS, build, make_stream


def step(index: int = 0, total: int = 100) -> Step:
    return Step(index, total, "train", torch.Generator().manual_seed(0))


def batch_for(store: Path, method: Any) -> Batch:
    return make_stream(store, method).batch(0)


def fpgm(**arguments: Any) -> FPGM:
    method = build("fpgm", **arguments)
    assert isinstance(method, FPGM)
    return method


class Passes(nn.Module):
    """A network that remembers which images it saw together, and in which mode."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Conv2d(3, 2, 1)
        self.seen: list[tuple[Tensor, bool]] = []

    def forward(self, image: Tensor) -> Tensor:
        self.seen.append((image, self.training))
        return self.net(image)


def test_convention_labelled_and_weak_images_share_a_pass_and_other_views_do_not(phantom_store: Path) -> None:
    method = FPGM(Passes(), threshold=0.0).train()
    batch = batch_for(phantom_store, method)
    method.before_step(batch, step())
    method.losses(batch, step())
    expected = [
        torch.cat((batch.image_l, batch.weak_u)),
        batch.strong_u[0],
        method.aligned(batch.weak_u),
    ]
    assert [training for _, training in method.net.seen] == [True] * 3
    assert all(torch.equal(seen, want) for (seen, _), want in zip(method.net.seen, expected, strict=True))


def test_paper_objective_term_by_term(phantom_store: Path) -> None:
    net = nn.Conv2d(3, 2, 1)  # without dropout and batch norm, passes can be repeated outside
    method = FPGM(net, threshold=0.5, unsup=0.4, freq=0.3)
    batch = batch_for(phantom_store, method)
    method.before_step(batch, step())
    terms = method.losses(batch, step())
    labels, keep = pseudo_label(net(batch.weak_u), 0.5)
    profile = edge_profiles(batch.image_l, batch.mask_l).mean(0)
    aligned = align(batch.weak_u, profile, 0.05, "radial")
    assert torch.allclose(terms["sup"], cross_entropy_dice(net(batch.image_l), batch.mask_l))
    assert torch.allclose(terms["unsup"], 0.4 * dice(net(batch.strong_u[0]), labels, mask=keep))
    assert torch.allclose(terms["freq"], 0.3 * dice(net(aligned), labels, mask=keep))
    assert method.notes["foreground"] == labels.float().mean()
    assert method.notes["kept_foreground"] == (keep & (labels == 1)).float().mean()
    assert method.notes["kept_background"] == (keep & (labels == 0)).float().mean()


def test_released_recipe_has_two_mixed_views_and_a_feature_term(phantom_store: Path) -> None:
    method = fpgm(recipe="released")
    assert (method.views.strong, method.views.cutmix, method.views.mix) == (2, True, True)
    batch = batch_for(phantom_store, method)
    method.before_step(batch, step())
    assert set(method.train().losses(batch, step())) == {"sup", "unsup", "feature", "freq"}
    assert method.net.training


def test_released_strong_term_is_one_dice_over_both_mixed_views(phantom_store: Path) -> None:
    class Plain(UNet):
        """A UNet in which every pass can be repeated: a single convolution."""

        def __init__(self) -> None:
            super().__init__(channels=CHANNELS)
            self.only = nn.Conv2d(3, 2, 1)

        def encode(self, image: Tensor) -> list[Tensor]:
            return [image]

        def decode(self, features: Any) -> Tensor:
            return self.only(features[0])

    net = Plain()
    method = FPGM(net, recipe="released", threshold=0.5)
    batch = batch_for(phantom_store, method)
    method.before_step(batch, step())
    terms = method.losses(batch, step())
    labels, keep = pseudo_label(net(batch.weak_u), 0.5)
    other_labels, other_keep = pseudo_label(net(batch.weak_m), 0.5)
    logits, targets, kept = [], [], []
    for strong, partner, box in zip(batch.strong_u, batch.strong_m, batch.boxes_u, strict=True):
        logits.append(net(torch.where(box[:, None], partner, strong)))
        targets.append(torch.where(box, other_labels, labels))
        kept.append(torch.where(box, other_keep, keep))
    expected = dice(torch.cat(logits), torch.cat(targets), mask=torch.cat(kept))
    assert torch.allclose(terms["unsup"], 0.5 * expected)
    features = channel_dropout(torch.cat((batch.image_l, batch.weak_u)), step().generator)
    perturbed = net.only(features)[len(batch.image_l) :]
    assert torch.allclose(terms["feature"], 0.5 * dice(perturbed, labels, mask=keep))


@pytest.mark.parametrize(
    ("arguments", "terms", "strong"),
    [
        ({"unsup": 0}, {"sup", "freq"}, 0),
        ({"freq": 0}, {"sup", "unsup"}, 1),
        ({"recipe": "released", "feature": 0}, {"sup", "unsup", "freq"}, 2),
        ({"recipe": "released", "unsup": 0}, {"sup", "feature", "freq"}, 0),
    ],
)
def test_a_weight_of_zero_leaves_term_and_view_out(
    phantom_store: Path, arguments: dict[str, Any], terms: set[str], strong: int
) -> None:
    method = fpgm(**arguments)
    batch = batch_for(phantom_store, method)
    method.before_step(batch, step())
    assert set(method.losses(batch, step())) == terms
    assert len(batch.strong_u) == strong


def test_without_unsupervised_terms_it_is_the_supervised_baseline(phantom_store: Path) -> None:
    method = fpgm(unsup=0, freq=0)
    batch = batch_for(phantom_store, method)
    assert len(batch.weak_u) == 0
    supervised = build("supervised")
    torch.manual_seed(3)
    ours = method.train().losses(batch, step())["sup"]
    torch.manual_seed(3)
    assert torch.equal(ours, supervised.train().losses(batch, step())["sup"])


class TestPrior:
    def test_is_learnt_before_it_is_used(self, phantom_store: Path) -> None:
        method = fpgm()
        batch = batch_for(phantom_store, method)
        assert torch.equal(method.aligned(batch.weak_u), batch.weak_u)
        method.before_step(batch, step())
        assert torch.allclose(method.align.profile, edge_profiles(batch.image_l, batch.mask_l).mean(0))
        assert "align.prior.profile" in method.state_dict()

    def test_can_be_learnt_before(self, phantom_store: Path, tmp_path: Path) -> None:
        batch = batch_for(phantom_store, fpgm())
        prior = FrequencyPrior()
        prior.update(batch.image_l, batch.mask_l)
        prior.save(tmp_path / "prior.json")
        method = fpgm(prior_file=tmp_path / "prior.json")
        method.before_step(make_stream(phantom_store, method).batch(1), step())
        assert torch.equal(method.align.profile, prior.profile)

    def test_generic_and_low_pass_learn_nothing(self, phantom_store: Path) -> None:
        for kind in ("generic", "low-pass"):
            method = fpgm(prior=kind)
            batch = batch_for(phantom_store, method)
            before = {name: value.clone() for name, value in method.state_dict().items()}
            method.before_step(batch, step())
            assert all(torch.equal(value, method.state_dict()[name]) for name, value in before.items())
            if kind == "low-pass":
                assert torch.equal(method.aligned(batch.weak_u), low_pass(batch.weak_u, 16))

    @pytest.mark.parametrize("size", [32, 64, 96, 256])
    def test_generic_is_one_over_r_plus_one_at_any_size(self, size: int) -> None:
        image = torch.rand(1, 3, size, size)
        profile = 1 / torch.arange(1, size // 2 + 1)
        assert torch.equal(fpgm(prior="generic").aligned(image), align(image, profile, 0.05, "radial"))

    def test_gamma_may_be_a_range(self, phantom_store: Path) -> None:
        method = fpgm(gamma=(0.0, 0.2))
        batch = batch_for(phantom_store, method)
        method.before_step(batch, step())
        first, again = (method.aligned(batch.weak_u, torch.Generator().manual_seed(1)) for _ in range(2))
        assert torch.equal(first, again)

    def test_the_aligned_view_carries_no_gradient(self, phantom_store: Path) -> None:
        method = fpgm()
        batch = batch_for(phantom_store, method)
        method.before_step(batch, step())
        assert not method.aligned(batch.weak_u.requires_grad_()).requires_grad


def test_contradictions_are_explained() -> None:
    with pytest.raises(ValueError, match="needs a Backbone, not Conv2d"):
        FPGM(nn.Conv2d(3, 2, 1), recipe="released")
    with pytest.raises(ValueError, match="prior is 'generic': leave one of the two out"):
        FPGM(nn.Conv2d(3, 2, 1), prior="generic", prior_file=Path("prior.json"))


def test_a_weight_without_effect_is_refused() -> None:
    with pytest.raises(ValueError, match=r"feature is 0\.3, but recipe 'paper' has no such pass"):
        FPGM(nn.Conv2d(3, 2, 1), feature=0.3)
    assert FPGM(UNet(channels=CHANNELS), recipe="released", feature=0.3).feature == 0.3
    with pytest.raises(ValueError, match="feature is 0"):
        FPGM(nn.Conv2d(3, 2, 1), feature=0)


def test_pictures_show_the_aligned_view(phantom_store: Path) -> None:
    method = fpgm()
    batch = batch_for(phantom_store, method)
    assert set(method.pictures(batch)) == {"weak", "strong 1", "aligned"}
    assert set(build("supervised").pictures(batch_for(phantom_store, build("supervised")))) == set()
