"""The tables of the results page are those of the runs that are kept, and a run is kept without paths and weights."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.figure import Figure

from fpgm.experiments.cells import CellRecord
from fpgm.runs.card import ModelCard
from fpgm.runs.folder import find_runs
from tests.report.making import bars, write_run

RESULTS = Path(__file__).parents[1] / "results"


@pytest.fixture
def results() -> ModuleType:
    """Return results/__main__.py."""
    spec = importlib.util.spec_from_file_location("results", RESULTS / "__main__.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_tables_of_the_runs(results: ModuleType) -> None:
    shown = set()
    for page in results.PAGES:
        text = page.read_text(encoding="utf-8")
        assert results.render(text) == text, f"{page.name}: run `make results`"
        shown |= {name for _, names, *_ in results.BLOCK.findall(text) for name in names.split()}
    assert shown == {folder.name for folder in results.RUNS.iterdir()}
    assert shown == {plan.stem for plan in results.PLANS.iterdir()}


def test_no_run_tells_where_it_was_computed(results: ModuleType) -> None:
    for run in find_runs([results.RUNS]):
        assert not any(text in (run / "config.yaml").read_text() for text in ("store: /", "home", "tmp")), run


def test_runs_are_kept_without_weights_and_make_a_table(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RUNS", tmp_path / "kept")
    truth = {"Kvasir-SEG": bars(8, 8), "CVC-300": bars(8)}
    for seed, found in enumerate(([8, 4], [8, 8])):
        for method, steps in (("supervised", 300), ("fpgm_teacher", 100)):
            scores = {"Kvasir-SEG": bars(*found), "CVC-300": bars(0 if method == "supervised" else 8)}
            run = tmp_path / "out" / method / str(seed)
            write_run(run, scores, truth, method=method, iterations=steps, seed=seed)
            (run / "model" / "model.safetensors").write_bytes(b"")
    (tmp_path / "out" / "unfinished").mkdir()
    (tmp_path / "out" / "unfinished" / "config.yaml").write_text("method: supervised")
    assert results.keep(tmp_path / "out", "some") == 4
    kept = [file for file in (tmp_path / "kept").rglob("*") if file.is_file()]
    assert kept and not any(file.suffix == ".safetensors" for file in kept)
    head, _, *lines = results.tables("some").splitlines()
    assert head == "|  | steps | seeds | Kvasir | CVC-300 | mean | missed |"
    # two bars of 8 and one of 4: Dice 1 and 2 / 3
    assert lines[:2] == [
        "| supervised | 300 | 2 | 91.7 ± 11.8 | 0.0 ± 0.0 | 45.8 ± 5.9 | 2 of 6 |",
        "| FPGM with a teacher | 100 | 2 | 91.7 ± 11.8 | 100.0 ± 0.0 | 95.8 ± 5.9 | 0 of 6 |",
    ]
    assert "Significant differences of fpgm_teacher" in lines[3] and lines[3].endswith("over 2 tests): none.")
    # the edge of the bar of 4 is 4 pixels off; where nothing was found, HD95 is the diagonal of 16 x 16 pixels
    assert lines[9:11] == [
        "| supervised | 300 | 2 | 1.0 ± 1.4 | 22.6 ± 0.0 | 11.8 ± 0.7 |",
        "| FPGM with a teacher | 100 | 2 | 1.0 ± 1.4 | 0.0 ± 0.0 | 0.5 ± 0.7 |",
    ]
    assert lines[12].endswith("Every image has a polyp: no false alarms to count.")
    assert lines[-2] == "| supervised | 300 | 2 | 0 of 4 | 2 of 2 | 2 of 6 |"
    assert results.tables("some", short=True).splitlines()[2:] == lines[:2]


def test_without_our_method_fpgm_is_tested_and_its_curves_are_drawn(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RUNS", tmp_path / "kept")
    for method, steps in (("supervised", 300), ("fpgm", 100)):
        run = tmp_path / "out" / method
        write_run(run, {"Kvasir-SEG": bars(8)}, {"Kvasir-SEG": bars(8)}, method=method, iterations=steps)
        (run / "metrics.csv").write_text("step,stage,sup,val_dice\n1,train,0.5,\n2,train,0.25,0.75\n")
    results.keep(tmp_path / "out", "some")
    assert "Significant differences of fpgm (" in results.tables("some")
    drawn: list[dict[str, list[list[dict[str, str]]]]] = []
    monkeypatch.setattr(results, "curves_figure", lambda runs, _: drawn.append(runs))
    results.draw_curves("some", tmp_path / "some.png")
    assert {name: [len(rows) for rows in seeds] for name, seeds in drawn[0].items()} == {
        "supervised (train.iterations=300)": [2],
        "FPGM (train.iterations=100)": [2],
    }


def test_choices_are_tabled_by_validation_alone(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RUNS", tmp_path / "kept")
    monkeypatch.setattr(results, "PLANS", tmp_path / "plans")
    (tmp_path / "plans").mkdir()
    found = {"small": {"supervised": (0.5, 0.6), "supervised-poly": (0.4, 0.52)}, "large": {"supervised": (0.7,)}}
    for name, rows in found.items():
        for row, scores in rows.items():
            for seed, dice in enumerate(scores):
                run = tmp_path / name / row / str(seed)
                write_run(run, {"CVC-300": bars(8)}, {"CVC-300": bars(8)}, seed=seed)
                card = ModelCard(net="unet", arguments={}, size=16, training={"seed": seed, "validation_dice": dice})
                (run / "model" / "model.json").write_text(card.model_dump_json())
                cell = CellRecord(table=[], variant=row, settings=[], attempts=1, state="done", seconds=1)
                (run / "cell.json").write_text(cell.model_dump_json())
        plan = {"methods": list(rows), "size": 64, "settings": ["train.iterations=1500"]}
        (tmp_path / "plans" / f"{name}.yaml").write_text(json.dumps(plan))
        results.keep(tmp_path / name, name, "validation")
    assert not list((tmp_path / "kept").rglob("evaluation"))
    assert results.validation_table(["small", "large"]).splitlines() == [
        "|  | settings | 64 pixels, 1,500 steps | seeds | difference | 64 pixels, 1,500 steps | seeds | difference |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| supervised |  | 55.0 ± 7.1 | 2 |  | 70.0 | 1 |  |",
        "| supervised-poly | `optimizer.schedule=poly` | 46.0 ± 8.5 | 2 | −9.0 ± 1.4 |  | 0 |  |",
    ]
    drawn: list[Figure] = []
    monkeypatch.setattr(results, "save_figure", lambda figure, _: drawn.append(figure))
    results.draw_differences("small", tmp_path / "small.png")
    [axis] = drawn[0].axes
    assert [text.get_text() for text in axis.get_yticklabels()] == ["poly"]
    assert [bar.get_width() for bar in axis.patches] == pytest.approx([-9])
    assert axis.lines[0].get_xdata() == pytest.approx([-10, -8])
