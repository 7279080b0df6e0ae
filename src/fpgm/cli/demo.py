"""``fpgm demo``: all steps on drawn images, without a download."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from fpgm.data.splits.split import Split
    from fpgm.data.store import Store
    from fpgm.experiments.plan import Cell

SIZE, COUNT, LABELED, ITERATIONS = 64, 120, "2%", 1000
OURS = "fpgm_teacher"
STEPS = {"supervised": 1.0, "fpgm": 0.4, OURS: 0.85}  # that a CPU computes in the time of a supervised one
METHODS = tuple(STEPS)
SETTINGS = {"fpgm": ("method.ramp=0", "method.statistics=all")}  # FPGM has the paper's arguments


def demo(*, out: Path = Path("demo"), iterations: int = ITERATIONS, seed: int = 0) -> int:
    """Draw the phantom, train three methods on it in equal time, and compare them on two unseen clinics.

    Supervised training uses only the labelled images; FPGM as published and FPGM with a teacher also use the unlabelled
    ones. Writes OUT/index.html with tables, curves and pictures, and the store, the runs and the prior beside it.

    Args:
        out: folder to write to; images and runs that are there already are used again.
        iterations: number of steps of supervised training; the others make as many as take the same time.
        seed: seed of weights, batches and augmentation.
    """
    from fpgm.cli.terminal import console
    from fpgm.data.store import open_stores
    from fpgm.report.pages.report import write_report
    from fpgm.runs.results import read_result

    output, began = console(), time.monotonic()
    split = draw_store(out)
    if not train_all(make_cells(out, out / "store", iterations, seed), output):
        return 130
    labeled, unlabeled = len(split.labeled(LABELED)), len(split.unlabeled(LABELED))
    facts = [
        f"Trained on {labeled} labelled images of four drawn clinics (a to d) at {SIZE}x{SIZE}; both FPGM rows also "
        f"saw {unlabeled} unlabelled ones. The clinics e and f were never seen. All had the same time on a CPU: "
        "those with slower steps made fewer. One seed, few iterations.",
        f"Weights were chosen by Dice on {len(split.validation)} validation images; the test images chose nothing.",
        "FPGM has the paper's arguments; all rows share augmentation, optimiser and averaged weights.",
    ]
    results = [read_result(out / name) for name in METHODS]
    pictures = _spectra(out, open_stores(out / "store"), split)
    title = "FPGM on phantom images"
    page = write_report(results, [], out, title=title, facts=facts, pictures=pictures, any_iterations=True)
    output.print(f"done in {time.monotonic() - began:.0f} s; open {page}")
    return 0


def draw_store(out: Path) -> Split:
    """Draw the demo's images if they are missing, and return their split."""
    from fpgm.cli.data.synth import synth
    from fpgm.data.splits.protocols import draw
    from fpgm.data.store import open_stores

    synth(out=out / "store", count=COUNT, size=SIZE, variety="plain")
    split = draw(open_stores(out / "store"), "strict", 0)
    split.save(out / "store" / "splits" / "strict-0")
    return split


def make_cells(out: Path, store: Path, iterations: int, seed: int) -> list[Cell]:
    """Return the demo's runs, OUT/NAME, of equal time; ``iterations`` are those of supervised training."""
    from fpgm.experiments.plan import Cell, Variant

    steps = {name: max(1, round(share * iterations)) for name, share in STEPS.items()}
    short = (
        f"train.seed={seed}",
        "train.pictures_every=0",
        "optimizer.warmup=20",
        "data.batch_labeled=4",  # of 6
        "data.batch_unlabeled=4",
    )
    return [
        Cell(
            folder=out.resolve() / name,
            variant=Variant(name, name, SETTINGS.get(name, ())),
            labeled=LABELED,
            seed=seed,
            preset="mini",
            store=store.resolve(),
            split="strict-0",
            settings=(
                f"train.iterations={steps[name]}",
                f"train.validate_every={max(1, steps[name] // 10)}",
                *short,
                *SETTINGS.get(name, ()),
            ),
            tables=("main",),
        )
        for name in METHODS
    ]


def train_all(cells: Sequence[Cell], output: Console) -> bool:
    """Train and evaluate the runs in parallel; False if the user stopped it."""
    from fpgm.cli.experiments.watch import Display, compute
    from fpgm.experiments.plan import check
    from fpgm.experiments.processes import Processes
    from fpgm.experiments.work import make_steps

    check(cells)
    jobs = min(len(cells), os.cpu_count() or 1)
    engine = Processes(make_steps("auto"), jobs, threads=max(1, (os.cpu_count() or 1) // jobs))
    outcomes = compute(cells, engine, Display(output, len(cells), alone=False))
    if outcomes and (failed := [outcome for outcome in outcomes if outcome.state == "failed"]):
        raise ValueError(f"{failed[0].cell.variant.name} failed: {failed[0].error}")
    return outcomes is not None


def _spectra(out: Path, stores: Mapping[str, Store], split: Split) -> list[tuple[Path, str]]:
    """Draw what alignment to the learnt prior does to unseen images, and their profiles."""
    import numpy as np
    import torch

    from fpgm.data.batches.pool import Pool
    from fpgm.report.plots.saving import dark_twin
    from fpgm.report.plots.spectra import alignment_figure, profile_figure
    from fpgm.spectrum import FrequencyPrior, align, amplitude, generic_profile, radial_profile

    prior = FrequencyPrior.load(out / "fpgm" / "prior.json")
    pool = Pool(stores, split.unseen)
    images = torch.from_numpy(pool.images(np.arange(3))).permute(0, 3, 1, 2) / 255
    aligned = {
        "radial, γ = 0.05 (paper)": align(images, prior.profile, 0.05, "radial"),
        "ratio, γ = 0.2": align(images, prior.profile, 0.2, "ratio"),
    }
    shown = {name: version.permute(0, 2, 3, 1).numpy() for name, version in aligned.items()}
    original = images.permute(0, 2, 3, 1).numpy()
    alignment_figure(original, shown, out / "alignment.jpg")
    alignment_figure(original, shown, dark_twin(out / "alignment.jpg"), dark=True)
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
