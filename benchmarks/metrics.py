"""Time Dice, Jaccard, HD95 and ASD of one pair: medpy, MONAI and fpgm, interleaved in one run.

    python benchmarks/metrics.py [--pairs 40] [--size 256] [--data FOLDER]

The pairs are polyp-like blobs and perturbed copies of them; the same with real masks where FOLDER (default:
$FPGM_REAL_DATA, else ../shared/data) holds any; and pure noise, the worst case. The sides take turns.
"""

from __future__ import annotations

from harness import compare, take_turns

import argparse
import os
import statistics
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from medpy.metric import binary as medpy
from monai.metrics import compute_average_surface_distance, compute_hausdorff_distance, compute_iou
from monai.metrics.meandice import compute_dice
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import map_coordinates, zoom

from fpgm.metrics import pair_metrics

Mask = NDArray[np.bool_]
Pair = tuple[Mask, Mask]
TARGET = 10.0


def blob(size: int, rng: np.random.Generator) -> Mask:
    """A smooth closed shape of the size and roundness of a polyp."""
    centre = rng.uniform(0.25, 0.75, 2) * size
    radius = rng.uniform(0.04, 0.3) * size
    y, x = np.mgrid[:size, :size] - centre[:, None, None]
    angle, edge = np.arctan2(y, x), np.ones((size, size))
    for k in range(2, 7):
        edge += rng.uniform(0, 0.3) / k * np.cos(k * angle + rng.uniform(0, 2 * np.pi))
    return np.asarray(np.hypot(y, x) < radius * edge)


def perturb(mask: Mask, rng: np.random.Generator) -> Mask:
    """The mask after a smooth random displacement: a plausible prediction of it."""
    size = mask.shape[0]
    grid = np.mgrid[:size, :size].astype(np.float64)
    shift = zoom(rng.normal(0, size / 25, (2, 5, 5)), (1, size / 5, size / 5), order=1)
    return np.asarray(map_coordinates(mask.astype(np.float64), grid + shift, order=1) > 0.5)


def real_masks(folder: Path, count: int, size: int, rng: np.random.Generator) -> list[Mask]:
    """Up to `count` masks drawn from all data sets under `folder`, at size × size."""
    files = sorted(folder.glob("*/masks/*.png"))
    chosen = rng.permutation(len(files))[:count]
    pictures = (Image.open(files[i]).convert("L").resize((size, size), Image.Resampling.NEAREST) for i in chosen)
    return [np.asarray(picture) > 127 for picture in pictures]


def by_medpy(pred: Mask, true: Mask) -> list[float]:
    """The four metrics with medpy."""
    return [float(f(pred, true)) for f in (medpy.dc, medpy.jc, medpy.hd95, medpy.assd)]


def by_monai(pred: Mask, true: Mask) -> list[float]:
    """The four metrics with MONAI; its HD95 is the larger directed percentile."""
    a, b = (torch.from_numpy(m)[None, None].float() for m in (pred, true))
    hd95 = compute_hausdorff_distance(a, b, include_background=True, percentile=95)
    asd = compute_average_surface_distance(a, b, include_background=True, symmetric=True)
    return [float(v) for v in (compute_dice(a, b), compute_iou(a, b), hd95, asd)]


def by_fpgm(pred: Mask, true: Mask) -> list[float]:
    """The four metrics with this package."""
    return list(pair_metrics(pred, true, on_empty="nan").values())


SIDES: dict[str, Callable[[Mask, Mask], list[float]]] = {
    "medpy": by_medpy,
    "MONAI": by_monai,
    "fpgm": by_fpgm,
}


def measure(name: str, pairs: list[Pair], target: float | None = TARGET) -> None:
    """Compare the median time of a pair with both libraries'."""
    runs = [take_turns({side: partial(SIDES[side], *pair) for side in SIDES}, 3, warm_up=0) for pair in pairs]
    medpy, monai, ours = (statistics.median(run[side] for run in runs) for side in SIDES)
    gap = max(abs(u - v) for pair in pairs for u, v in zip(by_medpy(*pair), by_fpgm(*pair), strict=True))
    print(f"{len(pairs)} pairs of {name}, largest difference from medpy {gap:.1e}")
    what = f"Dice, Jaccard, HD95, ASD of {name}, {len(pairs[0][0])}²"
    compare("metrics", what, ours, medpy, "medpy", target=target, fast=True)
    compare("metrics", what, ours, monai, "MONAI", target=target, fast=True)


def main() -> None:
    """Run the three kinds of pairs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("FPGM_REAL_DATA", str(Path(__file__).resolve().parents[2] / "shared" / "data"))
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--data", type=Path, default=Path(default))
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(2)
    rng = np.random.default_rng(0)
    kinds = {
        "blobs": [blob(options.size, rng) for _ in range(options.pairs)],
        "real masks": real_masks(options.data, options.pairs, options.size, rng),
    }
    for name, masks in kinds.items():
        pairs = [(perturb(mask, rng), mask) for mask in masks]
        pairs = [pair for pair in pairs if pair[0].any() and pair[1].any()]
        measure(name, pairs) if pairs else print(f"{name}: none under {options.data}")
    noise = rng.random((4, 2, options.size, options.size)) > 0.5
    measure("noise", [(pair[0], pair[1]) for pair in noise], target=None)


if __name__ == "__main__":
    main()
