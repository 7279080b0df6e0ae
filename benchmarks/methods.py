"""What a step of each method costs beside a step of `supervised`, and ours beside `fpgm`: 8 + 8 images of 128 x 128.

    python benchmarks/methods.py [--rounds 5] [--markdown]

Every stage of every method, late in the training, when all of its terms are on; the loader is not part of it. What a
method does only now and then (CauSSL's inner steps) is measured where it happens and spread over the steps between.
The first rows have the paper's UNet; the last ones the network of preset `mini`.
"""

from __future__ import annotations

from harness import compare, take_turns

import argparse
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from lightning_fabric import Fabric

from fpgm.methods import METHODS, Stage
from fpgm.nets import build
from fpgm.training.schedules import first_steps
from fpgm.training.trainer import Trainer
from streams import make_store, make_stream

SIZE, TOTAL, INNER = 128, 30_000, 60
Seconds = Mapping[tuple[str, str], float]  # of a step, by method and stage


def make_side(name: str, stage: Stage, remainder: int, folder: Path, net: str) -> Callable[[], object]:
    """Return one step of a method in a stage, at an index with the given remainder of division by INNER."""
    method = METHODS[name](build(net)).to(memory_format=torch.channels_last)
    store = folder / "store"
    batch = make_stream(make_store(store, 256, SIZE), method.views).batch(0)
    optimizer = torch.optim.SGD(method.parameter_groups(), lr=1e-4, momentum=0.9)
    trainer = Trainer(
        Fabric(accelerator="cpu", devices=1, precision="32-true"), method, optimizer, folder, iterations=TOTAL
    )
    starts = [*first_steps(method.stages, TOTAL), TOTAL]
    late = starts[method.stages.index(stage) + 1] - INNER
    for earlier in method.stages[: method.stages.index(stage) + 1]:
        method.enter(earlier)
    batch = replace(batch, index=late - late % INNER + remainder)
    return lambda: trainer.step(batch, stage)


def measure(rounds: int, names: Iterable[str], net: str) -> Seconds:
    """Time the steps of some methods, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        sides: dict[tuple[str, str, int], Callable[[], object]] = {}
        for name in names:
            for stage in METHODS[name](build(net)).stages:
                for remainder in (1, 0) if name == "caussl" else (1,):
                    here = Path(folder) / f"{name}-{stage.name}-{remainder}"
                    sides[name, stage.name, remainder] = make_side(name, stage, remainder, here, net)
        named = {"|".join(map(str, key)): side for key, side in sides.items()}
        seconds = dict(zip(sides, take_turns(named, rounds=rounds, warm_up=1).values(), strict=True))
    return {
        (name, stage): seconds[name, stage, 1]
        + max(0.0, seconds.get((name, stage, 0), 0.0) - seconds[name, stage, 1]) / INNER
        for name, stage, remainder in seconds
        if remainder == 1
    }


def main() -> None:
    """Print a row per method and stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--markdown", action="store_true", help="as rows of the table in docs/methods.md")
    options = parser.parse_args()
    torch.set_num_threads(2)
    seconds = measure(options.rounds, METHODS, "unet")
    unit = seconds["supervised", "train"]
    for (name, stage), value in seconds.items():
        if options.markdown:
            print(f"| {name} | {stage} | {value / unit:.1f} |")
        elif name != "supervised":
            compare("methods", f"step of {name}, stage {stage}", value, unit, "step of supervised")
    if not options.markdown:
        mini = measure(options.rounds, ("supervised", "unimatch", "fpgm", "fpgm_teacher"), "lite_unet")
        for other, target in (("fpgm", 0.65), ("unimatch", None), ("supervised", None)):
            against = f"step of {other}, lite_unet"
            compare("methods", "step of fpgm_teacher, lite_unet", *_pair(mini, other), against, target=target)


def _pair(seconds: Seconds, other: str) -> tuple[float, float]:
    """Return the seconds of a step of ours and of another method."""
    return seconds["fpgm_teacher", "train"], seconds[other, "train"]


if __name__ == "__main__":
    main()
