"""Groups by table and by folder: hand-made trees with the table of ids and groups that they must give."""

from __future__ import annotations

from pathlib import Path

import pytest

from fpgm.data.raw.groups import Grouping, set_groups
from fpgm.data.raw.layouts import Found, own_folders
from tests.data.pictures import touch


@pytest.fixture
def found(tmp_path: Path) -> Found:
    files = ["p1/1", "p1/v2/2", "p2/1", "7"]
    touch(tmp_path, *(f"{side}/{file}.png" for side in "im" for file in files), "u/p9/8.jpg")
    return own_folders("mine", tmp_path / "i", tmp_path / "m", tmp_path / "u")


def grouped(found: Found, source: object) -> tuple[dict[str, str | None], Grouping]:
    (one,), grouping = set_groups([found], str(source))
    return {pair.id: pair.group for pair in one.pairs}, grouping


def test_the_first_folder_is_the_group(found: Found) -> None:
    groups, grouping = grouped(found, "folder")
    assert groups == {"7": None, "p1/1": "p1", "p1/v2/2": "p1", "p2/1": "p2", "p9/8": "p9"}
    assert grouping == Grouping(groups=3, grouped=4, without=("mine/7",), unknown=())
    assert grouping.sentence() == "4 images are in 3 groups; 1 are in none (mine/7)"


@pytest.mark.parametrize(
    "table",
    [
        "name,group\np1/1,A\n2,A\n8.jpg,B\nnobody,C\nP2/1,\n",
        "\ufeffName;Group;age\nmine/p1/1;A;50\n2.PNG;A;\nunlabeled/p9/8.jpg;B;\nnobody;C;\n",
    ],
)
def test_a_table_names_images_by_id_file_or_stem(found: Found, tmp_path: Path, table: str) -> None:
    (tmp_path / "groups.csv").write_text(table, encoding="utf-8")
    groups, grouping = grouped(found, tmp_path / "groups.csv")
    assert groups == {"7": None, "p1/1": "A", "p1/v2/2": "A", "p2/1": None, "p9/8": "B"}
    assert grouping == Grouping(groups=2, grouped=3, without=("mine/7", "mine/p2/1"), unknown=("nobody",))
    assert "1 names of the table are no image's (nobody)" in grouping.sentence()


MISTAKES = {
    "several images": ("name,group\n1,A\n", "1 is the name of several images"),
    "two groups": ("name,group\n7,A\n7,B\n", "7 has a group that is not plain text, or two groups"),
    "no columns": ("image,patient\n7,A\n", "has the columns image, patient; the first line must be name,group"),
    "empty": ("", "the first line must be name,group"),
    "nobody": ("name,group\nx,A\n", "no image has a name of this table"),
}


@pytest.mark.parametrize(("table", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes(found: Found, tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "groups.csv").write_text(table)
    with pytest.raises(ValueError, match=message):
        grouped(found, tmp_path / "groups.csv")


def test_no_table_and_no_folders(tmp_path: Path) -> None:
    touch(tmp_path, "u/1.png")
    found = own_folders("mine", unlabeled=tmp_path / "u")
    with pytest.raises(ValueError, match=r"nowhere\.csv is not a file; give a CSV file"):
        set_groups([found], "nowhere.csv")
    with pytest.raises(ValueError, match="no image is in a folder below"):
        set_groups([found], "folder")
