"""A table, and the four ways to write it: Markdown, LaTeX, CSV, HTML."""

from __future__ import annotations

import csv
import io
import math
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from fpgm.files import csv_cell

_LATEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": r"$-$",
    "·": r"$\cdot$",
    "—": "---",
    "γ": r"$\gamma$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    **{letter: f"\\{letter}" for letter in "%&#$_{}"},
}
_MARKED = re.compile(r"\bL_(sup|unsup|freq)\b|`([^`]+)`")  # a loss of the paper, or a word of ours


class Cell(NamedTuple):
    """A text, the spread that belongs to it, whether it is the best of its column, and its 95 % interval."""

    text: str
    spread: str = ""
    best: bool = False
    interval: str = ""


class Line(NamedTuple):
    """Cells of a line; `ours` is what we computed by the first rule, `aside` what stands beside it for comparison."""

    cells: tuple[Cell, ...]
    aside: bool = False


@dataclass(frozen=True)
class Table:
    """A table with all that it needs to be understood alone."""

    name: str
    title: str
    header: tuple[str, ...]
    lines: tuple[Line, ...]
    facts: tuple[str, ...] = ()  # about these runs
    reading: tuple[str, ...] = ()  # what all tables of this kind have in common
    heads: tuple[tuple[str, int], ...] = ()  # heading and number of columns under it
    left: int = 1  # number of columns that are names, the rest are figures
    records: tuple[Mapping[str, Any], ...] = ()  # the lines of the CSV file


def texts(table: Table) -> dict[str, str]:
    """Return the table as files: their endings and contents."""
    return {"md": markdown(table), "tex": latex(table), "csv": csv_text(table)}


def markdown(table: Table) -> str:
    """Write a pipe table under its title, with facts and reading below."""
    over = [text for text, columns in table.heads for _ in range(columns)] or [""] * len(table.header)
    header = [f"{above} {name}".strip() for above, name in zip(over, table.header, strict=True)]
    rule = ["---" if column < table.left else "---:" for column in range(len(header))]
    body = [[_markdown_cell(cell) for cell in line.cells] for line in table.lines]
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, rule, *body)]
    notes = [f"* {note}" for note in (*table.facts, *table.reading)]
    return "\n".join([f"# {table.title}", "", *lines, "", *notes]) + "\n"


def latex(table: Table) -> str:
    """Write a table for booktabs and graphicx, as wide as the text."""
    columns = "l" * table.left + "r" * (len(table.header) - table.left)
    body = []
    for number, line in enumerate(table.lines):
        if number and line.cells[0].text and not line.aside:
            body.append(r"\addlinespace")
        body.append(" & ".join(map(_latex_cell, line.cells)) + r" \\")
    caption = " ".join(_latex(note) for note in (f"{table.title}.", *table.facts, *table.reading))
    lines = [
        r"% needs \usepackage{booktabs,graphicx}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:{table.name}}}",
        r"\resizebox{\textwidth}{!}{%",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *_latex_heads(table.heads),
        " & ".join(map(_latex, table.header)) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}%",
        "}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def csv_text(table: Table) -> str:
    """Write the records, a line per figure, numbers as exact as they are."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(table.records[0]) if table.records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in record.items()} for record in table.records)
    return text.getvalue()


def html(table: Table) -> str:
    """Write the table with its facts, and links that hold its files."""
    heads = "".join(
        f"<th colspan='{columns}'{' class=over' if text else ''}>{escape(text)}</th>" for text, columns in table.heads
    )
    rows = [f"<tr>{heads}</tr>"] if heads else []
    rows.append(f"<tr>{_html_line([Cell(text) for text in table.header], 'th', table.left)}</tr>")
    body = [
        f"<tr class='{'aside' if line.aside else 'ours'}{' first' if line.cells[0].text else ''}'>"
        f"{_html_line(line.cells, 'td', table.left)}</tr>"
        for line in table.lines
    ]
    grid = f"<table><thead>{''.join(rows)}</thead><tbody>\n" + "\n".join(body) + "\n</tbody></table>"
    facts = "".join(f"<li>{prose(fact)}</li>" for fact in table.facts)
    return f"<div class='wide'>{grid}</div>\n<ul class='facts'>{facts}<li>{_links(table)}</li></ul>"


def prose(text: str) -> str:
    """Write a text as HTML: losses with their index, words of ours as code."""
    return _MARKED.sub(
        lambda found: f"L<sub>{found[1]}</sub>" if found[1] else f"<code>{found[2]}</code>", escape(text)
    )


def bracketed(low: float, high: float) -> str:
    """Write a 95 % interval of percents; nothing where there is none."""
    return "" if math.isnan(low) else f"[{low:.1f}, {high:.1f}]"


def join(names: Sequence[object]) -> str:
    """Write a list with commas."""
    return ", ".join(map(str, names))


def _markdown_cell(cell: Cell) -> str:
    text = cell.text.replace("|", r"\|")
    text = f"**{text}**" if cell.best else text
    return " ".join(filter(None, (text, cell.spread, cell.interval)))


def _latex(text: str) -> str:
    made, end = "", 0
    for found in _MARKED.finditer(text):
        term, word = found.groups()
        made += _latex_plain(text[end : found.start()])
        made += rf"$\mathcal{{L}}_{{\mathrm{{{term}}}}}$" if term else rf"\texttt{{{_latex_plain(word)}}}"
        end = found.end()
    return made + _latex_plain(text[end:])


def _latex_plain(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _latex_cell(cell: Cell) -> str:
    text = rf"\textbf{{{_latex(cell.text)}}}" if cell.best else _latex(cell.text)
    return " ".join(filter(None, (text, _latex(cell.spread), _latex(cell.interval))))


def _latex_heads(heads: Sequence[tuple[str, int]]) -> list[str]:
    """The line over the header, and rules under its texts."""
    if not heads:
        return []
    rules, column = "", 1
    for text, columns in heads:
        rules += rf"\cmidrule(lr){{{column}-{column + columns - 1}}}" if text else ""
        column += columns
    cells = [rf"\multicolumn{{{columns}}}{{c}}{{{_latex(text)}}}" for text, columns in heads]
    return [" & ".join(cells) + r" \\", rules]


def _html_line(cells: Sequence[Cell], tag: str, left: int) -> str:
    made = ""
    for place, cell in enumerate(cells):
        text = prose(cell.text)
        text = f"<b>{text}</b>" if cell.best else text
        more = "".join(f" <small>{escape(one)}</small>" for one in (cell.spread, cell.interval) if one)
        made += f"<{tag}{'' if place < left else ' class=number'}>{text}{more}</{tag}>"
    return made


def _links(table: Table) -> str:
    """Links that need no other file: each holds what it offers."""
    kinds = {"md": "text/markdown", "tex": "application/x-tex", "csv": "text/csv"}
    return " · ".join(
        f"<a download='{escape(table.name)}.{ending}' href='data:{kinds[ending]};base64,"
        f"{b64encode(text.encode()).decode()}'>{ending}</a>"
        for ending, text in texts(table).items()
    )
