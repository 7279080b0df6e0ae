"""Checkpoints: exact, safe, refused when damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fpgm.data.batches.batch import Batch
from fpgm.methods import Method, Step
from fpgm.tensors import read_tensors, write_tensors
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


def rewrite(path: Path, *, without: str = "", scale: str = "", **content: object) -> None:
    """Write a checkpoint again without the tensors of a name, with others in a wrong shape, or with another content."""
    tensors, old = read_tensors(path, checkpoint.FORMAT)
    tensors = {name: value for name, value in tensors.items() if not (without and without in name)}
    tensors |= {name: value.repeat(2, 2, 1, 1) for name, value in tensors.items() if scale and scale in name}
    write_tensors(path, tensors, checkpoint.FORMAT, {**old, **content})


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
@pytest.mark.parametrize("older", [False, True])
def test_a_checkpoint_without_optimiser_state_is_refused(tmp_path: Path, kind: str, older: bool) -> None:
    path = tmp_path / "c.safetensors"
    net, optimizer = parts(kind)
    checkpoint.save(path, net, optimizer, {})
    rewrite(path, **({"states": None} if older else {}))
    checkpoint.load(path, net, optimizer)
    rewrite(path, without="optimizer.")
    checkpoint.load(path, net)  # its weights can be used, the training cannot go on
    with pytest.raises(ValueError, match="does not fit this optimiser: the state of the optimiser main is missing"):
        checkpoint.load(path, net, optimizer)


def test_a_plain_optimiser_has_no_state_to_miss(tmp_path: Path) -> None:
    net, _ = parts()
    optimizer = torch.optim.SGD(net.parameters())
    checkpoint.save(tmp_path / "c.safetensors", net, optimizer, {})
    rewrite(tmp_path / "c.safetensors", states=None)
    assert checkpoint.load(tmp_path / "c.safetensors", net, optimizer) == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"without": "optimizer.main.0"}, "is missing or not whole"),
        ({"scale": "optimizer.main.0.exp_avg"}, "is not of a parameter of main"),
        ({"scalars": {"optimizer.main.99.step": 3}, "states": None}, "is not of a parameter of main"),
        ({"scalars": {"optimizer.main": 3}}, "does not fit this optimiser"),
        ({"scalars": {"optimizer.main.x.step": 3}}, "does not fit this optimiser"),
        ({"states": [3]}, "does not fit this optimiser"),
        ({"scalars": None}, "is not a whole checkpoint"),
        ({"record": 3}, "is not a whole checkpoint"),
    ],
)
def test_wrong_parts_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "c.safetensors"
    net, optimizer = parts()
    checkpoint.save(path, net, optimizer, {})
    rewrite(path, **changes)
    with pytest.raises(ValueError, match=rf"c\.safetensors .*{message}"):
        checkpoint.load(path, net, optimizer)


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"next_step": 3},
        {"next_step": 99, "best": {"dice": 0.5, "step": 2}},
        {"next_step": -1, "best": {"dice": 0.5, "step": 2}},
        {"next_step": "3", "best": {"dice": 0.5, "step": 2}},
        {"next_step": 3, "best": {"dice": "high", "step": 2}},
        {"next_step": 3, "best": [1]},
    ],
)
def test_progress_that_cannot_be_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a checkpoint of this run"):
        checkpoint.read_progress(Path("c"), record, 12)
    good = {"next_step": 3, "best": {"dice": 0.5, "step": 2}}
    assert checkpoint.read_progress(Path("c"), good, 12) == (3, {"dice": 0.5, "step": 2})


def test_a_header_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    save_file({"x": torch.zeros(1)}, tmp_path / "c.safetensors", {"fpgm": "[" * 10**5})
    net, optimizer = parts()
    with pytest.raises(ValueError, match="nested deeper"):
        checkpoint.load(tmp_path / "c.safetensors", net, optimizer)
