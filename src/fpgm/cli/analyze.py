"""``fpgm analyze signature | specificity``: the paper's spectral analyses on your data."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from fpgm.cli.terminal import console, print_json, progress_bars

if TYPE_CHECKING:
    from fpgm.analysis.signature import Signature
    from fpgm.analysis.specificity import Specificity

_LABELS = {
    "edge": "polyp edge",
    "background": "scattered background (paper)",
    "moved": "same band on background",
    "outline": "bare outline, mean grey",
}


def signature(
    *,
    data: Path,
    out: Path,
    datasets: list[str] | None = None,
    count: int | None = None,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Compare the frequency signature of polyp edges within and between data sets (Figs. 1 and 2 of the paper).

    Writes signature.json, signature.csv (the curves), halves.png, sets.png and distances.png.

    Args:
        data: the store that `fpgm data prepare` or `fpgm data synth` made.
        out: folder to write.
        datasets: names of the data sets; all if not given. The mixture leaves out those kept unseen.
        count: number of images with masks per data set, drawn at random; all if not given.
        seed: seed of that draw and of the halves.
        json: print JSON for programs.
    """
    from fpgm.analysis.profiles import choose, generator, labeled_ids
    from fpgm.analysis.records import signature_record, write_signature
    from fpgm.analysis.signature import signature as measure
    from fpgm.data.batches.pool import Pool
    from fpgm.data.store import open_stores

    stores = open_stores(data, datasets)
    rng = generator(seed, 0)
    pool = Pool(stores, [entry for ids in labeled_ids(stores).values() for entry in choose(ids, count, rng)])
    with progress_bars() as bar:
        result = measure(pool, seed=seed, advance=partial(bar(data.name), "profiles"))
    _draw_signature(result, out)
    write_signature(result, out)
    if json:
        return print_json(**signature_record(result), folder=str(out))
    _show_signature(result, out)


def specificity(
    *,
    data: Path,
    out: Path,
    datasets: list[str] | None = None,
    split: str | None = None,
    count: int = 500,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Compare the frequency signature of polyp edges with that of the background.

    The paper compares the edge band with as many random background pixels. Two controls separate texture from
    geometry: the same edge band moved onto background, and the bare outline without texture. Writes specificity.json,
    specificity.csv (the curves) and specificity.png.

    Args:
        data: the store that `fpgm data prepare` or `fpgm data synth` made.
        out: folder to write.
        datasets: names of the data sets; if not given, all that are not kept unseen.
        split: name of a folder under STORE/splits, or path of a split; only its train images are used, as in the
            paper. All if not given.
        count: number of images with masks, drawn at random from all data sets together; all if there are fewer.
        seed: seed of that draw, the background pixels and the shifts.
        json: print JSON for programs.
    """
    from fpgm.analysis.profiles import choose, generator, labeled_ids, seen
    from fpgm.analysis.records import specificity_record, write_specificity
    from fpgm.analysis.specificity import specificity as measure
    from fpgm.data.batches.pool import Pool
    from fpgm.data.splits.split import Split, split_folder
    from fpgm.data.store import open_stores

    stores = open_stores(data, datasets)
    names = list(stores) if datasets else seen(list(stores))
    found = labeled_ids({name: stores[name] for name in names})
    ids = [entry for name in names for entry in found[name]]
    if split is not None:
        train = set(Split.load(split_folder(data, split)).train)
        ids = [entry for entry in ids if entry in train]
        if not ids:
            raise ValueError(f"split {split} has no train image of {', '.join(names)}: choose another --split")
    pool = Pool(stores, choose(ids, count, generator(seed, 0)))
    with progress_bars() as bar:
        result = measure(pool, seed=seed, advance=partial(bar(data.name), "profiles"))
    _draw_specificity(result, out)
    write_specificity(result, split, out)
    if json:
        return print_json(**specificity_record(result, split), folder=str(out))
    _show_specificity(result, out)


def _draw_signature(result: Signature, out: Path) -> None:
    from fpgm.analysis.signature import MIXTURE
    from fpgm.report.plots.signature import Range, distance_figure, halves_figure, sets_figure

    within = {entry.first: entry for entry in result.comparisons if entry.kind == "halves"}
    notes = {
        name: f"2 × {result.sets[name].halves[0].images} images, mean distance {entry.likeness.distance:.3f}"
        for name, entry in within.items()
    }
    halves = {name: (entry.halves[0].mean, entry.halves[1].mean) for name, entry in result.sets.items()}
    mixture, note = halves.pop(MIXTURE, None), notes.pop(MIXTURE, "")
    halves_figure(halves, notes, out / "halves.png")
    curves = {name: (result.sets[name].curve.mean, result.sets[name].curve.sd) for name in halves}
    sets_figure(curves, mixture, note, out / "sets.png")
    groups = {"halves": "random halves", "video halves": "halves without a common video", "sets": "two data sets"}
    ranges = []
    for entry in result.comparisons:
        label = entry.first if entry.kind != "sets" else f"{entry.first} – {entry.second}"
        numbers = entry.likeness.distance, entry.low, entry.high, entry.outline_distance
        ranges.append(Range(groups[entry.kind], label, *numbers))
    for name in halves:
        distance = result.sets[name].generic.distance
        ranges.append(Range("data set and 1 / (r + 1)", name, distance, distance, distance))
    label = "relative distance of the shapes of two mean profiles"
    distance_figure(ranges, out / "distances.png", label=label, beside="the same two, bare outlines")


def _show_signature(result: Signature, out: Path) -> None:
    output = console()
    output.print(_sets_table(result), _likeness_table(result))
    pairs = [pair for pair in result.comparisons if pair.kind == "sets"]
    strict = [pair.times_video_halves for pair in pairs if pair.times_video_halves is not None]
    if plain := [pair.times_halves for pair in pairs if pair.times_halves is not None]:
        output.print(f"Two sets are {_span(plain)} times as far apart as random halves of one,", highlight=False)
    if strict:
        output.print(f"and {_span(strict)} times as far as halves without a common video.", highlight=False)
    output.print(f"numbers, curves and figures: {out}", highlight=False, soft_wrap=True)


def _span(values: list[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f}"


def _sets_table(result: Signature) -> Table:
    table = Table("data set", title=f"Edge profiles, {result.size} x {result.size}", title_justify="left")
    for column in ("images", "skipped", "videos", "edge pixels", "r = 0", "r = 1", "r = 2", "spread", "to 1 / (r + 1)"):
        table.add_column(column, justify="right")
    for name, entry in result.sets.items():
        counts = entry.curve.images, entry.skipped, "?" if entry.videos is None else entry.videos
        numbers = *entry.curve.mean[:3], entry.spread, entry.generic.distance
        table.add_row(name, *map(str, counts), f"{entry.edge_pixels:.0f}", *(f"{value:.3f}" for value in numbers))
    return table


def _likeness_table(result: Signature) -> Table:
    table = Table("compared", title="How far apart: relative distance of shapes", title_justify="left")
    for column in ("correl.", "distance", "5–95 %", "/ halves", "/ videos", "outlines", "amplitudes"):
        table.add_column(column, justify="right")
    titles = {"halves": "{}, halves", "video halves": "{}, video halves", "sets": "{} – {}"}
    for pair in result.comparisons:
        alike, ratios = pair.likeness, (pair.times_halves, pair.times_video_halves)
        table.add_row(
            titles[pair.kind].format(pair.first, pair.second),
            f"{alike.correlation:.4f}",
            f"{alike.distance:.3f}",
            f"{pair.low:.3f}–{pair.high:.3f}",
            *("" if ratio is None else f"{ratio:.1f}" for ratio in ratios),
            "" if pair.outline_distance is None else f"{pair.outline_distance:.3f}",
            f"{alike.amplitude_distance:.3f}",
        )
    return table


def _draw_specificity(result: Specificity, out: Path) -> None:
    from fpgm.report.plots.signature import specificity_figure

    curves = {_LABELS[name]: (entry.curve.mean, entry.curve.sd) for name, entry in result.samples.items()}
    title = f"{sum(result.images.values())} images of {', '.join(result.images)}, {result.size} × {result.size}"
    specificity_figure(curves, title, out / "specificity.png")


def _show_specificity(result: Specificity, out: Path) -> None:
    title = f"Compared with the edge, {sum(result.images.values())} images of {result.size} x {result.size}"
    table = Table("content", title=title, title_justify="left")
    for column in ("images", "pixels", "grey", "r = 0", "r = 1", "r = 2", "tail", "correlation", "distance"):
        table.add_column(column, justify="right")
    for name, entry in result.samples.items():
        counts = str(entry.curve.images), f"{entry.pixels:.0f}"
        numbers = entry.grey, *entry.curve.mean[:3], entry.tail
        alike = f"{entry.likeness.correlation:.4f}", f"{entry.likeness.distance:.3f}"
        table.add_row(_LABELS[name], *counts, *(f"{value:.3f}" for value in numbers), *alike)
    output = console()
    output.print(table)
    output.print("tail: amplitude beyond r = 2, relative to the edge's; distance: relative, of shapes", highlight=False)
    for name, entry in result.samples.items():
        if entry.exceeds_from is not None:
            output.print(f"from r = {entry.exceeds_from} on above the edge: {_LABELS[name]}", highlight=False)
    if result.skipped:
        output.print(f"skipped, because no edge is visible: {result.skipped}", highlight=False)
    output.print(f"numbers, curves and the figure: {out}", highlight=False, soft_wrap=True)
