"""A predictor against a pool."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fpgm.data.splits import Split
from fpgm.data.store import open_stores
from fpgm.data.streams import Pool
from fpgm.evaluation import Row, evaluate, predict_masks, write_rows
from fpgm.metrics import pair_metrics


class Bright(nn.Module):
    """Calls bright red pixels polyp; remembers how many images came together."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def forward(self, image: Tensor) -> Tensor:
        assert not self.training
        self.sizes.append(len(image))
        return torch.stack([torch.full_like(image[:, 0], 0.6), image[:, 0]], 1)


@pytest.fixture
def pool(phantom_store: Path) -> Pool:
    return Pool(open_stores(phantom_store), Split.load(phantom_store / "splits" / "strict-0").test)


def test_rows_are_the_metrics_of_each_image(pool: Pool) -> None:
    predictor, done = Bright().train(), []
    rows = evaluate(predictor, pool, on_empty="penalise", device=torch.device("cpu"), batch_size=5, advance=done.append)
    assert [row.id for row in rows] == list(pool.ids) and sum(done) == len(pool) and max(predictor.sizes) == 5
    assert predictor.training  # as it was before
    for index in (0, len(pool) - 1):
        mask = pool.images(np.array([index]))[0, ..., 0] / np.float32(255) > 0.6
        truth = pool.masks(np.array([index]))[0]
        expected = pair_metrics(mask, truth, on_empty="penalise")
        assert rows[index]._asdict() == {
            "id": pool.ids[index],
            **expected,
            "predicted": mask.sum(),
            "true": truth.sum(),
        }


def test_masks_have_no_gradient_and_the_size_of_the_image(pool: Pool) -> None:
    masks = predict_masks(Bright().eval(), pool.images(np.arange(3)), torch.device("cpu"))
    assert masks.shape == (3, 64, 64) and masks.dtype == np.bool_


def test_rows_are_written_as_csv(tmp_path: Path) -> None:
    rows = [Row("a/1", 0.5, 1 / 3, 2.0, 1.0, 10, 20)]
    write_rows(tmp_path / "rows.csv", rows)
    with (tmp_path / "rows.csv").open(newline="") as file:
        (found,) = csv.DictReader(file)
    assert found["id"] == "a/1" and float(found["jaccard"]) == 1 / 3 and found["predicted"] == "10"
