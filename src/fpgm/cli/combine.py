"""``fpgm combine``: several runs as one model."""

from __future__ import annotations

from pathlib import Path

from fpgm.cli.terminal import console


def combine(runs: list[Path], *, out: Path, data: Path | None = None, device: str = "auto") -> None:
    """Average the models of several runs of one split into a run that evaluate, predict, export and serve take.

    Temperature and smallest area of a polyp are chosen anew on the validation images. Where the models disagree,
    `fpgm predict` says and shows it.

    Args:
        runs: folders of finished runs, two or more, e.g. of three seeds.
        out: run folder to write; it must be empty or not there.
        data: store with the runs' split; the one they were trained on if not given.
        device: device of the networks: auto, cpu, cuda, cuda:1, mps …
    """
    from fpgm.serving.combine import combine as average

    card = average(runs, out, data=data, device=device)
    told = f", temperature {card.temperature:.2f}" if card.calibration else ""
    console().print(f"{len(runs)} runs combined in {out}{told}; see it with `fpgm evaluate {out}`", highlight=False)
