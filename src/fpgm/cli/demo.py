"""``fpgm demo``: the whole story on images that need no download."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from fpgm.data.splits import Split
    from fpgm.data.store import Store
    from fpgm.training.trainer import Trainer

SIZE, COUNT, LABELED = 64, 120, "10%"
METHODS = ("supervised", "fpgm")


def demo(*, out: Path = Path("demo"), iterations: int = 400) -> None:
    """Draw a phantom, train with and without its unlabelled images, and compare on two clinics never seen.

    Writes OUT/index.html with table, curves and pictures, and beside it the store, both runs and the prior.

    Args:
        out: folder to write to; what is there already is used again.
        iterations: steps of each of the two trainings.
    """
    from fpgm.cli.data import synth
    from fpgm.cli.terminal import console
    from fpgm.data.protocols import draw
    from fpgm.data.splits import dataset_of
    from fpgm.data.store import open_stores
    from fpgm.files import write_text
    from fpgm.report.story import story

    output, began = console(), time.monotonic()
    synth(out=out / "store", count=COUNT, size=SIZE)
    stores = open_stores(out / "store")
    split = draw(stores, "strict", 0)
    split.save(out / "store" / "splits" / "strict-0")
    trainers = {name: _train(name, out, iterations, output) for name in METHODS}
    for name, trainer in trainers.items():
        _evaluate(trainer, stores, split, out / name)
    pictures = [
        (_compare(trainers, stores, split, out), "Unseen clinics: truth green, prediction yellow"),
        *_spectra(out, stores, split),
    ]
    labeled, unlabeled = len(split.labeled(LABELED)), len(split.unlabeled(LABELED))
    facts = [
        f"Trained on {labeled} labelled images of four drawn clinics (a to d) for {iterations} steps at {SIZE}x{SIZE}; "
        f"fpgm also saw {unlabeled} unlabelled ones. The clinics e and f were never seen.",
        f"Weights were chosen by Dice on {len(split.validation)} validation images; the test images chose nothing.",
    ]
    unseen = {dataset_of(id_) for id_ in split.unseen}
    page = story("FPGM on phantom images", {name: out / name for name in METHODS}, unseen, pictures, facts)
    write_text(out / "index.html", page)
    output.print(f"done in {time.monotonic() - began:.0f} s; open {out / 'index.html'}")


def _train(method: str, out: Path, iterations: int, output: Console) -> Trainer:
    """Train one method, or take up a run that was interrupted."""
    from fpgm.config import resolve
    from fpgm.training.run import train

    output.print(f"training {method}")
    chosen = {"store": out / "store", "split": "strict-0", "labeled": LABELED}
    often = [f"train.iterations={iterations}", "train.validate_every=50", "train.pictures_every=200"]
    return train(resolve("mini", method, chosen, often), out / method, resume=True, console=output)


def _evaluate(trainer: Trainer, stores: Mapping[str, Store], split: Split, run: Path) -> None:
    """Score the best weights of a run on each domain's test or unseen images."""
    from fpgm.data.splits import dataset_of
    from fpgm.data.streams import Pool
    from fpgm.evaluation import evaluate, write_rows

    held_out = [*split.test, *split.unseen]
    for name in dict.fromkeys(map(dataset_of, held_out)):
        pool = Pool(stores, [id_ for id_ in held_out if dataset_of(id_) == name])
        rows = evaluate(trainer.method.predictor(), pool, on_empty="penalise", device=trainer.fabric.device)
        write_rows(run / "evaluation" / f"{name}.csv", rows)


def _compare(trainers: Mapping[str, Trainer], stores: Mapping[str, Store], split: Split, out: Path) -> Path:
    """Draw predictions on a few images of the unseen domains."""
    import numpy as np

    from fpgm.data.streams import Pool
    from fpgm.evaluation import predict_masks
    from fpgm.report.story import comparison_figure

    pool = Pool(stores, split.unseen)
    chosen = np.linspace(0, len(pool) - 1, 6).astype(int)
    images = pool.images(chosen)
    predicted = {
        name: predict_masks(trainer.method.predictor().eval(), images, trainer.fabric.device)
        for name, trainer in trainers.items()
    }
    path = out / "comparison.jpg"
    comparison_figure(images, pool.masks(chosen) > 0, predicted, [pool.ids[i] for i in chosen], path)
    return path


def _spectra(out: Path, stores: Mapping[str, Store], split: Split) -> list[tuple[Path, str]]:
    """Draw what alignment to the learnt prior does to unseen images, and their profiles."""
    import numpy as np
    import torch

    from fpgm.data.streams import Pool
    from fpgm.report.spectra import alignment_figure, profile_figure
    from fpgm.spectrum import FrequencyPrior, align, amplitude, generic_profile, radial_profile

    prior = FrequencyPrior.load(out / "fpgm" / "prior.json")
    pool = Pool(stores, split.unseen)
    images = torch.from_numpy(pool.images(np.arange(3))).permute(0, 3, 1, 2) / 255
    aligned = {
        "radial, γ = 0.05 (paper)": align(images, prior.profile, 0.05, "radial"),
        "ratio, γ = 0.2": align(images, prior.profile, 0.2, "ratio"),
    }
    shown = {name: version.permute(0, 2, 3, 1).numpy() for name, version in aligned.items()}
    alignment_figure(images.permute(0, 2, 3, 1).numpy(), shown, out / "alignment.jpg")
    batches = {"unseen images": images, **aligned}
    curves = {"prior (polyp edges)": prior.profile}
    curves |= {name: radial_profile(amplitude(batch), SIZE).mean((0, 1)) for name, batch in batches.items()}
    curves["generic prior 1/(r+1)"] = generic_profile(len(prior.profile))
    plain = {name: curve.numpy() for name, curve in curves.items()}
    profile_figure(plain, out / "profiles.png", title="Shape of the radial profile, phantom images")
    return [
        (out / "alignment.jpg", "What alignment to the learnt prior does to images of an unseen clinic"),
        (out / "profiles.png", "The learnt prior, and the radial profiles of those images before and after"),
    ]
