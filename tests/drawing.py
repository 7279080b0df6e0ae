"""Masks drawn as text, and their regions by a plain search."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

MASKS = arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9)))


def drawn(*rows: str) -> NDArray[np.bool_]:
    return np.array([[letter == "x" for letter in row] for row in rows])


def searched(mask: NDArray[np.bool_]) -> list[set[tuple[int, int]]]:
    """Return the polyps as sets of pixels, found by walking from pixel to pixel."""
    rest = {(int(row), int(column)) for row, column in np.argwhere(mask)}
    polyps = []
    while rest:
        edge, polyp = [rest.pop()], set()
        while edge:
            row, column = edge.pop()
            polyp.add((row, column))
            near = {(row + down, column + right) for down in (-1, 0, 1) for right in (-1, 0, 1)} & rest
            rest -= near
            edge += near
        polyps.append(polyp)
    return polyps
