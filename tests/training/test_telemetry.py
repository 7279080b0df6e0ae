"""The progress bar and TensorBoard."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from fpgm.training.telemetry import Telemetry


def test_the_bar_shows_values_and_tensorboard_keeps_them(tmp_path: Path) -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100)
    with Telemetry(tmp_path, 0, 10, console) as telemetry:
        telemetry.log(1, {"stage": "train", "loss": 0.125, "confident": 0.5, "it/s": telemetry.speed(1)})
        telemetry.advance(1)
    assert "1/10" in text.getvalue() and "loss 0.125  confident 0.5" in text.getvalue()
    assert list((tmp_path / "tensorboard").iterdir())
