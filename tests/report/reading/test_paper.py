"""The paper's names and figures; figures below are read off its tables."""

from __future__ import annotations

import pytest

from fpgm.methods import METHODS
from fpgm.report.reading import paper
from fpgm.report.reading.paper import paper_figures


@pytest.mark.parametrize(
    ("table", "labeled", "name", "dataset", "metric", "value"),
    [
        ("main", "5%", "URPC", "Kvasir-SEG", "dice", 48.56),
        ("main", "10%", "BSNet", "ETIS-LaribPolypDB", "asd", 6.71),
        ("main", "20%", "FPGM", "CVC-ColonDB", "jaccard", 63.15),
        ("zero_shot", "10%", "UniMatch", "BKAI-IGH", "hd95", 35.23),
        ("ablation_loss", "5%", "L_sup + L_freq", "ETIS-LaribPolypDB", "asd", 19.38),
        ("ablation_loss", "10%", "L_sup + L_unsup + L_freq", "CVC-ClinicDB", "hd95", 24.59),
        ("ablation_loss_unseen", "10%", "L_sup + L_unsup + L_freq", "CVC-300", "dice", 89.55),
        ("ablation_prior", "5%", "Low-pass", "CVC-ColonDB", "hd95", 33.79),
    ],
)
def test_figures(table: str, labeled: str, name: str, dataset: str, metric: str, value: float) -> None:
    figures = paper_figures(table, labeled, name, dataset)
    assert set(figures) == {"dice", "jaccard", "hd95", "asd"}
    assert figures[metric] == value


@pytest.mark.parametrize(
    ("table", "labeled", "name", "dataset"),
    [
        ("main", "5%", "FPGM", "phantom-a"),
        ("main", "70", "FPGM", "Kvasir-SEG"),
        ("main", "5%", "supervised", "Kvasir-SEG"),
        ("ablation_loss_unseen", "5%", "L_sup", "CVC-300"),
    ],
)
def test_what_the_paper_does_not_say(table: str, labeled: str, name: str, dataset: str) -> None:
    assert paper_figures(table, labeled, name, dataset) == {}


def test_every_row_of_its_tables_has_a_name_of_ours() -> None:
    in_domain = [name for name in paper.DATASETS if name not in paper.UNSEEN]
    for share in paper.SHARES:
        for name in list(paper.METHODS.values())[1:-1]:  # neither supervised nor ours is in its tables
            assert all(paper_figures("main", share, name, dataset) for dataset in in_domain)
            assert all(paper_figures("zero_shot", share, name, dataset) for dataset in paper.UNSEEN)
    for share in ("5%", "10%"):
        assert all(paper_figures("ablation_loss", share, name, "Kvasir-SEG") for name in paper.LOSSES)
        assert all(paper_figures("ablation_prior", share, name, "Kvasir-SEG") for name in paper.PRIORS.values())


def test_names_are_those_of_the_other_rooms() -> None:
    assert set(paper.METHODS) == set(METHODS)
    assert list(paper.DATASETS.values()) == ["Kvasir", "CVC-ClinicDB", "CVC-ColonDB", "ETIS", "CVC-300", "BKAI"]
    assert set(paper.UNSEEN) == {"CVC-300", "BKAI-IGH"} and paper.COPIES == {"CVC-300": "CVC-ColonDB"}
