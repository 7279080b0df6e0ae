"""The paper's names, and the figures of its tables."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from fpgm.data.catalog import CATALOG

# Our names -> the paper's, in the order of its tables; the last is not in them.
METHODS = {
    "supervised": "supervised",
    "urpc": "URPC",
    "bsnet": "BSNet",
    "ac_mt": "AC-MT",
    "caussl": "CauSSL",
    "bcpnet": "BCPNet",
    "unimatch": "UniMatch",
    "abd": "ABD",
    "dycon": "DyCON",
    "cvbm": "CVBM",
    "pick": "PICK",
    "fpgm": "FPGM",
    "fpgm_teacher": "FPGM with a teacher",
}
_REAL = {key: entry for key, entry in CATALOG.items() if not key.startswith("phantom")}
DATASETS = {key: entry.short for key, entry in _REAL.items()}  # our names -> the paper's
SHARES = ("5%", "10%", "20%")
UNSEEN = tuple(key for key, entry in _REAL.items() if entry.role == "unseen")
COPIES = {key: entry.videos for key, entry in _REAL.items() if entry.videos}  # all its images are frames of the other
LOSSES = ("L_sup", "L_sup + L_unsup", "L_sup + L_freq", "L_sup + L_unsup + L_freq")
PRIORS = {"generic": "Generic prior", "low-pass": "Low-pass", "learned": "Learned prior"}
SIZE = 256  # pixels; its distances are in these

CAUTION = (
    "The lines marked `paper` are the paper's own figures: 30,000 iterations at 256 × 256 pixels, its own split, no "
    "spread given. FPGM's were made with its released code and stand below the row of `recipe=released` where there is "
    "one. All were scored as the lines `released` are: its ASD is directed, from the prediction to the truth."
)


def paper_figures(table: str, labeled: str, name: str, dataset: str) -> dict[str, float]:
    """Return the paper's figures by metric, Dice and Jaccard in percent; none where it has none.

    Args:
        table: `main`, `zero_shot`, `ablation_loss`, `ablation_loss_unseen` or `ablation_prior`.
        labeled: share of labelled images, e.g. `5%`.
        name: the paper's name of the row, e.g. `FPGM` or `L_sup + L_unsup`.
        dataset: our name of the data set, e.g. `Kvasir-SEG`.
    """
    return _read().get((table, labeled, name.replace(" ", ""), dataset), {})


@cache
def _read() -> dict[tuple[str, str, str, str], dict[str, float]]:
    ours = {theirs: name for name, theirs in DATASETS.items()}
    figures: dict[tuple[str, str, str, str], dict[str, float]] = {}
    with (files("fpgm.report.reading") / "reference" / "paper_results.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = row["table"], f"{row['labeled_percent']}%", row["method"].replace(" ", ""), ours[row["dataset"]]
            figures.setdefault(key, {})[row["metric"]] = float(row["value"])
    return figures
