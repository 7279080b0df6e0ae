"""Teachers: copies of a network, and how they follow it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fpgm.methods import Step
from fpgm.methods.parts.teachers import averaging_decay, fresh_copy, frozen_copy, move_teacher, teacher_decay
from fpgm.nets import UNet
from tests.methods.drive import CHANNELS


def at(index: int) -> Step:
    return Step(index, 30_000, "train", torch.Generator().manual_seed(0))


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


def test_a_teacher_starts_as_its_student_and_slows_down() -> None:
    assert [teacher_decay(at(t)) for t in (0, 1, 98, 99, 5_000)] == pytest.approx([0, 0.5, 98 / 99, 0.99, 0.99])
    assert teacher_decay(at(5_000), 0.999) == 0.999


def test_an_average_is_of_the_last_quarter_of_the_steps() -> None:
    assert [averaging_decay(at(t), 0.99) for t in (0, 4, 36, 5_000)] == pytest.approx([0, 0.5, 0.9, 0.99])


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
