"""The methods page says what the package has and what the paper reports."""

from __future__ import annotations

import csv
import re
from importlib import resources
from pathlib import Path

from fpgm.methods import METHODS

PAGE = (Path(__file__).parents[1] / "docs" / "methods.md").read_text(encoding="utf-8")
SEEN, UNSEEN = ("Kvasir", "CVC-ClinicDB", "CVC-ColonDB", "ETIS"), ("CVC-300", "BKAI")


def test_every_method_has_a_row_and_a_section() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.M) == list(METHODS)
    assert re.findall(r"^## (\w+)$", PAGE, re.M) == list(METHODS)


def test_the_papers_figures_are_the_papers() -> None:
    with (resources.files("fpgm.report.reading") / "reference" / "paper_results.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["labeled_percent"] == "5" and row["metric"] == "dice"]
    paper = {
        (row["method"].lower().replace("-", "_"), row["dataset"]): row["value"]
        for row in rows
        if row["table"] in ("main", "zero_shot")
    }
    for name in METHODS:
        if name not in ("supervised", "fpgm_teacher"):  # not in the paper's tables
            row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
            *_, seen, unseen, _ = (cell.strip() for cell in row.split("|"))
            assert seen == " / ".join(paper[name, dataset] for dataset in SEEN)
            assert unseen == " / ".join(paper[name, dataset] for dataset in UNSEEN)
