"""``fpgm adapt``: a model for a new site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from fpgm.cli.terminal import console, print_json, progress_bars

if TYPE_CHECKING:
    from fpgm.serving.adapt import Adapted


def adapt(
    run: Path,
    frames: list[str],
    *,
    out: Path,
    masks: Path | None = None,
    own: float = 0.0,
    count: int = 64,
    device: str = "auto",
    batch_size: int = 16,
    json: bool = False,
) -> int:
    """Fit a model to a new site with unlabelled frames: batch-norm statistics are replaced, nothing is trained.

    Writes the model folder OUT, which `fpgm predict`, `fpgm serve` and `fpgm export` take like any other. Its
    MODEL_CARD.md says which frames it was fitted to, whether they are enough, and what has changed. A file that cannot
    be read is named at the end, and the exit code is 1.

    Args:
        run: run folder or model folder; not an exported model.
        frames: files, folders, and patterns in quotes; films need the extra `video`; or a data set of a store, as
            STORE/NAME.
        out: model folder to write; it must not exist.
        masks: folder with masks of some of the frames, to report Dice before and after; a store has its own.
        own: share of each image's own statistics at prediction: 0 for none, 1 for the image alone.
        count: largest number of frames; if there are more, this many are taken, evenly spaced.
        device: device of the network: auto, cpu, cuda, cuda:1, mps …
        batch_size: number of frames in a forward pass.
        json: print JSON for programs.
    """
    from fpgm.runs.site import warn_of_site
    from fpgm.serving import adapt as work

    with progress_bars() as bar:
        adapted = work.adapt(
            run,
            frames,
            out,
            masks=masks,
            own=own,
            count=count,
            device=device,
            batch_size=batch_size,
            advance=bar("adapt"),
        )
    site = adapted.card.statistics.site
    assert site is not None
    warnings = warn_of_site(site)
    if json:
        problems = [{"file": str(problem.path), "reason": problem.reason} for problem in adapted.problems]
        print_json(**adapted.card.statistics.model_dump(mode="json"), warnings=warnings, problems=problems)
    else:
        _show(adapted, warnings, out)
    return int(bool(adapted.problems))


def _show(adapted: Adapted, warnings: list[str], out: Path) -> None:
    from fpgm.data.names import printable
    from fpgm.runs.site import describe_site

    site, output = adapted.card.statistics.site, console()
    assert site is not None
    lines = [f"{name}: {text}" for name, text in describe_site(site).items()]
    lines += [f"Warning: {warning}" for warning in warnings]
    for line in (*lines, f"The model is in {out}"):
        output.print(line, highlight=False, soft_wrap=True, markup=False)
    if adapted.problems:
        table = Table(title=f"{len(adapted.problems)} left out", title_justify="left")
        for head in ("file", "why"):
            table.add_column(head, overflow="fold")
        for problem in adapted.problems:
            table.add_row(Text(printable(str(problem.path))), Text(problem.reason))
        output.print(table)
