"""Whole runs: stopped, resumed, on two processes, with bad input."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from fpgm.cli import main
from fpgm.model import load_model
from fpgm.nets import UNet
from fpgm.runs.card import read_card
from fpgm.spectrum import FrequencyPrior

SMALL = ["net.arguments={channels: [4, 8, 8, 16, 16]}", "data.batch_labeled=4", "data.batch_unlabeled=4"]
OFTEN = [
    "train.validate_every=4",
    "train.save_every=2",
    "train.log_every=1",
    "train.pictures_every=0",
    "train.choose_statistics=false",
]


def arguments(store: Path, out: Path, *more: str, method: str = "fpgm", iterations: int = 12) -> list[str]:
    options = ["--method", method, "--data", str(store), "--out", str(out), "--labeled", "16", "--preset", "mini"]
    settings = [*SMALL, *OFTEN, "method.threshold=0.5"] if method == "fpgm" else [*SMALL, *OFTEN]
    return ["train", *options, "--iterations", str(iterations), *more, "--set", *settings]


def start(command: list[str]) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "fpgm", *command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(command: list[str]) -> str:
    process = start(command)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


def weights(run: Path, name: str = "last") -> dict[str, torch.Tensor]:
    with safe_open(run / "checkpoints" / f"{name}.safetensors", "pt") as file:
        return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118


def rows(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open(newline="") as file:
        return [{name: value for name, value in row.items() if name != "it/s"} for row in csv.DictReader(file)]


def wait_for_step(run: Path, step: int, process: subprocess.Popen[str]) -> None:
    """Wait until metrics.csv has the row of a step."""
    metrics, deadline = run / "metrics.csv", time.monotonic() + 120
    while not (metrics.is_file() and f"\n{step}," in metrics.read_text()):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def whole(phantom_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    finish(arguments(phantom_store, folder))
    return folder


def same(left: Path, right: Path) -> None:
    for name in ("last", "best"):
        expected, found = weights(left, name), weights(right, name)
        assert expected.keys() == found.keys()
        assert all(torch.equal(expected[key], found[key]) for key in expected)
    assert rows(left) == rows(right)


def test_a_run_leaves_what_is_promised(whole: Path) -> None:
    names = {path.name for path in whole.iterdir()}
    assert {"config.yaml", "metrics.csv", "checkpoints", "model", "prior.json"} <= names
    assert [row["step"] for row in rows(whole)] == [str(step) for step in range(1, 13)]
    last = rows(whole)[-1]
    assert all(float(last[name]) >= 0 for name in ("loss", "sup", "lr", "kept_background", "val_dice"))
    assert int(FrequencyPrior.load(whole / "prior.json").updates) > 0
    assert "were not evaluated yet" in (whole / "model" / "MODEL_CARD.md").read_text()


def test_asked_to_stop_it_saves_and_says_how_to_go_on(whole: Path, phantom_store: Path, tmp_path: Path) -> None:
    run = tmp_path / "stopped"
    process = start(arguments(phantom_store, run))
    wait_for_step(run, 5, process)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume" in output
    finish(arguments(phantom_store, run, "--resume"))
    same(whole, run)


def test_resuming_a_finished_run_changes_nothing(whole: Path, phantom_store: Path) -> None:
    before = (whole / "checkpoints" / "last.safetensors").read_bytes()
    finish(arguments(phantom_store, whole, "--resume"))
    assert (whole / "checkpoints" / "last.safetensors").read_bytes() == before


def test_two_processes_share_prior_and_follow_one(whole: Path, phantom_store: Path, tmp_path: Path) -> None:
    run = tmp_path / "two"
    finish(arguments(phantom_store, run, "--devices", "2", "--accelerator", "cpu"))
    one, two = weights(whole), weights(run)
    prior = "method.align.prior.profile"
    assert torch.allclose(one[prior], two[prior], rtol=1e-4)
    assert int(two["method.align.prior.samples"]) == int(one["method.align.prior.samples"])
    for left, right in zip(rows(whole), rows(run), strict=True):  # batch norm and dropout see other groups
        assert float(left["sup"]) == pytest.approx(float(right["sup"]), abs=0.1)
    again = start(arguments(phantom_store, run, "--devices", "2", "--accelerator", "cpu"))
    output, _ = again.communicate(timeout=120)
    assert again.returncode == 2 and "holds a run already" in output and "Traceback" not in output


def refused(capsys: pytest.CaptureFixture[str], command: list[str]) -> str:
    assert main(command) == 2
    return capsys.readouterr().err


def test_a_folder_with_a_run_is_not_overwritten(
    whole: Path, phantom_store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "holds a run already: continue it with --resume" in refused(capsys, arguments(phantom_store, whole))


def test_other_settings_on_resume_are_refused_with_the_difference(
    whole: Path, phantom_store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*arguments(phantom_store, whole, "--resume"), "method.gamma=0.3"]
    assert "arguments.gamma: 0.05 -> 0.3" in refused(capsys, command)


def test_a_damaged_checkpoint_is_refused(
    whole: Path, phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "damaged"
    (run / "checkpoints").mkdir(parents=True)
    (run / "config.yaml").write_bytes((whole / "config.yaml").read_bytes())
    cut = (whole / "checkpoints" / "last.safetensors").read_bytes()[:-100]
    (run / "checkpoints" / "last.safetensors").write_bytes(cut)
    assert "damaged or cut short" in refused(capsys, arguments(phantom_store, run, "--resume"))


def test_a_missing_store_or_split_names_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "fpgm data prepare" in refused(capsys, arguments(tmp_path / "none", tmp_path / "run"))
    (tmp_path / "store").mkdir()
    assert "fpgm data split" in refused(capsys, arguments(tmp_path / "store", tmp_path / "run"))


def test_a_loss_that_is_no_number_names_step_term_and_images(
    phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = arguments(phantom_store, tmp_path / "run", method="supervised", iterations=50)
    message = refused(capsys, [*command, "optimizer.name=sgd", "optimizer.lr=1e30"])
    assert "because of sup" in message and "--precision 32-true" in message
    (listed,) = (tmp_path / "run").glob("bad_batch_*.json")
    record = json.loads(listed.read_text())
    assert len(record["id_l"]) == 4 and f"step {record['step']} " in message


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks for a device that is not there")
def test_a_missing_device_is_a_sentence(
    phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = arguments(phantom_store, tmp_path / "run", "--accelerator", "cuda")
    assert "--accelerator cuda cannot be used here" in refused(capsys, command)


def test_an_unwritable_folder_is_a_sentence(
    phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert "file" in refused(capsys, arguments(phantom_store, tmp_path / "file" / "run"))


def test_the_model_is_the_best_predictor(whole: Path) -> None:
    net, card = load_model(whole)
    best = weights(whole, "best")
    assert all(torch.equal(value, best[f"average.{name}"]) for name, value in net.state_dict().items())
    assert any(not torch.equal(value, best[f"method.net.{name}"]) for name, value in net.state_dict().items())
    assert card.size == 64 and card.net == "unet" and card.training["seed"] == 0


def test_validation_chooses_the_statistics_that_are_shipped(phantom_store: Path, tmp_path: Path) -> None:
    command = arguments(phantom_store, tmp_path / "run", method="supervised", iterations=4)
    finish([*command, "train.choose_statistics=true"])
    card = read_card(tmp_path / "run" / "model")
    scores = card.statistics.scores
    assert scores.keys() == {"training", "training, 0.5 own", "clean", "clean, 0.5 own"}
    assert card.training["validation_dice"] == max(scores.values())
    chosen = f"{card.statistics.source}, 0.5 own" if card.statistics.own else card.statistics.source
    assert scores[chosen] == max(scores.values())
    assert "0.5 own" in (tmp_path / "run" / "model" / "MODEL_CARD.md").read_text()


def test_the_first_steps_may_be_at_half_the_side(
    phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    original = UNet.forward

    def spy(net: UNet, image: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            seen.append(image.shape[-1])
        return original(net, image)

    monkeypatch.setattr(UNet, "forward", spy)
    command = arguments(phantom_store, tmp_path / "run", method="fpgm_teacher", iterations=8)
    assert main([*command, "train.half_size=0.5", "data.workers=0"]) == 0
    assert seen == [32] * 4 + [64] * 4
    assert FrequencyPrior.load(tmp_path / "run" / "prior.json").size.tolist() == [64, 64]
