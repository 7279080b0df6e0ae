"""Masks without small regions, against a plain search."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fpgm.regions import clean
from tests.drawing import MASKS, drawn, searched


@given(MASKS, st.integers(0, 12), st.booleans())
def test_cleaning_keeps_whole_polyps(mask: NDArray[np.bool_], least: int, largest: bool) -> None:
    polyps = [polyp for polyp in searched(mask) if len(polyp) >= least]
    kept = searched(clean(mask, keep_largest=largest, min_area=least))
    assert all(polyp in polyps for polyp in kept)
    if largest:
        assert [len(polyp) for polyp in kept] == [max(map(len, polyps))] if polyps else kept == []
    else:
        assert len(kept) == len(polyps)


def test_least_area_counts_itself() -> None:
    mask = drawn("xx.x")
    assert clean(mask, min_area=2).tolist() == drawn("xx..").tolist()
    assert clean(mask, min_area=1).tolist() == clean(mask).tolist() == mask.tolist()
    assert not clean(mask, min_area=3).any()
    assert clean(mask, keep_largest=True, min_area=3).tolist() == drawn("....").tolist()
