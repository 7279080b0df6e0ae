"""``fpgm data prepare`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fpgm.cli import main
from fpgm.data.store import open_stores
from tests.data.pictures import bundle, disc, save, scene, touch


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def prepare(*arguments: object) -> int:
    return main(["data", "prepare", "--workers", "1", "--size", "32", *map(str, arguments)])


def test_recognised_is_shown_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle(tmp_path / "raw/hospital-a", 3)
    assert prepare("--root", tmp_path / "raw", "--out", tmp_path / "store") == 0
    out = capsys.readouterr().out
    assert out.index("Recognised") < out.index("images/masks") < out.index("Prepared in")
    assert "hospital-a" in out
    assert "written" in out
    assert len(open_stores(tmp_path / "store")["hospital-a"]) == 3
    assert prepare("--root", tmp_path / "raw", "--out", tmp_path / "store") == 0
    assert "up to date" in capsys.readouterr().out
    save(disc(radius=3), tmp_path / "raw/hospital-a/masks/2.png")
    assert prepare("--root", tmp_path / "raw", "--out", tmp_path / "store", "--replace") == 0
    assert "1 images decoded, the others had not changed" in capsys.readouterr().out


def test_problems_are_always_shown_and_fail_under_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bundle(tmp_path / "raw/mine", 3)
    save(disc() // 255 * 2, folder / "masks/2.png")
    arguments = "--root", tmp_path / "raw", "--out", tmp_path / "store"
    for strict, code in (((), 0), (("--strict",), 1), ((), 0)):
        assert prepare(*arguments, *strict) == code
        out = capsys.readouterr().out
        assert "Left out of mine" in out
        assert "empty mask" in out
        assert "mine/masks/2.png" in out


def test_a_complete_set_passes_strict(tmp_path: Path) -> None:
    bundle(tmp_path / "raw/mine", 2)
    assert prepare("--root", tmp_path / "raw", "--out", tmp_path / "store", "--strict") == 0


def test_an_incomplete_public_set_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle(tmp_path / "CVC-300", 2, first=149)
    assert prepare("--root", tmp_path, "--out", tmp_path / "store", "--strict") == 1
    assert "expected 60 pairs, found 2" in capsys.readouterr().out


def test_own_folders(tmp_path: Path) -> None:
    bundle(tmp_path, 2)
    save(scene(9), tmp_path / "free/9.png")
    arguments = ["--images", tmp_path / "images", "--masks", tmp_path / "masks", "--unlabeled", tmp_path / "free"]
    assert prepare(*arguments, "--name", "mine", "--out", tmp_path / "store") == 0
    store = open_stores(tmp_path / "store")["mine"]
    assert store.has_mask.tolist() == [True, True, False]
    assert store.size == 32


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bundle(tmp_path / "raw/mine", 3)
    (folder / "masks/1.png").unlink()
    assert prepare("--root", tmp_path / "raw", "--out", tmp_path / "store", "--json") == 0
    (entry,) = json.loads(capsys.readouterr().out)["datasets"]
    assert (entry["name"], entry["status"], entry["pairs"], entry["decoded"]) == ("mine", "written", 2, 2)
    assert [(p["kind"], p["file"]) for p in entry["problems"]] == [("missing mask", "mine/images/1.png")]


def test_many_problems_are_cut_short_on_the_screen_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bundle(tmp_path / "raw/mine", 1)
    touch(folder, *(f"images/x{number}.png" for number in range(45)))
    assert prepare("--root", tmp_path / "raw", "--out", tmp_path / "store") == 0
    assert "and 5 more" in capsys.readouterr().out
    assert len(open_stores(tmp_path / "store")["mine"].manifest.problems) == 45


def test_data_sets_are_chosen(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        bundle(tmp_path / "raw" / name, 1)
    assert prepare("--root", tmp_path / "raw", "--out", tmp_path / "store", "--datasets", "a", "c") == 0
    assert list(open_stores(tmp_path / "store")) == ["a", "c"]


def test_nothing_usable_is_refused_after_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    touch(tmp_path / "raw/bad", "images/1.png", "masks/1.png")
    bundle(tmp_path / "raw/good", 1)
    assert prepare("--root", tmp_path / "raw", "--out", tmp_path / "store") == 2
    shown = capsys.readouterr()
    assert "empty file" in shown.out
    assert "nothing usable in bad" in shown.err
    assert list(open_stores(tmp_path / "store")) == ["good"]


def test_parts_groups_and_what_is_not_read_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for part in ("train", "test"):
        for patient in ("p1", "p2"):
            save(scene(1), tmp_path / f"raw/x/{part}/images/{part}-{patient}/1.png")
            save(disc(), tmp_path / f"raw/x/{part}/masks/{part}-{patient}/1.png")
    touch(tmp_path / "raw/x", "a.heic", "b.heic")
    arguments = "--root", tmp_path / "raw", "--out", tmp_path / "store", "--groups", "folder", "--name", "clinic"
    assert prepare(*arguments) == 0
    out = capsys.readouterr().out
    assert "clinic has a split of its own: 2 train, 2 test" in out
    assert "groups: 4 images are in 4 groups" in out
    assert "not read: 2 .heic" in out
    rows = open_stores(tmp_path / "store")["clinic"].manifest.images
    assert [(row.id, row.part, row.group) for row in rows] == [
        ("test/test-p1/1", "test", "test-p1"),
        ("test/test-p2/1", "test", "test-p2"),
        ("train/train-p1/1", "train", "train-p1"),
        ("train/train-p2/1", "train", "train-p2"),
    ]
    assert prepare(*arguments, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["unread"], shown["datasets"][0]["parts"]) == ({".heic": 2}, {"test": 2, "train": 2})
    assert (shown["datasets"][0]["groups"], shown["datasets"][0]["status"]) == (4, "up to date")


def test_other_settings_need_replace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle(tmp_path / "raw/mine", 2)
    arguments = "--root", tmp_path / "raw", "--out", tmp_path / "store"
    assert prepare(*arguments) == 0
    assert prepare(*arguments, "--size", "48") == 2
    assert "its images are 32 x 32, not 48 x 48; add --replace" in capsys.readouterr().err
    assert prepare(*arguments, "--size", "48", "--replace") == 0


def test_frames_without_polyps_can_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(0 * disc(), bundle(tmp_path / "raw/mine", 3) / "masks/2.png")
    assert prepare("--root", tmp_path / "raw", "--out", tmp_path / "a", "--no-keep-empty") == 0
    assert "empty mask" in capsys.readouterr().out
    assert prepare("--root", tmp_path / "raw", "--out", tmp_path / "b", "--json") == 0
    (entry,) = json.loads(capsys.readouterr().out)["datasets"]
    assert (entry["pairs"], entry["empty"], entry["problems"]) == (3, 1, [])


def test_swapped_folders_are_suspected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle(tmp_path, 2)
    arguments = "--images", tmp_path / "masks", "--masks", tmp_path / "images", "--name", "mine"
    assert prepare(*arguments, "--out", tmp_path / "store") == 2
    assert "are --images and --masks swapped?" in capsys.readouterr().err


MISTAKES = {
    "no input": ([], "give either --root RAW, or your own folders"),
    "both inputs": (["--root", "{}", "--images", "{}"], "give either --root RAW, or your own folders"),
    "no name": (["--unlabeled", "{}/images"], "needs a --name"),
    "images alone": (["--images", "{}/images", "--name", "mine"], "--images and --masks together"),
    "no such folder": (["--root", "{}/nowhere"], "is not a folder"),
    "nothing there": (["--root", "{}/store-less"], "no data set recognised"),
    "no such data set": (["--root", "{}", "--datasets", "BKAI"], "no BKAI-IGH under"),
    "both ways with empty masks": (["--root", "{}", "--keep-empty", "--no-keep-empty"], "not both"),
    "no such groups": (["--root", "{}", "--groups", "{}/groups.csv"], "groups.csv is not a file"),
    "silly size": (["--root", "{}", "--size", "3"], "size 3 is not between 16 and 2048"),
    "no workers": (["--root", "{}", "--workers", "0"], "at least 1 is needed"),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_answered_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    bundle(tmp_path, 1)
    (tmp_path / "store-less").mkdir()
    assert prepare("--out", tmp_path / "out", *(text.format(tmp_path) for text in arguments)) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("fpgm: ")
    assert message in shown
    assert "Traceback" not in shown
    assert not (tmp_path / "out").exists()
