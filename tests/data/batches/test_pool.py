"""Pools: what is wrong with a list of images is said in one sentence."""

from __future__ import annotations

import pytest

from fpgm.data.batches.pool import Pool
from tests.data.batches.making import FakeStore


def test_pools_explain_what_is_wrong() -> None:
    both = {"a": FakeStore("a"), "b": FakeStore("b", size=32)}
    for ids, message in (
        ([], "empty"),
        (["a/001", "a/002", "a/001"], "a/001 is listed 2 times"),
        (["a/001", "c/001"], r"'c' is not among the prepared ones \(a, b\).*fpgm data prepare"),
        (["a/001", "a/xyz"], "1 of 2 images are not in the store, a/xyz for one.*fpgm data split"),
        (["a/001", "b/001"], "differ in size.*--size"),
    ):
        with pytest.raises(ValueError, match=message):
            Pool(both, ids)  # type: ignore[arg-type]  # stand-ins
