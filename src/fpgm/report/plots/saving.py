"""How a figure is written to a file, and its colours in light and dark mode."""

from __future__ import annotations

from contextlib import AbstractContextManager
from io import BytesIO
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from PIL import Image

from fpgm.files import atomic_path

PAPERS = {False: "#ffffff", True: "#151618"}  # backgrounds of light and dark pages
_INKS = {False: "#000000", True: "#e6e9eb"}


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


def dark_twin(path: Path) -> Path:
    """Return where the dark version of a picture file is."""
    return path.with_name(f"{path.stem}-dark{path.suffix}")


def save_figure(figure: Figure, path: Path, dpi: int = 110) -> None:
    """Write a figure as the kind of picture its path names, ``.png`` or ``.jpg``."""
    with atomic_path(path) as draft:
        figure.savefig(draft, format=path.suffix[1:], dpi=dpi)


def save_compressed(figure: Figure, path: Path) -> None:
    """Write a PNG of 256 colours, which looks the same and takes a third of the space."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=120)
    with atomic_path(path) as draft:
        Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(draft, "PNG", optimize=True)
