"""The functions of `fpgm` from a folder of frames to an adapted model, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import fpgm
from fpgm.data.synthetic import phantom
from fpgm.notebook import Divided, Evaluated, Prepared, Trained

TINY = {
    "net.name": "unet",
    "net.arguments": {"channels": [2, 4, 4, 8, 8]},
    "data.batch_labeled": 2,
    "data.batch_unlabeled": 2,
    "data.workers": 0,
    "train.choose_statistics": False,
    "train.pictures_every": 0,
}


class Project:
    """A clinic's frames, and what became of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for index in range(20):
            sample = phantom("phantom-a", index, size=64)
            for kind, pixels in (("frames", sample.image), ("truth", sample.mask.astype(np.uint8) * 255)):
                (folder / kind).mkdir(exist_ok=True)
                Image.fromarray(pixels).save(folder / kind / f"{index}.png")
        (folder / "frames" / "<b>20.png").write_bytes(b"no picture")
        (folder / "truth" / "<b>20.png").write_bytes(b"no picture")
        self.store, self.run = folder / "store", folder / "run"
        truth = str(folder / "truth")
        self.prepared = fpgm.prepare(self.store, images=folder / "frames", masks=truth, name="clinic", size=64)
        self.divided = fpgm.split(str(self.store))
        self.trained = fpgm.train(
            self.store, out=self.run, labeled=4, iterations=2, settings=TINY, accelerator="cpu", progress=False
        )
        self.evaluated = fpgm.evaluate(self.run, device="cpu")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("project"))


def test_prepare_counts_and_names_what_it_left_out(project: Project) -> None:
    assert isinstance(project.prepared, Prepared) and project.prepared.store == project.store
    shown = repr(project.prepared).splitlines()
    assert shown[2].split() == ["clinic", "20", "0", "1", "written"] and "20.png" in shown[3]


def test_split_draws_parts(project: Project) -> None:
    assert isinstance(project.divided, Divided) and project.divided.folder == project.store / "splits" / "strict-0"
    assert len(project.divided.split.train) == 14  # 70 % of 20


def test_train_chooses_what_is_not_given(project: Project) -> None:
    trained = project.trained
    assert isinstance(trained, Trained) and (trained.method, trained.preset) == ("fpgm_teacher", "mini")
    assert trained.dice is not None and 0 <= trained.dice <= 1 and trained.step in (1, 2) and trained.iterations == 2
    assert (trained.run / "model" / "model.json").is_file()


def test_train_goes_on_with_a_finished_run(project: Project) -> None:
    again = fpgm.train(out=str(project.run), resume=True, accelerator="cpu", progress=False)
    assert again == project.trained
    with pytest.raises(ValueError, match=r"started with other settings: train.seed: 0 -> 1"):
        fpgm.train(out=project.run, resume=True, seed=1, accelerator="cpu", progress=False)


def test_evaluate_scores_the_test_images(project: Project) -> None:
    assert isinstance(project.evaluated, Evaluated)
    (scores,) = project.evaluated.result.scores.values()
    assert len(scores.ids) == len(project.divided.split.test) == 4
    mean = 100 * float(np.mean(scores.values["dice"]))
    assert repr(project.evaluated).splitlines()[2].split()[:3] == ["clinic", "4", f"{mean:.1f}"]


def test_results_are_html_without_markup_of_their_own(project: Project) -> None:
    for result in (project.prepared, project.divided, project.evaluated):
        html = result._repr_html_()
        assert html.startswith("<table><caption>") and "<td>clinic</td>" in html and "<b>" not in html
    assert "&lt;b&gt;20.png" in project.prepared._repr_html_()


def test_a_model_predicts_and_adapts(project: Project, tmp_path: Path) -> None:
    adapted = fpgm.adapt(project.run, str(project.folder / "frames"), tmp_path / "site", device="cpu")
    assert "20 frames" in repr(adapted) and "20.png" in repr(adapted)  # one of the 21 is no picture
    masks, planes = fpgm.load_predictor(adapted.model, device="cpu").predict([project.folder / "frames" / "0.png"])
    assert masks[0].shape == planes[0].shape == (64, 64)
    found = fpgm.predict(adapted.model, project.folder / "frames", tmp_path / "found", save=["masks"], device="cpu")
    assert found.summary.done == 20 and len(list((tmp_path / "found" / "masks").iterdir())) == 20
    assert repr(found).splitlines()[2].split()[:4] == ["20", "0", "1", "20"] and "20.png" in repr(found)


def test_mistakes_are_refused_with_the_sentences_of_the_commands(project: Project, tmp_path: Path) -> None:
    frames = project.folder / "frames"
    with pytest.raises(ValueError, match="give either --root RAW, or your own folders"):
        fpgm.prepare(tmp_path / "store")
    with pytest.raises(ValueError, match="needs a --name"):
        fpgm.prepare(tmp_path / "store", images=frames, masks=frames)
    with pytest.raises(FileNotFoundError, match="holds pictures and no prepared data"):
        fpgm.train(frames, out=tmp_path / "run")
    with pytest.raises(ValueError, match="needs --data STORE"):
        fpgm.train(out=tmp_path / "run")
    with pytest.raises(ValueError, match="there is nothing to resume"):
        fpgm.train(out=tmp_path / "run", resume=True)
    with pytest.raises(ValueError, match="there is no method 'fpmg'; near it: fpgm"):
        fpgm.train(project.store, out=tmp_path / "run", method="fpmg")
    assert not (tmp_path / "run").exists()


def test_the_package_shows_its_functions_and_imports_nothing_heavy() -> None:
    script = """
import sys, fpgm
assert set(fpgm.__all__) <= set(dir(fpgm))
heavy = {"torch", "numpy", "h5py", "rich", "PIL"} & set(sys.modules)
fpgm.train, fpgm.prepare, fpgm.split, fpgm.evaluate, fpgm.adapt
print(sorted(heavy), sorted({"torch", "h5py"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[] []", done.stderr


@pytest.mark.parametrize("name", ["prepare", "split", "train", "evaluate", "predict", "adapt", "load_predictor"])
def test_every_function_is_explained(name: str) -> None:
    function = getattr(fpgm, name)
    assert function.__doc__ and "Args:" in function.__doc__ and function.__annotations__["return"]
