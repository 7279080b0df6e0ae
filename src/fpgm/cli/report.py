"""``fpgm report``: tables, figures and a page from evaluated runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fpgm.runs.results import Result


def report(
    runs: list[Path], *, out: Path = Path("report"), reference: str | None = None, any_iterations: bool = False
) -> int:
    """Make the paper's tables and figures from evaluated runs, with the paper's own figures beside ours.

    Writes OUT/index.html, which needs no other file and no network, and beside it every table as Markdown, LaTeX and
    CSV and every figure. Runs that cannot be read are named and left out, and the exit code is 1.

    Args:
        runs: run folders, or folders with runs anywhere below them.
        out: folder to write to.
        reference: method that the others are tested against, by its name in `fpgm train`; fpgm if not given.
        any_iterations: let runs of different numbers of steps share tables, to compare methods at equal time; a row
            then names its steps.
    """
    from fpgm.cli.terminal import console
    from fpgm.files import sole_writer
    from fpgm.report.pages.report import write_report
    from fpgm.report.reading.studies import REFERENCE

    results, problems = _read(runs)
    for problem in problems:
        print(f"fpgm: left out: {problem}", file=sys.stderr)
    if not results:
        raise ValueError("there is nothing to report: none of these is a run that was evaluated with `fpgm evaluate`")
    if reference and reference not in (known := {result.method for result in results}):
        raise ValueError(f"no run is of the method {reference!r}: give --reference one of {', '.join(sorted(known))}")
    with sole_writer(out):
        page = write_report(results, problems, out, reference=reference or REFERENCE, any_iterations=any_iterations)
    text = f"{len(results)} run{'s' * (len(results) > 1)} read, {len(problems)} left out; open {page}"
    console().print(text, highlight=False, soft_wrap=True)
    return int(bool(problems))


def _read(paths: list[Path]) -> tuple[list[Result], list[str]]:
    """Read all runs at or below the paths, each once, and say what could not be read."""
    from fpgm.report.reading.groups import grouped
    from fpgm.report.reading.studies import studies
    from fpgm.runs.folder import find_runs
    from fpgm.runs.results import read_result

    folders: dict[Path, Path] = {}
    results, problems = [], []
    for path in paths:
        try:
            folders |= {folder.resolve(): folder for folder in find_runs([path])}
        except OSError as error:
            problems.append(str(error))
    for folder in folders.values():
        try:
            result = read_result(folder)
            studies(grouped([result]))
            results.append(result)
        except (ValueError, OSError) as error:
            problems.append(str(error))
        except Exception as error:  # one run must not stop the others, whatever is broken in it
            problems.append(f"{folder} cannot be reported ({type(error).__name__}: {error}): copy or make it again")
    return results, problems
