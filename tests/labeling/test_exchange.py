"""Predictions to the files of annotation tools and back: not a pixel changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from fpgm.cli import main
from fpgm.labeling.exchange import FORMATS, read_annotations, save_masks
from tests.serving.making import model, pictures

FILES = {"coco": "coco.json", "label-studio": "label-studio.json", "cvat": "cvat.xml"}


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of predictions of three pictures in two folders, one of them without a polyp."""
    folder = tmp_path_factory.mktemp("exchange")
    (folder / "images" / "p1").mkdir(parents=True)
    for name, picture in zip(("a.png", "p1/a.jpg"), pictures(2, size=90), strict=True):
        picture.resize((110, 70)).save(folder / "images" / name)
    Image.new("RGB", (40, 30)).save(folder / "images" / "empty.png")
    command = ["predict", str(model()), str(folder / "images"), "--out", str(folder / "found"), "--min-area", "30"]
    assert main([*command, "--save", "masks", "--annotations", *FORMATS]) == 0
    return folder / "found"


def exported(predicted: Path, name: str, folder: Path) -> Path:
    """Return the file as the tool exports it when nothing was corrected."""
    source = predicted / "annotations" / FILES[name]
    if name != "label-studio":
        return source
    tasks = json.loads(source.read_text())
    for number, task in enumerate(tasks, start=1):  # what is accepted becomes an annotation
        (prediction,) = task.pop("predictions")
        task |= {"id": number, "annotations": [{"id": number, "result": prediction["result"], "was_cancelled": False}]}
    (folder / "export.json").write_text(json.dumps(tasks))
    return folder / "export.json"


@pytest.mark.parametrize("name", FORMATS)
def test_masks_come_back_as_they_were(
    predicted: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "masks", str(exported(predicted, name, tmp_path)), "--out", str(tmp_path / "masks")]) == 0
    told = capsys.readouterr().out
    found = sorted(path.relative_to(tmp_path / "masks") for path in (tmp_path / "masks").rglob("*.png"))
    assert [str(path) for path in found] == ["a.png", "empty.png", "p1/a.png"]
    areas = []
    for path in found:
        before, after = (np.asarray(Image.open(root / path)) for root in (predicted / "masks", tmp_path / "masks"))
        assert np.array_equal(before, after)
        areas.append(int((after > 0).sum()))
    assert areas[0] and areas[2] and f"3 masks written to {tmp_path / 'masks'}" in told


def test_the_files_are_what_the_tools_read(predicted: Path) -> None:
    folder = predicted / "annotations"
    coco: dict[str, Any] = json.loads((folder / "coco.json").read_text())
    assert [image["file_name"] for image in coco["images"]] == ["a.png", "empty.png", "p1/a.jpg"]
    assert all(0 < mark["score"] <= 1 and mark["iscrowd"] == 1 for mark in coco["annotations"])
    tasks = json.loads((folder / "label-studio.json").read_text())
    assert [task["data"]["image"] for task in tasks][2] == "/data/local-files/?d=p1/a.jpg"
    names = {(region["from_name"], region["to_name"]) for task in tasks for region in task["predictions"][0]["result"]}
    config = ElementTree.parse(folder / "label-studio.xml").getroot()
    assert names == {(config.find("BrushLabels").get("name"), config.find("Image").get("name"))}  # type: ignore[union-attr]  # both are there
    for mark in coco["annotations"]:  # the box is that of the mask
        left, top, width, height = mark["bbox"]
        name = coco["images"][mark["image_id"] - 1]["file_name"].rpartition(".")[0]
        mask = np.asarray(Image.open(predicted / "masks" / f"{name}.png")) > 0
        assert mask[top : top + height, left : left + width].sum() >= mark["area"] > 0


def test_polygons_and_corrections_are_read(tmp_path: Path) -> None:
    region = {"type": "polygonlabels", "original_width": 20, "original_height": 10, "image_rotation": 0}
    value = {"points": [[25, 20], [75, 20], [75, 60], [25, 60]], "polygonlabels": ["polyp"]}  # in percent
    old = {"result": [], "was_cancelled": False}
    task = {
        "data": {"image": "/data/upload/1/a1b2c3d4-frame%201.png"},
        "annotations": [old, {"result": [region | {"value": value}]}],
    }
    (tmp_path / "ls.json").write_text(json.dumps([task, {"data": {"image": "other.png"}, "annotations": []}]))
    found = read_annotations(tmp_path / "ls.json")
    assert found.images[0].file == "frame 1.png" and found.left_out == ("other.png: nobody has annotated it yet",)
    expected = np.zeros((10, 20), bool)
    expected[2:6, 5:15] = True  # 25 … 75 % of 20, 20 … 60 % of 10
    grown = np.zeros((10, 20), bool)
    grown[1:7, 4:16] = True
    mask = found.images[0].mask()
    assert (mask & ~grown).sum() == 0 and (expected & ~mask).sum() == 0
    image = '<image id="0" name="x.png" width="20" height="10">'
    shapes = '<polygon label="polyp" points="5,2;15,2;15,6;5,6"/><box label="polyp"/>'
    (tmp_path / "c.xml").write_text(f"<annotations>{image}{shapes}</image></annotations>")
    drawn = read_annotations(tmp_path / "c.xml")
    assert np.array_equal(drawn.images[0].mask(), mask) and drawn.left_out == ("x.png: a box, which makes no mask",)


COCO = {
    "images": [{"id": 1, "file_name": "a.png", "width": 4, "height": 2}],
    "categories": [{"id": 1, "name": "polyp"}, {"id": 2, "name": "tool"}],
    "annotations": [
        {"image_id": 1, "category_id": 1, "segmentation": {"size": [2, 4], "counts": [0, 2, 6]}},
        {"image_id": 1, "category_id": 2, "segmentation": {"size": [2, 4], "counts": [6, 2]}},
    ],
}


def test_of_several_labels_one_is_chosen(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps(COCO))
    with pytest.raises(ValueError, match=r"several labels, choose one with --label: polyp, tool"):
        read_annotations(tmp_path / "c.json")
    found = read_annotations(tmp_path / "c.json", "tool").images[0].mask()
    assert found.tolist() == [[False, False, False, True]] * 2
    with pytest.raises(ValueError, match=r"no region labelled 'knife', only polyp, tool"):
        read_annotations(tmp_path / "c.json", "knife")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "cannot be used"),
        ("{}", "there is no 'images'"),
        ("[3]", "cannot be used"),
        ("<annotations><image", "it is not XML"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><annotations/>", "declares entities"),
        (json.dumps(COCO).replace("a.png", "../../a.png"), "not the path of an image below a folder"),
        (json.dumps(COCO).replace("a.png", "/a.png"), "not the path of an image"),
        (json.dumps(COCO).replace('"width": 4', '"width": 99999999'), "at most 67,108,864 pixels"),
        (json.dumps(COCO).replace("[6, 2]", "[6, 3]"), "have 9 pixels, and its picture has 8"),
        (json.dumps(COCO).replace('"image_id": 1', '"image_id": 7'), "image 7, which is not listed"),
        (
            json.dumps([{"data": {"image": "a"}, "annotations": [{"result": [{"original_width": 3}]}]}]),
            "has no original",
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(ValueError, match=told):
        read_annotations(tmp_path / "file")


def test_no_mask_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps(COCO))
    found = read_annotations(tmp_path / "c.json", "polyp")
    save_masks(found, tmp_path / "masks")
    with pytest.raises(ValueError, match="holds files already"):
        save_masks(found, tmp_path / "masks")


def test_annotations_without_masks_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["predict", str(model()), str(tmp_path), "--out", str(tmp_path / "out"), "--save", "overlays"]
    assert main([*command, "--annotations", "coco"]) == 2
    assert "name masks in --save too" in capsys.readouterr().err
