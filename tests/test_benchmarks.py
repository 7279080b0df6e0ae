"""The table of `make bench` and the page it writes; nothing here is timed."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

from tests.forks import Fork

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
GOOD = """
from harness import compare
compare("step", "met", 2.0, 4.0, "plain", target=0.5)
compare("step", "missed", 0.002, 0.4, "loop", target=300, fast=True)
compare("step", "no target", 5.0, 4.0, "input", unit="MB", curve="memory by images", at=3)
compare("step", "too slow", 1 / 100, 1 / 50, "one process", unit="images/s", fast=True, limit=1 / 200)
"""


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return benchmarks/__main__.py; what it starts finds the harness."""
    monkeypatch.setenv("PYTHONPATH", str(BENCHMARKS))
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("bench", BENCHMARKS / "__main__.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


def test_rows_become_a_page(bench: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "performance.md"
    assert bench.main([script(tmp_path, "good", GOOD)], page) == 0
    text = page.read_text(encoding="utf-8")
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    assert table[2:] == [
        ["step", "met", "2 s", "plain", "4 s", "0.500×", "", "≤ 0.5×", "yes"],
        ["step", "missed", "2 ms", "loop", "400 ms", "200× as fast", "", "≥ 300×", "**no**"],
        ["step", "no target", "5 MB", "input", "4 MB", "1.250×", "", "", ""],
        [
            "step",
            "too slow",
            "100 images/s",
            "one process",
            "50 images/s",
            "2× as fast",
            "",
            "≥ 200 images/s",
            "**no**",
        ],
    ]
    assert "2 of 3 targets are missed: step, missed, beside loop; step, too slow, beside one process." in text
    assert "(log.md)" in text
    assert Image.open(tmp_path / "images" / "growth.png").size[0] > 500 and "(images/growth.png)" in text
    printed = capfd.readouterr().out
    assert all(line in printed for line in text.splitlines() if line[:1] == "|")


def test_targets_that_are_all_met_need_no_excuse(bench: ModuleType) -> None:
    rows = [bench.Row("step", "a", 1.0, 2.0, "b", target=0.5), bench.Row("step", "a", 1.0, 2.0, "c")]
    assert bench.missed(bench.together([rows])) == "All 1 targets are met."


def test_of_three_runs_the_middle_counts_and_a_target_must_be_met_in_each(bench: ModuleType) -> None:
    runs = [
        [bench.Row("step", "a", cost, 2.0, "b", target=0.5), bench.Row("step", "c", 1, 1, "d")]
        for cost in (1.2, 0.8, 0.9)
    ]
    rows = bench.together(runs)
    assert bench.cells(rows[0]) == ["step", "a", "900 ms", "b", "2 s", "0.450×", "0.400–0.600", "≤ 0.5×", "**no**"]
    assert bench.cells(rows[1])[5:] == ["1.000×", "1.000–1.000", "", ""]
    assert bench.missed(rows).startswith("1 of 1 targets are missed: step, a, beside b.")


@pytest.mark.parametrize("end", ["raise SystemExit(1)", "1 / 0"])
def test_a_failed_benchmark_leaves_the_page_as_it_was(bench: ModuleType, tmp_path: Path, end: str) -> None:
    page = tmp_path / "performance.md"
    page.write_text("as it was")
    scripts = [script(tmp_path, "bad", GOOD + end), script(tmp_path, "good", GOOD)]
    assert bench.main(scripts, page) == 1
    assert page.read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.py", "good.py", "performance.md"]


def test_the_page_does_not_name_the_machine(bench: ModuleType) -> None:
    words = bench.machine()
    assert f"{platform.node()}," not in words and "/" not in words
    assert f"torch {version('torch')}" in words


def test_every_benchmark_is_run_and_can_be_imported(bench: ModuleType) -> None:
    known = (*bench.ORDER, *bench.BY_NAME)
    assert set(known) == {path.stem for path in BENCHMARKS.glob("*.py")} - {"__main__", "harness"}
    process = Fork(import_all, known)
    said = process.communicate()
    assert process.returncode == 0, said


def import_all(names: Sequence[str]) -> None:
    for name in names:
        import_module(name)
