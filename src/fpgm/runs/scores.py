"""``evaluation/<data set>.csv``: the scores of each image, checked line by line."""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fpgm.files import read_file, write_text
from fpgm.runs.details import ImageDetails
from fpgm.runs.summary import Summary, summarise

METRICS = ("dice", "jaccard", "hd95", "asd")
RELEASED = tuple(f"released_{name}" for name in METRICS)
COUNTS = ("predicted", "true")
_CLOSE = 1e-9  # what a value may differ by from what the others imply


class Row(NamedTuple):
    """The comparison of one image; `predicted` and `true` are numbers of foreground pixels.

    Empty masks count as "penalise" says, in the columns with `released_` in front as "released" says.
    """

    id: str
    dice: float
    jaccard: float
    hd95: float
    asd: float
    released_dice: float
    released_jaccard: float
    released_hd95: float
    released_asd: float
    predicted: int
    true: int


COLUMNS = Row._fields


@dataclass(frozen=True)
class Scores:
    """The images of one data set: ids (N), and the columns (N,) of `COLUMNS` by name.

    Dice and Jaccard are in [0, 1], distances in pixels of the prepared size. `METRICS` count an empty mask as
    "penalise" does, `RELEASED` are scored as the released code does, see `fpgm.metrics`. `COUNTS` are numbers of
    foreground pixels.

    Attributes:
        ids: ids of the images.
        values: the columns.
        unseen: whether the whole set was kept from training.
        details: what is known of each image beside its scores; evaluations of format 2 have none.
        after_training: whether the images came after the training.
        near_duplicates: ids of such images with those of the training images that they are nearly the same as.
    """

    ids: tuple[str, ...]
    values: dict[str, NDArray[Any]]
    unseen: bool
    details: tuple[ImageDetails, ...] = ()
    after_training: bool = False
    near_duplicates: tuple[tuple[str, str], ...] | None = None

    def label(self, name: str) -> str:
        """Name the data set, and say of an unseen one that it is, and whether it came after the training."""
        kind = "unseen, after training" if self.after_training else "unseen"
        return f"{name} ({kind})" if self.unseen else name

    @property
    def groups(self) -> list[str | None] | None:
        """The patient or video of each image, where any is known."""
        groups = [one.group for one in self.details]
        return groups if any(groups) else None

    def summary(self, column: str) -> Summary:
        """Sum up a column; the interval is over patients or videos where they are known."""
        return summarise(self.values[column], groups=self.groups)


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as CSV, a header and a line per image; numbers come back as they were, to the last bit."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows(rows)
    write_text(path, text.getvalue())


def pooled(parts: Sequence[Scores]) -> Scores:
    """Put the images of several data sets together."""
    ids = tuple(id_ for part in parts for id_ in part.ids)
    values = {column: np.concatenate([part.values[column] for part in parts]) for column in COLUMNS[1:]}
    details = tuple(one for part in parts for one in part.details) if all(part.details for part in parts) else ()
    return Scores(ids, values, parts[0].unseen, details)


def missed(scores: Scores) -> int:
    """Count the images with a polyp in which nothing was found."""
    return int(((scores.values["true"] > 0) & (scores.values["predicted"] == 0)).sum())


def without_polyp(scores: Scores) -> int:
    """Count the images without a polyp."""
    return int((scores.values["true"] == 0).sum())


def false_alarms(scores: Scores) -> int | None:
    """Count the images without a polyp in which one was found; None where every image has a polyp."""
    empty = scores.values["true"] == 0
    return int((empty & (scores.values["predicted"] > 0)).sum()) if empty.any() else None


def read_scores(path: Path, *, dataset: str, size: int, images: int, sha256: str, unseen: bool) -> Scores:
    """Read a CSV file; one that was changed is refused, with the line if one shows it.

    Args:
        path: the file.
        dataset: name of the data set.
        size: side of the images in pixels.
        images: number of images.
        sha256: hash of the file as it was written.
        unseen: kept in what is returned.
    """
    content = read_file(path)
    header, *lines = content.decode("utf-8", errors="replace").removesuffix("\n").split("\n")
    if header.split(",") != list(COLUMNS):
        raise ValueError(f"{path}, line 1: the header is not {','.join(COLUMNS)}")
    places: dict[str, int] = {}
    rows: list[list[float]] = []
    for number, line in enumerate(lines, start=2):
        cells = next(csv.reader([line.replace("\r", "")]))
        try:
            rows.append(_check_row(cells, dataset, size))
            if cells[0] in places:
                raise ValueError(f"{cells[0]} stands in line {places[cells[0]]} already")
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        places[cells[0]] = number
    if len(rows) != images:
        raise ValueError(f"{path} has {len(rows)} lines after the header, but there were {images} images")
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{path} is not the file that was written: something was changed that no line shows")
    values: dict[str, NDArray[Any]] = dict(zip(COLUMNS[1:], np.array(rows, np.float64).T.copy(), strict=True))
    values |= {column: values[column].astype(np.int64) for column in COUNTS}
    return Scores(tuple(places), values, unseen)


def _check_row(cells: Sequence[str], dataset: str, size: int) -> list[float]:
    """Return the numbers of a line, or say which of them cannot be."""
    if len(cells) != len(COLUMNS):
        raise ValueError(f"{len(cells)} cells, but there are {len(COLUMNS)} columns")
    if not cells[0].startswith(f"{dataset}/"):
        raise ValueError(f"{cells[0]!r} is not an image of {dataset}")
    row = {column: _number(column, cell) for column, cell in zip(COLUMNS[1:], cells[1:], strict=True)}
    far = math.hypot(size, size)
    limits = {**dict(zip(METRICS, (1, 1, far, far), strict=True)), **dict.fromkeys(COUNTS, size**2)}
    limits |= {"released_asd": far} if row["predicted"] and row["true"] else {}
    for column, most in limits.items():
        if not 0 <= row[column] <= most:
            raise ValueError(f"{column} is {row[column]}, but it lies between 0 and {most:g}")
    for column, value in _implied(row, far).items():
        both_nan = math.isnan(value) and math.isnan(row[column])
        if not (both_nan or abs(row[column] - value) <= _CLOSE):
            raise ValueError(f"{column} is {row[column]}, but by the other columns it is {value}")
    return list(row.values())


def _number(column: str, cell: str) -> float:
    try:
        return int(cell) if column in COUNTS else float(cell)
    except ValueError:
        raise ValueError(f"{column} is {cell!r}, which is not a {'whole ' if column in COUNTS else ''}number") from None


def _implied(row: Mapping[str, float], far: float) -> dict[str, float]:
    """Return the values that follow from others: from the numbers of pixels, from Dice, from the rules for empty masks.

    Dice times half the pixels of both masks is the number of pixels they share.
    """
    predicted, true, dice = row["predicted"], row["true"], row["dice"]
    if predicted == 0 or true == 0:
        overlap, distance = (1.0, 0.0) if predicted == true else (0.0, far)
        released = 0.0 if predicted == 0 else math.nan
        expected = (overlap, overlap, distance, distance, 0.0, 0.0, released, released)
        return dict(zip((*METRICS, *RELEASED), expected, strict=True))
    common = min(round(dice * (predicted + true) / 2), predicted, true)
    implied = {"dice": 2 * common / (predicted + true), "jaccard": dice / (2 - dice)}
    if predicted == true == common:
        implied |= {"hd95": 0.0, "asd": 0.0, "released_asd": 0.0}
    return implied | {f"released_{name}": row[name] for name in ("dice", "jaccard", "hd95")}
