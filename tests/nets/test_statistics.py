"""Batch-norm statistics: estimated exactly, blended image by image, chosen by a score."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fpgm.nets import UNet
from fpgm.nets.statistics import (
    BlendedBatchNorm,
    ImageBatches,
    Moments,
    blend,
    choose_statistics,
    distance,
    estimate,
    has_batchnorm,
    moments,
    running,
    shift,
)

CHANNELS = (4, 4, 8, 8, 8)


@pytest.fixture
def net() -> UNet:
    """A network whose running statistics are of noise of another kind than the images."""
    torch.manual_seed(0)
    made = UNet(channels=CHANNELS, dropout=0.5)
    for _ in range(20):
        made(3 * torch.randn(4, 3, 32, 32))
    return made.eval()


@pytest.fixture
def images() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (10, 32, 32, 3), generator=generator)
    return (pixels * torch.linspace(0.2, 1, 10).view(-1, 1, 1, 1)).byte()


def buffers(net: nn.Module) -> list[Tensor]:
    layers = [layer for layer in net.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    found = [buffer for layer in layers for buffer in (layer.running_mean, layer.running_var)]
    return [buffer.clone() for buffer in found if buffer is not None]


# estimate


def test_one_batch_gives_what_torch_gives_in_training(net: UNet, images: Tensor) -> None:
    (batch,) = ImageBatches(images, 10)
    expected = copy.deepcopy(net)
    for layer in expected.modules():  # training mode for batch norm alone: dropout stays off
        if isinstance(layer, nn.BatchNorm2d):
            layer.train()
            layer.momentum = 1.0
    expected(batch)
    made = estimate(net, [batch])
    # torch normalises by n in training and by n - 1 in evaluation; n is 40 at the bottom
    torch.testing.assert_close(buffers(made), buffers(expected), rtol=0.02, atol=1e-3)
    torch.testing.assert_close(buffers(made)[:2], buffers(expected)[:2])  # the first layer's


@pytest.mark.parametrize("size", [1, 3, 10])
def test_the_statistics_are_those_the_network_meets(net: UNet, images: Tensor, size: int) -> None:
    made = estimate(net, ImageBatches(images, size))
    met: dict[nn.Module, list[Tensor]] = {}
    for layer in made.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.register_forward_pre_hook(lambda layer, inputs: met.setdefault(layer, []).append(inputs[0].detach()))
    for batch in ImageBatches(images, 4):
        made(batch)
    assert len(met) == 18
    for layer, values in met.items():
        assert isinstance(layer, nn.BatchNorm2d)
        flat = torch.cat(values).double().transpose(0, 1).flatten(1)
        torch.testing.assert_close(layer.running_mean, flat.mean(1).float(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(layer.running_var, flat.var(1).float(), rtol=1e-4, atol=1e-5)


def test_convention_neither_order_nor_batches_matter(net: UNet, images: Tensor) -> None:
    whole = buffers(estimate(net, ImageBatches(images, 10)))
    for other in (ImageBatches(images, 3), ImageBatches(images.flip(0), 4)):
        torch.testing.assert_close(buffers(estimate(net, other)), whole, rtol=1e-4, atol=1e-5)


def test_nothing_else_changes(net: UNet, images: Tensor) -> None:
    net.train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    made = estimate(net, ImageBatches(images))
    assert net.training and not made.training
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name])
    changed = {name for name, value in made.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {name for name in before if name.endswith(("running_mean", "running_var"))}
    assert not any(layer._forward_pre_hooks for layer in (*net.modules(), *made.modules()))


def test_a_generator_of_batches_is_gone_through_as_often_as_needed(net: UNet, images: Tensor) -> None:
    def once() -> Iterator[Tensor]:
        yield from ImageBatches(images, 4)

    assert all(map(torch.equal, buffers(estimate(net, once())), buffers(estimate(net, ImageBatches(images, 4)))))
    assert shift(net, once()) == shift(net, ImageBatches(images, 4))


def test_layers_that_are_not_reached_stay(images: Tensor) -> None:
    class Detour(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.BatchNorm2d(3), nn.BatchNorm2d(3)

        def forward(self, image: Tensor) -> Tensor:
            found: Tensor = self.used(image)
            return found

    made = estimate(Detour(), ImageBatches(images))
    assert isinstance(made, Detour) and made.idle.running_mean is not None and not made.idle.running_mean.any()
    assert made.used.running_mean is not None and made.used.running_mean.all()


def test_progress_is_counted_in_layers(net: UNet, images: Tensor) -> None:
    steps: list[tuple[int, int]] = []
    estimate(net, ImageBatches(images), lambda done, total: steps.append((done, total)))
    assert steps == [(number, 18) for number in range(1, 19)]


def test_what_cannot_be_estimated_is_refused(net: UNet, images: Tensor) -> None:
    with pytest.raises(ValueError, match="no images"):
        estimate(net, [])
    with pytest.raises(ValueError, match="give more images, or larger ones"):
        estimate(net, [torch.rand(1, 3, 16, 16)])  # 1 x 1 pixels at the bottom
    with pytest.raises(ValueError, match=r"float32 \(10, 3, 32, 32\): give uint8 \(N, S, S, 3\)"):
        ImageBatches(torch.rand(10, 3, 32, 32))


@pytest.mark.parametrize(
    "norm", [nn.InstanceNorm2d(3), nn.GroupNorm(1, 3), nn.BatchNorm2d(3, track_running_stats=False)]
)
def test_a_network_without_running_statistics_is_refused(norm: nn.Module, images: Tensor) -> None:
    net = nn.Sequential(norm, nn.Conv2d(3, 2, 1))
    assert not has_batchnorm(net) and has_batchnorm(UNet(channels=CHANNELS))
    for act in (lambda: estimate(net, ImageBatches(images)), lambda: blend(net, 0.5), lambda: blend(net, 0.0)):
        with pytest.raises(ValueError, match=r"no batch norm with running statistics.*use it as it is"):
            act()


# blend


def test_own_1_is_instance_norm(images: Tensor) -> None:
    torch.manual_seed(2)
    layer = nn.BatchNorm2d(3).eval()
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    (batch,) = ImageBatches(images)
    expected = F.instance_norm(batch, weight=layer.weight, bias=layer.bias)
    torch.testing.assert_close(blend(layer, 1.0)(batch), expected, rtol=1e-4, atol=1e-5)


def test_convention_mean_and_variance_are_mixed_by_the_share() -> None:
    layer = nn.BatchNorm2d(1, eps=0.0).eval()
    assert layer.running_mean is not None and layer.running_var is not None
    layer.running_mean.fill_(4.0)
    layer.running_var.fill_(8.0)
    image = torch.tensor([[[[-1.0, 1.0], [3.0, 5.0]]]])  # mean 2, variance 5 over its pixels
    # a quarter of the image's own: mean 3.5, variance 7.25
    torch.testing.assert_close(blend(layer, 0.25)(image), (image - 3.5) / 7.25**0.5)


def test_convention_own_0_is_the_plain_network(net: UNet, images: Tensor) -> None:
    (batch,) = ImageBatches(images)
    for made in (blend(net, 0.0), blend(blend(net, 0.5), 0.0)):
        assert torch.equal(made(batch), net(batch))
        assert not any(isinstance(layer, BlendedBatchNorm) for layer in made.modules())
    near = blend(net, 1e-6)(batch)
    assert (near - net(batch)).abs().max() < 1e-3


def test_an_image_does_not_depend_on_its_batch(net: UNet, images: Tensor) -> None:
    (batch,) = ImageBatches(images)
    for own in (0.5, 1.0):
        made = blend(net, own)
        alone = torch.cat([made(image[None]) for image in batch])
        torch.testing.assert_close(made(batch), alone, rtol=1e-4, atol=1e-4)
        assert (made(batch) - net(batch)).abs().max() > 0.01


def test_weights_keep_their_names_and_training_is_plain(net: UNet, images: Tensor) -> None:
    (batch,) = ImageBatches(images)
    made = blend(net, 0.5)
    assert list(made.state_dict()) == list(net.state_dict()) and not made.training
    assert sum(isinstance(layer, BlendedBatchNorm) for layer in made.modules()) == 18
    assert blend(made, 0.25)(batch).shape == net(batch).shape
    torch.manual_seed(3)
    expected = copy.deepcopy(net).train()(batch)
    torch.manual_seed(3)
    assert torch.equal(made.train()(batch), expected)


def test_vectors_have_no_pixels_of_their_own() -> None:
    layer = nn.BatchNorm1d(4).eval()
    vectors = torch.randn(5, 4)
    assert torch.equal(blend(layer, 0.5)(vectors), layer(vectors))


def test_a_layer_without_weights_and_half_precision(images: Tensor) -> None:
    (batch,) = ImageBatches(images)
    made = blend(nn.BatchNorm2d(3, affine=False).eval(), 1.0)
    assert abs(float(made(batch).mean())) < 1e-5
    half = made(batch.bfloat16())
    assert half.dtype == torch.bfloat16 and (half - made(batch)).abs().max() < 0.05


@pytest.mark.parametrize("own", [-0.1, 1.1, float("nan")])
def test_a_share_beyond_the_range_is_refused(net: UNet, own: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        blend(net, own)


def test_a_blend_exports_with_any_batch_size(net: UNet, images: Tensor) -> None:
    made, (batch,) = blend(net, 0.5), ImageBatches(images)
    program = torch.export.export(made, (batch[:2],), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.testing.assert_close(program.module()(batch), made(batch), rtol=1e-4, atol=1e-4)


def test_statistics_are_estimated_under_a_blend(net: UNet, images: Tensor) -> None:
    batches = ImageBatches(images)
    made = estimate(blend(net, 0.5), batches)
    assert any(isinstance(layer, BlendedBatchNorm) for layer in made.modules())
    assert shift(made, batches) < 0.01 < shift(net, batches)


# moments and distances


def test_moments_of_images_pool_to_those_of_all(net: UNet, images: Tensor) -> None:
    made = estimate(net, ImageBatches(images))
    found = moments(made, ImageBatches(images, 3))
    assert found.mean.shape == found.variance.shape == (10, 2 * sum(CHANNELS) + 2 * sum(CHANNELS[:-1]))
    known = running(made, ImageBatches(images))
    torch.testing.assert_close(found.pooled().mean, known.mean, rtol=1e-3, atol=1e-5)
    # n - 1 of torch's variance matters where n is small: 40 at the bottom
    torch.testing.assert_close(found.pooled().variance, known.variance, rtol=0.03, atol=1e-5)
    assert distance(found.pooled(slice(2, 3)), Moments(found.mean[2:3], found.variance[2:3]), known) == 0


def test_distance_by_hand() -> None:
    first = Moments(torch.tensor([[0.0, 0.0, 5.0]]), torch.tensor([[1.0, 1.0, 1.0]]))
    second = Moments(torch.tensor([[3.0, 0.0, 5.0]]), torch.tensor([[25.0, 4.0, 1.0]]))
    unit = Moments(torch.zeros(1, 3), torch.tensor([[4.0, 4.0, 4.0]]))
    # √(3² + 4²) / 2 = 2.5, √(0² + 1²) / 2 = 0.5, 0; the median is 0.5
    assert distance(first, second, unit) == pytest.approx(0.5, abs=1e-5)


def test_shift_is_large_before_and_nothing_after(net: UNet, images: Tensor) -> None:
    batches = ImageBatches(images)
    assert shift(net, batches) > 0.2
    assert shift(estimate(net, batches), batches) < 0.01


# choose


def test_the_best_candidate_is_chosen(net: UNet, images: Tensor) -> None:
    batches, (batch,) = ImageBatches(images), ImageBatches(images)
    for source, own in itertools.product(("training", "clean"), (0.0, 0.2, 0.5)):
        base = net if source == "training" else estimate(net, batches)
        target = blend(base, own)(batch).detach()

        def score(candidate: nn.Module, target: Tensor = target) -> float:
            assert not candidate.training
            return -float((candidate(batch) - target).abs().mean().detach())

        choice = choose_statistics(net, batches, score)
        assert (choice.source, choice.own) == (source, own)
        shares = ("", ", 0.2 own", ", 0.5 own")
        assert list(choice.scores) == [name + share for name in ("training", "clean") for share in shares]
        assert torch.equal(choice.net(batch), target) and not choice.net.training
        assert choice.scores == choose_statistics(net, batches, score).scores


def test_of_equal_scores_the_trainings_statistics_stay(net: UNet, images: Tensor) -> None:
    steps: list[tuple[int, int]] = []
    choice = choose_statistics(
        net, ImageBatches(images), lambda net: 0.5, advance=lambda done, total: steps.append((done, total))
    )
    assert (choice.source, choice.own) == ("training", 0.0) and steps == [(done, 6) for done in range(1, 7)]


def test_without_batch_norm_there_is_no_choice(images: Tensor) -> None:
    net = nn.Sequential(nn.InstanceNorm2d(3), nn.Conv2d(3, 2, 1))
    choice = choose_statistics(net, ImageBatches(images), lambda net: 0.25)
    assert (choice.source, choice.own, choice.scores) == ("training", 0.0, {"training": 0.25})
