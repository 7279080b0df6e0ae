"""The look of all figures: colours that colour-blind readers can tell apart, the same for a method everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from itertools import repeat
from typing import Any

import matplotlib

from fpgm.report.reading.paper import DATASETS, METHODS

# Okabe's and Ito's colours without yellow, which is too light for lines; darker blue-grey and wine fill up
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444", "#882255")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
PAPERS = {False: "#ffffff", True: "#151618"}  # backgrounds of light and dark pages
_INKS = {False: "#000000", True: "#e6e9eb"}
_FIRST = ("fpgm", "fpgm_teacher", "unimatch", "supervised")  # the methods that most figures show

Style = dict[str, Any]  # colour and dashes of a line, as matplotlib takes them


def theme(dark: bool) -> AbstractContextManager[None]:
    """Let figures that are made in the block have the colours of a light or a dark page."""
    ink = _INKS[dark]
    return matplotlib.rc_context(
        {
            "figure.facecolor": PAPERS[dark],
            "text.color": ink,
            "axes.edgecolor": ink,
            "axes.labelcolor": ink,
            "axes.titlecolor": ink,
            "xtick.color": ink,
            "ytick.color": ink,
        }
    )


def line_styles(names: Iterable[str]) -> dict[str, Style]:
    """Return the style of the line of each name.

    A method, and a data set, has the same colour in every figure; a variant of a method, such as ``FPGM (gamma=0.1)``,
    has its colour and other dashes. Names that are neither take the colours in their order.
    """
    names = list(dict.fromkeys(names))
    places: dict[str, tuple[int, int]] = {}
    for name in names:
        if known := _KNOWN.get(name.partition(" (")[0]):
            colour, dash = known
            places[name] = next((one for one in _from(colour, dash) if one not in places.values()), known)
    free = (one for dash in range(len(DASHES)) for one in zip(range(len(COLOURS)), repeat(dash), strict=False))
    for name in names:
        if name not in places:
            places[name] = next((one for one in free if one not in places.values()), (0, 0))
    return {name: _style(*places[name]) for name in names}


def _from(colour: int, dash: int) -> list[tuple[int, int]]:
    """The places of a colour, from a dash on."""
    return [(colour, one) for one in (*range(dash, len(DASHES)), *range(dash))]


def _style(colour: int, dash: int) -> Style:
    return {"color": COLOURS[colour], "linestyle": DASHES[dash]}


def _places() -> dict[str, tuple[int, int]]:
    """Colour and dash of every method, under the names of figures, and of every data set."""
    colours = dict(zip(_FIRST, (0, 1, 2, 6), strict=True))
    others = [method for method in METHODS if method not in colours]
    free = [(colour, dash) for dash in (0, 1) for colour in (3, 4, 5, 7, *((0, 1, 2, 6) if dash else ()))]
    places = {METHODS[method]: (colour, 0) for method, colour in colours.items()}
    places |= {METHODS[method]: place for method, place in zip(others, free, strict=False)}
    sets = [*DATASETS, *DATASETS.values()]
    return places | {name: (number % len(DATASETS), 0) for number, name in enumerate(sets)}


_KNOWN = _places()
