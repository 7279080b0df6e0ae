"""The page: whole, alone, and never mixing what may not be mixed."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fpgm.report.pages.report import SOME_DRAWN, write_report
from fpgm.report.tables.score_table import NOTICE
from fpgm.runs.results import Result
from tests.report.making import bars, write_run, write_store

KVASIR = "Kvasir-SEG"
VOID = {"meta", "img", "source"}


class Outline(HTMLParser):
    """Headings of a page, and whether all that is opened is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("h2", "h3"):
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("h2", "h3"):
            self.headings[-1] += data


def run(folder: Path, *widths: int, name: str = KVASIR, **settings: Any) -> Result:
    return write_run(folder, {name: bars(*widths)}, {name: bars(*[8] * len(widths))}, **settings)


@pytest.fixture
def everything(tmp_path: Path) -> list[Result]:
    """Two methods with two seeds, an ablation, a sweep, an unseen set, a store for pictures."""
    truth = {KVASIR: bars(8, 8), "CVC-300": bars(8, 8)}
    for name, masks in truth.items():
        write_store(tmp_path / "store", name, masks)
    variants: list[dict[str, Any]] = [{"seed": 0}, {"seed": 1}, {"method": "supervised"}]
    variants += [{"arguments": arguments} for arguments in ({"freq": 0.0}, {"prior": "generic"}, {"gamma": 0.1})]
    return [
        write_run(
            tmp_path / "runs" / str(number),
            {KVASIR: bars(4, number), "CVC-300": bars(number, 8)},
            truth,
            store=tmp_path / "store",
            **variant,
        )
        for number, variant in enumerate(variants)
    ]


def test_the_whole_report(everything: list[Result], tmp_path: Path, coarse_figures: None) -> None:
    out = tmp_path / "out"
    page = write_report(everything, [], out).read_text()
    outline = Outline(page)
    assert outline.open == []
    assert outline.headings == [
        "All runs side by side",
        "5% labelled, protocol paper (split paper-0), preset mini, 100 iterations, 16 × 16 pixels",
        "Methods: test sets, 5% labelled",
        "Methods: unseen data sets (zero-shot), 5% labelled",
        "What was found: test images, 5% labelled",
        "What was found: unseen images, 5% labelled",
        "Loss terms of FPGM: test sets, 5% labelled",
        "Loss terms of FPGM: unseen data sets (zero-shot), 5% labelled",
        "Prior of FPGM: test sets, 5% labelled",
        "Prior of FPGM: unseen data sets (zero-shot), 5% labelled",
        "Guidance strength γ of FPGM",
        "Guidance strength γ of FPGM: test sets, 5% labelled",
        "Guidance strength γ of FPGM: unseen data sets (zero-shot), 5% labelled",
    ]
    slug = "5pct_paper-0_mini_100_16"
    tables = ["main", "zero-shot", *(f"{name}{where}" for name in STUDIES for where in ("", "-unseen"))]
    tested = [f"significance-{name}" for name in tables if not name.startswith("gamma")]
    names = {f"{name}_{slug}" for name in (*tables, *tested)} | {"overview", "runs"}
    assert {path.name for path in (out / "tables").iterdir()} == {
        f"{n}.{e}" for n in names for e in ("md", "tex", "csv")
    }
    pictures = [f"curves-{name}_{slug}.png" for name in ("main", *STUDIES)]
    pictures += [f"gamma_{slug}.png", f"panels-test_{slug}.jpg", f"panels-unseen_{slug}.jpg"]
    dark = [f"panels-{kind}_{slug}-dark.jpg" for kind in ("test", "unseen")]
    assert {path.name for path in (out / "figures").iterdir()} == {*pictures, *dark}
    tiles = 2 * 2  # both images of both sets
    assert page.count("<img ") == len(pictures) + tiles and page.count("<source ") == len(dark)


STUDIES = ("ablation-loss", "ablation-prior", "gamma")


def test_the_page_needs_nothing_else(everything: list[Result], tmp_path: Path, coarse_figures: None) -> None:
    page = write_report(everything, [], tmp_path / "out").read_text()
    bare = re.sub("base64,[0-9A-Za-z+/=]+", "", page)
    assert not re.search(r"https?:|//[a-z]|<script|<link|@import|url\(", bare)
    assert {source[:5] for source in re.findall(r"(?:src|href)='([^']+)'", page)} <= {"data:", "#sett"}
    assert "color-scheme: light dark" in page and "width=device-width" in page


def test_the_same_runs_give_the_same_bytes(everything: list[Result], tmp_path: Path) -> None:
    first = write_report(everything, [], tmp_path / "a").read_bytes()
    assert write_report(everything, [], tmp_path / "b").read_bytes() == first


def test_settings_are_kept_apart(tmp_path: Path, coarse_figures: None) -> None:
    runs = [
        run(tmp_path / "a", 4),
        run(tmp_path / "b", 8, protocol="strict"),
        run(tmp_path / "c", 8, labeled="20%"),
        run(tmp_path / "d", 8, name="phantom-a", protocol="strict"),
    ]
    page = write_report(runs, [], tmp_path / "out").read_text()
    overview, spread, *sections = re.split("<h2", page)[1:]
    assert "All runs side by side" in overview
    assert len(sections) == 4 and ">Spread over" in spread  # which has both protocols in lines of their own
    assert [NOTICE in section for section in sections] == [False, False, False, True]
    assert "80.66" in sections[0] and "80.66" not in sections[3]
    # the first of a family of settings says which of the paper's shares it lacks
    assert page.count("(missing: 10% labelled)") == 1 and page.count("(missing: 5%, 10%") == 0
    assert page.count("(missing: 10%, 20% labelled)") == 1


def test_phantoms_are_announced_above_the_first_table(tmp_path: Path, coarse_figures: None) -> None:
    drawn = [run(tmp_path / name, 4, name="phantom-a", labeled=name) for name in ("5%", "20%")]
    real = run(tmp_path / "real", 4)
    for results, text in (([real], ""), (drawn, NOTICE), ([*drawn, real], SOME_DRAWN)):
        page = write_report(results, [], tmp_path / f"out-{len(results)}").read_text()
        top = page.partition("<table")[0]
        assert [one in top for one in (NOTICE, SOME_DRAWN)] == [one == text for one in (NOTICE, SOME_DRAWN)]


def test_one_is_not_called_several(tmp_path: Path, coarse_figures: None) -> None:
    page = write_report([run(tmp_path / "a", 4)], [], tmp_path / "one").read_text()
    assert ": 1 row, seed 0" in page and "1 rows" not in page and "1 runs" not in page and ": 1 run<" in page
    results = [run(tmp_path / "b", 4), run(tmp_path / "c", 8, seed=1), run(tmp_path / "d", 8, method="supervised")]
    assert ": 2 rows, seeds 0, 1" in write_report(results, [], tmp_path / "more").read_text()


def test_galleries_go_from_the_worst_to_the_best(tmp_path: Path) -> None:
    write_store(tmp_path / "store", KVASIR, bars(8, 8, 8))
    page = write_report([run(tmp_path / "a", 8, 0, 2, store=tmp_path / "store")], [], tmp_path / "out").read_text()
    [gallery] = re.findall(r"<div class='gallery'>(.*?)</div>", page)
    # widths 0, 2 and 8 of 8: Dice 0, 4 / 10 and 1
    assert re.findall(r"<figcaption><b>([\d.]+)</b> (\d)<", gallery) == [("0.0", "1"), ("40.0", "2"), ("100.0", "0")]
    assert "Gallery of Kvasir-SEG, sorted by Dice: all 3" in page


def test_what_could_not_be_read_is_named(tmp_path: Path) -> None:
    page = write_report([run(tmp_path / "a", 4)], ["a <b> is broken"], tmp_path / "out").read_text()
    assert "could not be read" in page and "a &lt;b&gt; is broken" in page


def test_names_are_escaped(tmp_path: Path) -> None:
    result = run(tmp_path / "<i>run", 4, name="<b>own", method="<u>new")
    page = write_report([result], [], tmp_path / "out").read_text()
    assert "&lt;b&gt;own" in page and not re.search("<[biu]>(own|run|new)", page)


def test_notes_on_what_was_left_out(tmp_path: Path) -> None:
    page = write_report([run(tmp_path / "a", 4), run(tmp_path / "b", 4)], [], tmp_path / "out").read_text()
    assert "and was left out" in page and "No pictures of Kvasir-SEG" in page


def test_facts_and_pictures_of_others(tmp_path: Path, coarse_figures: None) -> None:
    write_report([run(tmp_path / "a", 4)], [], tmp_path / "first")
    [picture] = (tmp_path / "first" / "figures").iterdir()
    facts = {"title": "Mine", "facts": ["I did this."], "pictures": [(picture, "And that.")]}
    page = write_report([run(tmp_path / "b", 4)], [], tmp_path / "out", **facts).read_text()
    assert "<h1>Mine</h1>" in page and "I did this." in page and "And that." in page
