"""Pseudo-labels: making them, cleaning them, and what the log says of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fpgm.methods.parts.pseudo_labels import eval_pseudo_labels, keep_largest, kept_notes, label_notes


@pytest.mark.parametrize("training", [True, False])
def test_eval_pseudo_labels_are_of_evaluation_mode_and_leave_no_trace(training: bool) -> None:
    net = nn.Sequential(nn.Conv2d(3, 2, 1), nn.BatchNorm2d(2), nn.Dropout(0.5)).train(training)
    image, before = torch.rand(2, 3, 4, 4), {name: value.clone() for name, value in net.state_dict().items()}
    labels, keep = eval_pseudo_labels(net, image, 0.6)
    assert all(module.training is training for module in net.modules())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    confidence, expected = net.eval()(image).softmax(1).max(1)
    assert torch.equal(labels, expected) and torch.equal(keep, confidence >= 0.6)


def test_convention_of_equal_components_the_first_stays() -> None:
    labels = torch.tensor([[[1, 1, 0, 1, 1]]])
    assert keep_largest(labels).tolist() == [[[1, 1, 0, 0, 0]]]


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


def test_kept_pixels_are_counted_by_class() -> None:
    """Of four pixels two are foreground; one of each class is kept."""
    labels, keep = torch.tensor([[[0, 0], [1, 1]]]), torch.tensor([[[True, False], [True, False]]])
    assert {name: float(share) for name, share in kept_notes(labels, keep).items()} == {
        "kept_background": 0.25,
        "kept_foreground": 0.25,
    }
    assert float(kept_notes(labels)["kept_foreground"]) == 0.5
