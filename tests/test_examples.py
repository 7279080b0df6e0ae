"""Every example runs, and does what it says."""

from __future__ import annotations

import importlib.util
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image

from fpgm.cli import main
from fpgm.data.synthetic import phantom
from fpgm.model import load_model
from fpgm.spectrum import FrequencyPrior, align, amplitude, edge_profiles, generic_profile, radial_profile

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDS = {"monai_transform": "monai", "kornia_augmentation": "kornia"}
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


def load(name: str) -> ModuleType:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.stack(
        [torch.from_numpy(phantom("phantom-c", i, size=64).image).permute(2, 0, 1) / 255 for i in range(4)]
    )


def distance(image: torch.Tensor, prior: torch.Tensor) -> float:
    """How far the shape of the images' radial profile is from the prior's."""
    profile = radial_profile(amplitude(image), image.shape[-1]).reshape(-1, image.shape[-1] // 2)
    return float((profile / profile.sum(1, keepdim=True) - prior / prior.sum()).abs().sum(1).mean())


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_as_a_script(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out


def test_the_plain_loop_learns_a_prior_and_a_segmenter() -> None:
    prior, losses = load("plain_loop").train(steps=25)
    assert int(prior.samples) == 25 * 4 and len(prior.profile) == 32
    first, last = (np.mean([one["supervised"] for one in part]) for part in (losses[:5], losses[-5:]))
    assert last < first
    assert all(0 < one["consistency"] < 2 for one in losses)


def test_the_monai_transform_aligns_the_image_alone(images: torch.Tensor) -> None:
    example, prior = load("monai_transform"), generic_profile(32)
    transform = example.RandSpectralAlignmentd("image", prior, gamma=(0.3, 0.3), reconstruction="ratio", prob=1.0)
    mask = torch.arange(64 * 64).reshape(1, 64, 64)
    view = transform({"image": images[0], "mask": mask})
    expected = align(images[:1], prior, 0.3, "ratio", clamp=True)[0]
    assert torch.equal(torch.as_tensor(view["image"]), expected) and torch.equal(view["mask"], mask)
    never = example.RandSpectralAlignmentd("image", prior, prob=0.0)
    assert torch.equal(never({"image": images[0]})["image"], images[0])


def test_the_monai_transform_draws_from_its_own_seed(images: torch.Tensor) -> None:
    example = load("monai_transform")
    sample = {"image": (images[0] * 255).numpy(), "mask": np.ones((1, 64, 64), np.float32)}
    views = [torch.as_tensor(example.pipeline(generic_profile(32), seed)(sample)["image"]) for seed in (1, 1, 2)]
    assert torch.equal(views[0], views[1]) and not torch.equal(views[0], views[2])
    assert views[0].min() >= 0 and views[0].max() <= 1


def test_the_kornia_augmentation_draws_per_image_and_leaves_masks(images: torch.Tensor) -> None:
    example, prior = load("kornia_augmentation"), generic_profile(32)
    masks = (torch.arange(4 * 64 * 64).reshape(4, 1, 64, 64) % 7).float()
    augment = example.AugmentationSequential(
        example.RandomSpectralAlignment(prior, gamma=(0.1, 0.9), reconstruction="ratio", p=1.0),
        data_keys=["input", "mask"],
    )
    torch.manual_seed(0)
    view, same = augment(images, masks)
    assert torch.equal(same, masks) and view.shape == images.shape
    gammas = augment._params[0].data["gamma"]
    assert len(set(gammas.tolist())) == 4
    assert torch.allclose(view, align(images, prior, gammas, "ratio", clamp=True))


def test_the_kornia_augmentation_changes_the_chosen_images_alone(images: torch.Tensor) -> None:
    example, prior = load("kornia_augmentation"), FrequencyPrior()
    mask = torch.zeros(1, 64, 64)
    mask[:, 20:40, 20:40] = 1
    prior.update(images[:1], mask)
    torch.manual_seed(1)
    augment = example.RandomSpectralAlignment(prior, gamma=(0.5, 0.5), p=0.5)
    view = augment(images)
    chosen = augment._params["batch_prob"].bool()
    changed = (view != images).flatten(1).any(1)
    assert 0 < int(chosen.sum()) < 4 and torch.equal(chosen, changed)
    assert distance(view[chosen], prior.profile) < distance(images[chosen], prior.profile)


def test_a_prior_of_one_s_own_images_is_their_mean_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = load("own_prior")
    images, masks = example.draw_phantoms(tmp_path / "mine", count=3)
    Image.new("RGB", (128, 128)).save(images / "without-mask.png")
    example.main(["--images", str(images), "--masks", str(masks), "--out", str(tmp_path / "prior.json")])
    prior = FrequencyPrior.load(tmp_path / "prior.json")
    profiles = []
    for index in range(3):
        sample = phantom("phantom-a", index)
        image = torch.from_numpy(sample.image).permute(2, 0, 1)[None] / 255
        profiles.append(edge_profiles(image, torch.from_numpy(sample.mask)[None])[0])
    assert torch.allclose(prior.profile, torch.stack(profiles).mean(0), rtol=2e-3)
    assert "3 images, 0 without a visible edge" in capsys.readouterr().out
    assert Image.open(tmp_path / "prior.png").size == (256, 128)


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Install the example of a package, from a copy, since building leaves files beside the source."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(EXAMPLES / "package", folder / "source")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-deps", "--no-index", "--no-build-isolation", "--target", str(folder / "site")]
    subprocess.run([*pip, str(folder / "source")], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder / "site")
        yield


def test_a_method_and_a_network_of_another_package_are_used_like_ours(
    installed: None, phantom_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["net.name=dilated", "net.width=4", "net.depth=2", "method.weight=0.05", "train.choose_statistics=false"]
    few += ["train.pictures_every=0", "data.batch_labeled=2", "data.batch_unlabeled=2", "train.save_every=2"]
    given = ["--data", str(phantom_store), "--preset", "mini", "--iterations", "2", "--precision", "32-true"]
    run, runs = tmp_path / "run", tmp_path / "runs"
    assert main(["train", "--method", "entropy", "--labeled", "10%", "--out", str(run), *given, "--set", *few]) == 0
    (run / "model" / "model.json").unlink()  # as if it was killed before its end
    assert main(["train", "--resume", "--out", str(run)]) == 0
    few.remove("method.weight=0.05")
    table = ["main", "--methods", "entropy", "--labeled", "10%", "--protocol", "strict"]
    assert main(["reproduce", *table, "--out", str(runs), *given, "--set", *few]) == 0
    assert main(["report", str(runs), "--out", str(tmp_path / "report")]) == 0
    header = (run / "metrics.csv").read_text().partition("\n")[0]
    assert "entropy" in header.split(",")
    net, card = load_model(run)
    assert type(net).__module__ == "fpgm_entropy.dilated" and card.arguments == {"width": 4, "depth": 2}
    assert "entropy" in (tmp_path / "report" / "index.html").read_text()
    assert main(["train", "--method", "entrop", "--out", str(tmp_path / "none"), *given]) == 2
    assert "near it: entropy" in capsys.readouterr().err
