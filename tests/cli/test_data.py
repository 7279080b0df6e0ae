"""``fpgm data list | prepare | synth`` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

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
    assert prepare("--root", tmp_path / "raw", "--out", tmp_path / "store") == 0
    assert "1 images decoded, the others had not changed" in capsys.readouterr().out


def test_problems_are_always_shown_and_fail_under_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bundle(tmp_path / "raw/mine", 3)
    save(0 * disc(), folder / "masks/2.png")
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


# what is typed -> what is said; {} is the folder of the test
MISTAKES = {
    "no input": ([], "give either --root RAW, or your own folders"),
    "both inputs": (["--root", "{}", "--images", "{}"], "give either --root RAW, or your own folders"),
    "no name": (["--unlabeled", "{}/images"], "needs a --name"),
    "images alone": (["--images", "{}/images", "--name", "mine"], "--images and --masks together"),
    "no such folder": (["--root", "{}/nowhere"], "is not a folder"),
    "nothing there": (["--root", "{}/store-less"], "no data set recognised"),
    "no such data set": (["--root", "{}", "--datasets", "BKAI"], "no BKAI-IGH under"),
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


# ---- list


def test_list_shows_table_1_and_where_to_get_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list"]) == 0
    out = capsys.readouterr().out
    for part in ("Kvasir-SEG", "1000", "700", "datasets.simula.no", "phantom-f", "fpgm data synth", "unseen"):
        assert part in out


def test_list_shows_what_is_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle(tmp_path / "raw/CVC-300", 2, first=149)
    bundle(tmp_path / "raw/mine", 1)
    prepare("--root", tmp_path / "raw", "--out", tmp_path / "store")
    capsys.readouterr()
    assert main(["data", "list", "--root", str(tmp_path / "raw"), "--store", str(tmp_path / "store")]) == 0
    lines = {line.split()[1]: line for line in capsys.readouterr().out.splitlines() if line.startswith("│")}
    assert "2, images/masks" in lines["CVC-300"]
    assert "2 pairs, 0 unlabelled, 32 px" in lines["CVC-300"]
    assert "your own" in lines["mine"]
    assert "pairs" not in lines["BKAI-IGH"]
    assert main(["data", "list", "--store", str(tmp_path / "store"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["prepared"] == {n: {"pairs": p, "unlabeled": 0, "size": 32} for n, p in (("CVC-300", 2), ("mine", 1))}
    assert shown["catalog"]["Kvasir-SEG"]["counts"] == [1000, 700, 100, 200]


def test_list_of_no_store_names_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list", "--store", str(tmp_path)]) == 2
    assert "fpgm data prepare" in capsys.readouterr().err


# ---- synth


def test_synth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--count", "3", "--size", "64", "--seed", "4", "--domains", "phantom-e", "phantom-a", "--workers", "1"]
    assert main(["data", "synth", "--out", str(tmp_path), *arguments]) == 0
    stores = open_stores(tmp_path)
    assert {name: (len(store), store.size) for name, store in stores.items()} == {
        "phantom-a": (3, 64),
        "phantom-e": (3, 64),
    }
    sheet = Image.open(tmp_path / "phantoms.png")
    assert sheet.size == (3 * 68 + 4, 2 * 68 + 4)  # a row per domain
    assert "2 x 3 phantoms of 64 x 64" in capsys.readouterr().out


def test_synth_json_and_its_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["data", "synth", "--out", str(tmp_path), "--workers", "1", "--domains"]
    assert main([*common, "phantom-b", "--count", "1", "--size", "64", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["prepared"]["phantom-b"]["pairs"] == 1
    for wrong, message in (
        (["phantom-z"], "no phantom domain phantom-z; there are phantom-a"),
        (["phantom-a", "--count", "0"], "at least 1"),
        (["phantom-a", "--size", "3"], "size 3"),
    ):
        assert main([*common, *wrong]) == 2
        assert message in capsys.readouterr().err
