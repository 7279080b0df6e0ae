"""The demo with five seeds: Dice of its methods on both unseen clinics, and how often ours is ahead of the others.

What was computed is kept in the folder given as the first argument, if one is.
"""

from __future__ import annotations

import harness  # noqa: F401  # sets the thread policy, which torch reads when it is imported

import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean

from fpgm.cli import demo
from fpgm.cli.terminal import console
from fpgm.runs.results import read_result

SEEDS = range(5)
UNSEEN = ("phantom-e", "phantom-f")


def main(folder: Path) -> None:
    """Draw the store once, run the demo's trainings for every seed, and print the table."""
    demo.draw_store(folder)
    print("seed  " + "  ".join(f"{name:>12} e / f" for name in demo.METHODS) + "  ahead  seconds")
    ahead = 0
    for seed in SEEDS:
        began = time.monotonic()
        cells = demo.make_cells(folder / f"seed-{seed}", folder / "store", demo.ITERATIONS, seed)
        if not demo.train_all(cells, console(stderr=True)):
            raise KeyboardInterrupt
        dice = {}
        for cell in cells:
            scores = read_result(cell.folder).scores
            dice[cell.variant.name] = [100 * fmean(scores[name].values["dice"].tolist()) for name in UNSEEN]
        others = [dice[name] for name in demo.METHODS if name != demo.OURS]
        won = all(mine > max(theirs) for mine, *theirs in zip(dice[demo.OURS], *others, strict=True))
        ahead += won
        cells_text = "  ".join(f"{dice[name][0]:10.1f} / {dice[name][1]:5.1f}" for name in demo.METHODS)
        print(f"{seed:4}  {cells_text}  {'yes' if won else 'no':>5}  {time.monotonic() - began:7.0f}", flush=True)
    print(f"{demo.OURS} is ahead of both others on both clinics in {ahead} of {len(SEEDS)} seeds")


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as place:
            main(Path(place))
