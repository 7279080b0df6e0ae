"""What the functions of `fpgm` return: small records that Python writes as a plain table and a notebook as HTML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fpgm.data.raw.prepare import Outcome
    from fpgm.data.splits.split import Split
    from fpgm.runs.card import ModelCard
    from fpgm.runs.results import Result
    from fpgm.runs.scores import Scores
    from fpgm.serving.folders.predict import Skipped, Summary


class Table(NamedTuple):
    """A title, the heads of the columns, rows of texts, and sentences below them."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


class Shown(ABC):
    """A result that shows itself as a table."""

    @abstractmethod
    def table(self) -> Table:
        """Return what is shown."""

    def __repr__(self) -> str:
        """Return the table as text."""
        table = self.table()
        lines = [list(table.heads), *map(list, table.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        return "\n".join(text.rstrip() for text in (table.title, *texts, *table.notes))

    def _repr_html_(self) -> str:
        """Return the table as HTML, for a notebook."""
        table = self.table()
        heads = "".join(f"<th>{escape(text)}</th>" for text in table.heads)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
        notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes)
        caption = f"<caption>{escape(table.title)}</caption>"
        return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{notes}"


@dataclass(frozen=True, repr=False)
class Prepared(Shown):
    """A prepared store.

    Attributes:
        store: folder of the store.
        outcomes: what became of each data set, with the files that were left out.
    """

    store: Path
    outcomes: tuple[Outcome, ...]

    def table(self) -> Table:
        """Count the images of each data set; below, the first files that were left out."""
        rows, notes = [], []
        for one in self.outcomes:
            pairs, free = (one.manifest.pairs, one.manifest.unlabeled) if one.manifest else (0, 0)
            rows.append((one.name, str(pairs), str(free), str(len(one.problems)), one.status))
            notes += [f"{problem.file or one.name}: {problem.reason}" for problem in one.problems]
        heads = ("data set", "with mask", "unlabelled", "left out", "state")
        return Table(f"Prepared in {self.store}", heads, rows, _first(notes))


@dataclass(frozen=True, repr=False)
class Divided(Shown):
    """A split of a store.

    Attributes:
        folder: folder with the lists.
        split: the lists themselves.
    """

    folder: Path
    split: Split

    def table(self) -> Table:
        """Count the images of each part."""
        counts = self.split.counts()
        rows = [(name, *map(str, parts.values())) for name, parts in counts.items()]
        heads = ("data set", "train", "validation", "test", "unseen")
        title = f"Split {self.split.protocol}, seed {self.split.seed}, in {self.folder}"
        return Table(title, heads, rows, self.split.notes)


@dataclass(frozen=True, repr=False)
class Trained(Shown):
    """A finished run.

    Attributes:
        run: its folder, for `evaluate`, `load_predictor` and `adapt`.
        method: name of the method.
        preset: name of the preset.
        iterations: number of steps.
        dice: best Dice on the validation images; None if there are none.
        step: the step that had it.
    """

    run: Path
    method: str
    preset: str
    iterations: int
    dice: float | None
    step: int

    def table(self) -> Table:
        """Return one row."""
        dice = "-" if self.dice is None else f"{self.dice:.4f} at step {self.step}"
        row = (self.method, self.preset, str(self.iterations), dice)
        return Table(f"Run {self.run}", ("method", "preset", "steps", "best validation Dice"), [row])


@dataclass(frozen=True, repr=False)
class Evaluated(Shown):
    """Scores of a run.

    Attributes:
        run: its folder.
        result: settings and scores of every image, by data set.
    """

    run: Path
    result: Result

    def table(self) -> Table:
        """Return the means of each data set, with the bootstrap 95 % interval of the Dice."""
        heads = ("data set", "images", "Dice %", "95 % interval", "Jaccard %", "HD95 px", "missed", "false alarms")
        rows = [_scores(name, scores) for name, scores in self.result.scores.items()]
        return Table(f"Scores of {self.run}", heads, rows, ["An empty prediction of a polyp has Dice 0."])


@dataclass(frozen=True, repr=False)
class Predictions(Shown):
    """A folder of results.

    Attributes:
        folder: the folder, with `findings.csv`.
        summary: what became of the files.
    """

    folder: Path
    summary: Summary

    def table(self) -> Table:
        """Count files, images and polyps; below, the speed of films and the first files that were left out."""
        one = self.summary
        counts = one.done, one.kept, len(one.problems), one.pictures, one.polyps
        notes = [film.describe() for film in one.films]
        left_out = _first([f"{problem.path}: {problem.reason}" for problem in one.problems])
        heads = ("predicted", "there before", "left out", "images", "polyps")
        return Table(f"Predictions in {self.folder}", heads, [tuple(map(str, counts))], notes + left_out)


@dataclass(frozen=True, repr=False)
class AdaptedModel(Shown):
    """A model for a new site.

    Attributes:
        model: its folder, for `load_predictor`.
        card: its card.
        problems: files that could not be read.
    """

    model: Path
    card: ModelCard
    problems: tuple[Skipped, ...]

    def table(self) -> Table:
        """Return what was measured; below, the warnings and the first files that were left out."""
        from fpgm.runs.site import describe_site, warn_of_site

        site = self.card.statistics.site
        assert site is not None, "an adapted model has the statistics of a site"
        notes = [f"Warning: {text}" for text in warn_of_site(site)]
        left_out = [f"{problem.path}: {problem.reason}" for problem in self.problems]
        return Table(f"Model {self.model}", ("what", "measured"), list(describe_site(site).items()), notes + left_out)


def _scores(name: str, scores: Scores) -> tuple[str, ...]:
    from fpgm.runs.scores import false_alarms, missed
    from fpgm.runs.summary import summarise

    dice, jaccard, distance = (summarise(scores.values[column]) for column in ("dice", "jaccard", "hd95"))
    numbers = f"{100 * dice.mean:.1f}", f"{100 * dice.low:.1f} to {100 * dice.high:.1f}", f"{100 * jaccard.mean:.1f}"
    counts = f"{missed(scores)}", f"{false_alarms(scores)}"
    unseen = " (unseen)" if scores.unseen else ""
    return f"{name}{unseen}", f"{len(scores.ids)}", *numbers, f"{distance.mean:.1f}", *counts


def _first(notes: Sequence[str], count: int = 10) -> list[str]:
    """Return the first notes, and how many more there are."""
    more = len(notes) - count
    return [*notes[:count], *([f"and {more} more"] if more > 0 else [])]
