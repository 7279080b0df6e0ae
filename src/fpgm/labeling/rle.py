"""Masks as runs, in the three ways of the annotation tools. H x W is a mask; a run is a number of equal values.

COCO counts down the columns and starts with background; CVAT counts along the rows of a polyp's box and starts with
background too; Label Studio packs runs of the bytes of an RGBA picture into bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
_SIZES = (3, 4, 8, 16)  # bits of a length in Label Studio, and which of them is used is said in two bits
_OPAQUE = 128  # alpha from which on a pixel of Label Studio's brush counts


def runs(values: NDArray[np.bool_]) -> list[int]:
    """Return the lengths of the runs of a row of values, the first of which is False and may be empty."""
    flat = np.concatenate(([False], values.ravel(), [not values.ravel()[-1]])) if values.size else np.zeros(1, bool)
    ends = np.flatnonzero(flat[1:] != flat[:-1])
    return np.diff(ends, prepend=0).tolist() if values.size else []


def from_runs(lengths: Sequence[int], size: int) -> NDArray[np.bool_]:
    """Return `size` values from the lengths of their runs, the first of which is False."""
    counts = np.asarray(lengths, np.int64)
    if counts.ndim != 1 or (counts < 0).any() or int(counts.sum()) != size:
        raise ValueError(f"the runs of a mask have {int(counts.sum())} pixels, and its picture has {size}")
    return np.repeat(np.arange(len(counts)) % 2 == 1, counts)


def to_coco(mask: Mask) -> list[int]:
    """Return the uncompressed counts of COCO."""
    return runs(mask.T)


def from_coco(counts: Sequence[int] | str, height: int, width: int) -> Mask:
    """Read the counts of COCO, compressed as a text or not."""
    lengths = _uncompress(counts) if isinstance(counts, str) else counts
    return from_runs(lengths, height * width).reshape(width, height).T


def _uncompress(text: str) -> list[int]:
    """Read a text of COCO: five bits a letter from '0' on, the lowest first; from the third on differences by two."""
    counts: list[int] = []
    value = shift = 0
    for letter in text:
        bits = ord(letter) - 48
        if not 0 <= bits < 64:
            raise ValueError(f"{letter!r} is not a letter of a compressed mask")
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            value -= 1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        value = shift = 0
    return counts


def to_cvat(mask: Mask) -> list[int]:
    """Return the counts of CVAT of a mask that is cut to its box."""
    return runs(mask)


def from_cvat(counts: Sequence[int], height: int, width: int) -> Mask:
    """Read the counts of CVAT of a box."""
    return from_runs(counts, height * width).reshape(height, width)


def to_label_studio(mask: Mask) -> list[int]:
    """Return the bytes of Label Studio's brush, of a picture that is opaque where the mask is."""
    header = f"{4 * mask.size:032b}{7:05b}" + "".join(f"{size - 1:04b}" for size in _SIZES)
    parts = [header]
    for number, length in enumerate(runs(mask)):
        value = f"{255 * (number % 2):08b}"
        left = 4 * length
        while left:
            now = min(left, 1 << _SIZES[-1])
            place = next(i for i, size in enumerate(_SIZES) if now <= 1 << size)
            parts.append(f"1{place:02b}{now - 1:0{_SIZES[place]}b}{value}")
            left -= now
    bits = "".join(parts)
    bits += "0" * (-len(bits) % 8)
    return [int(bits[at : at + 8], 2) for at in range(0, len(bits), 8)]


def from_label_studio(packed: Sequence[int], height: int, width: int) -> Mask:
    """Read the bytes of Label Studio's brush; a pixel counts where its alpha is at least one half."""
    values = np.asarray(packed)
    if values.ndim != 1 or values.dtype.kind not in "iu" or (values < 0).any() or (values > 255).any():
        raise ValueError("a mask of Label Studio is a list of bytes, and this is not")
    reader = _Bits(values.astype(np.uint8).tobytes())
    total, word = reader.take(32), reader.take(5) + 1
    if total != 4 * height * width:
        raise ValueError(
            f"a mask of Label Studio has {total} values, and a picture of {width} x {height} has 4 a pixel"
        )
    if word != 8:
        raise ValueError(f"a mask of Label Studio has values of {word} bits; expected 8")
    sizes = [reader.take(4) + 1 for _ in range(4)]
    found, at = np.zeros(total, np.uint8), 0
    while at < total:
        equal = reader.take(1)
        end = at + 1 + reader.take(sizes[reader.take(2)])
        if end > total:
            raise ValueError("a mask of Label Studio has more values than its picture")
        found[at:end] = reader.take(word) if equal else [reader.take(word) for _ in range(end - at)]
        at = end
    opaque: Mask = found.reshape(height, width, 4)[..., 3] >= _OPAQUE
    return opaque


class _Bits:
    """Reads numbers of a few bits from bytes, the highest bit first."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> int:
        """Return the next number; refuse to read beyond the end."""
        first, last = self.at // 8, (self.at + count - 1) // 8 + 1
        if last > len(self.data):
            raise ValueError("a mask of Label Studio ends early")
        self.at += count
        return (int.from_bytes(self.data[first:last]) >> (8 * last - self.at)) & ((1 << count) - 1)
