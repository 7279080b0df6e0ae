"""Which images of a store to label next: chosen, listed and linked for whoever labels them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fpgm.calibration import expected_dice
from fpgm.data.batches.pool import Pool
from fpgm.data.image_facts import groups_of
from fpgm.data.splits.duplicates import gather
from fpgm.data.splits.split import Split, split_folder
from fpgm.data.store import Store, open_stores
from fpgm.files import atomic_path, csv_cell, file_sha256, sole_writer, write_text
from fpgm.labeling.choosing import choose
from fpgm.labeling.looks import describe_looks
from fpgm.report.plots.contact_sheet import contact_sheet
from fpgm.runs.card import CARD
from fpgm.runs.config import read_config
from fpgm.runs.folder import RunFolder
from fpgm.serving.predictor import load_predictor

Advance = Callable[[str, int, int], None]
TABLE, SHEET, LINKS = "suggestions.csv", "contact_sheet.png", "images"
COLUMNS = ("rank", "image", "group", "file", "uncertainty", "link")
_BATCH = 32


class Suggestion(NamedTuple):
    """An image to label.

    Attributes:
        rank: 1 for the first.
        image: id in the store, with its data set.
        group: patient or video, if known.
        file: name of its source file, as the store has it.
        uncertainty: 1 minus the Dice that a model expects of its own mask; None without a model.
        link: file in OUT/images; a link to the source file, or the prepared image.
    """

    rank: int
    image: str
    group: str
    file: str
    uncertainty: float | None
    link: str


@dataclass(frozen=True)
class _Images:
    """Images that can be chosen, those that are labelled already, and the model to ask, if any."""

    stores: Mapping[str, Store]
    candidates: Sequence[str]
    labeled: Sequence[str]
    model: Path | None


def suggest(
    path: Path,
    out: Path,
    count: int,
    *,
    model: Path | None = None,
    images: Sequence[Path] = (),
    device: str = "auto",
    advance: Advance = lambda stage, done, total: None,
) -> list[Suggestion]:
    """Choose images to label next, and write OUT/suggestions.csv, OUT/contact_sheet.png and OUT/images.

    Of a store, images without a mask are chosen from; of a run, the training images whose masks it did not use, and its
    model says what is uncertain. See `choose` for the rule.

    Args:
        path: store, or run folder.
        out: folder to write; it must be empty or not there.
        count: number of images; all there are if there are fewer.
        model: run folder, model folder or ONNX file that says what is uncertain; the run's own if not given.
        images: folders that the store was prepared from, to link the source files.
        device: device of the model.
        advance: called with the stage, and how much of it is done.
    """
    if count < 1:
        raise ValueError(f"--count {count}: give a number of images from 1 on")
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} holds files already: give another --out")
    found = _find(path, model)
    pool = Pool(found.stores, [*found.labeled, *found.candidates])
    looks = describe_looks(pool, lambda done, total: advance("looks", done, total))
    known, wanted = len(found.labeled), min(count, len(found.candidates))
    groups = _group_numbers(found.stores, pool.ids)
    masks, doubt = None, None
    if found.model is not None:
        asked = Pool(found.stores, found.candidates)
        masks, doubt = _ask(found.model, asked, device, lambda done, total: advance("model", done, total))
    chosen = choose(
        looks[known:],
        wanted,
        groups=groups[known:],
        labeled=looks[:known],
        labeled_groups=groups[:known],
        weights=doubt,
    )
    if doubt is not None:
        chosen = sorted(chosen, key=lambda row: -float(doubt[row]))
    picked = Pool(found.stores, [found.candidates[row] for row in chosen])
    with sole_writer(out):
        rows = _link(out, picked, images, None if doubt is None else [float(doubt[row]) for row in chosen])
        pixels = list(picked.images(np.arange(len(picked))))
        outlines = None if masks is None else [masks[row].astype(np.uint8) for row in chosen]
        contact_sheet(pixels, outlines, out / SHEET, captions=[str(row.rank) for row in rows])
        _write_table(out / TABLE, rows)
    return rows


def _find(path: Path, model: Path | None) -> _Images:
    """Find what can be chosen from."""
    if RunFolder(path).config.is_file():
        data = read_config(path)["data"]
        store, labeled = Path(data["store"]), str(data["labeled"])
        split = Split.load(split_folder(store, str(data["split"])))
        own = path if (RunFolder(path).model / CARD).is_file() else None
        left = split.unlabeled(labeled)
        if not left:
            raise ValueError(f"{path} has used the masks of all its training images: give a store with unlabelled ones")
        return _Images(open_stores(store), left, split.labeled(labeled), model or own)
    stores = open_stores(path)
    ids = [
        (f"{name}/{id_}", has) for name, one in stores.items() for id_, has in zip(one.ids, one.has_mask, strict=True)
    ]
    left = [id_ for id_, has in ids if not has]
    if not left:
        raise ValueError(
            f"every image of {path} has a mask: there is none left to label. Give a run instead, whose unused masks "
            "count as not there, or prepare a store with --unlabeled"
        )
    return _Images(stores, left, [id_ for id_, has in ids if has], model)


def _group_numbers(stores: Mapping[str, Store], ids: Sequence[str]) -> list[int]:
    """Number images so that those of one patient or video, and near duplicates, have one number."""
    evidence = gather(stores)
    numbers = dict(zip(evidence.ids, evidence.groups().tolist(), strict=True))
    return [numbers[id_] for id_ in ids]


def _ask(
    model: Path, pool: Pool, device: str, advance: Callable[[int, int], None]
) -> tuple[list[NDArray[np.bool_]], NDArray[np.float64]]:
    """Return the masks that a model predicts, and how uncertain it is of each image (N,)."""
    predictor = load_predictor(model, device=device)
    masks: list[NDArray[np.bool_]] = []
    doubt = []
    for start in range(0, len(pool), _BATCH):
        rows = np.arange(start, min(start + _BATCH, len(pool)))
        found, planes = predictor.predict(list(pool.images(rows)))
        masks += found
        doubt += [1 - expected_dice(mask, plane) for mask, plane in zip(found, planes, strict=True)]
        advance(len(masks), len(pool))
    return masks, np.array(doubt)


def _link(out: Path, pool: Pool, folders: Sequence[Path], doubt: Sequence[float] | None) -> list[Suggestion]:
    """Link the source file of each image, if it is in one of the folders and unchanged; else write the prepared one."""
    rows = []
    groups = groups_of(pool)
    for place, (id_, (store, row)) in enumerate(zip(pool.ids, pool.located(), strict=True)):
        facts = store.manifest.images[row]
        source = _source(facts.image, facts.image_sha256, folders)
        stem = f"{place + 1:03d}-{id_.replace('/', '_')}"
        link = out / LINKS / f"{stem}{source.suffix if source else '.png'}"
        if source:
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(source.resolve())
        else:
            with atomic_path(link) as draft:
                Image.fromarray(store.images([row])[0]).save(draft, "PNG")
        uncertainty = None if doubt is None else doubt[place]
        rows.append(Suggestion(place + 1, id_, groups[place] or "", facts.image or "", uncertainty, link.name))
    return rows


def _source(name: str | None, sha256: str | None, folders: Sequence[Path]) -> Path | None:
    """Return the file that a prepared image was made from."""
    for folder in folders if name else ():
        for file in (folder / str(name), folder.parent / str(name), folder / Path(str(name)).name):
            if file.is_file() and (not sha256 or file_sha256(file) == sha256):
                return file
    return None


def _write_table(path: Path, rows: Sequence[Suggestion]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        cells: list[Any] = ["" if cell is None else f"{cell:.4f}" if isinstance(cell, float) else cell for cell in row]
        writer.writerow(map(csv_cell, cells))
    write_text(path, text.getvalue())
