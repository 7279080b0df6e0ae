"""The report: one HTML page that needs no other file, and beside it every table and figure as a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from fpgm.data.names import plural
from fpgm.files import write_text
from fpgm.report.pages.html import TABLES, document, figure, gallery
from fpgm.report.plots.curves import POINTS, curves_figure, gamma_figure
from fpgm.report.plots.gallery import collect_gallery
from fpgm.report.plots.panels import collect, panel_figure
from fpgm.report.plots.reliability import collect_reliability, reliability_figure
from fpgm.report.plots.saving import dark_twin
from fpgm.report.reading.groups import Group, grouped, labels
from fpgm.report.reading.paper import CAUTION, SHARES
from fpgm.report.reading.studies import REFERENCE, Study, studies
from fpgm.report.tables.detection import READING as DETECTION
from fpgm.report.tables.detection import detection_table
from fpgm.report.tables.formats import Cell, Line, Table, html, join, prose, texts
from fpgm.report.tables.hospitals import READING as HOSPITALS
from fpgm.report.tables.hospitals import HospitalStudy, hospital_significance, hospital_studies, hospital_table
from fpgm.report.tables.overview import READING as OVERVIEW
from fpgm.report.tables.overview import overview_table
from fpgm.report.tables.score_table import NOTICE, READING, notice, score_table
from fpgm.report.tables.significance import READING as TESTS
from fpgm.report.tables.significance import significance_table
from fpgm.report.tables.spread import READING as SPREAD
from fpgm.report.tables.spread import spread_tables
from fpgm.runs.results import Result

SOME_DRAWN = (
    "Some of these runs were scored on phantom images, drawn by the program (data sets named phantom-a and so on); "
    "their figures say nothing about real colonoscopy."
)


def write_report(
    results: Sequence[Result],
    problems: Sequence[str],
    out: Path,
    *,
    title: str = "FPGM report",
    facts: Sequence[str] = (),
    pictures: Sequence[tuple[Path, str]] = (),
    reference: str = REFERENCE,
    any_iterations: bool = False,
) -> Path:
    """Write OUT/index.html, OUT/tables and OUT/figures, and return the page.

    Args:
        results: evaluated runs, at least one.
        problems: a sentence for each run that could not be read.
        out: folder to write to.
        title: heading of the page.
        facts: sentences to put on top.
        pictures: further picture files with their captions.
        reference: the method that the others are tested against.
        any_iterations: whether runs of different numbers of iterations share tables.
    """
    groups = grouped(results, any_iterations=any_iterations)
    made = studies(groups, reference)
    hospitals = hospital_studies(groups, made)
    sections = [_hospitals(number, study, out) for number, study in enumerate(hospitals)]
    spreads = spread_tables(groups)
    sections += [_spread(table, out) for table in spreads]
    sections += [
        _section(number, group, own, out) for number, (group, own) in enumerate(zip(groups, made, strict=True))
    ]
    reading = [*READING, *([CAUTION] if any(group.is_papers for group in groups) else [])]
    reading += [*(HOSPITALS if hospitals else ()), *(SPREAD if spreads else ()), *TESTS, *DETECTION]
    page = document(
        title,
        *(f"<p>{escape(fact)}</p>" for fact in facts),
        _problems(problems),
        _phantoms(groups),
        _overview(groups, out),
        _contents(groups, hospitals),
        _details("How to read the tables", _list(tuple(dict.fromkeys(reading)))),
        *sections,
        *(_picture(path, caption) for path, caption in pictures),
        _details(f"Where they are: {plural(len(results), 'run')}", _runs(groups, out)),
        style=TABLES,
    )
    write_text(out / "index.html", page)
    return out / "index.html"


def _phantoms(groups: Sequence[Group]) -> str:
    """What must stand above the first figure if all or some are of phantoms."""
    drawn = [group.setting.phantom for group in groups]
    text = NOTICE if all(drawn) else SOME_DRAWN if any(drawn) else ""
    return f"<p class='notice'>{escape(text)}</p>" if text else ""


def _overview(groups: Sequence[Group], out: Path) -> str:
    """All rows in one table, if there are several."""
    table = overview_table(groups)
    return f"<h2>{escape(table.title)}</h2>{_written(table, out)}{_list(OVERVIEW)}" if table else ""


def _problems(problems: Sequence[str]) -> str:
    if not problems:
        return ""
    return f"<div class='notice'>Left out, because they could not be read:{_list(problems)}</div>"


def _contents(groups: Sequence[Group], hospitals: Sequence[HospitalStudy]) -> str:
    """The settings, which no table mixes, and the shares of labels the paper has beside them; hospitals first."""
    lines = [
        f"<li><a href='#hospitals-{number}'>Unseen hospitals, {escape(str(study.setting))}</a>: "
        f"{plural(len(study.rows), 'row')}, "
        f"{escape(join([fold.left_out for fold in study.folds]))} left out once each</li>"
        for number, study in enumerate(hospitals)
    ]
    for number, group in enumerate(groups):
        seeds = sorted({seed for row in group.rows for seed in row.seeds})
        told = f"{plural(len(group.rows), 'row')}, seed{'s' * (len(seeds) > 1)} {join(seeds)}"
        lines.append(
            f"<li><a href='#setting-{number}'>{escape(str(group.setting))}</a>: "
            f"{told}{escape(_absent_shares(group, groups))}</li>"
        )
    runs = sum(len(row.results) for group in groups for row in group.rows)
    told = f"Evaluated runs: {runs}. Below, those of different settings never share a table:"
    return f"<p>{told}</p><ul>{''.join(lines)}</ul>"


def _absent_shares(group: Group, groups: Sequence[Group]) -> str:
    """Say which of the paper's shares of labels have no run, at the first group of a setting."""
    if not group.is_papers:
        return ""
    alike = [
        other.setting for other in groups if other.setting._replace(labeled="") == group.setting._replace(labeled="")
    ]
    absent = [share for share in SHARES if share not in {setting.labeled for setting in alike}]
    return f" (missing: {join(absent)} labelled)" if absent and group.setting is alike[0] else ""


def _hospitals(number: int, study: HospitalStudy, out: Path) -> str:
    """Tables of one setting over all folds; each fold has a section of its own besides."""
    table, test = hospital_table(study), hospital_significance(study)
    parts = [f"<h2 id='hospitals-{number}'>Unseen hospitals: {escape(str(study.setting))}</h2>"]
    parts += [f"<p class='notice'>{escape(text)}</p>" for text in notice(study.folds[0])]
    parts += [f"<h3>{escape(table.title)}</h3>{_written(table, out)}"]
    parts += [_details(test.title, _written(test, out), opened=True)] if test else []
    return "\n".join(parts)


def _spread(table: Table, out: Path) -> str:
    """The table of one setting over all splits and draws."""
    drawn = f"<p class='notice'>{escape(NOTICE)}</p>" if NOTICE in table.reading else ""
    return f"<h2>{escape(table.title)}</h2>{drawn}{_written(table, out)}"


def _section(number: int, group: Group, own: Sequence[Study], out: Path) -> str:
    parts = [f"<h2 id='setting-{number}'>{escape(group.setting.sentence)}</h2>", _list(group.notes)]
    parts += [f"<p class='notice'>{escape(text)}</p>" for text in notice(group)]
    for study in own:
        parts += _study(group, study, out)
    return "\n".join(parts)


def _study(group: Group, study: Study, out: Path) -> Iterator[str]:
    """Tables, tests, curves and pictures of one question."""
    place, slug = out / "figures", f"{study.name}_{group.setting.slug}"
    sweep = study.name.startswith("gamma")
    if sweep:
        gamma_figure(group, study, place / f"{slug}.png")
        yield f"<h3>{escape(study.title)}</h3>"
        yield _picture(place / f"{slug}.png", f"Dice and HD95 (`penalise`) against γ. {group.setting.sentence}.")
    for unseen in (False, True):
        if table := score_table(group, study, unseen=unseen):
            yield f"<h3>{escape(table.title)}</h3>{_written(table, out)}"
        if not sweep and (table := significance_table(group, study, unseen=unseen)):
            yield _details(table.title, _written(table, out))
    curves_figure(
        {entry.label: [result.metrics for result in entry.row.results] for entry in study.entries},
        place / f"curves-{slug}.png",
    )
    yield _details(
        f"Training curves: {study.title}, {group.setting.labeled} labelled",
        _picture(
            place / f"curves-{slug}.png",
            "Loss on labelled batches, which methods weigh differently; foreground of pseudo-labels that is kept, if a "
            f"method has them; both averaged to at most {POINTS} points. Dice on the validation images. A line per "
            f"seed. {group.setting.sentence}.",
        ),
        opened=study.name == "main",
    )
    if study.name == "main":
        yield from _polyps(group, study, out)
        yield from _panels(group, study, out)


def _polyps(group: Group, study: Study, out: Path) -> Iterator[str]:
    """Missed polyps and false alarms by size, and reliability curves."""
    for unseen in (False, True):
        if table := detection_table(group, study, unseen=unseen):
            yield f"<h3>{escape(table.title)}</h3>{_written(table, out)}"
    if curves := collect_reliability(group, study):
        path = out / "figures" / f"reliability_{group.setting.slug}.png"
        reliability_figure(curves, path)
        yield f"<h3>Reliability of the probabilities, {escape(group.setting.labeled)} labelled</h3>"
        yield _picture(
            path,
            "Share of pixels that are foreground against the foreground probability they were given, in 15 bins of "
            "equal width, all seeds together; on the dotted line both are equal. Above each panel the expected "
            f"calibration error of the rows in their order. {group.setting.sentence}.",
        )


def _panels(group: Group, study: Study, out: Path) -> Iterator[str]:
    for unseen in (False, True):
        panels, notes = collect(group, study, unseen=unseen)
        kind = "unseen" if unseen else "test"
        if panels:
            path = out / "figures" / f"panels-{kind}_{group.setting.slug}.jpg"
            panel_figure(panels, path)
            panel_figure(panels, dark_twin(path), dark=True)
            yield f"<h3>What was found: {kind} images, {escape(group.setting.labeled)} labelled</h3>"
            yield _picture(
                path,
                "Truth green, prediction yellow; below each its Dice in percent, by each row's first seed. Of each set "
                "the best, the middle and the worst image by mean Dice over the rows, nothing picked by hand: "
                f"{join([panel.id for panel in panels])}. {group.setting.sentence}.",
                least=76 * (2 + len(study.entries)),
            )
            yield from _galleries(group, study, unseen=unseen)
        yield _list(notes)


def _galleries(group: Group, study: Study, *, unseen: bool) -> Iterator[str]:
    """Images of each set from the worst to the best Dice, by the row that others are compared with."""
    entry = study.reference or study.entries[0]
    for dataset in group.datasets(unseen=unseen):
        scores = entry.row.scores(dataset)
        if not scores:
            continue
        try:
            tiles = collect_gallery(entry.row, dataset)
        except Exception:  # as of panels, which have said why
            continue
        total = len(next(iter(scores.values())).ids)
        shown = f"all {total}" if len(tiles) == total else f"{len(tiles)} of {total} at even steps"
        pictures = gallery([(one.picture, f"{100 * one.dice:.1f}", one.id.partition("/")[2]) for one in tiles])
        by = (
            f"From the worst to the best by {entry.label}, first seed. Truth green, prediction yellow, Dice in percent."
        )
        yield _details(f"Gallery of {dataset}, sorted by Dice: {shown}", f"<p>{escape(by)}</p>{pictures}")


def _runs(groups: Sequence[Group], out: Path) -> str:
    """Where everything comes from."""
    records = [
        {
            "row": label,
            "seed": result.seed,
            "setting": str(group.setting),
            "version": result.config.get("version", ""),
            "folder": str(result.folder),
        }
        for group in groups
        for label, row in zip(labels(group.rows), group.rows, strict=True)
        for result in row.results
    ]
    lines = tuple(Line(tuple(Cell(str(value)) for value in record.values())) for record in records)
    return _written(Table("runs", "Runs", tuple(records[0]), lines, left=5, records=tuple(records)), out)


def _written(table: Table, out: Path) -> str:
    """Write the files of a table and return it for the page."""
    for ending, text in texts(table).items():
        write_text(out / "tables" / f"{table.name}.{ending}", text)
    return html(table)


def _picture(path: Path, caption: str, least: int = 600) -> str:
    """Return a picture file for the page, and its dark version if there is one."""
    kind, dark = path.suffix[1:].replace("jpg", "jpeg"), dark_twin(path)
    return figure(path.read_bytes(), kind, caption, least, dark.read_bytes() if dark.is_file() else b"")


def _details(summary: str, content: str, *, opened: bool = False) -> str:
    return f"<details{' open' if opened else ''}><summary>{escape(summary)}</summary>{content}</details>"


def _list(sentences: Sequence[str]) -> str:
    return f"<ul class='facts'>{''.join(f'<li>{prose(one)}</li>' for one in sentences)}</ul>" if sentences else ""
