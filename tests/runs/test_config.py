"""config.yaml as a plain record: what departs from the preset, and the first runs, which do not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fpgm.config import PRESETS, Preset, RunConfig, differences, resolve
from fpgm.methods import METHODS
from fpgm.runs.config import flatten, load_yaml, read_config, write_config

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
    with pytest.raises(ValueError, match="an anchor or alias"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x [1]\nb: [*x, *x]", "an anchor or alias"),
        ("a: " + "[" * 33 + "]" * 33, "nested deeper than 32"),
        ("[" * 100_000, "65,536"),
        ("a: 2020-01-01", "neither a text nor a number"),
        ("a: !!set {x}", "neither a text nor a number"),
        ("1: 2", "not a text"),
    ],
)
def test_only_plain_yaml_is_read(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ValueError, match=f"config.yaml .*{message}"):
        load_yaml(tmp_path / "config.yaml")


def test_a_value_in_two_places_is_written_twice(tmp_path: Path) -> None:
    same = [1, 2]
    write_config(tmp_path / "config.yaml", {"a": same, "b": same})
    assert load_yaml(tmp_path / "config.yaml") == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize("key", ["preset", "method", "data.split", "data.labeled"])
@pytest.mark.parametrize("name", ["../x", "a/b", "..", "", "a\nb", "a\\b", "=1+1", "x" * 101])
def test_a_setting_that_leads_elsewhere_is_refused(key: str, name: str, tmp_path: Path) -> None:
    record: dict[str, Any] = {"method": "fpgm", "preset": "mini", "data": {"store": "s", "split": "a", "labeled": "5%"}}
    record["train"] = {"iterations": 2, "seed": 0}
    write_config(tmp_path / "config.yaml", record)
    assert read_config(tmp_path)["preset"] == "mini"
    section, _, last = key.rpartition(".")
    (record[section] if section else record)[last] = name
    write_config(tmp_path / "config.yaml", record)
    with pytest.raises(ValueError, match=f"{key} in .*config.yaml is .*a name has"):
        read_config(tmp_path)


@pytest.mark.parametrize("value", ["many", [1], 1.5, True])
def test_a_number_of_steps_that_is_none_is_refused(value: object, tmp_path: Path) -> None:
    record: dict[str, Any] = {"method": "fpgm", "preset": "mini", "data": {"store": "s", "split": "a", "labeled": "5%"}}
    write_config(tmp_path / "config.yaml", {**record, "train": {"iterations": value, "seed": 0}})
    with pytest.raises(ValueError, match=r"train.iterations is .*not a whole number"):
        read_config(tmp_path)


def test_sections_are_flattened() -> None:
    assert flatten({"a": {"b": {"c": 1}, "d": [2]}, "e": None}) == {"a.b.c": 1, "a.d": [2], "e": None}
