"""The progress bar and TensorBoard."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from fpgm.training.telemetry import Telemetry
from tests.clock import Clock


def test_the_bar_shows_values(tmp_path: Path) -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100)
    with Telemetry(tmp_path, 0, 10, console) as telemetry:
        telemetry.log(1, {"stage": "train", "loss": 0.125, "confident": 0.5, "it/s": telemetry.speed(1)})
        telemetry.advance(1)
    assert "1/10" in text.getvalue() and "loss 0.125  confident 0.5" in text.getvalue()


def test_without_a_terminal_there_are_lines(tmp_path: Path) -> None:
    text, clock = io.StringIO(), Clock()
    with Telemetry(tmp_path, 0, 100, Console(file=text, width=40), clock) as telemetry:
        for step in range(1, 101):
            clock.now += 2 if step > 1 else 10  # the first step warms up
            values = {"loss": 1 / step} if step % 10 == 0 else {}
            if step in (50, 100):
                values |= {"val_dice": step / 200, "val_best_dice": step / 200}
            if values:
                telemetry.log(step, values)
            telemetry.advance(step)
    lines = text.getvalue().splitlines()
    assert lines[0] == "about 3 min: 94 more steps at 2 s"  # 188 s
    assert lines[1] == "step 11 of 100, loss 0.100, about 4 min left"  # 30 s for 11 steps: 243 s for 89
    shown = [int(line.split()[1]) for line in lines[1:]]
    assert shown == [11, 26, 41, 50, 65, 80, 95, 100]  # every 30 s, and at both validations
    assert lines[4] == "step 50 of 100, loss 0.020, validation Dice 0.2500 (best 0.2500), about 2 min left"
    assert lines[-1] == "step 100 of 100, loss 0.010, validation Dice 0.5000 (best 0.5000)"


def test_a_resumed_run_estimates_what_is_left_and_a_short_one_nothing(tmp_path: Path) -> None:
    for start, total, said in ((90, 100, "about 8 s: 4 more steps at 2 s\n"), (0, 6, ""), (0, 3, "")):
        text, clock = io.StringIO(), Clock()
        with Telemetry(tmp_path / str(total), start, total, Console(file=text), clock) as telemetry:
            for step in range(start + 1, total + 1):
                clock.now += 2
                telemetry.advance(step)
        assert text.getvalue() == said


def test_no_console_no_lines(tmp_path: Path) -> None:
    with Telemetry(tmp_path, 0, 100, None, Clock()) as telemetry:
        telemetry.log(50, {"loss": 1.0, "val_dice": 0.5})
        telemetry.advance(50)
