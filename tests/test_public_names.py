"""The names other programs may rely on. Whoever changes one here breaks somebody's program: say it in CHANGELOG.md."""

from __future__ import annotations

import doctest
import inspect
import io
from collections.abc import Callable
from importlib import import_module
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch

import fpgm
from fpgm.cli import COMMANDS
from fpgm.cli.arguments import arguments_of
from fpgm.cli.experiments.reproduce import reproduce
from fpgm.config import PRESETS, keys
from fpgm.data.batches.batch import Batch
from fpgm.methods import METHODS, Method
from fpgm.metrics import pair_metrics

MODULES = {
    "fpgm": "__version__ adapt evaluate load_predictor predict prepare split train",
    "fpgm.spectrum": "FrequencyPrior SpectralAlignment align amplitude broadcast edge_mask edge_profiles edge_region "
    "exchange generic_profile gradient likeness low_pass radial_profile radius_grid resample sum_over_ranks to_grey",
    "fpgm.methods": "METHODS Method Stage Step",
    "fpgm.nets": "Backbone Decoder LiteUNet UNet build",
    "fpgm.serving.predictor": "Engine Finding Mask Picture Plane Predicted Predictor describe load_predictor",
}
# A name before the star is given by place or by name, one after it by name alone.
ARGUMENTS = {
    "fpgm.prepare": "out * images masks unlabeled name root datasets groups size keep_empty replace workers",
    "fpgm.split": "store * protocol seed leave_out unseen fractions out",
    "fpgm.train": "store * out method labeled split preset iterations seed base settings precision accelerator resume "
    "progress",
    "fpgm.evaluate": "run * store images masks name split datasets device workers",
    "fpgm.predict": "model images out * save threshold average keep_largest min_area smoothing device",
    "fpgm.adapt": "model frames out * masks own count device",
    "fpgm.load_predictor": "path * device threshold average keep_largest min_area precision",
    "fpgm.serving.predictor.Predictor.predict": "self images",
    "fpgm.metrics.pair_metrics": "pred true * on_empty spacing hd95 asd",
    "fpgm.nets.build": "name in_channels classes",
    "fpgm.nets.statistics.estimate": "net batches advance",
    "fpgm.nets.statistics.blend": "net own",
    "fpgm.nets.statistics.has_batchnorm": "net",
    "fpgm.nets.statistics.choose_statistics": "net clean_batches score * owns advance",
    "fpgm.serving.adapt.adapt": "model frames out * masks own count device batch_size advance",
    "fpgm.spectrum.edge_mask": "mask",
    "fpgm.spectrum.radial_profile": "amplitude width",
    "fpgm.spectrum.align": "image prior_profile gamma reconstruction * clamp",
    "fpgm.spectrum.exchange": "image partner gamma * clamp",
    "fpgm.spectrum.generic_profile": "count",
    "fpgm.spectrum.low_pass": "image cutoff",
    "fpgm.spectrum.FrequencyPrior": "momentum debias",
    "fpgm.spectrum.FrequencyPrior.update": "self image mask",
    "fpgm.spectrum.FrequencyPrior.save": "self path",
    "fpgm.spectrum.FrequencyPrior.load": "path",
    "fpgm.spectrum.SpectralAlignment": "prior gamma reconstruction * clamp",
    "fpgm.spectrum.SpectralAlignment.forward": "self image generator",
    "fpgm.methods.Method.losses": "self batch step",
    "fpgm.methods.Method.predictor": "self",
    "fpgm.methods.Method.parameter_groups": "self",
    "fpgm.methods.Method.inner_optimizers": "self",
    "fpgm.methods.Method.enter": "self stage",
    "fpgm.methods.Method.before_step": "self batch step",
    "fpgm.methods.Method.after_step": "self batch step",
    "fpgm.methods.Method.pictures": "self batch",
}
COMMAND_LINE = {
    "demo": "--out --iterations --seed",
    "data list": "--root --store --json",
    "data synth": "--out --count --size --seed --variety --domains --workers --json",
    "data prepare": "--out --root --images --masks --unlabeled --name --datasets --groups --size --keep-empty "
    "--no-keep-empty --replace --workers --strict --json",
    "data split": "--data --protocol --leave-out --seed --out --datasets --unseen --fractions --lists --labeled --json",
    "data audit": "--data --split --out --json",
    "data verify": "--data --datasets --json",
    "data masks": "annotations --out --label",
    "prior learn": "--data --out --labeled --split --momentum --literal",
    "prior show": "prior --out",
    "prior compare": "priors --out --json",
    "train": "--method --data --out --labeled --split --preset --iterations --seed --from --set --resume "
    "--cross-validate --accelerator --devices --num-nodes --precision --track",
    "combine": "runs --out --data --device",
    "evaluate": "run --data --images --masks --name --split --datasets --device --workers --json",
    "predict": "model images --out --threshold --average --keep-largest --min-area --save "
    "--annotations --smoothing --device --precision --batch-size",
    "adapt": "run frames --out --masks --own --count --device --batch-size --json",
    "suggest": "path --out --count --model --images --device --json",
    "export": "model --format --out --int8 --images --engine --json",
    "serve": "run --host --port",
    "push": "model name --public --license",
    "reproduce": "table --data --out --plan --save-plan --preset --protocol --splits --draws --methods --labeled "
    "--seeds --iterations --set --dry-run --engine --jobs --cpus --gpus-per-run --slurm "
    "--ray-address --accelerator --precision --json",
    "leaderboard": "entries --data --out --json",
    "analyze signature": "--data --out --datasets --count --seed --json",
    "analyze specificity": "--data --out --datasets --split --count --seed --json",
    "report": "runs --out --reference --any-iterations",
}
SETTINGS = {
    "data": "store split labeled batch_labeled batch_unlabeled weak geometry scale aspect rotation shift "
    "strong_labeled workers",
    "net": "name pretrained arguments start",
    "optimizer": "name lr momentum weight_decay schedule power warmup",
    "train": "iterations average half_size choose_statistics choose_area validate_every save_every log_every "
    "pictures_every seed precision",
    "method": "recipe unsup freq feature threshold gamma prior prior_file momentum debias reconstruction ramp "
    "statistics",
}
NAMES = "supervised fpgm fpgm_teacher urpc bsnet ac_mt caussl bcpnet unimatch abd dycon cvbm pick"
BATCH = "image_l mask_l strong_l strong_mask_l weak_u strong_u boxes_u weak_m strong_m id_l id_u id_m"


def find(path: str) -> Any:
    """Return what a dotted path names."""
    found: Any = fpgm
    for depth, part in enumerate(path.split(".")[1:], start=2):
        found = getattr(found, part, None) or import_module(".".join(path.split(".")[:depth]))
    return found


def commands(table: dict[str, Any], before: str = "") -> dict[str, Callable[..., Any]]:
    """Return the commands by what one types."""
    found: dict[str, Callable[..., Any]] = {}
    for word, command in table.items():
        found |= commands(command, f"{before}{word} ") if isinstance(command, dict) else {f"{before}{word}": command}
    return found


def options(command: str) -> list[str]:
    """Return the arguments of a command as one types them, those given by place without dashes."""
    found = arguments_of(commands(COMMANDS)[command])
    return [argument.flag if argument.option else argument.name for argument in found]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_gives_what_it_promises(module: str) -> None:
    found = import_module(module)
    assert sorted(found.__all__) == sorted(MODULES[module].split())
    assert all(getattr(found, name) is not None for name in found.__all__)


NO_TEXT_OF_THEIR_OWN = {"__version__", "METHODS", "Mask", "Picture", "Plane"}  # a mapping, and names of types


@pytest.mark.parametrize("module", MODULES)
def test_every_name_has_an_example_that_holds(module: str) -> None:
    """Those that need data are marked, and run on the pages how-to/python.md and how-to/predict.md."""
    found = import_module(module)
    runner, finder = doctest.DocTestRunner(verbose=False), doctest.DocTestFinder(recurse=False)
    for name in set(MODULES[module].split()) - NO_TEXT_OF_THEIR_OWN:
        entry = getattr(found, name)
        names = vars(import_module(entry.__module__)) | {"fpgm": fpgm}
        [example] = finder.find(entry, name, globs=names)
        assert example.examples, name
        said = io.StringIO()
        assert runner.run(example, out=said.write).failed == 0, said.getvalue()


@pytest.mark.parametrize("path", ARGUMENTS)
def test_arguments_keep_their_names_and_order(path: str) -> None:
    before, _, after = ARGUMENTS[path].partition("*")
    parameters = inspect.signature(find(path)).parameters.values()
    named = [entry for entry in parameters if entry.kind is not inspect.Parameter.VAR_KEYWORD]
    assert [entry.name for entry in named if entry.kind is not entry.KEYWORD_ONLY] == before.split()
    assert [entry.name for entry in named if entry.kind is entry.KEYWORD_ONLY] == after.split()


def test_the_methods() -> None:
    assert list(METHODS) == NAMES.split()
    assert all(issubclass(method, Method) for method in METHODS.values())


def test_the_metrics() -> None:
    mask = np.eye(8)
    assert list(pair_metrics(mask, mask, on_empty="penalise")) == ["dice", "jaccard", "hd95", "asd"]


def test_a_prior_is_a_profile_and_counts() -> None:
    prior = fpgm.spectrum.FrequencyPrior()
    assert {"profile", "size", "samples", "skipped"} <= prior.state_dict().keys()
    assert isinstance(prior.profile, torch.Tensor) and not prior.learnt


def test_a_batch_has_these_fields_and_none_for_masks_of_unlabelled_images() -> None:
    assert list(Batch.__dataclass_fields__) == ["index", *BATCH.split()]


def test_the_commands() -> None:
    assert list(commands(COMMANDS)) == list(COMMAND_LINE)


@pytest.mark.parametrize("command", COMMAND_LINE)
def test_the_options_of_a_command(command: str) -> None:
    assert sorted(options(command)) == sorted(COMMAND_LINE[command].split())


def test_the_tables() -> None:
    tables = get_args(get_args(get_type_hints(reproduce)["table"])[0])  # or none, with a plan
    paper = ("main", "zero-shot", "ablation-loss", "ablation-prior", "gamma")
    assert tables == (*paper, "recipe", "ablation-teacher", "hospitals", "all")


def test_the_presets_and_settings() -> None:
    assert list(PRESETS) == ["paper", "mini"]
    expected = [f"{section}.{name}" for section, names in SETTINGS.items() for name in names.split()]
    assert sorted(keys("fpgm")) == sorted(expected)
