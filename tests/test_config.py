"""Configurations: presets, overrides, files, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from fpgm.config import NetConfig, RunConfig, differences, keys, resolve

DATA = {"store": Path("store"), "split": "paper-0"}


def test_the_paper_preset_is_the_papers() -> None:
    config = resolve("paper", "fpgm", DATA)
    assert (config.train.iterations, config.data.batch_labeled, config.data.batch_unlabeled) == (30_000, 8, 8)
    assert (config.optimizer.name, config.optimizer.lr, config.optimizer.power) == ("sgd", 0.01, 0.9)
    assert (config.optimizer.momentum, config.optimizer.weight_decay) == (0.9, 1e-4)
    method = dict(config.arguments)
    assert config.train.precision == "32-true"
    assert (method["unsup"], method["freq"], method["threshold"]) == (0.5, 0.5, 0.95)
    assert (method["gamma"], method["momentum"], method["ramp"], method["recipe"]) == (0.05, 0.999, 0, "paper")


def test_the_mini_preset_lets_pseudo_labels_in_slowly() -> None:
    for name in ("fpgm", "unimatch"):
        arguments = dict(resolve("mini", name, DATA).arguments)
        assert (arguments["ramp"], arguments["statistics"]) == (0.5, "clean")
        assert dict(resolve("mini", name, DATA, ["method.ramp=0"]).arguments)["ramp"] == 0
    assert dict(resolve("mini", "ac_mt", DATA).arguments)["ramp"] == 1  # its own


def test_the_teacher_of_bsnet_has_a_tenth_of_the_students_rate() -> None:
    for preset, kind in (("paper", "sgd"), ("mini", "adam")):
        config = resolve(preset, "bsnet", DATA)  # type: ignore[arg-type]  # names of presets
        arguments = dict(config.arguments)
        assert arguments["teacher_optimizer"] == kind
        assert arguments["teacher_lr"] == pytest.approx(config.optimizer.lr / 10)


def test_every_key_can_be_set_and_later_ones_win() -> None:
    config = resolve("mini", "fpgm", DATA, ["method.gamma=[0, 0.1]", "optimizer.lr=1", "optimizer.lr=0.5"])
    assert dict(config.arguments)["gamma"] == (0, 0.1) and config.optimizer.lr == 0.5
    assert {"method.recipe", "data.workers", "net.name", "optimizer.power", "train.seed"} <= set(keys("fpgm"))
    assert "method.gamma" not in keys("supervised")


def test_another_network_does_not_get_the_presets_arguments() -> None:
    assert resolve("mini", "supervised", DATA).net == NetConfig(name="lite_unet", pretrained=True)
    other = resolve("mini", "supervised", DATA, ["net.name=monai:BasicUNet", "net.arguments={features: [8]}"])
    assert other.net == NetConfig(name="monai:BasicUNet", arguments={"features": [8]})
    assert resolve("mini", "supervised", DATA, ["net.name=unet"]).net == NetConfig()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("method.gama=1", "no setting 'method.gama'; near it: method.gamma"),
        ("optimiser.lr=1", r"near it: .*optimizer\.lr"),
        ("zzz=1", r"there are: method\.recipe"),
        ("method.gamma", "takes key=value"),
        ("optimizer.lr=-1", "optimizer.lr: Input should be greater than 0.*got -1"),
        ("optimizer.name=adam", "'sgd' or 'adamw'.*got 'adam'"),
        ("method.recipe=mine", "recipe: Input should be 'paper' or 'released'"),
        ("train.iterations=many", "train.iterations: Input should be a valid integer"),
        ("optimizer.lr=.nan", "optimizer.lr: Input should be"),
        ("train.precision=half", "train.precision: Input should be 'auto', '32-true', 'bf16-mixed' or '16-mixed'"),
    ],
)
def test_a_wrong_setting_is_explained(setting: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve("paper", "fpgm", DATA, [setting])


def test_an_unknown_method_shows_the_nearest() -> None:
    with pytest.raises(ValueError, match="no method 'fpmg'; near it: fpgm"):
        resolve("paper", "fpmg", DATA)


def test_a_file_round_trips(tmp_path: Path) -> None:
    config = resolve("mini", "fpgm", DATA, ["method.gamma=[0, 0.1]", "method.prior_file=prior.json"])
    config.save(tmp_path / "config.yaml")
    again = RunConfig.load(tmp_path / "config.yaml")
    assert differences(config, again) == [] and dict(again.arguments) == dict(config.arguments)


def test_differences_are_named_and_workers_may_change() -> None:
    old = resolve("mini", "fpgm", DATA)
    new = resolve("mini", "fpgm", DATA, ["method.gamma=0.1", "data.workers=0"])
    assert differences(old, new) == ["arguments.gamma: 0.05 -> 0.1"]


@pytest.mark.parametrize("value", ["16-true", "bf16-true", "64-true", "transformer-engine", "16", "32", "64", "bf16"])
def test_other_precisions_of_fabric_are_refused(value: str) -> None:
    with pytest.raises(ValueError, match="precision: Input should be 'auto', '32-true', 'bf16-mixed' or '16-mixed'"):
        resolve("mini", "supervised", DATA, [f"train.precision={value}"])


def test_precision_may_be_left_open_but_not_changed() -> None:
    auto, full, half = (
        resolve("mini", "fpgm", DATA, [f"train.precision={name}"]) for name in ("auto", "32-true", "bf16-mixed")
    )
    assert differences(full, auto) == differences(auto, full) == []
    assert differences(full, half) == ["train.precision: '32-true' -> 'bf16-mixed'"]


@pytest.mark.parametrize("text", ["", "[1]", "{method: fpgm, data: 3}", "a: [", "method: nothing"])
def test_a_malformed_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ValueError):
        RunConfig.load(path)


def test_arguments_of_the_network_are_set_one_by_one() -> None:
    settings = ["net.backbone=efficientnet-b0", "net.name=monai:FlexibleUNet", "net.dropout=0.1"]
    net = resolve("mini", "supervised", DATA, settings).net
    assert net == NetConfig(name="monai:FlexibleUNet", arguments={"backbone": "efficientnet-b0", "dropout": 0.1})
    assert net == resolve("mini", "supervised", DATA, [settings[1], "net.arguments={dropout: 0.1}", settings[0]]).net
    with pytest.raises(ValueError, match=r"no setting 'net\.pretrain'; near it: net\.pretrained"):
        resolve("mini", "supervised", DATA, ["net.pretrain=true"])
    with pytest.raises(ValueError, match=r"no setting 'net\.a\.b'"):
        resolve("mini", "supervised", DATA, ["net.a.b=1"])
