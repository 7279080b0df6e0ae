"""The smallest area of a polyp, on masks drawn by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fpgm.data.batches.pool import Pool
from fpgm.data.splits.split import Split
from fpgm.data.store import open_stores
from fpgm.evaluation.scoring import compare_in_detail
from fpgm.evaluation.specks import choose_least_area, least_area
from tests.drawing import drawn

TRUTH = drawn("....xxxx", "....xxxx", "........", "........", "........", "........", "........", "........")
WITH_SPECKS = drawn("....xxxx", "....xxxx", "........", "xx......", "........", "....xxx.", "........", "x.......")
CPU = torch.device("cpu")


def as_bytes(mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return mask.astype(np.uint8)


def test_regions_up_to_the_largest_false_alarm_are_left_out() -> None:
    # beside the polyp of 8 pixels, alarms of 3, 2 and 1: all go, and at 9 pixels the polyp would
    found = least_area([WITH_SPECKS], [as_bytes(TRUTH)])
    assert found.share == 8 / 64 and (found.alarms_before, found.alarms_after) == (3, 0)
    assert (found.found_before, found.found_after, found.images) == (1, 1, 1)
    assert found.dice_before == pytest.approx(16 / 22, abs=1e-6) and found.dice_after == 1


def test_a_small_polyp_that_is_found_is_kept() -> None:
    small = drawn("x.......", "........", "........", "........", "........", "........", "........", "........")
    found = least_area([WITH_SPECKS, small], [as_bytes(TRUTH), as_bytes(small)])
    assert found.share == 1 / 64 and found.alarms_after == found.alarms_before == 3


@pytest.mark.parametrize(("polyps", "area"), [(100, 16), (99, 1)])
def test_one_found_polyp_of_a_hundred_may_be_lost(polyps: int, area: int) -> None:
    truth = np.zeros((64, 64), bool)
    for number in range(polyps):  # 4 x 4 pixels each, in rows of ten
        top, left = 6 * (number // 10), 6 * (number % 10)
        truth[top : top + 4, left : left + 4] = True
    mask = truth.copy()
    mask[:4, :4] = False
    mask[0, 0] = True  # one pixel of the first polyp was found, all of the others
    found = least_area([mask], [as_bytes(truth)])
    assert found.share == area / 64**2 and found.found_before == polyps


def test_without_polyps_nothing_is_left_out() -> None:
    empty = np.zeros((8, 8), bool)
    assert least_area([empty], [as_bytes(empty)]).share == 1 / 64


class Red(nn.Module):
    """Finds what is red, in evaluation mode alone."""

    def forward(self, image: Tensor) -> Tensor:
        assert not self.training
        return torch.stack([torch.full_like(image[:, 0], 0.6), image[:, 0]], 1)


def test_what_is_chosen_is_what_an_evaluation_has_with_it(phantom_store: Path) -> None:
    pool = Pool(open_stores(phantom_store), Split.load(phantom_store / "splits" / "strict-0").validation)
    found = choose_least_area(Red().train(), pool, device=CPU)
    for area, dice, alarms, polyps in (
        (0, found.dice_before, found.alarms_before, found.found_before),
        (round(found.share * 64**2), found.dice_after, found.alarms_after, found.found_after),
    ):
        examined = list(compare_in_detail(Red(), pool, device=CPU, least_area=area))
        assert np.mean([one.scored.row.dice for one in examined]) == pytest.approx(dice, abs=1e-5)
        assert sum(len(one.details.alarms) for one in examined) == alarms
        assert sum(hits > 0 for one in examined for _, hits in one.details.polyps) == polyps
    assert found.alarms_after < found.alarms_before
