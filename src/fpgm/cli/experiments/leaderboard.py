"""``fpgm leaderboard``: the runs of several people on one plan, checked and side by side."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fpgm.experiments.leaderboard import Entry
    from fpgm.runs.results import Result


def leaderboard(entries: list[Path], *, data: Path, out: Path = Path("leaderboard"), json: bool = False) -> int:
    """Check entries of one or more plans and put them side by side, the highest Dice first.

    An entry is a folder that `fpgm reproduce --plan` wrote. All scores are computed again from the predicted masks in
    it; settings, split and labelled images must be those of the plan. No code and no weights of an entry are used.
    Writes OUT/index.html, and each table as Markdown, LaTeX and CSV. What does not hold is named and left out, and the
    exit code is then 1.

    Args:
        entries: folders of runs with a plan.yaml.
        data: your own store of the data that the plan names.
        out: folder to write to.
        json: print JSON for programs.
    """
    from fpgm.cli.terminal import console, print_json, progress_bars
    from fpgm.experiments.leaderboard import check_entry
    from fpgm.files import sole_writer
    from fpgm.report.pages.leaderboard import Board, write_leaderboard

    checked: dict[str, list[Entry]] = {}
    with progress_bars() as bar:
        for folder in dict.fromkeys(entries):
            entry = check_entry(folder, data, bar(folder.name))
            checked.setdefault(entry.plan.sha256, []).append(entry)
    boards = [
        Board(
            own[0].plan.name,
            sha256,
            tuple(result for entry in own for result in _named(entry, own)),
            tuple(f"{entry.folder}: {problem}" for entry in own for problem in entry.problems),
        )
        for sha256, own in checked.items()
    ]
    problems = [problem for board in boards for problem in board.problems]
    for problem in problems:
        print(f"fpgm: left out: {problem}", file=sys.stderr)
    with sole_writer(out):
        page = write_leaderboard(boards, out)
    runs = sum(len(board.results) for board in boards)
    if json:
        print_json(page=str(page), plans=list(checked), runs=runs, problems=problems)
    else:
        text = f"{runs} run{'s' * (runs != 1)} checked, {len(problems)} problems; open {page}"
        console().print(text, highlight=False, soft_wrap=True)
    return int(bool(problems))


def _named(entry: Entry, others: list[Entry]) -> list[Result]:
    """Return the runs of an entry; a row that another entry has too gets the name of its folder behind it."""
    twice = {one.method for other in others if other is not entry for one in other.results}
    return [
        replace(one, config={**one.config, "method": f"{one.method} ({entry.folder.name})"})
        if one.method in twice
        else one
        for one in entry.results
    ]
