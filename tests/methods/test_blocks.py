"""Parts that methods share."""

from __future__ import annotations

import torch
from torch import nn

from fpgm.methods.blocks import frozen_copy, move_teacher


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
