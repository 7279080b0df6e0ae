"""Preparing again: what is asked first, and what is not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fpgm.data.raw.groups import set_groups
from fpgm.data.raw.layouts import own_folders
from fpgm.data.raw.prepare import Outcome, prepare
from fpgm.data.store import Store
from tests.data.pictures import bundle, content, disc, save, scene


def run(folder: Path, *, groups: str | None = None, size: int = 32, **options: bool) -> Outcome:
    found = [own_folders("mine", folder / "images", folder / "masks", folder / "free")]
    found, _ = set_groups(found, groups) if groups else (found, None)
    return prepare(found[0], folder / "store", size, **options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four pairs, one of them without a polyp, in two folders, and an unlabelled image."""
    for patient in ("p1", "p2"):
        bundle(tmp_path / patient, 2)
        for side in ("images", "masks"):
            shutil.move(tmp_path / patient / side, tmp_path / side / patient)
    save(0 * disc(), tmp_path / "masks/p2/2.png")
    save(scene(9), tmp_path / "free/9.png")
    run(tmp_path, groups="folder")
    return tmp_path


def unlink(folder: Path) -> None:
    for side in ("images", "masks"):
        (folder / side / "p1/1.png").unlink()


# what is done to the folders, settings of the second run, the sentence
CHANGES: dict[str, tuple[Callable[[Path], object], dict[str, object], str]] = {
    "size": (lambda f: None, {"size": 48}, "its images are 32 x 32, not 48 x 48"),
    "gone": (unlink, {}, r"1 of its 5 images would vanish \(p1/1\)"),
    "other picture": (lambda f: save(scene(70), f / "images/p1/2.png"), {}, r"would be other pictures \(p1/2\)"),
    "other mask": (lambda f: save(disc(radius=5), f / "masks/p1/2.png"), {}, r"would have another mask \(p1/2\)"),
    "no groups": (lambda f: None, {"groups": None}, "4 of its 5 images would have another group .* and 1 more"),
    "no empty ones": (lambda f: None, {"keep_empty": False}, r"left out, for their masks are empty \(p2/2\)"),
}


@pytest.mark.parametrize(("change", "options", "message"), CHANGES.values(), ids=CHANGES.keys())
def test_what_would_vanish_or_change_is_asked_first(
    folder: Path, change: Callable[[Path], object], options: dict[str, object], message: str
) -> None:
    change(folder)
    before = content(folder / "store")
    settings = {"groups": "folder"} | options
    with pytest.raises(ValueError, match=f"mine is in the store already, and .*{message}.*--replace"):
        run(folder, **settings)  # type: ignore[arg-type]  # settings by **
    assert content(folder / "store") == before
    assert run(folder, **settings, replace=True).status == "written"  # type: ignore[arg-type]  # settings by **


def test_additions_are_not_asked_for(folder: Path) -> None:
    save(scene(50), folder / "images/p3/1.png")
    save(disc(), folder / "masks/p3/1.png")
    outcome = run(folder, groups="folder")
    assert (outcome.status, outcome.decoded) == ("written", 1)
    assert Store.open(folder / "store/mine").ids == ("9", "p1/1", "p1/2", "p2/1", "p2/2", "p3/1")


def test_a_mask_and_a_group_for_what_had_none_are_additions(tmp_path: Path) -> None:
    bundle(tmp_path, 1)
    save(scene(2), tmp_path / "free/2.png")
    run(tmp_path)
    shutil.move(tmp_path / "free/2.png", tmp_path / "images/2.png")
    save(disc(), tmp_path / "masks/2.png")
    save(scene(3), tmp_path / "free/3.png")
    (tmp_path / "groups.csv").write_text("name,group\n1,A\n2,B\n")
    assert run(tmp_path, groups=str(tmp_path / "groups.csv")).decoded == 2
    rows = Store.open(tmp_path / "store/mine").manifest.images
    assert [(row.id, row.group, row.foreground is None) for row in rows] == [
        ("1", "A", False),
        ("2", "B", False),
        ("3", None, True),
    ]


def test_keeping_empty_masks_later_adds_them(tmp_path: Path) -> None:
    bundle(tmp_path, 3)
    save(0 * disc(), tmp_path / "masks/2.png")
    save(scene(9), tmp_path / "free/9.png")
    assert [problem.kind for problem in run(tmp_path, keep_empty=False).problems] == ["empty mask"]
    outcome = run(tmp_path)
    assert (outcome.decoded, outcome.problems) == (1, ())
    assert Store.open(tmp_path / "store/mine").ids == ("1", "2", "3", "9")
