"""Hints about masks that were probably read the wrong way round, for a person to check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from fpgm.data.manifest import LeftOut
from fpgm.data.pictures import Refused, read_mask, read_picture, read_picture_file
from fpgm.data.raw.pairs import Pair
from fpgm.data.store import Store

NOT_BINARY = "mask not binary"  # kind of a refusal
_SAMPLE = 200  # masks that are looked at, evenly spaced
_TRIED = 5  # images that are read as masks


def find_hints(pairs: Sequence[Pair], problems: Iterable[LeftOut], store: Store | None) -> tuple[str, ...]:
    """Return what a person should check: swapped folders, inverted masks.

    Args:
        pairs: the images and their masks.
        problems: what was left out.
        store: the prepared images; None if none could be used.
    """
    return (*_swapped(pairs, problems), *(_inverted(store) if store else ()))


def _swapped(pairs: Sequence[Pair], problems: Iterable[LeftOut]) -> Iterator[str]:
    labeled = [pair for pair in pairs if pair.mask not in (None, pair.image)]
    refused = sum(problem.kind == NOT_BINARY for problem in problems)
    if labeled and 2 * refused > len(labeled) and all(_is_mask(pair.image) for pair in labeled[:_TRIED]):
        yield (
            f"{refused} of {len(labeled)} masks are pictures of many colours, and the images look like masks: "
            "are --images and --masks swapped?"
        )


def _is_mask(path: Path) -> bool:
    try:
        read_mask(read_picture(read_picture_file(path)), keep_empty=True)
    except (Refused, OSError):
        return False
    return True


def _inverted(store: Store) -> Iterator[str]:
    """Look for masks whose foreground is most of the image and most of its border, as a background is."""
    rows = np.flatnonzero(store.has_mask & (store.foreground > 0))
    chosen = rows[:: max(1, len(rows) // _SAMPLE)].tolist()
    count = sum(_is_inverted(store.masks([row])[0].astype(bool)) for row in chosen)
    if 2 * count > len(chosen):
        yield (
            f"the foreground of {count} of {len(chosen)} masks is most of the image and of its border: are they "
            "inverted? Polyps must be white (255 or 1), the background black (0)"
        )


def _is_inverted(mask: np.ndarray) -> bool:
    border = np.concatenate([mask[0], mask[-1], mask[1:-1, 0], mask[1:-1, -1]])
    return bool(mask.mean() > 0.5 and border.mean() > 0.5)
