"""What a run is made of: typed, complete, readable; presets are functions.

Parts of a run take plain arguments, never a config object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from fpgm._version import __version__
from fpgm.data.names import near, nearest
from fpgm.methods.arguments import STRICT, Arguments, explain
from fpgm.methods.arguments import arguments_model as model_of
from fpgm.registry import find_method, method_names
from fpgm.runs.config import flatten, load_yaml, read_yaml, write_config

Preset = Literal["paper", "mini"]
# What is taken if nobody chooses: a training that ends within the hour on a CPU, alike on every machine.
USUAL_PRESET: Preset = "mini"
USUAL_METHOD = "fpgm_teacher"
Precision = Literal["auto", "32-true", "bf16-mixed", "16-mixed"]


class Part(BaseModel):
    """A section of a configuration: no unknown keys, no change after it is made."""

    model_config = STRICT


class DataConfig(Part):
    """Which images."""

    store: Path
    split: str = Field(description="name of a folder under STORE/splits, or the whole path of a split elsewhere")
    labeled: str = Field(
        "auto", description="number N, P% or all of the train images with masks; auto: 5% of public data, else all"
    )
    batch_labeled: int = Field(8, ge=1, description="number of labelled images in a step, on all processes together")
    batch_unlabeled: int = Field(8, ge=1, description="number of unlabelled images in a step, likewise")
    weak: float = Field(0.5, ge=0, le=1, description="probability of each flip and of a quarter turn")
    geometry: float = Field(0.0, ge=0, le=1, description="probability that a weak view is scaled, rotated and shifted")
    scale: tuple[float, float] = Field((0.7, 1.4), description="range of the scale")
    aspect: float = Field(1.2, ge=1, description="largest ratio by which width and height change")
    rotation: float = Field(45.0, ge=0, le=180, description="largest angle in degrees")
    shift: float = Field(0.2, ge=0, le=1, description="largest shift in halves of the side")
    strong_labeled: float = Field(0.0, ge=0, le=1, description="share of labelled images shown in their strong view")
    workers: int = Field(1, ge=0, description="number of processes that prepare batches")


class NetConfig(Part):
    """Which network, by its name in fpgm.nets."""

    name: str = "unet"
    pretrained: bool = Field(False, description="start from weights learnt on ImageNet, where the network has some")
    arguments: dict[str, Any] = {}
    start: str | None = Field(None, description="run, model folder or safetensors file with the first weights")


class OptimizerConfig(Part):
    """How weights move; the learning rate is lr (1 - t / iterations)^power, or half a cosine."""

    name: Literal["sgd", "adamw"] = "sgd"
    lr: float = Field(0.01, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    weight_decay: float = Field(1e-4, ge=0)
    schedule: Literal["poly", "cosine"] = "poly"
    power: float = Field(0.9, ge=0, description="exponent of the schedule poly")
    warmup: int = Field(0, ge=0, description="number of steps over which the learning rate rises from 0")


class TrainConfig(Part):
    """How long, how often, from which seed."""

    iterations: int = Field(30_000, ge=1, description="number of steps")
    average: float = Field(0.0, ge=0, lt=1, description="decay of the averaged weights that are shipped; 0: none")
    half_size: float = Field(0.0, ge=0, le=1, description="share of the steps, the first ones, at half the side")
    choose_statistics: bool = Field(False, description="whether validation chooses the batch-norm statistics to ship")
    choose_area: bool = Field(False, description="whether validation chooses the smallest area of a polyp")
    validate_every: int = Field(200, ge=1, description="number of steps between validations")
    save_every: int = Field(200, ge=1, description="number of steps between checkpoints")
    log_every: int = Field(10, ge=1, description="number of steps between rows of metrics.csv")
    pictures_every: int = Field(1000, ge=0, description="number of steps between pictures; 0: none")
    seed: int = Field(0, ge=0, lt=2**63, description="seed of weights, batches and augmentation")
    precision: Precision = Field("auto", description="precision as in Lightning Fabric; auto: what suits the device")
    raised: tuple[int, ...] = Field((), description="steps at which the run had ended before iterations were raised")


class RunConfig(Part):
    """Everything that decides what a run computes; where it computes is not part of it."""

    version: str = __version__
    preset: Preset = "paper"
    method: str
    arguments: Arguments
    data: DataConfig
    net: NetConfig = NetConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    train: TrainConfig = TrainConfig()

    def save(self, path: Path) -> None:
        """Write ``config.yaml``: all settings, and which of them depart from the preset."""
        write_config(path, {**self._record(), "departs": self.departures()})

    @classmethod
    def load(cls, path: Path) -> RunConfig:
        """Read a run's `config.yaml`."""
        record = load_yaml(path)
        if not isinstance(record, dict) or "method" not in record:
            raise ValueError(f"{path} is not the configuration of a run: it names no method")
        if (method := str(record["method"])) not in method_names():
            raise ValueError(
                f"{path} is of the method {method[:100]!r}, which is neither ours nor of an installed package; if it "
                "is a class of your own, give --method MODULE:CLASS"
            )
        return _build({key: value for key, value in record.items() if key != "departs"}, str(path))

    def departures(self) -> list[str]:
        """Return the dotted keys of the settings that differ from the preset's; `auto` differs from no other."""
        data = self.data.model_dump(include={"store", "split", "labeled"})
        usual = flatten(resolve(self.preset, self.method, data)._record())
        own = flatten(self._record())
        return [key for key in own if key != "version" and usual.get(key) not in (own[key], "auto")]

    def _record(self) -> dict[str, Any]:
        return self.model_dump(mode="json", serialize_as_any=True)


def paper(method: str) -> dict[str, Any]:
    """The paper's setting: SGD, 30,000 iterations, full precision; its store is 256 x 256."""
    return {"preset": "paper", "train": {"precision": "32-true"}}


def mini(method: str) -> dict[str, Any]:
    """A setting for few labels, a CPU and a store of 64 x 64 to 256 x 256.

    The encoder starts from ImageNet weights; few iterations, more augmentation, averaged weights.

    Methods that trust pseudo-labels from the first step on get a ramp, since AdamW is confident before it is right,
    and statistics of clean images, since a short training does not bring those of strong views near them. BSNet's
    teacher gets the official Adam, which is to the student's AdamW what SGD 1e-3 is to the paper's SGD 1e-2.
    """
    gentle = {"ramp": 0.5, "statistics": "clean"}
    official_teacher = {"teacher_optimizer": "adam", "teacher_lr": 1e-4}  # a tenth of the student's rate
    arguments = {"fpgm": gentle, "unimatch": gentle, "bsnet": official_teacher}
    return {
        "preset": "mini",
        "arguments": arguments.get(method, {}),
        "data": {"geometry": 0.5, "strong_labeled": 0.5},
        "net": {"name": "lite_unet", "pretrained": True},
        "optimizer": {"name": "adamw", "lr": 1e-3, "weight_decay": 1e-4, "schedule": "cosine", "warmup": 50},
        "train": {"iterations": 2000, "average": 0.99, "choose_statistics": True, "choose_area": True},
    }


PRESETS: dict[Preset, Callable[[str], dict[str, Any]]] = {"paper": paper, "mini": mini}


def resolve(preset: Preset, method: str, data: Mapping[str, Any], settings: Iterable[str] = ()) -> RunConfig:
    """Return the whole configuration of a run.

    Args:
        preset: name of the setting that the defaults come from.
        method: name of the method, see `fpgm.registry`.
        data: fields of `DataConfig`.
        settings: further settings, `key=value` with dotted keys, e.g. `method.gamma=0.1` or `train.iterations=500`;
            later ones win. `net.NAME=VALUE` sets an argument of the network.
    """
    record: dict[str, Any] = {**PRESETS[preset](method), "method": method}
    record["data"] = {**record.get("data", {}), **data}
    _apply(record, settings)
    return _build(record, "the settings")


def amend(
    config: RunConfig,
    preset: Preset | None = None,
    method: str | None = None,
    data: Mapping[str, Any] | None = None,
    settings: Iterable[str] = (),
) -> RunConfig:
    """Return the configuration with what is given replaced; see `resolve`, and `differences` for what that changes."""
    record = config._record()
    if method is not None and method != config.method:
        record |= {"method": method, "arguments": {}}
    record["preset"] = preset or config.preset
    record["data"] = {**record["data"], **(data or {})}
    _apply(record, settings)
    return _build(record, "the settings")


def _apply(record: dict[str, Any], settings: Iterable[str]) -> None:
    """Put settings `key=value` into the record of a configuration."""
    valid = keys(record["method"])
    for setting in sorted(settings, key=lambda text: not text.startswith("net.name=")):  # which drops what came before
        key, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"--set takes key=value, got {setting!r}; for example method.gamma=0.1")
        section, _, name = key.partition(".")
        value = read_yaml(text, setting)
        if key in valid:
            record.setdefault("arguments" if section == "method" else section, {})[name] = value
        elif section == "net" and name.isidentifier() and not nearest(name, NetConfig.model_fields, 0.8):
            given = record.setdefault("net", {})
            given["arguments"] = {**given.get("arguments", {}), name: value}  # `build` refuses what the network lacks
        else:
            raise ValueError(f"there is no setting {key!r}; {near(key, valid)}")
        if key == "net.name":
            record["net"] = {"name": record["net"]["name"]}  # what else a preset says is of its own network


def keys(method: str) -> list[str]:
    """Return all keys that --set takes for a method."""
    sections: dict[str, type[BaseModel]] = {
        "method": arguments_model(method),
        "data": DataConfig,
        "net": NetConfig,
        "optimizer": OptimizerConfig,
        "train": TrainConfig,
    }
    found = [f"{section}.{name}" for section, model in sections.items() for name in model.model_fields]
    return [key for key in found if key != "train.raised"]  # which is what happened


def arguments_model(method: str) -> type[Arguments]:
    """Return the arguments of a method beside its network, as a typed section."""
    return model_of(find_method(method).__init__)


def differences(old: RunConfig, new: RunConfig) -> list[str]:
    """Return a line for each field in which two configurations differ, and none for what may change.

    Precision `auto` differs from no other: it stands for the one in use. More iterations may be asked for of a run that
    has ended, see `raise_iterations`.
    """
    left, right = (flatten(config._record()) for config in (old, new))
    free = {"version", "data.workers"}
    if new.train.raised == (*old.train.raised, old.train.iterations) and new.train.iterations > old.train.iterations:
        free |= {"train.iterations", "train.raised"}
    if "auto" in (old.train.precision, new.train.precision):
        free.add("train.precision")
    return [
        f"{key}: {left.get(key)!r} -> {right.get(key)!r}"
        for key in sorted(left.keys() | right.keys())
        if left.get(key) != right.get(key) and key not in free
    ]


def raise_iterations(old: RunConfig, new: RunConfig) -> RunConfig:
    """Return the new configuration of a run that has ended, with the step at which it had."""
    raised = (*old.train.raised, old.train.iterations)
    return new.model_copy(update={"train": new.train.model_copy(update={"raised": raised})})


def _build(record: dict[str, Any], source: str) -> RunConfig:
    """Validate a record, turning what is wrong into one sentence per field."""
    try:
        arguments = arguments_model(record["method"]).model_validate(record.get("arguments") or {})
        return RunConfig.model_validate({**record, "arguments": arguments})
    except ValidationError as error:
        raise ValueError(f"{source} do not make a run: {explain(error)}") from None
