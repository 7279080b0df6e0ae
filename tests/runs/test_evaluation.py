"""evaluation.json and the predicted masks."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from fpgm.runs import evaluation
from fpgm.runs.evaluation import FORMAT, Evaluation, is_evaluated, masks_file, read_masks, write_masks

HEADER = {"weights_sha256": "w", "size": 16, "protocol": "strict", "split": "strict-0", "split_seed": 0}


def test_the_version_does_not_decide_whether_scores_fit() -> None:
    record = Evaluation.model_validate(HEADER)
    assert record.fits(Evaluation.model_validate({**HEADER, "version": "0.0.1"}))
    for change in ({"weights_sha256": "v"}, {"split_seed": 1}, {"left_out": "CVC"}):
        assert not record.fits(Evaluation.model_validate({**HEADER, **change}))


@pytest.mark.parametrize(
    ("text", "evaluated"),
    [(f'{{"format": "{FORMAT}"}}', True), ('{"format": "fpgm-evaluation-0"}', False), ("[]", False), ("{", False)],
)
def test_a_run_is_evaluated_in_this_format_or_not(text: str, evaluated: bool, tmp_path: Path) -> None:
    assert not is_evaluated(tmp_path)
    (tmp_path / "evaluation").mkdir()
    (tmp_path / "evaluation" / "evaluation.json").write_text(text)
    assert is_evaluated(tmp_path) == evaluated


def test_masks_come_back_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    masks = np.random.default_rng(0).random((3, 10, 10)) < 0.5
    path = masks_file(tmp_path, "clinic")
    write_masks(path, np.packbits(masks, axis=-1))
    assert np.array_equal(read_masks(tmp_path, "clinic", 10), masks)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"clinic\.npz is damaged .* `fpgm evaluate"):
        read_masks(tmp_path, "clinic", 10)


def test_what_unpacks_to_more_than_its_masks_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_masks(masks_file(tmp_path, "clinic"), np.zeros((1000, 10, 2), np.uint8))
    assert read_masks(tmp_path, "clinic", 10, 1000).shape == (1000, 10, 10)
    monkeypatch.setattr(np, "load", lambda *arguments, **options: pytest.fail("it was loaded"))
    with pytest.raises(ValueError, match="unpacks to 20,128 bytes, and its masks have at most 1,044"):
        read_masks(tmp_path, "clinic", 10, 1)
    monkeypatch.setattr(evaluation, "MOST_BYTES", 20_000)
    with pytest.raises(ValueError, match="unpacks to 20,128 bytes"):
        read_masks(tmp_path, "clinic", 10)


def test_masks_that_are_a_pipe_are_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "evaluation").mkdir()
    os.mkfifo(masks_file(tmp_path, "clinic"))
    with pytest.raises(ValueError, match="is not a regular file"):
        read_masks(tmp_path, "clinic", 10)
