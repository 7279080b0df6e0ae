"""Galleries: which images, in which order, with outlines at their places."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from fpgm.report.plots.gallery import collect_gallery
from fpgm.report.reading.groups import grouped
from tests.report.making import bars, write_run, write_store

KVASIR = "Kvasir-SEG"


def test_images_go_from_the_worst_to_the_best_at_even_steps(tmp_path: Path) -> None:
    widths = [3, 0, 8, 1, 2, 7, 4]
    write_store(tmp_path / "store", KVASIR, bars(*[8] * 7))
    truth = {KVASIR: bars(*[8] * 7)}
    result = write_run(tmp_path / "a", {KVASIR: bars(*widths)}, truth, store=tmp_path / "store")
    [row] = grouped([result])[0].rows
    tiles = collect_gallery(row, KVASIR)
    assert [tile.id for tile in tiles] == [f"{KVASIR}/{widths.index(width)}" for width in sorted(widths)]
    assert [round(tile.dice, 4) for tile in tiles[:3]] == [0, round(2 / 9, 4), 0.4]  # 2 w / (8 + w)
    few = collect_gallery(row, KVASIR, most=3)
    assert [tile.id for tile in few] == [tiles[place].id for place in (0, 3, 6)]


def test_truth_is_green_and_what_was_found_is_yellow(tmp_path: Path) -> None:
    write_store(tmp_path / "store", KVASIR, bars(12))
    result = write_run(tmp_path / "a", {KVASIR: bars(4)}, {KVASIR: bars(12)}, store=tmp_path / "store")
    [tile] = collect_gallery(grouped([result])[0].rows[0], KVASIR)
    picture = np.asarray(Image.open(io.BytesIO(tile.picture))).astype(int)
    assert picture.shape == (160, 160, 3)  # ten times 16
    red, green = picture[60, :, 0], picture[60, :, 1]  # the upper border of both bars
    assert red[5:35].min() > 150 and red[55:115].max() < 120  # yellow above the found part, green above the rest
    assert green[5:115].min() > 120 and picture[60, 125:].max() < 60  # nothing beyond the truth
