"""What a plan will take, from real steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from fpgm.data.splits.split import Split
from fpgm.experiments import timing
from fpgm.experiments.folds import Fold
from fpgm.experiments.plan import Cell, plan
from fpgm.experiments.timing import Cost, kind, measure, times
from fpgm.runs.metrics import read_metrics

TINY = ["net.name=unet", "net.arguments={channels: [4, 4, 4, 4, 4]}", "data.batch_labeled=2", "data.batch_unlabeled=2"]


def cells(store: Path, out: Path, *tables: str, methods: list[str] | None = None) -> list[Cell]:
    settings = [*TINY, "train.iterations=1000", "train.validate_every=300"]
    return plan(
        tables,  # type: ignore[arg-type]  # names of tables
        store=store,
        out=out,
        folds=[Fold("strict")],
        preset="mini",
        methods=methods,
        labeled=["10%"],
        settings=settings,
    )


def test_a_run_is_its_steps_validations_and_evaluation(tmp_path: Path) -> None:
    """1000 steps of 0.1 s; four validations of 3 images and 2 + 1 test images, 0.5 s each: 100 + 7.5 s."""
    split = Split(("a/1",), ("a/2", "a/3", "a/4"), ("a/5", "a/6"), ("b/1",), "strict", 0)
    config = cells(tmp_path, tmp_path, "main", methods=["fpgm"])[0].config()
    assert Cost(0.1, 0.5).run_seconds(config, split) == pytest.approx(107.5)


def test_strength_of_guidance_costs_nothing_but_other_passes_do(tmp_path: Path) -> None:
    gammas = {kind(cell) for cell in cells(tmp_path, tmp_path, "gamma")}
    assert len(gammas) == 1
    assert len({kind(cell) for cell in cells(tmp_path, tmp_path, "ablation-loss")}) == 4


def test_the_quickest_step_of_each_stage_counts(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("step,stage,it/s\n1,a,0.5\n2,a,4\n3,b,2\n4,b,1\n")
    assert timing._quickest(read_metrics(tmp_path)) == {"a": 0.25, "b": 0.5}


def test_steps_of_all_stages_are_measured_and_nothing_is_written(phantom_store: Path, tmp_path: Path) -> None:
    (cell,) = cells(phantom_store, tmp_path / "out", "main", methods=["bcpnet"])
    before = sorted(phantom_store.rglob("*"))
    cost = measure(cell, Split.load(phantom_store / "splits" / "strict-0"), accelerator="cpu")
    assert cost.step > 0 and cost.image > 0
    assert sorted(phantom_store.rglob("*")) == before and not (tmp_path / "out").exists()


def test_each_kind_is_measured_once_and_what_is_done_not_at_all(
    phantom_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "measure", lambda cell, split, **_: Cost(0.001, 0.0))
    found = cells(phantom_store, tmp_path, "gamma", "ablation-loss")
    monkeypatch.setattr(timing, "is_done", lambda folder: folder == found[0].folder)
    told: list[str] = []
    split = Split.load(phantom_store / "splits" / "strict-0")
    measured = times(
        found,
        {"strict-0": split},
        accelerator="cpu",
        before_measuring=lambda cell: told.append(cell.variant.name),
    )
    assert told == ["fpgm", "supervised", "fpgm-sup-unsup", "fpgm-sup-freq"]
    assert measured == {cell: (0.001, pytest.approx(1.0)) for cell in found[1:]}


def test_folds_share_the_cost_of_a_step_and_have_their_own_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1000 steps of 0.1 s; four validations of 1 image, and 1 or 3 unseen images, 1 s each."""
    monkeypatch.setattr(timing, "measure", lambda cell, split, **_: Cost(0.1, 1.0))
    folds = [Fold("hospitals", "a"), Fold("hospitals", "b")]
    settings = ["train.iterations=1000", "train.validate_every=300"]
    made = plan(
        ["hospitals"], store=tmp_path, out=tmp_path, folds=folds, methods=["fpgm"], seeds=[0], settings=settings
    )
    splits = {
        fold.split: Split(("c/1",), ("c/2",), (), tuple(f"x/{k}" for k in range(count)), "hospitals", 0)
        for fold, count in zip(folds, (1, 3), strict=True)
    }
    told: list[Cell] = []
    found = times(made, splits, accelerator="cpu", before_measuring=told.append)
    assert told == made[:1]
    assert list(found.values()) == [(0.1, pytest.approx(105)), (0.1, pytest.approx(107))]
