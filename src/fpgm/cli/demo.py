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

SIZE, COUNT, LABELED, ITERATIONS = 64, 120, "10%", 400
METHODS = ("supervised", "fpgm")


def demo(*, out: Path = Path("demo"), iterations: int = ITERATIONS) -> None:
    """Draw a phantom, train with and without its unlabelled images, and compare on two clinics never seen.

    Writes OUT/index.html with tables, curves and pictures, and beside it the store, both runs and the prior.

    Args:
        out: folder to write to; what is there already is used again.
        iterations: steps of each of the two trainings.
    """
    from fpgm.cli.terminal import console
    from fpgm.data.store import open_stores
    from fpgm.evaluation import evaluate_run
    from fpgm.report.page import write_report
    from fpgm.report.results import read_result
    from fpgm.serving.model_card import write_model_card

    output, began = console(), time.monotonic()
    split = draw_store(out)
    trainers = {name: train_method(name, out, iterations, output) for name in METHODS}
    for name, trainer in trainers.items():
        evaluate_run(out / name, out / "store", device=trainer.fabric.device)
        write_model_card(out / name)
    labeled, unlabeled = len(split.labeled(LABELED)), len(split.unlabeled(LABELED))
    facts = [
        f"Trained on {labeled} labelled images of four drawn clinics (a to d) for {iterations} steps at {SIZE}x{SIZE}; "
        f"fpgm also saw {unlabeled} unlabelled ones. The clinics e and f were never seen. One seed, few iterations.",
        f"Weights were chosen by Dice on {len(split.validation)} validation images; the test images chose nothing.",
    ]
    results = [read_result(out / name) for name in METHODS]
    pictures = _spectra(out, open_stores(out / "store"), split)
    page = write_report(results, [], out, title="FPGM on phantom images", facts=facts, pictures=pictures)
    output.print(f"done in {time.monotonic() - began:.0f} s; open {page}")


def draw_store(out: Path) -> Split:
    """Draw the demo's images where they are not there yet, and return their split."""
    from fpgm.cli.data import synth
    from fpgm.data.protocols import draw
    from fpgm.data.store import open_stores

    synth(out=out / "store", count=COUNT, size=SIZE)
    split = draw(open_stores(out / "store"), "strict", 0)
    split.save(out / "store" / "splits" / "strict-0")
    return split


def train_method(method: str, out: Path, iterations: int, output: Console) -> Trainer:
    """Train one method, or take up a run that was interrupted."""
    from fpgm.config import resolve
    from fpgm.training.run import train
    from fpgm.training.trainer import Stopped

    output.print(f"training {method}")
    chosen = {"store": out / "store", "split": "strict-0", "labeled": LABELED}
    short = [
        f"train.iterations={iterations}",
        "optimizer.lr=0.001",
        "train.validate_every=50",
        "train.pictures_every=200",
    ]
    try:
        return train(resolve("mini", method, chosen, short), out / method, resume=True, console=output)
    except Stopped as stopped:
        output.print(f"stopped before step {stopped.step}, all is saved; the same command goes on")
        raise KeyboardInterrupt from None


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
