"""Predicted masks beside the truth: a column per row of a study, with outlines and Dice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import ImageColor

from fpgm.data.store import DATA, Store
from fpgm.report.plots.predictions import PREDICTION, TRUTH
from fpgm.report.plots.saving import save_figure
from fpgm.report.plots.style import PAPERS, theme
from fpgm.report.reading.groups import Group, Row
from fpgm.report.reading.studies import Study
from fpgm.runs.evaluation import read_masks

Pixels = NDArray[np.uint8]
Mask = NDArray[np.bool_]
PLACES = ("best", "typical", "worst")  # images of each data set, by their mean Dice over the rows
_INCH = 1.2  # width of a column
_ID = 14  # letters of an id that fit beside its image


@dataclass(frozen=True)
class Panel:
    """One image (S, S, 3) with its truth (S, S), and by the name of a row the mask it found and its Dice.

    `place` is best, typical or worst.
    """

    id: str
    image: Pixels
    truth: Mask
    found: Mapping[str, tuple[Mask, float]]
    place: str = ""


class _Grid(NamedTuple):
    """Side of the pictures in pixels, and the distances from one to the next."""

    size: int
    down: int
    across: int

    def place(self, row: int, column: int) -> tuple[slice, slice]:
        """The pixels of one picture."""
        top, left = row * self.down, column * self.across
        return slice(top, top + self.size), slice(left, left + self.size)


def collect(group: Group, study: Study, *, unseen: bool) -> tuple[list[Panel], list[str]]:
    """Choose the best, a typical and the worst image of each set, and read what each row's first seed found in them.

    They are first, middle and last by mean Dice over the rows' first seeds; of equal ones the first id counts.

    Returns:
        The panels, and a sentence for each data set that could not be shown.
    """
    panels, notes = [], []
    for dataset in group.datasets(unseen=unseen):
        rows = {entry.label: entry.row for entry in study.entries if entry.row.scores(dataset)}
        try:
            panels += _of_dataset(rows, dataset) if rows else []
        except Exception as error:  # pictures are an extra, whatever is broken in a run or a store
            notes.append(f"No pictures of {dataset}: {str(error).strip(chr(39))}.")
    return panels, notes


def panel_figure(panels: Sequence[Panel], path: Path, *, dark: bool = False) -> None:
    """Draw a line per image: the image, the truth in green, and what each row found, in yellow, over the truth.

    Args:
        panels: at least one, all of the same rows.
        path: picture file to write, ``.jpg`` or ``.png``.
        dark: light text on the background of a dark page.
    """
    with theme(dark):
        save_figure(_drawn(panels, ImageColor.getrgb(PAPERS[dark])), path, dpi=140)


def _drawn(panels: Sequence[Panel], paper: tuple[int, ...]) -> Figure:
    names = list(dict.fromkeys(name for panel in panels for name in panel.found))
    size = len(panels[0].image)
    grid = _Grid(size, round(1.18 * size), round(1.05 * size))  # room for Dice below, and a gap
    canvas, truth, found = _canvas(panels, names, grid, paper)
    height, width = truth.shape
    left = 0.3 * size  # for ids
    top = (0.06 + 0.12 * max(_broken(name).count("\n") + 1 for name in ("image", *names))) * size
    picture = Figure(figsize=(_INCH * (width + left) / grid.across, _INCH * (height + top) / grid.across))
    axis = picture.add_axes((0, 0, 1, 1))
    axis.imshow(canvas)
    for masks, colour in ((truth, TRUTH), (found, PREDICTION)):
        if masks.any():
            axis.contour(masks, [0.5], colors=colour, linewidths=0.9)
    _captions(axis, panels, names, grid)
    axis.set(xlim=(-left, width), ylim=(height, -top))
    axis.set_axis_off()
    return picture


def _canvas(
    panels: Sequence[Panel], names: Sequence[str], grid: _Grid, paper: tuple[int, ...]
) -> tuple[Pixels, Mask, Mask]:
    """All pictures on one sheet, with the masks at their places; an axis for each takes twenty times as long."""
    shape = len(panels) * grid.down, (2 + len(names)) * grid.across
    canvas = np.full((*shape, 3), paper, np.uint8)
    truth, found = np.zeros(shape, bool), np.zeros(shape, bool)
    for row, panel in enumerate(panels):
        for column in (0, 1, *(2 + names.index(name) for name in panel.found)):
            canvas[grid.place(row, column)] = panel.image
            truth[grid.place(row, column)] = panel.truth if column else False
        for name, (mask, _) in panel.found.items():
            found[grid.place(row, 2 + names.index(name))] = mask
    return canvas, truth, found


def _captions(axis: Axes, panels: Sequence[Panel], names: Sequence[str], grid: _Grid) -> None:
    """Names above the columns and beside the lines, Dice below each picture."""
    middle = grid.size / 2
    for column, name in enumerate(("image", "truth", *names)):
        place = column * grid.across + middle, -0.03 * grid.size
        axis.text(*place, _broken(name), ha="center", va="bottom", size=7.5)
    for row, panel in enumerate(panels):
        dataset, _, id_ = panel.id.partition("/")
        named = f"{panel.place}: {dataset}" if panel.place else dataset
        text = f"{named}\n{id_ if len(id_) <= _ID else id_[:_ID] + '…'}"
        place = -0.04 * grid.size, row * grid.down + middle
        axis.text(*place, text, ha="right", va="center", rotation=90, multialignment="center", size=6.5)
        for name, (_, dice) in panel.found.items():
            place = (2 + names.index(name)) * grid.across + middle, row * grid.down + 1.02 * grid.size
            axis.text(*place, f"{100 * dice:.1f}", ha="center", va="top", size=6.5)


def read_images(store: Path, dataset: str, ids: Sequence[str]) -> tuple[Pixels, Mask]:
    """Read images (n, S, S, 3) and masks (n, S, S) by their ids, `<data set>/<id>`, from a prepared store."""
    if not (store / dataset / DATA).is_file():
        raise FileNotFoundError(f"the store of the runs is gone, there is no {store / dataset / DATA}")
    prepared = Store.open(store / dataset)
    rows = {f"{dataset}/{id_}": row for row, id_ in enumerate(prepared.ids)}
    if lost := [id_ for id_ in ids if id_ not in rows]:
        raise ValueError(f"the store {store} was made anew, it has no {lost[0]}")
    chosen = [rows[id_] for id_ in ids]
    return prepared.images(chosen), prepared.masks(chosen) > 0


def read_scored(row: Row, dataset: str, ids: Sequence[str]) -> tuple[Pixels, Mask]:
    """Read images (n, S, S, 3) and masks (n, S, S) from the store that a row's first seed was scored on."""
    seed = next(iter(row.scores(dataset)))
    result = next(result for result in row.results if result.seed == seed)
    return read_images(result.stores.get(dataset) or Path(result.config["data"]["store"]), dataset, ids)


def _of_dataset(rows: Mapping[str, Row], dataset: str) -> list[Panel]:
    places = _choose(rows, dataset, next(iter(next(iter(rows.values())).scores(dataset).values())).ids)
    chosen = list(places)
    images, truth = read_scored(next(iter(rows.values())), dataset, chosen)
    found = {name: read_found(row, dataset, chosen, truth) for name, row in rows.items()}
    return [
        Panel(id_, image, true, {name: masks[place] for name, masks in found.items()}, places[id_])
        for place, (id_, image, true) in enumerate(zip(chosen, images, truth, strict=True))
    ]


def _choose(rows: Mapping[str, Row], dataset: str, ids: Sequence[str]) -> dict[str, str]:
    """Return the ids of the best, a typical and the worst image with their place; fewer where there are fewer."""
    total = dict.fromkeys(sorted(ids), 0.0)
    for row in rows.values():
        scores = next(iter(row.scores(dataset).values()))
        for id_, dice in zip(scores.ids, scores.values["dice"], strict=True):
            if id_ in total:
                total[id_] += float(dice)
    order = sorted(total, key=lambda id_: -total[id_])
    ends = (0, len(order) // 2, len(order) - 1)
    found: dict[str, str] = {}
    for name, place in zip(PLACES, ends, strict=True):
        found.setdefault(order[place], name)
    return found


def read_found(row: Row, dataset: str, ids: Sequence[str], truth: Mask) -> list[tuple[Mask, float]]:
    """Masks and Dice of a row's first seed, if store and masks are those that were scored."""
    result = next(result for result in row.results if dataset in result.scores)
    scores = result.scores[dataset]
    masks = read_masks(result.folder, dataset, result.size, len(scores.ids))
    places = [scores.ids.index(id_) for id_ in ids]
    for place, true in zip(places, truth, strict=True):
        counts = scores.values["predicted"][place], scores.values["true"][place]
        if counts != (masks[place].sum(), true.sum()):
            raise ValueError(f"{scores.ids[place]} is not what {result.folder} was scored on")
    return [(masks[place], float(scores.values["dice"][place])) for place in places]


def _broken(name: str, width: int = 16) -> str:
    """Break a long name into lines, at its brackets and commas."""
    if len(name) <= width:
        return name
    return name.replace(" (", "\n(").replace(", ", ",\n")
