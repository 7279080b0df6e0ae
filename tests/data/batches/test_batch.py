"""Batches: no masks of unlabelled images; moved, halved, pinned."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch

from fpgm.data.batches.batch import Batch
from tests.data.batches.making import RELEASED, stream, tensors


def test_there_is_no_field_for_masks_of_unlabelled_images() -> None:
    assert [entry.name for entry in fields(Batch) if "mask" in entry.name] == ["mask_l", "strong_mask_l"]


def test_a_batch_can_be_moved() -> None:
    moved = stream(RELEASED).batch(0).to("meta")
    assert {tensor.device.type for tensor in tensors(moved)} == {"meta"}
    assert len(moved.id_u) == 4


def test_a_batch_at_half_the_side() -> None:
    """Four pixels become their mean, three of four foreground pixels one foreground pixel, two of four none."""
    whole = stream(RELEASED).batch(0)
    mask = torch.zeros_like(whole.mask_l)
    mask[0, :2, :2], mask[0, :2, 2:4] = torch.tensor([[1, 1], [1, 0]]), torch.tensor([[1, 1], [0, 0]])
    half = replace(whole, mask_l=mask).halved()
    assert half.mask_l.shape == (4, 8, 8) and half.mask_l.dtype == torch.int64
    assert half.mask_l[0, 0, :2].tolist() == [1, 0] and half.mask_l.sum() == 1
    for image, small in zip(tensors(whole), tensors(half), strict=True):
        assert small.shape[-2:] == (8, 8) and small.dtype == image.dtype
    assert torch.allclose(half.weak_u[:, :, 0, 0], whole.weak_u[:, :, :2, :2].mean((2, 3)))
    assert torch.equal(half.boxes_u[0], whole.boxes_u[0][:, ::2, ::2]) and half.id_l == whole.id_l


@pytest.mark.skipif(not torch.cuda.is_available(), reason="only a machine with a GPU pins memory")
def test_a_batch_can_be_pinned() -> None:
    assert all(tensor.is_pinned() for tensor in tensors(stream(RELEASED).batch(0).pin_memory()))
