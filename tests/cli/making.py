"""`fpgm reproduce` with tiny runs, and the records it leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TINY = [
    "net.name=unet",
    "net.arguments={channels: [4, 4, 4, 4, 4]}",
    "data.batch_labeled=2",
    "data.batch_unlabeled=2",
    "train.choose_statistics=false",  # half the time of so short a run; tested where training is
    "train.pictures_every=0",
]


def command(store: Path, out: Path, *more: str, table: str = "main", iterations: int = 4) -> list[str]:
    options = ["--data", str(store), "--out", str(out), "--preset", "mini"]
    options += [] if table == "hospitals" else ["--protocol", "strict"]
    options += ["--labeled", "10%", "--iterations", str(iterations), "--precision", "32-true", *more]
    return ["reproduce", table, *options, "--set", *TINY, "train.log_every=1", "train.save_every=2"]


def runs(out: Path) -> dict[str, dict[str, Any]]:
    """Return the records of all cells by the name of their variant."""
    return {path.parts[-3]: json.loads(path.read_text()) for path in out.rglob("cell.json")}
