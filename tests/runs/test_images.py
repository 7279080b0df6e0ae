"""data.json and training_images.json: a run goes on with the images it was begun with, and knows each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fpgm.data.image_facts import ImageHash
from fpgm.runs.images import TrainingImages, check_images, read_training_images, write_training_images

STORE = Path("store")
HASHES = {"labeled": "a", "unlabeled": None, "validation": "b"}


def test_the_same_images_go_on_and_others_are_refused(tmp_path: Path) -> None:
    check_images(tmp_path, HASHES, STORE)
    check_images(tmp_path, HASHES, STORE)
    with pytest.raises(ValueError, match="begun with other images: unlabeled and validation ones of store"):
        check_images(tmp_path, {**HASHES, "unlabeled": "c", "validation": "d"}, STORE)


@pytest.mark.parametrize("text", ["", "{", "3"])
def test_a_damaged_file_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(text)
    with pytest.raises(ValueError, match=r"data\.json is damaged"):
        check_images(tmp_path, HASHES, STORE)


def test_the_hashes_of_each_image_come_back(tmp_path: Path) -> None:
    assert read_training_images(tmp_path) is None
    one, two = (ImageHash(f"a/{name}", "", "0" * 32, "f" * 64) for name in "12")
    record = TrainingImages(protocol="strict", split_seed=3, labeled=(one,), unlabeled=(), validation=(two,))
    write_training_images(tmp_path, record)
    assert read_training_images(tmp_path) == record and record.images == (one, two)
    path = tmp_path / "training_images.json"
    path.write_text(path.read_text().replace("strict", "strict").replace('"a/1", ""', '"a/1"'))
    with pytest.raises(ValueError, match=r"training_images\.json is damaged \(labeled\.0"):
        read_training_images(tmp_path)
