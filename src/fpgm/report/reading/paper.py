"""What the paper says: its names, its setting of FPGM, and the figures of its tables."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import Any

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
DATASETS = {
    "Kvasir-SEG": "Kvasir",
    "CVC-ClinicDB": "CVC-ClinicDB",
    "CVC-ColonDB": "CVC-ColonDB",
    "ETIS-LaribPolypDB": "ETIS",
    "CVC-300": "CVC-300",
    "BKAI-IGH": "BKAI",
}
SHARES = ("5%", "10%", "20%")
UNSEEN = ("CVC-300", "BKAI-IGH")
COPIES = {"CVC-300": "CVC-ColonDB"}  # all images of the first are frames of the second
LOSSES = ("L_sup", "L_sup + L_unsup", "L_sup + L_freq", "L_sup + L_unsup + L_freq")
PRIORS = {"generic": "Generic prior", "low-pass": "Low-pass", "learned": "Learned prior"}
SIZE = 256  # pixels; its distances are in these

# The paper's setting of FPGM.
FPGM: dict[str, Any] = {
    "recipe": "paper",
    "unsup": 0.5,
    "freq": 0.5,
    "feature": 0.5,
    "threshold": 0.95,
    "gamma": 0.05,
    "prior": "learned",
    "prior_file": None,
    "momentum": 0.999,
    "debias": False,
    "reconstruction": "radial",
    "ramp": 0,
    "statistics": "all",
}
# What presets change of it.
_CHANGES: dict[str, dict[str, Any]] = {"mini": {"ramp": 0.5, "statistics": "clean"}}

CAUTION = (
    "The lines marked `paper` are the paper's own figures: 30,000 iterations at 256 × 256 pixels, its own split, no "
    "spread given. Its released code scores an empty prediction as `released` does, and its ASD is directed, from the "
    "prediction to the truth; ours is symmetric."
)


def plain_fpgm(preset: str) -> dict[str, Any]:
    """Return the arguments of FPGM under a preset; a row that departs from them says where."""
    return FPGM | _CHANGES.get(preset, {})


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
