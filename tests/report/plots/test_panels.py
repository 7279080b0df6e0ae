"""Pictures of what was found: which images, from which files, and where the outlines are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fpgm.report.plots.panels import Panel, collect, panel_figure, read_images, read_masks
from fpgm.report.reading.groups import grouped
from fpgm.report.reading.studies import studies
from fpgm.runs.results import Result
from tests.report.making import bars, write_run, write_store

KVASIR = "Kvasir-SEG"


def run(folder: Path, *widths: int, **settings: Any) -> Result:
    return write_run(folder, {KVASIR: bars(*widths)}, {KVASIR: bars(*[8] * len(widths))}, **settings)


def panels(*results: Result) -> tuple[list[Panel], list[str]]:
    [group] = grouped(results)
    return collect(group, studies([group])[0][0], unseen=False)


def test_the_best_a_typical_and_the_worst_image_are_shown(tmp_path: Path) -> None:
    ids = ["d", "a", "c", "b", "e"]
    write_store(tmp_path / "store", KVASIR, bars(*[8] * 5), ids)
    shown, notes = panels(run(tmp_path / "a", 0, 8, 1, 2, 3, store=tmp_path / "store", ids={KVASIR: ids}))
    # by width of what was found: a 8, e 3, b 2, c 1, d 0
    assert [(panel.place, panel.id) for panel in shown] == [
        ("best", "Kvasir-SEG/a"),
        ("typical", "Kvasir-SEG/b"),
        ("worst", "Kvasir-SEG/d"),
    ]
    assert notes == []


def test_image_truth_masks_and_dice_belong_together(tmp_path: Path) -> None:
    write_store(tmp_path / "store", KVASIR, bars(8, 8, 8, 8))
    first = run(tmp_path / "a", 1, 2, 3, 4, store=tmp_path / "store")
    other = run(tmp_path / "b", 5, 6, 7, 0, store=tmp_path / "store", method="supervised", seed=4)
    shown, _ = panels(first, other)
    # sums of both Dice: 2/9 + 10/13, 2/5 + 6/7, 6/11 + 14/15, 2/3 + 0; the best is the third, the middle the first
    assert [panel.id for panel in shown] == ["Kvasir-SEG/2", "Kvasir-SEG/0", "Kvasir-SEG/3"]
    assert [int(panel.image[0, 0, 0]) for panel in shown] == [2, 0, 3]  # image n is of shade n
    assert all(panel.truth.sum() == 32 for panel in shown)
    found = {
        name: [(int(panel.found[name][0].sum()), panel.found[name][1]) for panel in shown] for name in shown[0].found
    }
    assert found == {
        "supervised": [(28, pytest.approx(14 / 15)), (20, pytest.approx(10 / 13)), (0, 0.0)],
        "FPGM": [(12, pytest.approx(6 / 11)), (4, pytest.approx(2 / 9)), (16, pytest.approx(2 / 3))],
    }


def test_one_image_is_shown_once(tmp_path: Path) -> None:
    write_store(tmp_path / "store", KVASIR, bars(8))
    assert len(panels(run(tmp_path / "a", 4, store=tmp_path / "store"))[0]) == 1


def test_a_store_that_is_gone_leaves_a_note(tmp_path: Path) -> None:
    shown, notes = panels(run(tmp_path / "a", 4))
    assert shown == []
    path = Path("gone") / KVASIR / "data.h5"
    assert notes == [f"No pictures of Kvasir-SEG: the store of the runs is gone, there is no {path}."]


def test_a_store_made_anew_leaves_a_note(tmp_path: Path) -> None:
    write_store(tmp_path / "store", KVASIR, bars(8), ["other"])
    shown, notes = panels(run(tmp_path / "a", 4, store=tmp_path / "store"))
    assert shown == [] and "was made anew, it has no Kvasir-SEG/0" in notes[0]


def test_other_masks_than_were_scored_leave_a_note(tmp_path: Path) -> None:
    write_store(tmp_path / "store", KVASIR, bars(7))
    result = run(tmp_path / "a", 4, store=tmp_path / "store")
    assert "Kvasir-SEG/0 is not what" in panels(result)[1][0]
    write_store(tmp_path / "store", KVASIR, bars(8))
    assert panels(result)[1] == []
    np.savez(tmp_path / "a" / "evaluation" / f"{KVASIR}.npz", masks=np.packbits(bars(5), axis=-1))
    assert "Kvasir-SEG/0 is not what" in panels(result)[1][0]
    (tmp_path / "a" / "evaluation" / f"{KVASIR}.npz").unlink()
    assert f"{KVASIR}.npz" in panels(result)[1][0]


def test_a_broken_store_leaves_a_note(tmp_path: Path) -> None:
    write_store(tmp_path / "store", KVASIR, bars(8))
    (tmp_path / "store" / KVASIR / "data.h5").write_bytes(b"nonsense")
    assert "No pictures of Kvasir-SEG" in panels(run(tmp_path / "a", 4, store=tmp_path / "store"))[1][0]


def test_masks_of_any_size_come_back(tmp_path: Path) -> None:
    masks = np.random.default_rng(0).random((3, 13, 13)) < 0.5  # 13 is no multiple of 8
    (tmp_path / "evaluation").mkdir()
    np.savez_compressed(tmp_path / "evaluation" / "x.npz", masks=np.packbits(masks, axis=-1))
    assert (read_masks(tmp_path, "x", 13) == masks).all()


def test_a_store_of_the_package_can_be_read(phantom_store: Path) -> None:
    from fpgm.data.store import open_stores

    store = open_stores(phantom_store)["phantom-b"]
    images, masks = read_images(phantom_store, "phantom-b", [f"phantom-b/{store.ids[n]}" for n in (7, 2)])
    assert (images == store.images([7, 2])).all()
    assert (masks == (store.masks([7, 2]) > 0)).all()


def test_outlines_are_where_the_masks_are(tmp_path: Path) -> None:
    black = np.zeros((16, 16, 3), np.uint8)
    truth, empty = bars(8)[0], np.zeros((16, 16), bool)
    panel_figure([Panel("a/1", black, truth, {"one": (truth, 1.0), "none": (empty, 0.0)})], tmp_path / "new" / "p.png")
    pixels = np.asarray(Image.open(tmp_path / "new" / "p.png").convert("RGB")).astype(int)
    quarters = np.array_split(pixels, 4, axis=1)  # image, truth, one, none
    yellow = [int(((part[..., 0] > 180) & (part[..., 1] > 150) & (part[..., 2] < 90)).sum()) for part in quarters]
    green = [int(((part[..., 0] < 90) & (part[..., 1] > 150) & (part[..., 2] < 130)).sum()) for part in quarters]
    assert yellow[0] == yellow[1] == yellow[3] == 0 < yellow[2]
    assert green[0] == 0 < min(green[1], green[3])


def test_rows_that_found_nothing_there_have_no_mask(tmp_path: Path) -> None:
    image, mask = np.zeros((16, 16, 3), np.uint8), bars(4)[0]
    both = [Panel("a/1", image, mask, {"one": (mask, 1.0)}), Panel("b/1", image, mask, {"two": (mask, 1.0)})]
    panel_figure(both, tmp_path / "p.jpg")
    assert Image.open(tmp_path / "p.jpg").format == "JPEG"
