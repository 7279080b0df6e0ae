"""`engine.json`: written, read, and refused where it was changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fpgm.runs.engine import ENGINE, EngineRecord, EngineTiming, read_engine, write_engine

FAST = EngineTiming(engine="openvino", one=0.01, eight=0.08, least_dice=0.9995, other_polyps=0)
RECORD = EngineRecord(engine="torch", weights_sha256="a" * 64, threads=2, images=3, source="phantoms", timings=(FAST,))


def test_a_record_is_read_as_it_was_written_and_counts_for_its_weights_alone(tmp_path: Path) -> None:
    assert read_engine(tmp_path, "a" * 64) is None
    write_engine(tmp_path, RECORD)
    assert read_engine(tmp_path, "a" * 64) == RECORD
    assert read_engine(tmp_path, "b" * 64) is None


@pytest.mark.parametrize(
    ("dice", "other", "agrees"), [(0.999, 0, True), (0.9989, 0, False), (1.0, 1, False), (1.0, 0, True)]
)
def test_convention_which_masks_agree(dice: float, other: int, agrees: bool) -> None:
    assert FAST.model_copy(update={"least_dice": dice, "other_polyps": other}).agrees is agrees


@pytest.mark.parametrize(("old", "new"), [("torch", "../other"), ('"threads": 2', '"threads": 0'), ("{", "[")])
def test_a_record_that_is_not_ours_is_a_sentence(old: str, new: str, tmp_path: Path) -> None:
    write_engine(tmp_path, RECORD)
    path = tmp_path / ENGINE
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=r"engine\.json: .*; delete it, or choose an engine again"):
        read_engine(tmp_path, "a" * 64)
