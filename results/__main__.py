"""Our results: the files of evaluated runs, and the tables of docs/results.md and README.md made of them.

    python results                  # make results: write the tables and figures of the pages anew; nothing is trained
    python results keep OUT NAME [validation]    # keep the files of the runs below OUT as results/runs/NAME

A table stands between ``<!-- results: NAME -->``, or ``NAME short``, and ``<!-- end of results -->``. Its runs are in
results/runs/NAME, computed by ``fpgm reproduce --plan results/plans/NAME.yaml``. ``NAME [NAME …] validation`` is a
table of validation Dice, by which choices are made; no test image counts. The figures are of the same runs.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import yaml
from matplotlib.figure import Figure

from fpgm.experiments import cells
from fpgm.experiments.plan import variant_of
from fpgm.files import write_text
from fpgm.report.plots.curves import curves_figure
from fpgm.report.plots.saving import save_figure
from fpgm.report.plots.style import COLOURS
from fpgm.report.reading.groups import Group, Row, grouped, labels
from fpgm.report.reading.paper import DATASETS
from fpgm.report.reading.studies import REFERENCE, studies
from fpgm.report.tables.formats import Table, markdown
from fpgm.report.tables.hospitals import hospital_significance, hospital_studies, hospital_table
from fpgm.report.tables.significance import LEVEL, pairwise_tests
from fpgm.runs.card import read_card
from fpgm.runs.folder import RunFolder, find_runs
from fpgm.runs.results import read_result
from fpgm.runs.scores import false_alarms, missed

RUNS = Path(__file__).parent / "runs"
PLANS = Path(__file__).parent / "plans"
DOCS = Path(__file__).parents[1] / "docs"
PAGES = (*(DOCS / f"{name}.md" for name in ("results", "what-decides", "log")), DOCS.parent / "README.md")
OURS = "fpgm_teacher"  # the others are tested against it; where it is not, against FPGM
BLOCK = re.compile(
    r"(<!-- results: ([\w-]+(?: [\w-]+)*?)( short| validation)? -->\n).*?(<!-- end of results -->)", re.S
)
KEPT = ("config.yaml", "metrics.csv", "cell.json", "model/model.json")
SCORES = ("evaluation/*.csv", "evaluation/*.json")


def keep(out: Path, name: str, *more: str) -> int:
    """Copy what tables need of the evaluated runs below a folder, without weights, masks and paths; return how many.

    Args:
        out: folder of the runs.
        name: name of the runs.
        more: `validation`, if no test image is to count: the scores are left behind.
    """
    kept = KEPT if more else (*KEPT, *SCORES)
    runs = [run for run in find_runs([out]) if (RunFolder(run).evaluation / "evaluation.json").is_file()]
    for run in runs:
        to = RUNS / name / run.relative_to(out)
        for file in (file for pattern in kept for file in run.glob(pattern)):
            copy = to / file.relative_to(run)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
        config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
        config["data"]["store"] = Path(config["data"]["store"]).name
        write_text(to / "config.yaml", yaml.safe_dump(config, sort_keys=False))
    return len(runs)


def render(page: str) -> str:
    """Return the text of the page with its tables made anew."""

    def made(found: re.Match[str]) -> str:
        _, names, kind, end = found.groups()
        text = validation_table(names.split()) if kind == " validation" else tables(names, short=kind == " short")
        return f"{found[1]}\n{text}\n{end}"

    return BLOCK.sub(made, page)


def tables(name: str, *, short: bool = False) -> str:
    """Return the tables of some runs as Markdown: one of each split, or one over all hospitals.

    Args:
        name: name of the runs.
        short: leave out what stands below the tables.
    """
    groups = grouped([read_result(run) for run in find_runs([RUNS / name])], any_iterations=True)
    folds = [group for group in groups if group.left_out]
    made = [score_table(group, short=short) for group in groups if not group.left_out]
    for study in hospital_studies(folds, studies(folds, OURS)):
        made += [bare(table) for table in (hospital_table(study), hospital_significance(study)) if table]
    return "\n\n".join(made) + "\n"


def bare(table: Table) -> str:
    """Return the lines of a table of the report and the facts below them."""
    return markdown(replace(table, reading=())).partition("\n\n")[2].strip()


def score_table(group: Group, *, short: bool) -> str:
    """Return Dice by set as mean ± standard deviation over seeds, its mean over sets, missed polyps, and the tests.

    Unless it is to be short, HD95 and missed polyps by set follow.
    """
    sets = [*group.datasets(unseen=False), *group.datasets(unseen=True)]
    names = [DATASETS.get(name, name) for name in sets]
    dice = _lines(group, [*names, "mean", "missed"], lambda row: [*_means(row, sets, "dice", 100), _missed(row, sets)])
    if short:
        return dice
    distance = _lines(group, [*names, "mean"], lambda row: _means(row, sets, "hd95"))
    gone = _lines(group, [*names, "all"], lambda row: [*(_missed(row, [name]) for name in sets), _missed(row, sets)])
    return "\n\n".join(
        [
            dice,
            f"{group.setting.sentence}. {_verdict(group, sets)}".rstrip(),
            f"HD95 in pixels of {group.setting.size} × {group.setting.size}, the diagonal where nothing was found:",
            distance,
            f"Missed polyps of all seeds. {_alarms(group, sets)}",
            gone,
        ]
    )


def _lines(group: Group, head: Sequence[str], cells: Callable[[Row], Sequence[str]]) -> str:
    """Return a table with a line for each row: its name, steps and number of seeds, then what is told of it."""
    lines = [["", "steps", "seeds", *head], ["---", *["---:"] * (2 + len(head))]]
    for label, row in zip(labels(group.rows), group.rows, strict=True):
        lines.append([_without_steps(label), f"{row.results[0].iterations:,}", str(len(row.seeds)), *cells(row)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _means(row: Row, sets: Sequence[str], column: str, scale: float = 1) -> list[str]:
    """The means of a column over the images of each set, and over the sets, with their spread over seeds."""
    means = np.array(
        [[scale * float(np.mean(one.scores[name].values[column])) for name in sets] for one in row.results]
    )
    return [_figure(values) for values in (*means.T, means.mean(1))]


def _without_steps(label: str) -> str:
    """Return the name of a row without its number of steps, which has a column."""
    return re.sub(r"(, )?train\.iterations=\d+", "", label).replace(" ()", "")


def _figure(values: Sequence[float]) -> str:
    """Mean ± standard deviation, of one value the value."""
    return f"{np.mean(values):.1f}" + (f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else "")


def _missed(row: Row, sets: Sequence[str]) -> str:
    """How many images with a polyp have none found, of all seeds and sets."""
    every = [one.scores[name] for one in row.results for name in sets]
    return f"{sum(map(missed, every))} of {sum(len(one.ids) for one in every)}"


def _alarms(group: Group, sets: Sequence[str]) -> str:
    """Say in how many images without a polyp one was found, of all rows and seeds, if there are such images."""
    every = [false_alarms(one.scores[name]) for row in group.rows for one in row.results for name in sets]
    found = [count for count in every if count is not None]
    return f"False alarms of all rows: {sum(found)}." if found else "Every image has a polyp: no false alarms to count."


def _verdict(group: Group, sets: Sequence[str]) -> str:
    """Say on which sets ours, or FPGM where ours is not, differs from each other row by the paired test."""
    tested = OURS if any(row.method == OURS for row in group.rows) else REFERENCE
    [main, *_] = studies([group], tested)[0]
    tests = pairwise_tests(main, sets)
    if not tests:
        return ""
    found: dict[str, list[str]] = {}
    for one in tests:
        if one.corrected < LEVEL:
            differs = f"{DATASETS.get(one.dataset, one.dataset)} {100 * one.difference.mean:+.1f}"
            found.setdefault(_without_steps(one.other), []).append(differs)
    told = "; ".join(f"from {other} on {', '.join(where)}" for other, where in found.items()) if found else "none"
    by = f"Wilcoxon's test paired by image, Holm's correction over {len(tests)} tests"
    return f"Significant differences of {tested} ({by}): {told}."


def validation_table(names: Sequence[str]) -> str:
    """Return the validation Dice of plans' runs, a row of their plans each, and how far it is from the first row.

    It is the Dice of what would be shipped: with the best step and the batch-norm statistics that validation chose. A
    difference is paired by seed.
    """
    plans = [yaml.safe_load((PLANS / f"{name}.yaml").read_text(encoding="utf-8")) for name in names]
    found = [_validation_dice(RUNS / name) for name in names]
    head, lines = ["", "settings"], []
    for plan in plans:
        steps = next(text.partition("=")[2] for text in plan["settings"] if text.startswith("train.iterations="))
        head += [f"{plan['size']} pixels, {int(steps):,} steps", "seeds", "difference"]
    rows = list(dict.fromkeys(row for plan in plans for row in plan["methods"]))
    for row in rows:
        line = [row, " ".join(f"`{text}`" for text in variant_of(row).settings)]
        for dice in found:
            own = dice.get(row, {})
            line += [_figure(list(own.values())), str(len(own))] if own else ["", "0"]
            pairs = _differences(dice, row, rows[0]) if row != rows[0] else []
            line.append(re.sub(r"^(?=\d)", "+", _figure(pairs)).replace("-", "−") if pairs else "")
        lines.append(line)
    return (
        "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * 2 + ["---:"] * (len(head) - 2), *lines]) + "\n"
    )


def draw_differences(name: str, path: Path) -> None:
    """Draw how far each row of a plan is from its first in validation Dice: a bar for the mean, a dot per seed."""
    first, *rows = yaml.safe_load((PLANS / f"{name}.yaml").read_text(encoding="utf-8"))["methods"]
    dice = _validation_dice(RUNS / name)
    found = {row: pairs for row in rows if (pairs := _differences(dice, row, first))}
    order = sorted(found, key=lambda row: float(np.mean(found[row])))
    picture = Figure(figsize=(7.5, 1.1 + 0.27 * len(order)), layout="constrained")
    axis = picture.subplots()
    axis.barh(range(len(order)), [float(np.mean(found[row])) for row in order], color=COLOURS[5])
    for place, row in enumerate(order):
        axis.plot(found[row], [place] * len(found[row]), "o", color=COLOURS[6], markersize=3.5)
    axis.axvline(0, color=COLOURS[6], linewidth=1)
    axis.set_yticks(range(len(order)), [row.removeprefix(f"{first}-").replace("-", " ") for row in order])
    axis.set(xlabel=f"points of validation Dice from {first}")
    axis.grid(axis="x", alpha=0.3)
    save_figure(picture, path)


def draw_curves(name: str, path: Path) -> None:
    """Draw the training curves of some runs of one split."""
    [group] = grouped([read_result(run) for run in find_runs([RUNS / name])], any_iterations=True)
    rows = zip(labels(group.rows), group.rows, strict=True)
    curves_figure({label: [result.metrics for result in row.results] for label, row in rows}, path)


def _differences(dice: Mapping[str, Mapping[int, float]], row: str, first: str) -> list[float]:
    """How far a row is from the first, for each seed that both have."""
    own, other = dice.get(row, {}), dice.get(first, {})
    return [own[seed] - other[seed] for seed in sorted(own.keys() & other.keys())]


def _validation_dice(folder: Path) -> dict[str, dict[int, float]]:
    """Validation Dice in percent of the runs below a folder, by row and seed."""
    found: dict[str, dict[int, float]] = {}
    for run in find_runs([folder]):
        training, cell = read_card(run / "model").training, cells.read(run)
        assert cell is not None, f"{run} has no cell.json"
        found.setdefault(cell.variant, {})[training["seed"]] = 100 * training["validation_dice"]
    return found


def main(arguments: Sequence[str]) -> int:
    """Keep runs, or write the tables of the page."""
    if arguments and (arguments[0] != "keep" or arguments[3:] not in ([], ["validation"]) or len(arguments) < 3):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments:
        print(f"{keep(Path(arguments[1]), *arguments[2:])} runs kept in results/runs/{arguments[2]}")
    else:
        for page in PAGES:
            write_text(page, render(page.read_text(encoding="utf-8")))
        draw_differences("recipe-64px", DOCS / "images" / "what-decides.png")
        draw_differences("ablation-64px", DOCS / "images" / "teacher-parts.png")
        draw_curves("schedule-64px", DOCS / "images" / "paper-schedule.png")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
