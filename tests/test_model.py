"""A model folder gives back the network that was saved, and nothing else."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch

from fpgm.model import FORMAT, WEIGHTS, load_model, save_model
from fpgm.nets import UNet
from fpgm.nets.statistics import blend
from fpgm.runs.card import CARD, Calibration, ModelCard, Statistics
from fpgm.tensors import write_tensors
from tests.serving.making import SPECKS

SMALL = {"channels": [4, 4, 4, 4, 4]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    card = ModelCard(net="unet", arguments=SMALL, size=32, training={"method": "supervised"})
    save_model(tmp_path / "model", UNet(channels=SMALL["channels"]), card)
    return tmp_path / "model"


def test_what_was_saved_comes_back_from_the_run_and_from_the_folder(folder: Path) -> None:
    torch.manual_seed(0)
    net = UNet(channels=SMALL["channels"]).eval()
    image = torch.rand(2, 3, 32, 32)
    for path in (folder, folder.parent):
        loaded, card = load_model(path)
        assert torch.equal(loaded(image), net(image))
        assert not loaded.training and card.size == 32


def test_changed_weights_are_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="not the file that"):
        load_model(folder)


def test_a_card_of_another_network_is_refused(folder: Path) -> None:
    record = json.loads((folder / "model.json").read_text())
    record["arguments"] = {"channels": [8, 8, 8, 8, 8]}
    (folder / "model.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match="does not fit the network"):
        load_model(folder)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": "fpgm-model-2"}'])
def test_a_card_that_is_none_is_refused(folder: Path, text: str) -> None:
    (folder / "model.json").write_text(text)
    with pytest.raises(ValueError, match=r"model\.json"):
        load_model(folder)


def test_missing_parts_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no model"):
        load_model(tmp_path / "elsewhere")
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors"):
        load_model(folder)


def test_a_card_of_before_there_were_statistics_has_those_of_the_training(folder: Path) -> None:
    record = json.loads((folder / "model.json").read_text())
    del record["statistics"]
    (folder / "model.json").write_text(json.dumps(record))
    _, card = load_model(folder)
    assert card.statistics == Statistics(source="training", own=0.0, scores={}, site=None)


def test_the_share_of_own_statistics_is_saved_and_applied(folder: Path, tmp_path: Path) -> None:
    net, card = load_model(folder)
    statistics = Statistics(source="clean", own=0.5, scores={"clean, 0.5 own": 0.7})
    blended = save_model(tmp_path / "half", net, card.model_copy(update={"statistics": statistics}))
    loaded, read = load_model(tmp_path / "half")
    image = torch.rand(2, 3, 32, 32)
    assert read == blended and read.statistics == statistics
    assert torch.equal(loaded(image), blend(net, 0.5)(image)) and not loaded.training
    again = save_model(tmp_path / "again", loaded, read)  # a blended network has the state of a plain one
    assert again == read and read.weights_sha256 != card.weights_sha256  # so that no result of the other is kept


def test_a_share_that_the_weights_were_not_saved_for_is_refused(folder: Path) -> None:
    record = json.loads((folder / "model.json").read_text())
    record["statistics"]["own"] = 0.5
    (folder / "model.json").write_text(json.dumps(record))
    with pytest.raises(
        ValueError, match=r"not saved for the share .* model\.json says, 0\.5, 1 and 0: copy the whole folder"
    ):
        load_model(folder)


@pytest.mark.parametrize(
    "statistics",
    [
        {"own": 1.5},
        {"own": "much"},
        {"source": "moon"},
        {"source": "site"},
        {"mean": 0},
        {"source": "clean", "site": 3},
    ],
)
def test_statistics_that_cannot_be_are_refused(folder: Path, statistics: dict[str, object]) -> None:
    record = json.loads((folder / "model.json").read_text())
    record["statistics"] = statistics
    (folder / "model.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"model\.json is not the card .*: statistics"):
        load_model(folder)


def change_card(folder: Path, **values: object) -> None:
    record = json.loads((folder / CARD).read_text())
    (folder / CARD).write_text(json.dumps({**record, **values}))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_neither_saved_nor_loaded(folder: Path, tmp_path: Path, value: float) -> None:
    net, card = load_model(folder)
    with torch.no_grad():
        next(net.parameters())[0, 0, 0, 0] = value
    with pytest.raises(ValueError, match=r"cannot be saved: the values of encoder.* are not finite"):
        save_model(tmp_path / "other", net, card)
    assert not (tmp_path / "other").exists()
    write_tensors(folder / WEIGHTS, net.state_dict(), FORMAT, {})
    change_card(folder, weights_sha256=hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest())
    with pytest.raises(ValueError, match=r"has diverged: the values of encoder.* are not finite"):
        load_model(folder)


def test_a_card_of_a_giant_network_is_refused_before_it_takes_memory(folder: Path) -> None:
    change_card(folder, arguments={"channels": [400_000] * 5})
    with pytest.raises(ValueError, match="does not fit the network"):
        load_model(folder)


@pytest.mark.parametrize("size", [0, -1, 10**9])
def test_a_card_of_giant_images_is_refused(folder: Path, size: int) -> None:
    change_card(folder, size=size)
    with pytest.raises(ValueError, match=r"model\.json is not the card .*: size"):
        load_model(folder)


def test_weights_that_a_card_wants_to_download_are_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from monai.networks.nets import FlexibleUNet

    monkeypatch.setattr("socket.socket", None)  # whoever asks for a connection fails
    arguments = {"backbone": "efficientnet-b0", "decoder_channels": [4, 4, 4, 4, 4]}
    net = FlexibleUNet(spatial_dims=2, in_channels=3, out_channels=2, **arguments)
    card = ModelCard(net="monai:FlexibleUNet", arguments={**arguments, "pretrained": True}, size=32, training={})
    save_model(tmp_path, net, card)
    assert all(torch.equal(value, net.state_dict()[key]) for key, value in load_model(tmp_path)[0].state_dict().items())


def test_a_temperature_is_kept_and_one_that_was_changed_is_refused(folder: Path) -> None:
    net, card = load_model(folder)
    assert card.temperature == 1.0  # of a model without one
    fitted = Calibration(temperature=1.7, images=4, error_before=0.2, error_after=0.1)
    saved = save_model(folder, net, card.model_copy(update={"calibration": fitted}))
    assert saved.weights_sha256 != card.weights_sha256  # other numbers come out
    assert load_model(folder)[1].temperature == 1.7
    record = json.loads((folder / "model.json").read_text())
    record["calibration"]["temperature"] = 1.0
    (folder / "model.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"not saved for .* 0, 1 and 0: copy the whole folder"):
        load_model(folder)


def test_a_smallest_area_is_kept_and_one_that_was_changed_is_refused(folder: Path) -> None:
    net, card = load_model(folder)
    assert card.least_pixels(10**6) == 0  # of a model without one
    saved = save_model(folder, net, card.model_copy(update={"least_area": SPECKS}))
    assert saved.weights_sha256 != card.weights_sha256
    assert load_model(folder)[1].least_pixels(1000) == 4
    record = json.loads((folder / "model.json").read_text())
    record["least_area"]["share"] = 0.5
    (folder / "model.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"smallest area .* 1 and 0.5: copy the whole folder"):
        load_model(folder)


def test_a_card_without_the_field_is_read(folder: Path) -> None:
    record = json.loads((folder / "model.json").read_text())
    del record["calibration"], record["least_area"]
    (folder / "model.json").write_text(json.dumps(record))
    assert load_model(folder)[1].calibration is None


def test_a_card_that_names_a_module_imports_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil_net.py").write_text("from pathlib import Path\nPath('imported').touch()\nNet = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    record = json.loads((folder / CARD).read_text())
    for name in ("evil_net:Net", "evil_net.Net", "evil_net"):
        (folder / CARD).write_text(json.dumps({**record, "net": name}))
        with pytest.raises(ValueError, match="no network is called 'evil_net"):
            load_model(folder)
    assert not Path("imported").exists()
