"""Files of a cell besides those of the run: ``cell.json``, and a lock while it is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from fpgm.experiments.plan import Cell
from fpgm.files import claim, parse_json, read_file, write_text
from fpgm.runs.evaluation import is_evaluated

LOCK = ".lock"


class CellRecord(BaseModel):
    """``cell.json``: number of finished attempts, state after the last one, and seconds of all."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["fpgm-cell-1"] = "fpgm-cell-1"
    table: list[str]
    variant: str
    settings: list[str]
    attempts: int
    state: Literal["done", "failed"]
    error: str | None = None
    seconds: float


def read(folder: Path) -> CellRecord | None:
    """Return the record of a cell, or None if there is no readable one."""
    try:
        return CellRecord.model_validate(parse_json(read_file(folder / "cell.json")))
    except (FileNotFoundError, ValueError):
        return None


def write(cell: Cell, seconds: float, error: str | None = None) -> CellRecord:
    """Add an attempt to the record of a cell; no error means that it is done."""
    before = read(cell.folder)
    record = CellRecord(
        table=list(cell.tables),
        variant=cell.variant.name,
        settings=list(cell.settings),
        attempts=1 + (before.attempts if before else 0),
        state="failed" if error else "done",
        error=error,
        seconds=round(seconds + (before.seconds if before else 0), 3),
    )
    write_text(cell.folder / "cell.json", record.model_dump_json(indent=1) + "\n")
    return record


def is_done(folder: Path) -> bool:
    """Whether nothing is left to compute."""
    record = read(folder)
    return bool(record and record.state == "done" and is_evaluated(folder))


def is_taken(folder: Path) -> bool:
    """Whether another process computes the cell; the process that computes it must not ask, or it loses the lock."""
    if not (folder / LOCK).is_file():
        return False
    with claim(folder / LOCK) as free:
        return not free
