"""Models on the Hub, of which a local folder stands in: none can be reached where tests run."""

from __future__ import annotations

import inspect
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import fpgm
from fpgm.cli import main
from fpgm.model import save_model
from fpgm.nets import UNet
from fpgm.runs.card import ModelCard
from fpgm.serving.hub import FILES, hub_card, is_hub_name
from tests.report.making import bars, write_run

CHANNELS = [4, 4, 4, 4, 4]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    card = ModelCard(net="unet", arguments={"channels": CHANNELS}, size=64, training={"method": "fpgm"})
    torch.manual_seed(0)
    save_model(tmp_path / "model", UNet(channels=CHANNELS), card)
    (tmp_path / "model" / "secret.txt").write_text("not to be sent")
    return tmp_path / "model"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of the Hub; what is called must also fit the real functions, where they are installed."""
    place, real = tmp_path / "hub", dict[str, inspect.Signature]()
    with suppress(ImportError):
        from huggingface_hub import HfApi
        from huggingface_hub import snapshot_download as download

        functions = (HfApi.__init__, HfApi.create_repo, HfApi.upload_folder, download)
        real = {function.__name__: inspect.signature(function) for function in functions}

    def check(function: str, *given: Any, **options: Any) -> None:
        if function in real:
            real[function].bind(*([] if function == "snapshot_download" else [None]), *given, **options)

    class Api:
        def __init__(self, **options: Any) -> None:
            check("__init__", **options)

        def create_repo(self, name: str, **options: Any) -> str:
            check("create_repo", name, **options)
            (place / name).mkdir(parents=True, exist_ok=options["exist_ok"])
            (place / name / ".private").write_text(str(options["private"]))
            return f"https://hub.example/{name}"

        def upload_folder(self, **options: Any) -> None:
            check("upload_folder", **options)
            for file in options["allow_patterns"]:
                shutil.copy(Path(options["folder_path"]) / file, place / options["repo_id"] / file)

    def snapshot_download(name: str, **options: Any) -> str:
        check("snapshot_download", name, **options)
        if not (place / name).is_dir():
            raise OSError(f"404: no {name}\nmore")
        shutil.copytree(place / name, options["local_dir"], dirs_exist_ok=True)
        return str(options["local_dir"])

    module: Any = ModuleType("huggingface_hub")
    module.HfApi, module.snapshot_download = Api, snapshot_download
    module.constants = SimpleNamespace(HF_HOME=str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    monkeypatch.setitem(sys.modules, "huggingface_hub.constants", module.constants)
    return place


def test_what_was_pushed_is_fetched_by_its_name(
    model: Path, hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push", str(model), "ward-7/polyps"]) == 0
    assert "sent to https://hub.example/ward-7/polyps" in capsys.readouterr().out
    sent = hub / "ward-7" / "polyps"
    assert {path.name for path in sent.iterdir()} == {*FILES, ".private"}
    assert (sent / ".private").read_text() == "True"
    monkeypatch.chdir(tmp_path)
    picture = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    own, fetched = fpgm.load_predictor(model, device="cpu"), fpgm.load_predictor("ward-7/polyps", device="cpu")
    for one, other in zip(own.predict([picture]), fetched.predict([picture]), strict=True):
        assert np.array_equal(one, other)
    shutil.rmtree(sent)  # the Hub is gone: what was fetched before is still there
    assert fpgm.load_predictor("ward-7/polyps", device="cpu")
    assert main(["push", str(model), "ward-7/open", "--public", "--license", "mit"]) == 0
    assert (hub / "ward-7" / "open" / ".private").read_text() == "False"


def test_the_card_has_the_metadata_of_the_hub(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_run(run, {"north": bars(8, 4)}, {"north": bars(8, 8)})  # Dice 1 and 2/3 by hand
    card = ModelCard(net="unet", arguments={}, size=64, training={"method": "fpgm"})
    text = hub_card(run, card, "ward-7/polyps", "mit")
    _, head, body = text.split("---\n", 2)
    metadata = yaml.safe_load(head)
    assert metadata["pipeline_tag"] == "image-segmentation" and metadata["license"] == "mit"
    (entry,) = metadata["model-index"]
    assert entry["name"] == "polyps" and entry["results"][0]["metrics"][0]["value"] == pytest.approx(0.8333)
    assert 'fpgm.load_predictor("ward-7/polyps")' in body


def test_names_of_this_machine_are_no_names_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    assert is_hub_name("org/name") and is_hub_name("org/name-1.0")
    for text in ("runs/a", "a", "org/a/b", "/org/name", "../org", "org/model.onnx", "org/", ""):
        assert not is_hub_name(text), text
    assert not is_hub_name(Path("org/name"))  # a path is a path


def test_what_the_hub_has_not_and_wrong_names_are_sentences(
    model: Path, hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"no folder org/none, and the Hub gives no such model: 404: no org/none; "):
        fpgm.load_predictor("org/none")
    assert main(["push", str(model), "none"]) == 2
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match=r"org/none is no folder here.*pip install 'fpgm\[hub\]'"):
        fpgm.load_predictor("org/none")
