"""`cross_validation.json` and what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from fpgm.runs.cross_validation import CrossValidation, FoldScore, read_cross_validation, write_cross_validation


def test_the_record_comes_back_and_describes_itself(tmp_path: Path) -> None:
    assert read_cross_validation(tmp_path) is None
    folds = (FoldScore(images=1, dice=0.5), FoldScore(images=3, dice=0.9))
    record = CrossValidation(count=2, settings_sha256="0", folds=folds)
    write_cross_validation(tmp_path, record)
    assert read_cross_validation(tmp_path) == record
    assert record.dice == pytest.approx(0.8)  # (0.5 + 3 · 0.9) / 4
    # the deviation of 0.5 and 0.9 is 0.4 / √2
    told = "Dice 0.8000 ± 0.2828 over folds on 4 labelled images, by 2-fold cross-validation"
    assert record.describe() == told


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cross_validation.json").write_text('{"count": 1}')
    with pytest.raises(ValueError, match=r"cross_validation\.json: count: .*; delete it and cross-validate again"):
        read_cross_validation(tmp_path)
