"""Masks as runs, against plain loops and the tools' own examples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from fpgm.labeling.rle import from_coco, from_cvat, from_label_studio, to_coco, to_cvat, to_label_studio
from tests.drawing import MASKS, drawn

WIDE = arrays(bool, st.tuples(st.integers(1, 30), st.integers(1, 30)))


def counted(values: list[bool]) -> list[int]:
    """Count runs one value at a time."""
    lengths, now = [0], False
    for value in values:
        if value != now:
            lengths.append(0)
            now = value
        lengths[-1] += 1
    return lengths


def unpacked(packed: list[int]) -> tuple[list[int], list[int]]:
    """Read Label Studio's bytes as a text of bits: the header, and all values one by one."""
    bits = "".join(f"{one:08b}" for one in packed)
    at = 0

    def take(count: int) -> int:
        nonlocal at
        at += count
        return int(bits[at - count : at], 2)

    header = [take(32), take(5) + 1, *[take(4) + 1 for _ in range(4)]]
    values: list[int] = []
    while len(values) < header[0]:
        equal = take(1)
        count = 1 + take(header[2:][take(2)])
        values += [take(8)] * count if equal else [take(8) for _ in range(count)]
    return header, values


@given(MASKS)
def test_counts_are_those_of_a_plain_loop(mask: NDArray[np.bool_]) -> None:
    height, width = mask.shape
    assert to_coco(mask) == counted([bool(mask[y, x]) for x in range(width) for y in range(height)])
    assert to_cvat(mask) == counted([bool(mask[y, x]) for y in range(height) for x in range(width)])
    assert np.array_equal(from_coco(to_coco(mask), height, width), mask)
    assert np.array_equal(from_cvat(to_cvat(mask), height, width), mask)


@given(WIDE)
def test_label_studio_s_bytes_are_those_of_a_picture_in_rgba(mask: NDArray[np.bool_]) -> None:
    header, values = unpacked(to_label_studio(mask))
    assert header == [4 * mask.size, 8, 3, 4, 8, 16]
    assert np.array_equal(np.array(values), np.repeat(255 * mask.ravel(), 4))
    assert np.array_equal(from_label_studio(to_label_studio(mask), *mask.shape), mask)


def test_runs_longer_than_a_length_can_say_are_cut() -> None:
    mask = np.zeros((300, 200), bool)
    mask[150:, :] = True  # 120,000 values each, and a length has 16 bits
    assert np.array_equal(from_label_studio(to_label_studio(mask), 300, 200), mask)
    # the first bytes of an export of Label Studio of 3332 x 2527 pixels
    header = to_label_studio(np.zeros((2527, 3332), bool))[:6]
    assert header == [2, 1, 233, 240, 57, 27]


def test_a_brush_of_single_values_is_read() -> None:
    # 2 x 1 pixels, 8 values of which none is repeated: a length of 8 in 3 bits, then the values
    bits = (
        f"{8:032b}{7:05b}0010001101111111"
        + "0"
        + "00"
        + "111"
        + "".join(f"{v:08b}" for v in [0, 0, 0, 127, 9, 9, 9, 128])
    )
    packed = [int(bits[at : at + 8].ljust(8, "0"), 2) for at in range(0, len(bits), 8)]
    assert from_label_studio(packed, 1, 2).tolist() == [[False, True]]  # alpha from 128 on


def test_coco_s_compressed_text() -> None:
    """The example of COCO's own tests."""
    counts = [6, 1, 40, 4, 5, 4, 5, 4, 21]
    assert np.array_equal(from_coco("61X13mN000`0", 9, 10), from_coco(counts, 9, 10))
    assert from_coco(counts, 9, 10).sum() == 13


def test_cvat_s_own_example_is_a_disc() -> None:
    text = "3, 5, 7, 7, 5, 9, 3, 11, 2, 11, 2, 12, 1, 12, 1, 26, 1, 12, 1, 12, 2, 11, 3, 9, 5, 7, 7, 5, 3"
    disc = from_cvat([int(one) for one in text.split(",")], 15, 13)
    assert disc[7].all() and disc[0].tolist() == drawn("...xxxxx.....")[0].tolist()


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (lambda: from_coco([3, 2], 2, 3), "have 5 pixels, and its picture has 6"),
        (lambda: from_coco([-1, 7], 2, 3), "have 6 pixels"),
        (lambda: from_coco("\x00", 2, 3), "is not a letter"),
        (lambda: from_cvat([6, 1], 2, 3), "have 7 pixels"),
        (lambda: from_label_studio([1, 300], 2, 3), "is a list of bytes"),
        (lambda: from_label_studio([0, 0, 0, 24, 57, 27, 255], 2, 3), "ends early"),
        (lambda: from_label_studio(to_label_studio(np.ones((2, 3), bool)), 3, 3), "has 24 values"),
        (lambda: from_label_studio([0, 0, 0, 4, 57, 27, 255, 255, 255, 255], 1, 1), "more values than its picture"),
    ],
)
def test_what_is_no_mask_is_refused(read: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read()  # type: ignore[operator]  # one of several readers
