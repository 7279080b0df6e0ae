"""The methods page says what the package has and what the paper reports."""

from __future__ import annotations

import csv
import re
from importlib import resources
from pathlib import Path

from fpgm.methods import METHODS
from fpgm.report.reading import paper
from fpgm.report.reading.paper import paper_figures

PAGE = (Path(__file__).parents[1] / "docs" / "methods.md").read_text(encoding="utf-8")
SEEN, UNSEEN = ("Kvasir", "CVC-ClinicDB", "CVC-ColonDB", "ETIS"), ("CVC-300", "BKAI")


def test_every_method_has_a_row_and_a_section() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.M) == list(METHODS)
    assert re.findall(r"^## (\w+)$", PAGE, re.M) == list(METHODS)


def test_the_compared_methods_below_the_supervised_row_are_counted() -> None:
    """The page says seven of ten at 5 %, and eight at 10 %, below it on all four data sets."""
    below: dict[str, set[str]] = {}
    for share in paper.SHARES[:2]:
        beaten = {}
        for name, theirs in paper.METHODS.items():
            figures = [
                (
                    paper_figures("main", share, theirs, dataset)["dice"],
                    paper_figures("ablation_loss", share, "L_sup", dataset)["dice"],
                )
                for dataset in paper.DATASETS
                if dataset not in paper.UNSEEN and name not in ("supervised", "fpgm", "fpgm_teacher")
            ]
            beaten[name] = sum(own < supervised for own, supervised in figures)
        below[share] = {name for name, count in beaten.items() if count == 4}
        assert beaten["pick"] == 3 and beaten["unimatch"] == 0
    assert below["5%"] == {"urpc", "bsnet", "ac_mt", "caussl", "bcpnet", "abd", "cvbm"}
    assert below["10%"] == below["5%"] | {"dycon"}


def test_the_papers_figures_are_the_papers() -> None:
    with (resources.files("fpgm.report.reading") / "reference" / "paper_results.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["labeled_percent"] == "5" and row["metric"] == "dice"]
    published = {
        (row["method"].lower().replace("-", "_"), row["dataset"]): row["value"]
        for row in rows
        if row["table"] in ("main", "zero_shot")
    }
    supervised = {row["dataset"]: row["value"] for row in rows if row["method"] == "L_sup"}
    assert f"| `supervised` | 1 | {' / '.join(supervised[dataset] for dataset in SEEN)} | |" in PAGE
    for name in METHODS:
        if name not in ("supervised", "fpgm_teacher"):  # not in these tables
            row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
            *_, seen, unseen, _ = (cell.strip() for cell in row.split("|"))
            assert seen == " / ".join(published[name, dataset] for dataset in SEEN)
            assert unseen == " / ".join(published[name, dataset] for dataset in UNSEEN)
