"""First weights from a model or a file of any origin: what matches is taken and said, the rest is not touched."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from fpgm.config import RunConfig
from fpgm.data.batches.pool import Pool
from fpgm.data.store import open_stores
from fpgm.nets import UNet
from fpgm.nets.lite_unet import LiteEncoder, LiteUNet
from fpgm.runs.card import read_card
from fpgm.training.first_weights import load_first_weights, seen_before
from tests.serving.making import CHANNELS, model
from tests.training.running import arguments, complete, weights


def test_an_own_model_is_taken_whole() -> None:
    net = UNet(channels=CHANNELS, dropout=0)
    found = load_first_weights(net, model())
    assert not found.missing and not found.unused and len(found.matched) == len(net.state_dict())
    other = UNet(channels=CHANNELS, dropout=0)
    load_first_weights(other, model().parent)  # the run folder is as good
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in net.state_dict().items())
    assert f"{len(found.matched)} of the network's {len(found.matched)} tensors" in found.describe()


@pytest.mark.parametrize("prefix", ["", "backbone.", "module.encoder."])
def test_an_encoder_is_found_behind_a_prefix(tmp_path: Path, prefix: str) -> None:
    torch.manual_seed(1)
    encoder, net = LiteEncoder(), LiteUNet()
    tensors = {f"{prefix}{name}": value for name, value in encoder.state_dict().items()}
    save_file({**tensors, "classifier.weight": torch.ones(3, 3)}, tmp_path / "encoder.safetensors")
    decoder = {name: value.clone() for name, value in net.decoder.state_dict().items()}
    found = load_first_weights(net, tmp_path / "encoder.safetensors")
    assert all(torch.equal(value, net.encoder.state_dict()[name]) for name, value in encoder.state_dict().items())
    assert all(torch.equal(value, net.decoder.state_dict()[name]) for name, value in decoder.items())
    assert found.unused == ("classifier.weight",) and len(found.matched) == len(tensors)
    assert all(name.startswith(("fine.", "decoder.")) for name in found.missing)
    assert "new: fine.0.weight" in found.describe() and "not used: classifier.weight" in found.describe()


def test_a_tensor_of_another_shape_stays_as_it_was(tmp_path: Path) -> None:
    net = UNet(channels=CHANNELS)
    state = {name: value + 1 for name, value in net.state_dict().items()}
    odd = next(name for name in state if state[name].ndim == 4)
    before = net.state_dict()[odd].clone()
    save_file({**state, odd: torch.zeros(1, 2, 3, 3)}, tmp_path / "odd.safetensors")
    found = load_first_weights(net, tmp_path / "odd.safetensors")
    assert found.missing == found.unused == (odd,) and torch.equal(net.state_dict()[odd], before)


def test_what_cannot_be_used_is_refused_with_a_sentence(tmp_path: Path) -> None:
    net = UNet(channels=CHANNELS)
    save_file({"words": torch.zeros(7)}, tmp_path / "other.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"no weights")
    bad = {name: torch.full_like(value, torch.nan) for name, value in net.state_dict().items() if value.ndim}
    save_file(bad, tmp_path / "bad.safetensors")
    (tmp_path / "model.onnx").write_bytes(b"")
    for name, told in {
        "other.safetensors": "nothing in .* by name and shape: it has words",
        "broken.safetensors": "damaged or cut short",
        "bad.safetensors": "not finite",
        "model.onnx": "give a run folder, a model folder",
        "gone.safetensors": "there is no such file",
        ".": "holds no model",
    }.items():
        with pytest.raises((ValueError, OSError), match=told):
            load_first_weights(net, tmp_path / name)


def test_a_run_starts_from_a_model_and_says_so(
    phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, run = tmp_path / "first", tmp_path / "second"
    complete(arguments(phantom_store, first, method="supervised", iterations=2))
    options = ["--from", str(first), "--method", "supervised", "--data", str(phantom_store), "--out", str(run)]
    rest = ["--iterations", "1", "--set", "optimizer.lr=1e-9", "optimizer.warmup=0", "train.choose_statistics=false"]
    complete(["train", *options, "--labeled", "16", *rest, "train.pictures_every=0", "train.average=0"])
    told = " ".join(capsys.readouterr().out.split())
    assert "tensors are from" in told and "warning: " in told and "validation, test and unseen images" in told
    config, card = RunConfig.load(run / "config.yaml"), read_card(run / "model")
    assert config.net.name == "unet" and config.net.arguments == {"channels": [2, 4, 4, 8, 8]}
    assert card.training["from"] == "first"
    known, found = weights(first, "best"), weights(run)
    for name in (name for name in found if name.startswith("method.") and name.endswith("conv1.weight")):
        assert torch.allclose(found[name], known[name.replace("method.net", "average")], atol=1e-6)


def test_images_that_the_base_was_trained_with_are_named(phantom_store: Path, tmp_path: Path) -> None:
    complete(arguments(phantom_store, tmp_path / "run", method="supervised", iterations=1))
    trained = RunConfig.load(tmp_path / "run" / "config.yaml").data.store
    stores = open_stores(trained)
    ids = [f"{name}/{store.ids[0]}" for name, store in stores.items()]
    seen = seen_before(tmp_path / "run" / "model", Pool(stores, ids))
    text = (tmp_path / "run" / "training_images.json").read_text()
    assert set(seen) == {id_ for id_ in ids if f'"{id_}"' in text} and 0 < len(seen) < len(ids)
    assert seen_before(tmp_path, None) == ()
