"""The page of a leaderboard: a section for each plan, a table for each share of labels, the highest Dice first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from fpgm.files import write_text
from fpgm.report.pages.html import TABLES, document
from fpgm.report.tables.formats import Table, html, texts
from fpgm.report.tables.spread import READING, describe_axes, spread_table
from fpgm.runs.results import Result

CHECKED = (
    "Every score was computed again from the submitted masks and the masks of this store. Settings, split and "
    "labelled images are those of the plan; the method and its arguments are the entry's own. That nobody trained on "
    "the test images cannot be checked."
)


@dataclass(frozen=True)
class Board:
    """The checked runs of one plan, and a sentence for each that does not hold."""

    name: str
    sha256: str
    results: tuple[Result, ...]
    problems: tuple[str, ...]


def write_leaderboard(boards: Sequence[Board], out: Path) -> Path:
    """Write OUT/index.html and each table as Markdown, LaTeX and CSV, and return the page."""
    parts = [f"<p>{escape(text)}</p>" for text in (CHECKED, *(one.replace("`", "") for one in READING))]
    for board in boards:
        parts.append(f"<h2>{escape(board.name)}</h2><p>Plan <code>{board.sha256}</code></p>")
        for table in board_tables(board):
            for ending, text in texts(table).items():
                write_text(out / "tables" / f"{table.name}.{ending}", text)
            parts.append(f"<h3>{escape(table.title)}</h3>{html(table)}")
        if board.problems:
            items = "".join(f"<li>{escape(one)}</li>" for one in board.problems)
            parts.append(f"<div class='notice'>Left out:<ul>{items}</ul></div>")
    write_text(out / "index.html", document("Leaderboard", *parts, style=TABLES))
    return out / "index.html"


def board_tables(board: Board) -> list[Table]:
    """Return a table for each share of labels of a plan."""
    shares: dict[str, list[Result]] = {}
    for result in board.results:
        shares.setdefault(result.labeled, []).append(result)
    return [
        spread_table(
            f"{board.name}_{board.sha256[:8]}_{share.replace('%', 'pct')}",
            f"{board.name}: {share} labelled",
            own,
            [f"{describe_axes(own)}.".capitalize(), _steps(own)],
            ranked=True,
        )
        for share, own in shares.items()
    ]


def _steps(results: Sequence[Result]) -> str:
    """Say how long each row was trained."""
    steps = {result.method: result.iterations for result in results}
    if len(set(steps.values())) == 1:
        return f"{next(iter(steps.values())):,} iterations."
    return f"Iterations: {', '.join(f'{row} {count:,}' for row, count in steps.items())}."
