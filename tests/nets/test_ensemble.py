"""Several networks as one, against a plain mean."""

from __future__ import annotations

import pytest
import torch

from fpgm.nets import UNet, build
from fpgm.nets.ensemble import Ensemble
from fpgm.nets.statistics import blend

SMALL = {"channels": [4, 4, 4, 4, 4], "dropout": 0.0}


def nets(count: int) -> list[torch.nn.Module]:
    torch.manual_seed(0)
    return [UNet(**SMALL).eval() for _ in range(count)]


@torch.no_grad()
def test_the_mean_probability_counts_and_the_deviation_is_the_disagreement() -> None:
    members, image = nets(3), torch.rand(2, 3, 32, 32)
    each = torch.stack([member(image).softmax(1) for member in members])
    logits, spread = Ensemble(members).eval().with_disagreement(image)
    assert torch.allclose(logits.softmax(1), each.mean(0), atol=1e-6)
    assert torch.allclose(Ensemble(members).eval()(image), logits)
    expected = ((each[:, :, 1] - each[:, :, 1].mean(0)) ** 2).mean(0).sqrt()
    assert torch.allclose(spread, expected, atol=1e-6) and spread.max() > 0
    same, none = Ensemble([members[0]] * 2).eval().with_disagreement(image)
    assert torch.allclose(same.softmax(1), each[0], atol=1e-6) and not none.any()


@torch.no_grad()
def test_a_member_keeps_its_share_of_an_image_s_own_statistics() -> None:
    members, image = nets(2), torch.rand(2, 3, 32, 32)
    mixed = Ensemble(members, [0.0, 0.5]).eval()
    expected = Ensemble([members[0], blend(members[1], 0.5)]).eval()(image)
    assert torch.allclose(mixed.blended().eval()(image), expected) and not torch.allclose(mixed(image), expected)
    assert mixed.state_dict().keys() == mixed.blended().state_dict().keys()


def test_it_is_built_by_name() -> None:
    member = {"net": "unet", "arguments": SMALL, "own": 0.0}
    net = build("ensemble", members=[member, member])
    assert isinstance(net, Ensemble) and len(net.members) == 2
    for members, told in (
        ([member], "1 network cannot be averaged"),
        ([member, {"net": "unet"}], "a member has net, arguments and own"),
        ([member, {**member, "net": "ensemble"}], "not a member of another"),
    ):
        with pytest.raises(ValueError, match=told):
            build("ensemble", members=members)
