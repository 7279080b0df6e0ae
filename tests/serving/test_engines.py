"""A recorded engine is used where it can be; a record without its file is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fpgm.runs.card import read_card
from fpgm.runs.engine import ENGINE, ONNX, EngineRecord, write_engine
from fpgm.serving import engines
from fpgm.serving.engines import recorded_engine
from fpgm.serving.onnx_engine import digest
from tests.serving.making import model, onnx_file, run_without


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model that onnxruntime computes."""
    folder = shutil.copytree(model(), tmp_path / "run" / "model")
    shutil.copy(onnx_file(), folder / ONNX)
    record = EngineRecord(
        engine="onnxruntime",
        weights_sha256=read_card(folder).weights_sha256,
        onnx_sha256=digest(onnx_file().read_bytes()) or "",
        threads=1,
        images=1,
        source="phantoms",
        timings=(),
    )
    write_engine(folder, record)
    return folder


def test_a_recorded_engine_is_used_on_the_processor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, device in ((folder, "auto"), (folder.parent, "cpu")):
        engine = recorded_engine(path, device)
        assert engine is not None and engine.name == "onnxruntime" and engine.card == read_card(folder)
    assert recorded_engine(folder, "cuda") is None and recorded_engine(model(), "auto") is None
    monkeypatch.setattr(engines, "has_gpu", lambda: True)
    assert recorded_engine(folder, "auto") is None and recorded_engine(folder, "cpu") is not None


def test_where_its_package_is_missing_torch_computes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "is_installed", lambda name: False)
    assert recorded_engine(folder, "auto") is None


def test_it_needs_no_torch(folder: Path) -> None:
    script = "import fpgm; print(fpgm.load_predictor(sys.argv[1]).engine.name, 'torch' in sys.modules)"
    done = run_without("torch safetensors kornia", script, str(folder))
    assert done.stdout.split() == ["onnxruntime", "False"], done.stderr


def test_a_record_of_other_weights_does_not_count(folder: Path) -> None:
    path = folder / ENGINE
    path.write_text(path.read_text().replace(read_card(folder).weights_sha256, "0" * 64))
    assert recorded_engine(folder, "auto") is None


def test_another_file_in_its_place_is_refused(folder: Path) -> None:
    path = folder / ENGINE
    path.write_text(path.read_text().replace(digest(onnx_file().read_bytes()) or "?", "0" * 64))
    with pytest.raises(ValueError, match=r"engine\.onnx is not the file that engine\.json describes"):
        recorded_engine(folder, "auto")
    (folder / ONNX).unlink()
    with pytest.raises(ValueError, match=r"lacks engine\.onnx"):
        recorded_engine(folder, "auto")
