"""``fpgm prior learn | show | compare``: frequency priors as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fpgm.spectrum import FrequencyPrior


def learn(
    *,
    data: Path,
    out: Path,
    labeled: str = "all",
    split: str | None = None,
    momentum: float = 0.999,
    literal: bool = False,
) -> None:
    """Learn a prior from the labelled training images of a store, in one pass.

    Args:
        data: the store that `fpgm data prepare` or `fpgm data synth` made.
        out: JSON file to write.
        labeled: number or percentage of training images whose masks may be used, or all.
        split: name of a folder under STORE/splits, or path of a split; the only one of the store if not given.
        momentum: momentum of the moving average.
        literal: start the average at the first batch, as in the paper, which then dominates; without it, all batches
            have nearly equal weight.
    """
    import numpy as np
    import torch
    from rich.progress import track

    from fpgm.cli.terminal import console
    from fpgm.data.batches.pool import Pool
    from fpgm.data.splits.split import Split, split_folder
    from fpgm.data.store import open_stores
    from fpgm.spectrum import FrequencyPrior

    chosen = Split.load(split_folder(data, split)).labeled(labeled)
    pool = Pool(open_stores(data), chosen)
    prior = FrequencyPrior(momentum, debias=not literal)
    output = console(stderr=True)
    for start in track(range(0, len(pool), 8), "learning", console=output, disable=not output.is_terminal):
        rows = np.arange(start, min(start + 8, len(pool)))
        image = torch.from_numpy(pool.images(rows)).permute(0, 3, 1, 2) / 255
        prior.update(image, torch.from_numpy(pool.masks(rows)))
    prior.save(out)
    print(f"{out}: {describe(prior)}")


def show(prior: Path, *, out: Path | None = None) -> None:
    """Describe a prior and draw it.

    Args:
        prior: JSON file of a prior.
        out: picture to write, .png or .jpg; none if not given.
    """
    compare([prior], out=out)


def compare(priors: list[Path], *, out: Path | None = None, json: bool = False) -> None:
    """Describe priors, and compare the shape of each with that of the first.

    Args:
        priors: JSON files of priors.
        out: picture to write, .png or .jpg; none if not given.
        json: print JSON for programs.
    """
    from fpgm.cli.terminal import print_json
    from fpgm.report.plots.spectra import profile_figure
    from fpgm.spectrum import FrequencyPrior, likeness, resample

    loaded = {path: FrequencyPrior.load(path) for path in priors}
    reference = loaded[priors[0]].profile
    alike = {str(path): likeness(reference, prior.profile) for path, prior in loaded.items()}
    if json:
        print_json(
            reference=str(priors[0]), likeness={n: {"correlation": c, "distance": d} for n, (c, d) in alike.items()}
        )
    else:
        for path, prior in loaded.items():
            correlation, distance = alike[str(path)]
            beside = f"; correlation {correlation:.4f}, relative distance {distance:.4f}" if path != priors[0] else ""
            print(f"{path}: {describe(prior)}{beside}")
    if out is not None:
        curves = {str(path): resample(prior.profile, len(reference)).numpy() for path, prior in loaded.items()}
        profile_figure(curves, out, title="Shape of frequency priors")
        if not json:
            print(f"wrote {out}")


def describe(prior: FrequencyPrior) -> str:
    """Return a line that says what a prior was learnt from."""
    height, width = prior.size.tolist()
    skipped = f", {int(prior.skipped)} without an edge skipped" if prior.skipped else ""
    average = "debiased" if prior.debias else "literal"
    return (
        f"{len(prior.profile)} radii from {int(prior.samples)} images of {height}x{width}{skipped}, "
        f"{average} average with momentum {prior.momentum:g}"
    )
