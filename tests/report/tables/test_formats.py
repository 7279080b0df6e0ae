"""One table, four ways to write it, read back by other means than ours."""

from __future__ import annotations

import base64
import csv
import io
import re
from html.parser import HTMLParser

import pytest

from fpgm.report.tables.formats import Cell, Line, Table, csv_text, html, latex, markdown

TABLE = Table(
    name="main_5pct",
    title="Methods & 5% more",
    header=("", "Dice ↑", "HD95 ↓"),
    lines=(
        Line((Cell("L_sup"), Cell("50.00", "± 1.00", best=True), Cell("—"))),
        Line((Cell("a|b_<c>"), Cell("40.00", "(2.0)"), Cell("3.00"))),
        Line((Cell(""), Cell("80.66"), Cell("")), aside=True),
    ),
    facts=("128 × 128 pixels, 100% sure.",),
    reading=("`penalise` is #1.",),
    heads=(("", 1), ("Kvasir_SEG", 2)),
    records=({"row": "L_sup", "mean": 0.1 + 0.2, "note": "a,b"}, {"row": "x", "mean": float("nan"), "note": ""}),
)


class Grid(HTMLParser):
    """The texts of a page by row of its tables, checking that every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data


def test_markdown() -> None:
    assert markdown(TABLE) == (
        "# Methods & 5% more\n\n"
        "|  | Kvasir_SEG Dice ↑ | Kvasir_SEG HD95 ↓ |\n"
        "| --- | ---: | ---: |\n"
        "| L_sup | **50.00** ± 1.00 | — |\n"
        "| a\\|b_<c> | 40.00 (2.0) | 3.00 |\n"
        "|  | 80.66 |  |\n\n"
        "* 128 × 128 pixels, 100% sure.\n"
        "* `penalise` is #1.\n"
    )


def test_latex() -> None:
    text = latex(TABLE)
    assert r"$\mathcal{L}_{\mathrm{sup}}$ & \textbf{50.00} $\pm$ 1.00 & --- \\" in text
    assert r"a|b\_$<$c$>$ & 40.00 (2.0) & 3.00 \\" in text
    assert r"\multicolumn{1}{c}{} & \multicolumn{2}{c}{Kvasir\_SEG} \\" in text and r"\cmidrule(lr){2-3}" in text
    assert r"Methods \& 5\% more. 128 $\times$ 128 pixels, 100\% sure. \texttt{penalise} is \#1." in text
    for mark in (r"\toprule", r"\midrule", r"\bottomrule", r"\begin{tabular}{lrr}"):
        assert text.count(mark) == 1


def test_latex_is_balanced() -> None:
    text = re.sub(r"^%.*", "", latex(TABLE), flags=re.M)
    bare = re.sub(r"\\.", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    body = text[text.index("\\midrule") : text.index("\\bottomrule")]
    assert {line.count(" & ") for line in body.splitlines() if line.endswith("\\\\")} == {2}
    assert not re.search("[^\x00-\x7f]", text)  # any LaTeX engine reads it


@pytest.mark.parametrize("letter", list("\\%&#$_{}~^<>"))
def test_latex_escapes(letter: str) -> None:
    table = Table("t", letter, ("a",), ())
    assert rf"\caption{{{letter}." not in latex(table)


def test_csv_is_exact() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(TABLE))))
    assert float(rows[0]["mean"]) == 0.1 + 0.2 and rows[0]["note"] == "a,b" and rows[1]["mean"] == "nan"


def test_html() -> None:
    grid = Grid()
    grid.feed(html(TABLE))
    assert grid.open == []
    assert [[text.split() for text in row] for row in grid.rows] == [
        [[], ["Kvasir_SEG"]],
        [[], ["Dice", "↑"], ["HD95", "↓"]],
        [["Lsup"], ["50.00", "±", "1.00"], ["—"]],
        [["a|b_<c>"], ["40.00", "(2.0)"], ["3.00"]],
        [[], ["80.66"], []],
    ]
    assert "L<sub>sup</sub>" in html(TABLE) and "<b>50.00</b>" in html(TABLE)


def test_html_holds_its_files() -> None:
    links = dict(re.findall(r"download='main_5pct\.(\w+)' href='data:[^;]+;base64,([^']+)'", html(TABLE)))
    assert base64.b64decode(links["csv"]).decode() == csv_text(TABLE)
    assert base64.b64decode(links["md"]).decode() == markdown(TABLE)
    assert base64.b64decode(links["tex"]).decode() == latex(TABLE)
