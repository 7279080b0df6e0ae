"""config.yaml as a plain record: what departs from the preset, and the first runs, which do not say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fpgm.config import PRESETS, Preset, RunConfig, differences, resolve
from fpgm.methods import METHODS
from fpgm.runs.config import flatten, read_config

DATA = {"store": Path("store"), "split": "strict-0", "labeled": "16"}
RUN = {
    "preset": "mini",
    "method": "fpgm",
    "data": {"store": "store", "split": "strict-0", "labeled": "5%"},
    "train": {"iterations": 40, "seed": 3},
}


def write(run: Path, record: object) -> Path:
    run.mkdir(exist_ok=True)
    (run / "config.yaml").write_text(yaml.safe_dump(record))
    return run


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("method", METHODS)
def test_a_run_of_a_preset_departs_in_nothing(preset: Preset, method: str, tmp_path: Path) -> None:
    resolve(preset, method, DATA).save(tmp_path / "config.yaml")
    assert read_config(tmp_path)["departs"] == []


def test_what_departs_from_the_preset_is_written(tmp_path: Path) -> None:
    settings = ["method.gamma=0.1", "method.unsup=0.5", "train.seed=2", "net.arguments={channels: [2, 4]}"]
    config = resolve("mini", "fpgm", DATA, settings)
    config.save(tmp_path / "config.yaml")
    record = read_config(tmp_path)
    assert record["departs"] == ["arguments.gamma", "net.arguments.channels", "train.seed"]
    assert (record["arguments"]["gamma"], record["data"]["store"], record["method"]) == (0.1, "store", "fpgm")
    assert differences(RunConfig.load(tmp_path / "config.yaml"), config) == []


@pytest.mark.parametrize(
    ("preset", "arguments", "departs"),
    [
        ("mini", {"gamma": 0.05, "ramp": 0.5}, []),
        ("paper", {"gamma": 0.05, "ramp": 0}, []),
        ("paper", {"gamma": 0.05, "ramp": 0.5}, ["arguments.ramp"]),
        ("mini", {"freq": 0, "gamma": 0.1, "other": 1}, ["arguments.freq", "arguments.gamma", "arguments.other"]),
    ],
)
def test_the_first_runs_of_fpgm_are_read_too(
    preset: str, arguments: dict[str, float], departs: list[str], tmp_path: Path
) -> None:
    run = write(tmp_path, {**RUN, "preset": preset, "arguments": arguments})
    assert read_config(run)["departs"] == departs


def test_the_first_runs_of_another_method_say_nothing(tmp_path: Path) -> None:
    run = write(tmp_path, {**RUN, "method": "mine", "arguments": {"gamma": 3}})
    assert read_config(run)["departs"] == [] and read_config(run)["optimizer"] == {}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (None, "there is no method"),
        ({**RUN, "train": {"seed": 0}}, r"there is no train\.iterations"),
        ({**RUN, "net": 3}, "net is not a section"),
    ],
)
def test_what_is_not_a_configuration_is_refused(record: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read_config(write(tmp_path, record))


def test_a_loop_of_sections_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("&a {method: fpgm, again: *a}")
    with pytest.raises(ValueError, match="nested too deeply"):
        read_config(tmp_path)


def test_sections_are_flattened() -> None:
    assert flatten({"a": {"b": {"c": 1}, "d": [2]}, "e": None}) == {"a.b.c": 1, "a.d": [2], "e": None}
