"""data.json: a run goes on with the images it was begun with."""

from __future__ import annotations

from pathlib import Path

import pytest

from fpgm.runs.images import check_images

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
