"""A model for a new site: frames in, a model folder out, all of it or nothing."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import fpgm
from fpgm.data.pictures import prepare_image, prepare_mask
from fpgm.data.store import Store
from fpgm.data.synthetic import phantom
from fpgm.evaluation import predict_masks
from fpgm.metrics import pair_metrics
from fpgm.model import load_model, save_model
from fpgm.nets.statistics import ImageBatches, Moments, blend, estimate
from fpgm.runs.card import Statistics, read_card
from fpgm.runs.site import describe_frames
from fpgm.serving import adapt as adaptation
from fpgm.serving.adapt import adapt, convergence
from fpgm.serving.export import export_onnx, export_torch
from tests.runs.making import make_run
from tests.serving.making import CHANNELS, SIZE, model, onnx_file
from tests.sharing import shared
from tests.small_net import save_small_model, use_small_net

CPU = torch.device("cpu")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Nine frames of one phantom domain of several sizes, seven of which have masks."""
    return shared("site", _draw_site, tmp_path / "site")


def _draw_site(folder: Path) -> None:
    for name in ("frames", "masks"):
        (folder / name).mkdir(parents=True)
    for number in range(9):
        sample = phantom("phantom-e", number, size=80 + 4 * number)
        Image.fromarray(sample.image).save(folder / "frames" / f"{number}.png")
        if number < 7:
            Image.fromarray(sample.mask.astype(np.uint8) * 255).save(folder / "masks" / f"{number}_mask.png")


def prepared(site: Path) -> torch.Tensor:
    frames = sorted((site / "frames").glob("*.png"))
    return torch.from_numpy(np.stack([prepare_image(Image.open(frame), SIZE) for frame in frames]))


def nothing_below(folder: Path, *known: str) -> bool:
    return sorted(path.name for path in folder.iterdir()) == sorted(known)


def test_the_statistics_are_those_of_the_frames_and_the_weights_stay(site: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "adapted"
    adapted = adapt(model(), [str(site / "frames")], out, device="cpu", batch_size=4)
    net, card = load_model(out)
    before, base = load_model(model())
    expected = estimate(before, ImageBatches(prepared(site), 4)).state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in net.state_dict().items())
    assert card == adapted.card and not adapted.problems
    assert card.training == base.training and card.statistics.source == "site" and card.statistics.own == 0
    found = card.statistics.site
    assert found and found.frames == 9 and found.folder == "frames" and found.base_sha256 == base.weights_sha256
    assert found.dice_before is found.dice_after is None and found.masks == 0
    assert nothing_below(out, "MODEL_CARD.md", "model.json", "model.safetensors") and nothing_below(
        out.parent, "adapted"
    )
    assert out.stat().st_mode & 0o777 == 0o777 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_dice_and_change_are_those_of_both_networks(site: Path, tmp_path: Path) -> None:
    adapted = adapt(model().parent, [str(site / "frames")], tmp_path / "out", masks=site / "masks", device="cpu")
    found = adapted.card.statistics.site
    assert found is not None and found.masks == 7
    both = [predict_masks(load_model(path)[0], prepared(site).numpy(), CPU) for path in (model(), tmp_path / "out")]
    truths = [np.array(Image.open(site / "masks" / f"{number}_mask.png")) > 0 for number in range(7)]
    for masks, dice in zip(both, (found.dice_before, found.dice_after), strict=True):
        scores = [
            pair_metrics(mask, prepare_mask(truth, SIZE), on_empty="penalise")["dice"]
            for mask, truth in zip(masks, truths, strict=False)
        ]
        assert dice == pytest.approx(np.mean(scores), abs=1e-4)
    assert found.changed == pytest.approx((both[0] != both[1]).mean(), abs=1e-4) and found.changed > 0
    assert found.dice_before != found.dice_after


def test_pictures_and_a_stores_data_set_are_the_same_frames(phantom_store: Path, tmp_path: Path) -> None:
    store = Store.open(phantom_store / "phantom-e")
    (tmp_path / "frames").mkdir()
    for number, pixels in enumerate(store.images(range(len(store)))):  # 2.png comes before 10.png
        Image.fromarray(pixels).save(tmp_path / "frames" / f"{number}.png")
    one = adapt(model(), [str(phantom_store / "phantom-e")], tmp_path / "one", device="cpu").card
    two = adapt(model(), [str(tmp_path / "frames")], tmp_path / "two", device="cpu").card
    assert one.weights_sha256 == two.weights_sha256
    assert one.statistics.site and two.statistics.site
    assert one.statistics.site.sha256 == two.statistics.site.sha256
    assert one.statistics.site.folder == "phantom-e" and one.statistics.site.masks == 20
    assert one.statistics.site.dice_before is not None and two.statistics.site.dice_before is None


@pytest.mark.parametrize(("count", "used"), [(1, 1), (3, 3), (4, 4), (19, 19), (20, 20), (500, 20)])
def test_of_too_many_frames_some_are_taken_evenly(
    count: int, used: int, phantom_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []
    start = ImageBatches.__init__

    def watched(self: ImageBatches, images: torch.Tensor, *rest: object) -> None:
        seen.append(images)
        start(self, images, *rest)  # type: ignore[arg-type]  # the rest is as it came

    monkeypatch.setattr(ImageBatches, "__init__", watched)
    card = adapt(model(), [str(phantom_store / "phantom-e")], tmp_path / "out", count=count, device="cpu").card
    store = Store.open(phantom_store / "phantom-e")
    pixels = store.images(range(20))
    rows = [int(np.flatnonzero((pixels == frame.numpy()).all((1, 2, 3)))[0]) for frame in seen[0]]
    assert card.statistics.site and card.statistics.site.frames == used == len(rows) == len(set(rows))
    assert rows == sorted(rows) and rows[0] == 0
    gaps = np.diff(rows)
    assert count == 1 or (gaps.max() <= 2 * gaps.min() and rows[-1] >= 20 - 2 * gaps.max())


def test_moving_pictures_are_frames(tmp_path: Path) -> None:
    frames = [Image.fromarray(phantom("phantom-f", number, size=SIZE).image) for number in range(5)]
    frames[0].save(tmp_path / "film.gif", save_all=True, append_images=frames[1:])
    card = adapt(model(), [str(tmp_path / "film.gif")], tmp_path / "out", device="cpu").card
    assert card.statistics.site and card.statistics.site.frames == 5
    assert card.statistics.site.folder == tmp_path.name  # a name without its path


def test_own_statistics_can_be_mixed_in_and_taken_out_again(site: Path, tmp_path: Path) -> None:
    frames = [str(site / "frames")]
    half = adapt(model(), frames, tmp_path / "half", own=0.5, device="cpu").card
    assert half.statistics.own == 0.5
    batches = ImageBatches(prepared(site))
    image = next(iter(batches))
    expected = estimate(blend(load_model(model())[0], 0.5), batches)
    assert torch.equal(load_model(tmp_path / "half")[0](image), expected(image))
    again = adapt(tmp_path / "half", frames, tmp_path / "again", device="cpu").card
    direct = adapt(model(), frames, tmp_path / "direct", device="cpu").card
    assert again.weights_sha256 == direct.weights_sha256 != half.weights_sha256


def test_progress(site: Path, tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    adapt(model(), [str(site / "frames")], tmp_path / "out", device="cpu", advance=lambda *step: steps.append(step))
    assert [step for step in steps if step[0] == "frames"] == [("frames", number, 9) for number in range(1, 10)]
    assert [step for step in steps if step[0] == "statistics"][-1] == ("statistics", 18, 18)
    assert steps[-1] == ("masks", 9, 9)


# what others do with it


def test_the_model_predicts_and_exports_like_any_other(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_net(monkeypatch)
    files, out = sorted((site / "frames").glob("*.png")), tmp_path / "adapted"
    base = save_small_model(tmp_path / "base", SIZE)
    adapt(base, [str(site / "frames")], out, own=0.5, device="cpu")
    predictor = fpgm.load_predictor(out, device="cpu")
    masks, planes = predictor.predict(files)
    alone = [predictor.predict([file])[1][0] for file in files]
    assert all(np.allclose(plane, one, atol=1e-4) for plane, one in zip(planes, alone, strict=True))
    old = fpgm.load_predictor(base, device="cpu")
    assert predictor.engine.identity != old.engine.identity
    assert any((mask != other).any() for mask, other in zip(masks, old.predict(files)[0], strict=True))
    report = export_onnx(out, tmp_path / "adapted.onnx", pictures=[Image.open(file) for file in files])
    assert report.max_difference < 1e-4 and report.dice > 0.999
    assert fpgm.load_predictor(report.path).engine.card == read_card(out)
    assert export_torch(out, tmp_path / "adapted.pt2").max_difference < 1e-4


# what is refused


def test_what_cannot_be_adapted_is_refused_and_nothing_is_written(
    site: Path, phantom_store: Path, tmp_path: Path
) -> None:
    frames, out = str(site / "frames"), tmp_path / "out"
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "other").mkdir()
    Image.new("L", (80, 80)).save(tmp_path / "other" / "x.png")
    refusals = [
        (onnx_file(), [frames], out, {}, ValueError, "adapt the run it was exported from, then export"),
        (tmp_path, [frames], out, {}, FileNotFoundError, "holds no model"),
        (model(), ["gone"], out, {}, FileNotFoundError, "there is no file or folder gone"),
        (model(), [str(tmp_path / "taken")], out, {}, FileNotFoundError, "holds no picture"),
        (
            model(),
            [str(phantom_store)],
            out,
            {},
            ValueError,
            "is a store: give one of its data sets, such as .*phantom-a",
        ),
        (model(), [frames], tmp_path / "taken", {}, ValueError, "is there already: give another --out"),
        (model(), [frames], tmp_path / "file", {}, ValueError, "is there already"),
        (model(), [frames], out, {"masks": tmp_path / "none"}, FileNotFoundError, "there is no file or folder"),
        (model(), [frames], out, {"masks": tmp_path / "other"}, ValueError, "has the name of a frame"),
        (model(), [frames], out, {"own": 2.0}, ValueError, "--own is 2.0: .* from 0 to 1"),
        (model(), [frames], out, {"count": 0}, ValueError, "--count is 0"),
        (model(), [frames], out, {"batch_size": 0}, ValueError, "--batch-size 0"),
        (model(), [frames], out, {"device": "quantum"}, ValueError, "--device quantum"),
    ]
    for path, given, place, options, kind, message in refusals:
        with pytest.raises(kind, match=message):
            adapt(path, given, place, **{"device": "cpu", **options})  # type: ignore[arg-type]  # settings by **
    assert nothing_below(tmp_path, "site", "taken", "file", "other")


def test_a_network_without_batch_norm_is_refused(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = read_card(model())
    monkeypatch.setattr("fpgm.serving.adapt.load_model", lambda path: (torch.nn.Conv2d(3, 2, 1), card))
    with pytest.raises(ValueError, match=r"its network, unet, has no batch norm.*use it as it is"):
        adapt(model(), [str(site / "frames")], tmp_path / "out", device="cpu")


def test_a_store_of_another_size_is_refused(tmp_path: Path, phantom_store: Path) -> None:
    net, card = load_model(model())
    save_model(tmp_path / "small", net, card.model_copy(update={"size": 32}))
    with pytest.raises(ValueError, match=r"holds images of 64 x 64 pixels, but the model takes 32 x 32: .*--size 32"):
        adapt(tmp_path / "small", [str(phantom_store / "phantom-a")], tmp_path / "out", device="cpu")


def test_bad_files_and_bad_masks_are_named_and_the_rest_is_used(site: Path, tmp_path: Path) -> None:
    (site / "frames" / "0.png").write_text("no picture")
    (site / "masks" / "1_mask.png").write_bytes(b"")
    Image.new("L", (80, 80)).save(site / "masks" / "2_mask.png")  # another size than its frame
    Image.new("L", (92, 92)).save(site / "masks" / "3_mask.png")  # empty
    adapted = adapt(model(), [str(site / "frames")], tmp_path / "out", masks=site / "masks", device="cpu")
    assert [(problem.path.name, problem.reason.split(":")[0]) for problem in adapted.problems] == [
        ("0.png", "cannot be decoded"),
        ("1_mask.png", "the file has no content"),
        ("2_mask.png", "the mask is 80 x 80, its frame 88 x 88"),
        ("3_mask.png", "no foreground"),
    ]
    found = adapted.card.statistics.site
    assert found and found.frames == 8 and found.masks == 3


def test_what_becomes_a_pipe_is_named_and_not_waited_for(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = adaptation._find

    def find(*arguments: Any) -> Any:
        found = real(*arguments)
        for path in (site / "frames" / "0.png", site / "masks" / "1_mask.png"):
            path.unlink()
            os.mkfifo(path)
        return found

    monkeypatch.setattr(adaptation, "_find", find)
    adapted = adapt(model(), [str(site / "frames")], tmp_path / "out", masks=site / "masks", device="cpu")
    assert [(problem.path.name, problem.reason) for problem in adapted.problems] == [
        ("0.png", "it is not a regular file"),
        ("1_mask.png", "it is not a regular file"),
    ]


def test_without_one_usable_frame_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames" / "0.png").write_text("no picture")
    with pytest.raises(ValueError, match=r"no frame can be read: .*0\.png: cannot be decoded"):
        adapt(model(), [str(tmp_path / "frames")], tmp_path / "out", device="cpu")
    assert nothing_below(tmp_path, "frames")


def test_a_failure_while_writing_leaves_nothing(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("fpgm.model.write_model_record", fail)
    with pytest.raises(OSError, match="the disk is full"):
        adapt(model(), [str(site / "frames")], tmp_path / "out", device="cpu")
    assert nothing_below(tmp_path, "site")


# how many are enough


def make_moments(means: list[float], variance: float = 1.0) -> Moments:
    mean = torch.tensor(means, dtype=torch.float64)[:, None].repeat(1, 3)
    return Moments(mean, torch.full_like(mean, variance))


def test_convention_how_many_frames_are_enough() -> None:
    assert convergence(make_moments([0.0])) == (None, None)
    assert convergence(make_moments([0.0, 0.0])) == (0.0, None)  # too few to tell
    assert convergence(make_moments([0.0] * 8)) == (0.0, 1)
    # one frame lies 0.5 from the mean of all, whose variance is 1.25; so do two of a kind, 0 and 4 or 1 and 5
    assert convergence(make_moments([0.0, 1.0, 1.0, 0.0] * 2)) == (0.0, 4)
    # the halves lie one apart, in standard deviations 1 / √1.25; frames 0 and 4 are one of each
    assert convergence(make_moments([0.0] * 4 + [1.0] * 4)) == (0.8944, 2)


def test_more_frames_of_a_site_agree_better() -> None:
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(256, 40, generator=generator, dtype=torch.float64)
    found = Moments(mean, torch.ones_like(mean))
    enough = [convergence(found, tolerance)[1] for tolerance in (0.5, 0.2, 0.1, 0.05, 0.001)]
    # means and variances of n frames are spread by c / √n, so that half the tolerance needs four times the frames,
    # until n is half of all, which is nearer to all than to others
    assert enough == [2, 16, 64, 128, None]


# the card


def test_the_card_says_which_frames_and_what_the_run_was(site: Path, phantom_store: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", phantom_store)
    for base in (run, run / "model"):
        out = tmp_path / f"from-{base.name}"
        card = adapt(base, [str(site / "frames")], out, masks=site / "masks", device="cpu").card
        text = (out / "MODEL_CARD.md").read_text()
        found = card.statistics.site
        assert found and "Not for clinical use" in text and f"Weights: SHA-256 `{card.weights_sha256}`" in text
        assert f"9 unlabelled frames of `frames` (SHA-256 of their pixels `{found.sha256}`)" in text
        assert found.base_sha256 in text and describe_frames(found) in text and "on the 7 frames with masks" in text
        assert "adapt the original again" in text and "| phantom-a | 14 |" in text and "mini, 40 iterations" in text
        assert "## Results" not in text and str(tmp_path) not in text + (out / "model.json").read_text()


def test_figures_of_the_run_are_said_to_be_those_of_before(site: Path, phantom_store: Path, tmp_path: Path) -> None:
    from fpgm.cli import main

    run = make_run(tmp_path / "run", phantom_store)
    assert main(["evaluate", str(run), "--datasets", "phantom-a", "--workers", "1", "--device", "cpu"]) == 0
    adapt(run, [str(site / "frames")], tmp_path / "out", device="cpu")
    text = (tmp_path / "out" / "MODEL_CARD.md").read_text()
    assert "of the model before its statistics were replaced" in text and "| phantom-a | 4 |" in text


def test_a_model_folder_without_its_run_has_a_card_too(site: Path, tmp_path: Path) -> None:
    base = shutil.copytree(model(), tmp_path / "alone")
    adapt(base, [str(site / "frames")], tmp_path / "out", own=0.25, device="cpu")
    text = (tmp_path / "out" / "MODEL_CARD.md").read_text()
    assert 'method = "supervised"' in text and "25% of the statistics are each image's own" in text
    assert json.dumps(CHANNELS) in text


def test_the_card_of_a_run_says_which_statistics_were_chosen(phantom_store: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", phantom_store)
    assert "Batch norm" not in (run / "model" / "MODEL_CARD.md").read_text()
    net, card = load_model(run)
    statistics = Statistics(source="clean", own=0.5, scores={"training": 0.3, "clean, 0.5 own": 0.41234})
    save_model(run / "model", net, card.model_copy(update={"statistics": statistics}))
    line = "statistics of clean training images, 50% of them each image's own, chosen by validation Dice: "
    assert line + "training 0.3000, clean, 0.5 own 0.4123" in (run / "model" / "MODEL_CARD.md").read_text()


def test_the_draft_of_a_killed_command_is_cleared(site: Path, tmp_path: Path) -> None:
    (tmp_path / ".adapted.part").mkdir()
    (tmp_path / ".adapted.part" / "junk").touch()
    adapt(model(), [str(site / "frames")], tmp_path / "adapted", device="cpu")
    assert nothing_below(tmp_path / "adapted", "MODEL_CARD.md", "model.json", "model.safetensors")
    assert nothing_below(tmp_path, "adapted", "site")
