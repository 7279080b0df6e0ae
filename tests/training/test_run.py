"""Whole runs: stopped, resumed, on two processes, with bad input."""

from __future__ import annotations

import json
import math
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fpgm.cli import main
from fpgm.config import RunConfig, resolve
from fpgm.data.batches.batch import Batch
from fpgm.data.splits.split import Split
from fpgm.methods import Stage
from fpgm.model import load_model
from fpgm.nets import UNet
from fpgm.runs.card import read_card
from fpgm.runs.images import read_training_images
from fpgm.spectrum import FrequencyPrior
from fpgm.training.run import train
from fpgm.training.trainer import Trainer
from tests.data.making import make_store, scene
from tests.forks import fpgm, signalled
from tests.processes import signalling
from tests.training.running import OFTEN, SMALL, TWO, arguments, complete, complete_fresh, rows, same, weights

BRIEF = ["train.iterations=2", "data.workers=0"]


@pytest.fixture(scope="module")
def whole(small_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    complete(arguments(small_store, folder))
    return folder


@pytest.fixture(scope="module")
def pair(small_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same run on two processes."""
    folder = tmp_path_factory.mktemp("runs") / "pair"
    complete_fresh(arguments(small_store, folder, *TWO))
    return folder


def test_a_run_leaves_what_is_promised(whole: Path) -> None:
    names = {path.name for path in whole.iterdir()}
    assert {"config.yaml", "metrics.csv", "checkpoints", "model", "prior.json"} <= names
    assert [row["step"] for row in rows(whole)] == [str(step) for step in range(1, 13)]
    last = rows(whole)[-1]
    assert all(float(last[name]) >= 0 for name in ("loss", "sup", "lr", "kept_background", "val_dice"))
    assert int(FrequencyPrior.load(whole / "prior.json").updates) > 0
    calibration = read_card(whole / "model").calibration
    assert calibration is not None and 0.1 <= calibration.temperature <= 10 and calibration.images > 0
    assert f"temperature {calibration.temperature:.3f}" in (whole / "model" / "MODEL_CARD.md").read_text()
    area = read_card(whole / "model").least_area
    assert area is not None and area.images == calibration.images
    assert (
        f"Smallest polyp: {round(area.share * 32**2)} pixels of 32 x 32"
        in (whole / "model" / "MODEL_CARD.md").read_text()
    )
    listed = read_training_images(whole)
    assert listed is not None and len(listed.labeled) == 16 and listed.unlabeled and listed.validation
    assert "were not evaluated yet" in (whole / "model" / "MODEL_CARD.md").read_text()


def test_asked_to_stop_it_saves_and_says_how_to_go_on(
    whole: Path,
    small_store: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = tmp_path / "stopped"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", signalling(signal.SIGTERM, "last.safetensors", 2))
        assert main(arguments(small_store, run)) == 130
    assert "--resume" in capsys.readouterr().out and len(rows(run)) < 12
    complete(arguments(small_store, run, "--resume"))
    same(whole, run)


def test_resuming_a_finished_run_changes_nothing(whole: Path, small_store: Path) -> None:
    before = (whole / "checkpoints" / "last.safetensors").read_bytes()
    complete(arguments(small_store, whole, "--resume"))
    assert (whole / "checkpoints" / "last.safetensors").read_bytes() == before


def test_two_processes_share_prior_and_follow_one(whole: Path, pair: Path, small_store: Path) -> None:
    one, two = weights(whole), weights(pair)
    prior = "method.align.prior.profile"
    assert torch.allclose(one[prior], two[prior], rtol=1e-4)
    assert int(two["method.align.prior.samples"]) == int(one["method.align.prior.samples"])
    for left, right in zip(rows(whole), rows(pair), strict=True):  # batch norm and dropout see other groups
        assert float(left["sup"]) == pytest.approx(float(right["sup"]), abs=0.1)
    again = fpgm(arguments(small_store, pair, *TWO))
    output = again.communicate()
    assert again.returncode == 2 and "holds a run already" in output and "Traceback" not in output


def test_one_of_two_processes_asked_to_stop_stops_both(pair: Path, small_store: Path, tmp_path: Path) -> None:
    run = tmp_path / "stopped"
    # rank zero alone writes that file
    process = signalled(signal.SIGTERM, "last.safetensors", 2, arguments(small_store, run, *TWO))
    output = process.communicate()  # the pipe ends with the last process that writes to it
    assert process.returncode == 130 and output.count("--resume") == 1
    assert len(rows(run)) < 12
    resumed = fpgm(arguments(small_store, run, "--resume", *TWO))
    output = resumed.communicate()
    assert resumed.returncode == 0, output
    same(pair, run)


@pytest.mark.parametrize(
    ("method", "setting", "message"),
    [
        ("supervised", "net.name=resnet50", "resnet50"),
        ("supervised", "net.arguments={depth: 3}", "depth"),
        ("supervised", "train.precision=half", "precision"),
        ("bcpnet", "data.batch_labeled=3", "even number"),
        ("pick", "data.batch_labeled=3", "even number"),
        ("abd", "method.grid=5", "equal tiles"),
        ("bcpnet", "method.pretrain=0.01", "less than one step"),
    ],
)
def test_a_refused_run_writes_nothing(
    method: str,
    setting: str,
    message: str,
    small_store: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert message in refused(capsys, [*arguments(small_store, tmp_path / "run", method=method), setting])
    assert not (tmp_path / "run").exists()


def test_the_precision_in_use_is_printed_and_kept(
    whole: Path, small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert RunConfig.load(whole / "config.yaml").train.precision == "32-true"
    command = arguments(small_store, tmp_path / "run", method="supervised", iterations=2)
    complete([*command, "train.precision=bf16-mixed"])
    assert "precision bf16-mixed" in capsys.readouterr().out
    assert RunConfig.load(tmp_path / "run" / "config.yaml").train.precision == "bf16-mixed"


def test_the_paper_preset_says_that_the_images_are_smaller(
    small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = arguments(small_store, tmp_path / "run", method="supervised", iterations=1)
    assert main([*command, "data.workers=0"]) == 0
    assert "not comparable" not in capsys.readouterr().out
    command[command.index("mini")] = "paper"
    command[command.index("--out") + 1] = str(tmp_path / "other")
    assert main([*command, "data.workers=0"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "precision 32-true" in output and "those of this store 32 x 32" in output


def refused(capsys: pytest.CaptureFixture[str], command: list[str]) -> str:
    assert main(command) == 2
    return capsys.readouterr().err


def test_a_folder_with_a_run_is_not_overwritten(
    whole: Path, small_store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "holds a run already: continue it with --resume" in refused(capsys, arguments(small_store, whole))


def test_other_settings_on_resume_are_refused_with_the_difference(
    whole: Path, small_store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*arguments(small_store, whole, "--resume"), "method.gamma=0.3"]
    assert "arguments.gamma: 0.05 -> 0.3" in refused(capsys, command)


def test_a_damaged_checkpoint_is_refused(
    whole: Path, small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "damaged"
    (run / "checkpoints").mkdir(parents=True)
    (run / "config.yaml").write_bytes((whole / "config.yaml").read_bytes())
    cut = (whole / "checkpoints" / "last.safetensors").read_bytes()[:-100]
    (run / "checkpoints" / "last.safetensors").write_bytes(cut)
    assert "damaged or cut short" in refused(capsys, arguments(small_store, run, "--resume"))


def test_a_missing_store_or_split_names_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "fpgm data prepare" in refused(capsys, arguments(tmp_path / "none", tmp_path / "run"))
    (tmp_path / "store" / "clinic").mkdir(parents=True)
    (tmp_path / "store" / "clinic" / "manifest.json").touch()
    assert "fpgm data split" in refused(capsys, arguments(tmp_path / "store", tmp_path / "run"))


def test_a_loss_that_is_no_number_names_step_term_and_images(
    small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = arguments(small_store, tmp_path / "run", method="supervised", iterations=50)
    message = refused(capsys, [*command, "optimizer.name=sgd", "optimizer.lr=1e30"])
    assert "because of sup" in message and "--precision 32-true" in message
    (listed,) = (tmp_path / "run").glob("bad_batch_*.json")
    record = json.loads(listed.read_text())
    assert len(record["id_l"]) == 4 and f"step {record['step']} " in message


@pytest.mark.parametrize("iterations", [1, 4])
def test_a_training_that_diverges_leaves_only_what_was_good(
    small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], iterations: int
) -> None:
    """With a huge learning rate the weights of the first step are lost, before any loss shows it."""
    run = tmp_path / "run"
    command = arguments(small_store, run, method="supervised", iterations=iterations)
    wrong = ["optimizer.name=sgd", "optimizer.lr=1e20", "optimizer.warmup=0", "train.save_every=1", "data.workers=0"]
    message = refused(capsys, [*command, *wrong])
    assert "finite" in message or "is nan" in message
    assert not (run / "model").exists() and not list(run.glob("checkpoints/best*"))
    for path in run.glob("checkpoints/*.safetensors"):
        assert all(torch.isfinite(value).all() for value in weights(run, path.stem).values())


def test_the_checkpoint_before_a_divergence_is_taken_up_again(
    small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    original = Trainer.step

    def diverge(trainer: Trainer, batch: Batch, stage: Stage) -> dict[str, torch.Tensor]:
        terms = original(trainer, batch, stage)
        if batch.index == 2:
            with torch.no_grad():
                next(trainer.method.parameters()).fill_(torch.inf)
        return terms

    command = [*arguments(small_store, run, method="supervised"), "train.save_every=1", "data.workers=0"]
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", diverge)
        assert "the training has diverged" in refused(capsys, command)
    assert all(torch.isfinite(value).all() for value in weights(run).values())
    assert main(["train", "--resume", "--out", str(run)]) == 0
    assert [row["step"] for row in rows(run)] == [str(step) for step in range(1, 13)]


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks for a device that is not there")
def test_a_missing_device_is_a_sentence(small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = arguments(small_store, tmp_path / "run", "--accelerator", "cuda")
    assert "--accelerator cuda cannot be used here" in refused(capsys, command)


def test_an_unwritable_folder_is_a_sentence(
    small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert "file" in refused(capsys, arguments(small_store, tmp_path / "file" / "run"))


def test_the_model_is_the_best_predictor(whole: Path) -> None:
    net, card = load_model(whole)
    best = weights(whole, "best")
    assert all(torch.equal(value, best[f"average.{name}"]) for name, value in net.state_dict().items())
    assert any(not torch.equal(value, best[f"method.net.{name}"]) for name, value in net.state_dict().items())
    assert card.size == 32 and card.net == "unet" and card.training["seed"] == 0


def test_validation_chooses_the_statistics_that_are_shipped(phantom_store: Path, tmp_path: Path) -> None:
    command = arguments(phantom_store, tmp_path / "run", method="supervised", iterations=4)
    complete([*command, "train.choose_statistics=true"])
    card = read_card(tmp_path / "run" / "model")
    scores = card.statistics.scores
    assert scores.keys() == {source + own for source in ("training", "clean") for own in ("", ", 0.2 own", ", 0.5 own")}
    assert card.training["validation_dice"] == max(scores.values())
    own = card.statistics.own
    chosen = f"{card.statistics.source}, {own} own" if own else card.statistics.source
    assert scores[chosen] == max(scores.values())
    assert "0.5 own" in (tmp_path / "run" / "model" / "MODEL_CARD.md").read_text()


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """Return a store of one's own: 12 images with masks, 4 without, and the split `own` without validation images."""
    rng = np.random.default_rng(0)
    store = tmp_path / "store"
    make_store(store, "clinic", {str(k): scene(rng) for k in range(16)}, bare={"12", "13", "14", "15"})
    train = (*(f"clinic/{k}" for k in range(9)), *(f"clinic/{k}" for k in range(12, 16)))
    test = tuple(f"clinic/{k}" for k in range(9, 12))
    Split(train, (), test, (), "given", 0, without_mask=4).save(store / "splits" / "own")
    return store


def own(store: Path, out: Path, *more: str, method: str = "supervised") -> list[str]:
    """Return the command of a run of three steps on all masks."""
    command = arguments(store, out, method=method, iterations=3)
    at = command.index("--labeled")
    return [*command[:at], *command[at + 2 :], "data.workers=0", "train.choose_statistics=true", *more]


def test_without_validation_images_the_last_weights_are_shipped(
    clinic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(own(clinic, run, "train.validate_every=1", "train.pictures_every=3")) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "9 labelled, 4 unlabelled" in output and "masks are not used" not in output
    assert "no validation images: the model will have the averaged weights of the last step" in output
    assert "so these are the averaged weights of the last step; the model is in" in output
    net, card = load_model(run)
    last = weights(run)
    assert all(torch.equal(value, last[f"average.{name}"]) for name, value in net.state_dict().items())
    assert not (run / "checkpoints" / "best.safetensors").exists()
    assert not {"validation_dice", "best_step"} & card.training.keys()
    assert card.training["chosen_by"] == "nothing: the averaged weights of the last step"
    assert [card.training[key] for key in ("labeled_images", "unlabeled_images", "masks_not_used")] == [9, 4, 0]
    assert card.statistics.source == "training" and not card.statistics.scores
    assert not any("val_dice" in row for row in rows(run)) and len(list((run / "pictures").iterdir())) == 1
    text = (run / "model" / "MODEL_CARD.md").read_text()
    assert "9 labelled, 4 unlabelled images" in text and "that is all of them" in text
    assert "Chosen by: nothing: the averaged weights of the last step, since there were no validation images" in text
    command = own(clinic, run, "train.validate_every=1", "train.pictures_every=3")
    before = (run / "model" / "model.json").read_bytes()
    assert main([*command[:1], "--resume", *command[1:]]) == 0
    assert (run / "model" / "model.json").read_bytes() == before


def test_a_stage_that_starts_from_the_best_weights_goes_on_without_validation(clinic: Path, tmp_path: Path) -> None:
    assert main(own(clinic, tmp_path / "run", "method.pretrain=0.4", method="bcpnet")) == 0
    assert {path.name for path in (tmp_path / "run" / "checkpoints").iterdir()} == {"last.safetensors"}


def test_masks_that_are_held_back_are_said(clinic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = own(clinic, tmp_path / "run")
    assert main([*command[:1], "--labeled", "50%", *command[1:]]) == 0
    assert "4 labelled, 9 unlabelled; --labeled 50%: 5 masks are not used" in capsys.readouterr().out
    text = (tmp_path / "run" / "model" / "MODEL_CARD.md").read_text()
    assert "The masks of 4 training images (50%) were used, those of the other 5 were not" in text


@pytest.mark.parametrize("method", ["fpgm_teacher", "fpgm", "abd"])
def test_without_unlabelled_images_the_labelled_ones_take_their_place(
    clinic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    bare = Split.load(clinic / "splits" / "own")
    split = replace(bare, train=bare.train[:9], without_mask=0)
    split.save(tmp_path / "elsewhere")
    command = own(clinic, tmp_path / "run", method=method)
    assert main([*command[:1], "--split", str(tmp_path / "elsewhere"), *command[1:]]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "9 labelled, 0 unlabelled" in output
    assert f"no unlabelled images: {method} takes the labelled ones, without their masks, for them" in output
    assert RunConfig.load(tmp_path / "run" / "config.yaml").data.split == str((tmp_path / "elsewhere").resolve())
    assert main(["evaluate", str(tmp_path / "run"), "--workers", "1"]) == 0
    assert "split elsewhere" in " ".join(capsys.readouterr().out.split())


def test_the_usual_labels_are_written_down_and_kept_on_resume(clinic: Path, small_store: Path, tmp_path: Path) -> None:
    for store, name, usual in ((clinic, "own", "all"), (small_store, "strict-0", "5%")):
        config = resolve("mini", "supervised", {"store": store, "split": name}, [*SMALL, *OFTEN, *BRIEF])
        assert config.data.labeled == "auto"
        train(config, tmp_path / name)
        assert RunConfig.load(tmp_path / name / "config.yaml").data.labeled == usual
    path = tmp_path / "own" / "config.yaml"
    path.write_text(path.read_text().replace("labeled: all", "labeled: 100%"))  # as if it had been begun with it
    train(
        resolve("mini", "supervised", {"store": clinic, "split": "own"}, [*SMALL, *OFTEN, *BRIEF]),
        path.parent,
        resume=True,
    )
    assert RunConfig.load(path).data.labeled == "100%"


def test_the_first_steps_may_be_at_half_the_side(
    small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    original = UNet.forward

    def spy(net: UNet, image: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            seen.append(image.shape[-1])
        return original(net, image)

    monkeypatch.setattr(UNet, "forward", spy)
    command = arguments(small_store, tmp_path / "run", method="fpgm_teacher", iterations=8)
    assert main([*command, "train.half_size=0.5", "data.workers=0"]) == 0
    assert seen == [16] * 4 + [32] * 4
    assert FrequencyPrior.load(tmp_path / "run" / "prior.json").size.tolist() == [32, 32]


def test_more_iterations_of_a_run_that_has_ended_go_on_exactly(
    small_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    short = arguments(small_store, tmp_path / "whole", method="supervised", iterations=4)
    complete(short)
    shutil.copytree(tmp_path / "whole", tmp_path / "stopped")
    for run in ("whole", "stopped"):
        more = ["train", "--resume", "--out", str(tmp_path / run), "--iterations", "8", "--set", "data.workers=0"]
        with monkeypatch.context() as patch:
            if run == "stopped":
                patch.setattr(Path, "replace", signalling(signal.SIGTERM, "last.safetensors", 1))
            assert main(more) == (130 if run == "stopped" else 0)
    assert main(["train", "--resume", "--out", str(tmp_path / "stopped"), "--set", "data.workers=0"]) == 0
    same(tmp_path / "whole", tmp_path / "stopped")
    rates = [float(row["lr"]) for row in rows(tmp_path / "whole")]
    # half a cosine over 4 steps, then over 8, times the 50 steps of warm-up
    expected = [1e-3 * (1 + math.cos(math.pi * i / (4 if i < 4 else 8))) / 2 * (i + 1) / 50 for i in range(8)]
    assert rates == pytest.approx(expected, rel=1e-4)
    assert read_card(tmp_path / "whole" / "model").training["raised"] == [4]
    capsys.readouterr()
    for wrong, told in (("6", "train.iterations: 8 -> 6"), ("8", "")):
        assert main(["train", "--resume", "--out", str(tmp_path / "whole"), "--iterations", wrong]) == 2 * bool(told)
        assert told in capsys.readouterr().err


def test_a_run_that_has_not_ended_keeps_its_iterations(
    small_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", signalling(signal.SIGTERM, "last.safetensors", 1))
        assert main(arguments(small_store, tmp_path, method="supervised", iterations=8)) == 130
    assert main(["train", "--resume", "--out", str(tmp_path), "--iterations", "9"]) == 2
    assert "train.iterations: 8 -> 9" in capsys.readouterr().err


def test_more_iterations_do_not_lead_back_to_an_earlier_stage(
    small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    complete(arguments(small_store, tmp_path, method="bcpnet", iterations=4))
    assert main(["train", "--resume", "--out", str(tmp_path), "--iterations", "400"]) == 2
    assert "back to an earlier stage" in capsys.readouterr().err
