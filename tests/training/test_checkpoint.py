"""Checkpoints: exact, safe, refused when damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fpgm.data.batches.batch import Batch
from fpgm.methods import Method, Step
from fpgm.training import checkpoint


class Plain(Method):
    """A method that is its network."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def losses(self, batch: Batch, step: Step) -> dict[str, torch.Tensor]:
        raise AssertionError

    def predictor(self) -> nn.Module:
        return self.net


def parts(kind: str = "adamw") -> tuple[Plain, torch.optim.Optimizer]:
    torch.manual_seed(0)
    net = Plain(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)))
    optimizer = (
        torch.optim.AdamW(net.parameters()) if kind == "adamw" else torch.optim.SGD(net.parameters(), momentum=0.9)
    )
    net.net(torch.rand(2, 3, 8, 8)).sum().backward()
    optimizer.step()
    return net, optimizer


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_state_comes_back_bit_for_bit(tmp_path: Path, kind: str) -> None:
    net, optimizer = parts(kind)
    checkpoint.save(tmp_path / "c.safetensors", net, optimizer, {"next_step": 7})
    other, fresh = parts(kind)
    nn.init.zeros_(other.net[0].weight)
    assert checkpoint.load(tmp_path / "c.safetensors", other, fresh) == {"next_step": 7}
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in net.state_dict().items())
    left, right = optimizer.state_dict(), fresh.state_dict()
    assert left["param_groups"] == right["param_groups"]
    for number, entries in left["state"].items():
        assert all(torch.equal(value, right["state"][number][name]) for name, value in entries.items())


def test_shared_weights_are_kept(tmp_path: Path) -> None:
    pair = nn.ModuleDict({"a": nn.Linear(2, 2)})
    pair["b"] = pair["a"]
    net = Plain(pair)
    optimizer = torch.optim.SGD(net.parameters())
    checkpoint.save(tmp_path / "c.safetensors", net, optimizer, {})
    assert checkpoint.load(tmp_path / "c.safetensors", net, optimizer) == {}


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_file_cut_short_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "c.safetensors"
    net, optimizer = parts()
    checkpoint.save(path, net, optimizer, {})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match="damaged or cut short"):
        checkpoint.load(path, net, optimizer)


def test_other_files_are_refused(tmp_path: Path) -> None:
    net, optimizer = parts()
    save_file({"x": torch.zeros(1)}, tmp_path / "c.safetensors")
    with pytest.raises(ValueError, match="not a file of kind fpgm-checkpoint-1, but without a kind"):
        checkpoint.load(tmp_path / "c.safetensors", net, optimizer)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        checkpoint.load(tmp_path / "none.safetensors", net, optimizer)
    torch.save({"x": 1}, tmp_path / "pickle.safetensors")
    with pytest.raises(ValueError, match="damaged or cut short"):
        checkpoint.load(tmp_path / "pickle.safetensors", net, optimizer)


def test_what_is_not_finite_is_not_written_and_the_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    net, optimizer = parts()
    checkpoint.save(path, net, optimizer, {})
    before = path.read_bytes()
    good = {name: value.clone() for name, value in net.state_dict().items()}
    with torch.no_grad():
        net.net[0].weight[0] = torch.nan
    with pytest.raises(ValueError, match=r"has diverged: the values of method.net.0.weight are not finite"):
        checkpoint.save(path, net, optimizer, {})
    net.load_state_dict(good)
    optimizer.state[net.net[0].weight]["exp_avg_sq"][0] = torch.inf
    with pytest.raises(ValueError, match=r"the values of optimizer.main.0.exp_avg_sq are not finite"):
        checkpoint.save(path, net, optimizer, {})
    assert path.read_bytes() == before and [path] == list(tmp_path.iterdir())


def test_a_checkpoint_that_is_not_finite_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, optimizer = parts()
    with torch.no_grad():
        net.net[0].weight[0] = torch.nan
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "non_finite", lambda tensors: "")  # as it was before
        checkpoint.save(tmp_path / "c.safetensors", net, optimizer, {})
    with pytest.raises(ValueError, match=r"c\.safetensors is of a training that has diverged: .*net\.0\.weight"):
        checkpoint.load(tmp_path / "c.safetensors", net, optimizer)


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    net, optimizer = parts()
    checkpoint.save(tmp_path / "c.safetensors", net, optimizer, {})
    other = Plain(nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5)))
    with pytest.raises(ValueError, match="does not fit this method or network"):
        checkpoint.load(tmp_path / "c.safetensors", other, torch.optim.AdamW(other.parameters()))
