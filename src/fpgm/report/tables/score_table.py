"""The paper's tables from our runs: rows by data sets by four metrics, by both rules for empty masks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpgm.report.reading.groups import Group, Row
from fpgm.report.reading.paper import CAUTION, DATASETS, SIZE, UNSEEN, paper_figures
from fpgm.report.reading.studies import Entry, Study
from fpgm.report.tables.formats import Cell, Line, Table, bracketed, join
from fpgm.runs.scores import METRICS, Scores, false_alarms, missed
from fpgm.runs.summary import Summary, summarise

NOTICE = (
    "These are phantom images, drawn by the program. The figures show that everything works together and how methods "
    "compare on drawn images; they say nothing about real colonoscopy."
)
NAMES = {"dice": "Dice ↑", "jaccard": "Jaccard ↑", "hd95": "HD95 ↓", "asd": "ASD ↓"}
RULES = {"penalise": "", "released": "released_"}  # way of scoring -> prefix of its columns
CHOICE = "Weights were chosen by Dice on the validation images; the images scored here chose nothing."
INTERVALS = (
    "`[a, b]` with a Dice is the bootstrap 95 % interval of its mean, over patients or videos where these are known, "
    "else over images. Of several seeds, an image counts with its mean over them, so that the interval speaks of these "
    "trained networks."
)
READING = (
    "Dice and Jaccard are in percent. HD95, the 95th percentile of the surface distances of both directions together, "
    "and ASD, their mean, are in pixels of the prepared size.",
    CHOICE,
    "`penalise`: where nothing was found although there is a polyp, Dice and Jaccard are 0 and the distances are the "
    "image's diagonal. `released`: as the paper's code does, all four are 0, which flatters the distances of whoever "
    "misses polyps, and ASD is directed, the mean distance from the prediction's surface to the true one. `missed` "
    "counts missed polyps, all seeds together.",
    "`a ± b` is mean and standard deviation of the seeds' means, in a row of several seeds; `a (b)` is mean and "
    "standard deviation over images, in a row of one seed. The best by `penalise` is bold.",
    INTERVALS,
)
_PAPER_TABLES = {
    ("main", False): "main",
    ("main", True): "zero_shot",
    ("ablation-loss", False): "ablation_loss",
    ("ablation-loss", True): "ablation_loss_unseen",
    ("ablation-prior", False): "ablation_prior",
}
ABSENT = "—"


@dataclass(frozen=True)
class Figure:
    """Mean, standard deviation and what it is over; Dice and Jaccard in percent."""

    mean: float
    sd: float
    over: str  # seeds or images

    @property
    def text(self) -> str:
        """The mean as the paper writes it."""
        return ABSENT if np.isnan(self.mean) else f"{self.mean:.2f}"

    @property
    def spread(self) -> str:
        """The deviation, in the form that says what it is over."""
        if np.isnan(self.sd):
            return ""
        return f"± {self.sd:.2f}" if self.over == "seeds" else f"({self.sd:.1f})"


Figures = Mapping[tuple[str, str, str], Figure]  # by label of the row, data set and column


def measure(row: Row, dataset: str, column: str) -> Figure:
    """Sum up a column of a row's runs on a data set."""
    return summed_up(row.scores(dataset), column)


def summed_up(scores: Mapping[int, Scores], column: str) -> Figure:
    """Sum up a column of scores by seed: over the means of the seeds, or over images where there is one seed."""
    known = [_known(one.values[column]) for one in scores.values()]
    means = np.array([values.mean() for values in known if len(values)])
    spread = means if len(known) > 1 else known[0] if known else means
    scale = 100 if column.endswith(("dice", "jaccard")) else 1
    mean = float(means.mean()) if len(means) else np.nan
    sd = float(spread.std(ddof=1)) if len(spread) > 1 else np.nan
    return Figure(scale * mean, scale * sd, "seeds" if len(known) > 1 else "images")


def dice_summary(scores: Mapping[int, Scores]) -> Summary:
    """Sum up Dice over the images; each counts with its mean over the seeds that were scored on the same images."""
    if not scores:
        return summarise([])
    one, *others = scores.values()
    alike = [one, *(other for other in others if other.ids == one.ids)]
    return summarise(np.mean([each.values["dice"] for each in alike], axis=0), groups=one.groups)


def interval(found: Summary) -> str:
    """Write the 95 % interval of a Dice in percent."""
    return bracketed(100 * found.low, 100 * found.high)


def score_table(group: Group, study: Study, *, unseen: bool) -> Table | None:
    """Make the table of a study on the test sets or on the unseen sets; None where no run was scored on any."""
    datasets = group.datasets(unseen=unseen)
    if not datasets:
        return None
    theirs = _paper_lines(group, study, datasets, unseen)
    figures = _figures(study, datasets)
    lines = []
    for number, entry in enumerate(study.entries):
        lines += _lines(entry, datasets, figures)
        if entry.theirs in theirs and all(later.theirs != entry.theirs for later in study.entries[number + 1 :]):
            name = "" if entry.label == entry.theirs else entry.theirs
            lines.append(Line((Cell(name), Cell("paper"), *theirs[entry.theirs]), aside=True))
    title = (
        f"{study.title}: {'unseen data sets (zero-shot)' if unseen else 'test sets'}, {group.setting.labeled} labelled"
    )
    return Table(
        name=f"{table_name(study, unseen)}_{group.setting.slug}",
        title=title,
        header=("", "scored by", *[*NAMES.values(), "missed"] * len(datasets)),
        lines=tuple(lines),
        facts=tuple(_facts(group, study, datasets, unseen, bool(theirs))),
        reading=(*notice(group), *READING, *([CAUTION] if theirs else [])),
        heads=(("", 2), *((_any_scores(study, name).label(name), 5) for name in datasets)),
        left=2,
        records=tuple(_records(group, study, datasets, unseen, figures)),
    )


def notice(group: Group) -> list[str]:
    """What must stand with any figure of phantoms."""
    return [NOTICE] if group.setting.phantom else []


def missing_cells(group: Group, study: Study, datasets: Sequence[str], unseen: bool) -> str:
    """Say which cells of a table are not there: rows, data sets, seeds."""
    parts = [f"no run of {join(rows)}"] if (rows := study.missing()) else []
    if group.is_papers and set(datasets) & DATASETS.keys():
        absent = [name for name in DATASETS if (name in UNSEEN) == unseen and name not in datasets]
        parts += [f"{join(absent)} in all rows"] if absent else []
    seeds = sorted({seed for entry in study.entries for seed in entry.row.seeds})
    lacking: dict[str, list[str]] = {}
    for entry in study.entries:
        if rest := [seed for seed in seeds if seed not in entry.row.seeds]:
            lacking.setdefault(f"seed {join(rest)}", []).append(entry.label)
        for seed in entry.row.seeds:
            if unscored := [name for name in datasets if seed not in entry.row.scores(name)]:
                lacking.setdefault(f"{join(unscored)} with seed {seed}", []).append(entry.label)
    parts += [f"{what} of {join(rows)}" for what, rows in lacking.items()]
    return f"Missing: {'; '.join(parts)}." if parts else "No cell is missing."


def table_name(study: Study, unseen: bool) -> str:
    """What the paper's question is called in names of files."""
    return ("zero-shot" if study.name == "main" else f"{study.name}-unseen") if unseen else study.name


def is_best(own: Figure, column: Sequence[Figure], metric: str) -> bool:
    """Whether none of a column is better, as far as the table shows; of one alone nothing is the best."""
    shown = [float(figure.text) for figure in column if figure.text != ABSENT]
    best = (max if metric in ("dice", "jaccard") else min)(shown, default=np.nan)
    return len(shown) > 1 and own.text != ABSENT and float(own.text) == best


def missed_of_all(scores: Mapping[int, Scores]) -> str:
    """Write missed polyps / images, of all seeds together."""
    every = scores.values()
    return f"{sum(map(missed, every))}/{sum(len(one.ids) for one in every)}" if every else ABSENT


def _known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values[~np.isnan(values)]


def _figures(study: Study, datasets: Sequence[str]) -> Figures:
    return {
        (entry.label, name, prefix + metric): measure(entry.row, name, prefix + metric)
        for entry in study.entries
        for name in datasets
        for prefix in RULES.values()
        for metric in METRICS
    }


def _lines(entry: Entry, datasets: Sequence[str], figures: Figures) -> list[Line]:
    """A line by each rule; missed polyps stand in the first."""
    lines = []
    for rule, prefix in RULES.items():
        first = rule == "penalise"
        cells = [Cell(entry.label, f"· {_seeds(entry.row)}") if first else Cell(""), Cell(rule)]
        for name in datasets:
            for metric in METRICS:
                own = figures[entry.label, name, prefix + metric]
                column = [figure for key, figure in figures.items() if key[1:] == (name, prefix + metric)]
                told = interval(dice_summary(entry.row.scores(name))) if first and metric == "dice" else ""
                cells.append(Cell(own.text, own.spread, first and is_best(own, column, metric), told))
            cells.append(Cell(missed_of_all(entry.row.scores(name)) if first else ""))
        lines.append(Line(tuple(cells), aside=not first))
    return lines


def _seeds(row: Row) -> str:
    return f"seed{'s' if len(row.seeds) > 1 else ''} {join(row.seeds)}"


def _paper_table(group: Group, study: Study, unseen: bool) -> str:
    """The name of the paper's table; none for phantoms, nor where a hospital was left out."""
    comparable = group.is_papers and not group.setting.phantom
    return _PAPER_TABLES.get((study.name, unseen), "") if comparable else ""


def _paper_lines(group: Group, study: Study, datasets: Sequence[str], unseen: bool) -> dict[str, list[Cell]]:
    """The paper's cells by its names of rows; none where no data set is the paper's."""
    table = _paper_table(group, study, unseen)
    lines: dict[str, list[Cell]] = {}
    for name in dict.fromkeys(entry.theirs for entry in study.entries) if table else ():
        cells: list[Cell] = []
        for dataset in datasets:
            figures = paper_figures(table, group.setting.labeled, name, dataset)
            cells += [Cell(f"{figures[metric]:.2f}" if figures else "") for metric in METRICS]
            cells.append(Cell(""))
        if any(cell.text for cell in cells):
            lines[name] = cells
    return lines


def _facts(group: Group, study: Study, datasets: Sequence[str], unseen: bool, beside: bool) -> list[str]:
    setting = group.setting
    seeds = {tuple(entry.row.seeds) for entry in study.entries}
    told = f"{_seeds(study.entries[0].row)} in every row" if len(seeds) == 1 else "seeds as the rows say"
    images = {name: len(_any_ids(study, name)) for name in datasets}
    facts = [f"{setting.sentence}; {told}."]
    facts.append(f"Images: {join([f'{name} {count}' for name, count in images.items()])}.")
    facts.append(missing_cells(group, study, datasets, unseen))
    facts += _later_facts(study, datasets)
    if beside and setting.size != SIZE:
        facts.append(
            f"Do not compare our HD95 and ASD with the paper's: ours are in pixels of {setting.size} × {setting.size}, "
            f"the paper's in pixels of {SIZE} × {SIZE}."
        )
    alarms = sum(
        false_alarms(scores) or 0
        for entry in study.entries
        for name in datasets
        for scores in entry.row.scores(name).values()
    )
    return [*facts, f"False alarms on images without a polyp, all rows together: {alarms}."] if alarms else facts


def _any_ids(study: Study, dataset: str) -> tuple[str, ...]:
    """The images of a data set, which are the same in all rows."""
    return _any_scores(study, dataset).ids


def _any_scores(study: Study, dataset: str) -> Scores:
    """The scores of a data set in the first row that has any; its images are the same in all rows."""
    every = (one for entry in study.entries for one in entry.row.scores(dataset).values())
    return next(every, Scores((), {}, unseen=False))


def _later_facts(study: Study, datasets: Sequence[str]) -> Iterator[str]:
    """Say which data sets came after the training, and how far they resemble its images."""
    for name in datasets:
        every = [one for entry in study.entries for one in entry.row.scores(name).values() if one.after_training]
        near = [one.near_duplicates for one in every]
        if any(one is None for one in near):
            yield f"{name} came after the training; its images were not compared with those of the training."
        elif every:
            most = max(len(one or ()) for one in near)
            yield f"{name} came after the training; near duplicates of training images among its images: {most}."


def _limits(found: Summary) -> dict[str, Any]:
    """The interval for programs."""
    return {"low": 100 * found.low, "high": 100 * found.high}


_NO_LIMITS: Mapping[str, Any] = {"low": "", "high": ""}  # of other metrics than Dice


def _records(
    group: Group, study: Study, datasets: Sequence[str], unseen: bool, figures: Figures
) -> list[dict[str, Any]]:
    """A line per row, data set, rule and metric, for programs."""
    table, setting = _paper_table(group, study, unseen), group.setting
    records = []
    for entry in study.entries:
        for name in datasets:
            scores = entry.row.scores(name)
            theirs = paper_figures(table, setting.labeled, entry.theirs, name)
            found = dice_summary(scores)
            for rule, prefix in RULES.items():
                for metric in METRICS:
                    own = figures[entry.label, name, prefix + metric]
                    records.append(
                        {
                            "table": table_name(study, unseen),
                            **setting._asdict(),
                            "row": entry.label,
                            "method": entry.row.method,
                            "dataset": name,
                            "unseen": unseen,
                            "images": len(_any_ids(study, name)),
                            "seeds": " ".join(map(str, scores)),
                            "metric": metric,
                            "on_empty": rule,
                            "mean": own.mean,
                            "sd": own.sd,
                            "sd_over": own.over,
                            **(_limits(found) if (rule, metric) == ("penalise", "dice") else _NO_LIMITS),
                            "missed": sum(map(missed, scores.values())),
                            "paper": theirs.get(metric, ""),
                        }
                    )
    return records
