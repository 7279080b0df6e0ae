"""Parts that methods share."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from fpgm.methods import Step
from fpgm.methods.blocks import (
    fresh_copy,
    frozen_copy,
    keep_largest,
    kept_notes,
    label_notes,
    move_teacher,
    noisy,
    paste_box,
    ramp_up,
    staircase,
    steady_labels,
    teacher_decay,
    unremembered,
)
from fpgm.nets import UNet
from tests.methods.drive import CHANNELS, build, make_stream


def test_a_teacher_moves_by_its_share_of_the_gap() -> None:
    student = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    teacher = frozen_copy(student)
    assert not any(parameter.requires_grad for parameter in teacher.parameters())
    with torch.no_grad():
        for value in (*student.parameters(), student[1].running_mean):
            value.add_(1)
        student[1].num_batches_tracked += 7
    before = [value.clone() for value in teacher.parameters()]
    move_teacher(teacher, student, 0.9, buffers=False)
    assert all(torch.allclose(new, old + 0.1) for new, old in zip(teacher.parameters(), before, strict=True))
    assert teacher[1].running_mean.tolist() == [0, 0]
    move_teacher(teacher, student, 0.5, buffers=True)
    assert teacher[1].running_mean.tolist() == [0.5, 0.5] and int(teacher[1].num_batches_tracked) == 7


def test_a_fresh_copy_is_what_a_second_network_would_be() -> None:
    torch.manual_seed(0)
    first, second = UNet(channels=CHANNELS), UNet(channels=CHANNELS)
    torch.manual_seed(0)
    net = UNet(channels=CHANNELS)
    other = fresh_copy(net)
    for network, expected in ((net, first), (other, second)):
        assert all(torch.equal(a, b) for a, b in zip(network.parameters(), expected.parameters(), strict=True))
    assert all(parameter.requires_grad for parameter in other.parameters())


def test_a_fresh_copy_forgets_statistics() -> None:
    net = UNet(channels=CHANNELS).train()
    net(torch.rand(2, 3, 16, 16))
    assert any(bool(value.any()) for name, value in net.named_buffers() if name.endswith("running_mean"))
    copied = dict(fresh_copy(net).named_buffers())
    assert not any(bool(value.any()) for name, value in copied.items() if name.endswith("running_mean"))


def test_a_network_that_cannot_be_made_anew_is_refused() -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

    with pytest.raises(ValueError, match="Fixed cannot be initialised anew"):
        fresh_copy(Fixed())


def test_label_notes_by_hand() -> None:
    z1 = torch.tensor([[[[0.0, 1, 1, 1]], [[1.0, 0, 0, 2]]]])  # labels 1 0 0 1
    z2 = torch.tensor([[[[1.0, 1, 1, 1]], [[0.0, 0, 0, 2]]]])  # labels 0 0 0 1
    notes = {name: float(value) for name, value in label_notes(z1, z2).items()}
    assert notes == {
        "foreground_1": 0.5,
        "foreground_2": 0.25,
        "agreement": 0.75,
        "kept_background": 0.625,
        "kept_foreground": 0.375,
    }


@pytest.mark.parametrize("training", [True, False])
def test_steady_labels_are_of_evaluation_mode_and_leave_no_trace(training: bool) -> None:
    net = nn.Sequential(nn.Conv2d(3, 2, 1), nn.BatchNorm2d(2), nn.Dropout(0.5)).train(training)
    image, before = torch.rand(2, 3, 4, 4), {name: value.clone() for name, value in net.state_dict().items()}
    labels, keep = steady_labels(net, image, 0.6)
    assert all(module.training is training for module in net.modules())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    confidence, expected = net.eval()(image).softmax(1).max(1)
    assert torch.equal(labels, expected) and torch.equal(keep, confidence >= 0.6)


def test_unremembered_passes_normalise_alike_and_leave_the_statistics() -> None:
    net, image = nn.Sequential(nn.Conv2d(3, 2, 1), nn.BatchNorm2d(2)).train(), torch.rand(4, 3, 4, 4)
    before = net[1].running_mean.clone()
    with unremembered(net):
        inside = net(image)
    assert torch.equal(net[1].running_mean, before) and net[1].momentum == 0.1
    assert torch.equal(net(image), inside) and not torch.equal(net[1].running_mean, before)
    with unremembered(net, active=False):
        net(image)
    assert not torch.equal(net[1].running_mean, before)


@pytest.mark.parametrize("name", ["fpgm", "unimatch"])
def test_clean_statistics_change_evaluation_alone(name: str, phantom_store: Path) -> None:
    """Weights and losses are those of `all`; what batch norm remembers is that of labelled and weak images."""
    found = {}
    for statistics in ("all", "clean"):
        method = build(name, statistics=statistics).train()
        batch = make_stream(phantom_store, method).batch(0)
        torch.manual_seed(0)
        terms = method.losses(batch, at(0))
        sum(terms.values()).backward()
        first = method.net.encoder.blocks[0]
        found[statistics] = (
            float(sum(terms.values()).detach()),
            first[0].weight.grad.clone(),
            first[1].running_mean.clone(),
        )
        if statistics == "clean":  # one batch of 8, of which a tenth is remembered
            seen = first[0](torch.cat((batch.image_l, batch.weak_u))).mean((0, 2, 3))
            assert torch.allclose(first[1].running_mean, 0.1 * seen, atol=1e-6)
    assert found["all"][0] == found["clean"][0] and torch.equal(found["all"][1], found["clean"][1])
    assert not torch.equal(found["all"][2], found["clean"][2])


def at(index: int) -> Step:
    return Step(index, 30_000, "train", torch.Generator().manual_seed(0))


def test_noise_is_cut_off_and_the_image_is_not() -> None:
    image = torch.ones(2, 3, 64, 64)
    noise = noisy(image, at(0).generator) - image
    assert float(noise.max()) == pytest.approx(0.2) and float(noise.min()) == pytest.approx(-0.2)
    assert float(noise.std()) == pytest.approx(0.0959, abs=1e-3)  # of a normal with σ = 0.1 put to ± 2 σ beyond
    assert not torch.equal(noise[:, 0], noise[:, 1]) and not torch.equal(noise[0], noise[1])
    assert torch.equal(noisy(image, at(0).generator, sigma=0), image)


def test_a_teacher_starts_as_its_student_and_slows_down() -> None:
    assert [teacher_decay(at(t)) for t in (0, 1, 98, 99, 5_000)] == pytest.approx([0, 0.5, 98 / 99, 0.99, 0.99])
    assert teacher_decay(at(5_000), 0.999) == 0.999


def test_a_ramp_may_rise_in_stairs() -> None:
    assert ramp_up(at(149), 30_000, every=150) == ramp_up(at(0), 30_000)
    assert ramp_up(at(15_149), 30_000, every=150) == ramp_up(at(15_000), 30_000) < ramp_up(at(15_149), 30_000)
    assert ramp_up(at(30_000), 30_000, every=150) == ramp_up(at(40_000), 30_000, every=150) == 1


def test_convention_of_equal_components_the_first_stays() -> None:
    labels = torch.tensor([[[1, 1, 0, 1, 1]]])
    assert keep_largest(labels).tolist() == [[[1, 1, 0, 0, 0]]]


def test_a_paste_box_follows_the_shape_of_the_image() -> None:
    box = paste_box(torch.zeros(4, 3, 30, 60), 0.5, torch.Generator().manual_seed(0))
    assert box.shape == (30, 60) and int(box.any(1).sum()) == 15 and int(box.any(0).sum()) == 30


def test_a_staircase_is_a_ramp_over_a_share_of_the_training() -> None:
    for index in (0, 149, 150, 15_000, 29_999):  # `at` is of 30,000 steps: stairs of 150
        assert staircase(at(index), 1.0) == ramp_up(at(index), 30_000, every=150)
    assert staircase(at(15_000), 0.5) == staircase(at(0), 0) == 1


def test_kept_pixels_are_counted_by_class() -> None:
    """Of four pixels two are foreground; one of each class is kept."""
    labels, keep = torch.tensor([[[0, 0], [1, 1]]]), torch.tensor([[[True, False], [True, False]]])
    assert {name: float(share) for name, share in kept_notes(labels, keep).items()} == {
        "kept_background": 0.25,
        "kept_foreground": 0.25,
    }
    assert float(kept_notes(labels)["kept_foreground"]) == 0.5
