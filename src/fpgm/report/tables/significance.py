"""Significance of the difference between two rows, image by image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata, wilcoxon

from fpgm.report.reading.groups import Group, Setting
from fpgm.report.reading.studies import Study
from fpgm.report.tables.formats import Cell, Line, Table, join
from fpgm.report.tables.score_table import notice, table_name
from fpgm.runs.scores import Scores
from fpgm.runs.summary import Summary, summarise, told_images

LEVEL = 0.05
READING = (
    "Per image, the Dice (`penalise`) of the seeds that both rows have is averaged; the difference is in percentage "
    "points, with its bootstrap 95 % interval: over patients or videos where the number of groups is given, else over "
    "images.",
    "p is of the two-sided Wilcoxon signed-rank test on the differences, images without a difference left out; "
    f"Holm's correction is over all lines of the table, and a verdict needs a corrected p below {LEVEL}.",
    "Frames of one video are not independent of each other, so true uncertainty is larger than p says, and than the "
    "interval does where videos are not known; and they speak of these trained networks: only several seeds speak of "
    "the method.",
)


class Comparison(NamedTuple):
    """Two rows on one data set, or on several; the difference is that of Dice in [-1, 1], reference minus other."""

    dataset: str
    other: str
    seeds: tuple[int, ...]
    difference: Summary
    differing: int  # images on which the two are not equal
    ranks: float  # sum of the signed ranks: above 0 where the reference tends to be better
    p: float
    corrected: float = np.nan


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Correct p-values (N,) for their number by Holm's step-down procedure."""
    given = np.asarray(p, np.float64)
    order = np.argsort(given, kind="stable")
    steps = given[order] * np.arange(len(given), 0, -1)
    corrected = np.empty_like(given)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return corrected


def pairwise_tests(study: Study, datasets: Sequence[str]) -> list[Comparison]:
    """Test the reference of a study against each other row on each data set that both were scored on."""
    reference = study.reference
    return corrected(
        comparison(dataset, entry.label, reference.row.scores(dataset), entry.row.scores(dataset))
        for entry in study.entries
        for dataset in datasets
        if reference and entry is not reference
    )


def comparison(place: str, other: str, ours: Mapping[int, Scores], theirs: Mapping[int, Scores]) -> Comparison | None:
    """Test scores by seed of the reference against those of another row; None where they have no seed in common."""
    seeds, differences = paired(ours, theirs)
    if not seeds:
        return None
    differing, difference = int(np.count_nonzero(differences)), summarise(differences, groups=_groups(ours[seeds[0]]))
    return Comparison(place, other, seeds, difference, differing, *signed_rank(differences))


def corrected(comparisons: Iterable[Comparison | None]) -> list[Comparison]:
    """Correct the p-values of all comparisons that could be made for their number."""
    made = [one for one in comparisons if one]
    return [
        one._replace(corrected=float(value)) for one, value in zip(made, holm([one.p for one in made]), strict=True)
    ]


def paired(ours: Mapping[int, Scores], theirs: Mapping[int, Scores]) -> tuple[tuple[int, ...], NDArray[np.float64]]:
    """Return the seeds that both have, and per image the difference of their mean Dice."""
    seeds = tuple(seed for seed in ours if seed in theirs)
    if not seeds:
        return (), np.empty(0)
    order = sorted(ours[seeds[0]].ids)
    means = []
    for scores in (ours, theirs):
        by_id = [dict(zip(scores[seed].ids, scores[seed].values["dice"], strict=True)) for seed in seeds]
        means.append(np.array([[values[image] for image in order] for values in by_id]).mean(0))
    return seeds, means[0] - means[1]


def _groups(scores: Scores) -> list[str | None] | None:
    """The patient or video of each image, in the order of `paired`."""
    if scores.groups is None:
        return None
    known = dict(zip(scores.ids, scores.groups, strict=True))
    return [known[image] for image in sorted(scores.ids)]


def signed_rank(differences: NDArray[np.float64]) -> tuple[float, float]:
    """Return the sum of the signed ranks and p of the two-sided Wilcoxon test; 0 and 1 where nothing differs."""
    differing = differences[differences != 0]
    if not len(differing):
        return 0.0, 1.0
    ranks = float((np.sign(differing) * rankdata(np.abs(differing))).sum())
    return ranks, float(wilcoxon(differing).pvalue)


def significance_table(group: Group, study: Study, *, unseen: bool) -> Table | None:
    """Make the table of comparisons; None where there is nothing to compare."""
    comparisons = pairwise_tests(study, group.datasets(unseen=unseen))
    if not comparisons or not study.reference:
        return None
    untested = [
        f"{entry.label}: no seed in common"
        for entry in study.entries
        if entry is not study.reference and not set(entry.row.seeds) & set(study.reference.row.seeds)
    ]
    return comparison_table(
        comparisons,
        study.reference.label,
        group.setting,
        name=table_name(study, unseen),
        where="unseen data sets" if unseen else "test sets",
        facts=[f"Missing: {join(untested)}."] if untested else [],
        reading=(*notice(group), *READING),
    )


def comparison_table(
    comparisons: Sequence[Comparison],
    reference: str,
    setting: Setting,
    *,
    name: str,
    where: str,
    facts: Sequence[str],
    reading: Sequence[str],
) -> Table:
    """Write comparisons, at least one, with their verdicts.

    Args:
        comparisons: corrected for their number.
        reference: label of the row that the others are compared with.
        setting: setting of all runs.
        name: name of the table of scores.
        where: on which images, for the title.
        facts: sentences about these runs.
        reading: sentences on how to read the table.
    """
    verdicts = [_verdict(one) for one in comparisons]
    told = f"better in {verdicts.count('better')}, worse in {verdicts.count('worse')} of {len(verdicts)} comparisons"
    return Table(
        name=f"significance-{name}_{setting.slug}",
        title=f"Significance: {reference} on the {where}, {setting.labeled} labelled: {told}",
        header=("data set", "against", "seeds", "images", "Dice difference", "p", "Holm", f"{reference} is"),
        lines=tuple(map(_line, comparisons)),
        facts=(f"{setting.sentence}.", *facts),
        reading=tuple(reading),
        left=3,
        records=tuple({"reference": reference, **setting._asdict(), **_record(one)} for one in comparisons),
    )


def _verdict(one: Comparison) -> str:
    if one.corrected >= LEVEL:
        return "not shown to differ"
    if one.ranks * one.difference.mean <= 0:
        return "better on more images, worse on average" if one.ranks > 0 else "worse on more images, better on average"
    return "better" if one.ranks > 0 else "worse"


def _line(one: Comparison) -> Line:
    interval = f"[{100 * one.difference.low:+.2f}, {100 * one.difference.high:+.2f}]"
    cells = [one.dataset, one.other, join(one.seeds), told_images(one.difference.count, one.difference.groups)]
    difference = Cell(f"{100 * one.difference.mean:+.2f}".replace("-", "−"), interval.replace("-", "−"))
    return Line((*map(Cell, cells), difference, *map(Cell, (_p(one.p), _p(one.corrected), _verdict(one)))))


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def _record(one: Comparison) -> dict[str, object]:
    return {
        "dataset": one.dataset,
        "against": one.other,
        "seeds": " ".join(map(str, one.seeds)),
        "images": one.difference.count,
        "groups": "" if one.difference.groups is None else one.difference.groups,
        "differing": one.differing,
        "difference": one.difference.mean,
        "low": one.difference.low,
        "high": one.difference.high,
        "p": one.p,
        "p_holm": one.corrected,
    }
