"""Exported files agree with the original or are not there."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from fpgm.model import load_model
from fpgm.serving import export
from fpgm.serving.export import export_onnx, export_torch
from fpgm.serving.predictor import load_predictor
from tests.serving.making import SIZE, model, onnx_file, pictures


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_torch(model(), tmp_path_factory.mktemp("program") / "model.pt2").path


def test_onnx_is_compared_with_the_original(tmp_path: Path) -> None:
    report = export_onnx(model(), tmp_path / "model.onnx", pictures=pictures(5))
    assert report.path.stat().st_size == report.size and report.images == 5 and report.found > 2
    assert 0 < report.max_difference < 1e-4 and report.dice > 0.999 and report.least_dice <= report.dice
    assert report.path.read_bytes() == onnx_file().read_bytes()  # whatever it was compared on


def test_int8_is_smaller_and_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traced = onnx.load(onnx_file())  # once is enough
    monkeypatch.setattr(export, "_to_onnx", lambda net, card: traced)
    report = export_onnx(model(), tmp_path / "int8.onnx", int8=True)
    assert report.images == 24 and report.size < 0.8 * onnx_file().stat().st_size
    assert report.max_difference > 1e-4 and 0.8 <= report.dice < 1
    exact, rough = (load_predictor(path).predict(pictures(12)) for path in (onnx_file(), report.path))
    assert (np.array(exact[0]) == rough[0]).mean() > 0.95 and np.array(rough[0]).any()


@pytest.mark.parametrize("int8", [False, True])
def test_what_does_not_agree_is_not_kept(int8: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the exporter had got the last bias wrong: everything is foreground."""
    spoilt = onnx.load(onnx_file())  # before the patch: making it exports too
    (bias,) = (one for one in spoilt.graph.initializer if one.name == spoilt.graph.node[-1].input[2])
    bias.CopyFrom(onnx.numpy_helper.from_array(np.array([-50, 50], np.float32), bias.name))
    monkeypatch.setattr(export, "_to_onnx", lambda net, card: spoilt)
    path = tmp_path / "model.onnx"
    path.write_text("an older file")
    with pytest.raises(ValueError, match="does not agree with the original: on 2 images"):
        export_onnx(model(), path, int8=int8, pictures=pictures(4 if int8 else 2))
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"] and path.read_text() == "an older file"


def test_a_program_of_torch_needs_torch_alone(program: Path) -> None:
    script = """
import sys, torch
assert not any(name == "fpgm" or name.startswith("fpgm.") for name in sys.modules)
extra = {"fpgm.json": ""}
net = torch.export.load(sys.argv[1], extra_files=extra).module()
torch.manual_seed(0)
print(extra["fpgm.json"])
print(net(torch.rand(3, 3, 64, 64))[:, :, 5, 7].tolist())
"""
    done = subprocess.run([sys.executable, "-c", script, str(program)], capture_output=True, text=True, check=False)
    card, logits = done.stdout.splitlines()
    net, expected = load_model(model())
    torch.manual_seed(0)
    assert card == expected.model_dump_json()
    with torch.no_grad():
        assert np.allclose(eval(logits), net(torch.rand(3, 3, SIZE, SIZE))[:, :, 5, 7], atol=1e-5)


def test_a_program_of_torch_holds_no_pickle_and_no_folder_of_this_machine(program: Path) -> None:
    with zipfile.ZipFile(program) as archive:
        contents = [archive.read(name) for name in archive.namelist()]
    assert not any(content.startswith((b"PK", b"\x80")) and content.endswith(b".") for content in contents)
    assert not any(b"site-packages" in content or b".py" in content for content in contents)


def test_wrong_names_and_too_few_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"does not end with \.onnx"):
        export_onnx(model(), tmp_path / "model.pt2")
    with pytest.raises(ValueError, match=r"does not end with \.pt2"):
        export_torch(model(), tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="1 images are too few"):
        export_onnx(model(), tmp_path / "model.onnx", int8=True, pictures=pictures(1))
    with pytest.raises(FileNotFoundError, match="holds no model"):
        export_onnx(tmp_path, tmp_path / "model.onnx")
    assert not any(tmp_path.iterdir())


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs onnx, onnxscript, onnxruntime: pip install 'fpgm\[export\]'"):
        export_onnx(model(), tmp_path / "model.onnx")
