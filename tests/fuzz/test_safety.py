"""No pickle is ever loaded, no archive unpacked, and no name leads out of its folder."""

from __future__ import annotations

import ast
import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example
from hypothesis import strategies as st

from fpgm.config import RunConfig, resolve
from fpgm.data.pictures import read_hdf5, read_picture
from fpgm.data.raw.layouts import own_folders
from fpgm.data.splits.split import Split
from fpgm.data.store import Store
from fpgm.report.plots.panels import read_masks
from fpgm.runs.card import read_card
from fpgm.runs.results import read_result
from fpgm.serving.folders.inputs import Source, claims, distinct, find_sources
from fpgm.serving.folders.record import PredictionRecord
from fpgm.serving.predictor import load_predictor
from fpgm.spectrum import FrequencyPrior
from fpgm.tensors import read_tensors
from tests.data.pictures import bundle, touch
from tests.fuzz.making import WORDS, fuzz

ROOT = Path(__file__).parents[2]
SOURCES = [path for room in ("src", "examples", "benchmarks") for path in sorted((ROOT / room).rglob("*.py"))]
BANNED_MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "marshal",
    "tarfile",
    "runpy",
}
BANNED_CALLS = {
    "eval",
    "exec",
    "compile",
    "os.system",
    "torch.jit.load",
    "torch.hub.load",
    "yaml.load",
    "yaml.full_load",
}
BANNED_CALLS |= {"yaml.unsafe_load", "shutil.unpack_archive", "np.loadtxt", "torch.package.PackageImporter"}
NEEDED = {
    "torch.load": ("weights_only", True),
    "np.load": ("allow_pickle", False),
    "numpy.load": ("allow_pickle", False),
}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_source_can_load_no_pickle_and_unpacks_nothing(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not BANNED_MODULES & {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] not in BANNED_MODULES
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in BANNED_CALLS and not called.endswith((".extractall", ".unpack_archive")), called
            name, value = NEEDED.get(called, ("", None))
            given = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg == name}
            assert not name or given == {name: value}, f"{called} needs {name}={value}"


class Evil:
    """What its pickle does when it is loaded: it makes a file."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.place,)


def evil_files(place: Path) -> dict[str, bytes]:
    """Files that make another one if they are loaded without care."""
    saved, zipped, listed = io.BytesIO(), io.BytesIO(), io.BytesIO()
    torch.save(Evil(place), saved)
    np.savez(zipped, masks=np.array([Evil(place)], dtype=object))
    np.save(listed, np.array([Evil(place)], dtype=object), allow_pickle=True)
    tag = f"!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{place}']]"
    return {
        "pickle": pickle.dumps(Evil(place)),
        "torch": saved.getvalue(),
        "npz": zipped.getvalue(),
        "npy": listed.getvalue(),
        "yaml": f"method: {tag}".encode(),
    }


def write_everywhere(folder: Path, content: bytes) -> None:
    """Put a file in the place of every one we read."""
    names = "config.yaml prior.json metrics.csv predictions.jsonl manifest.json data.h5 split.json train.txt m.onnx"
    runs = "model/model.json model/model.safetensors evaluation/evaluation.json evaluation/b.npz evaluation/b.csv"
    for name in f"{names} {runs}".split():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


READERS: dict[str, Callable[[Path], object]] = {
    "picture": lambda folder: read_picture((folder / "data.h5").read_bytes()),
    "hdf5": lambda folder: read_hdf5((folder / "data.h5").read_bytes()),
    "store": Store.open,
    "split": Split.load,
    "config": lambda folder: RunConfig.load(folder / "config.yaml"),
    "card": lambda folder: read_card(folder / "model"),
    "weights": lambda folder: read_tensors(folder / "model" / "model.safetensors", "fpgm-weights-1"),
    "model": load_predictor,
    "onnx": lambda folder: load_predictor(folder / "m.onnx"),
    "prior": lambda folder: FrequencyPrior.load(folder / "prior.json"),
    "masks": lambda folder: read_masks(folder, "b", 16),
    "result": read_result,
}


@pytest.mark.parametrize("kind", ["pickle", "torch", "npz", "npy", "yaml"])
def test_a_malicious_file_does_nothing_wherever_it_is_put(kind: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    content = evil_files(canary)[kind]
    write_everywhere(tmp_path / "run", content)
    for name, read in READERS.items():
        with pytest.raises((ValueError, OSError)):
            read(tmp_path / "run")
        assert not canary.exists(), name
    assert not PredictionRecord(tmp_path / "run").entries
    with pytest.raises(ValueError):
        resolve("paper", "fpgm", {"store": "s", "split": "p"}, [f"method.gamma={content.decode('latin-1')}"])
    assert not canary.exists()


def test_the_malicious_files_are_malicious(tmp_path: Path) -> None:
    pickle.loads(evil_files(tmp_path / "a")["pickle"])
    torch.load(io.BytesIO(evil_files(tmp_path / "b")["torch"]), weights_only=False)
    np.load(io.BytesIO(evil_files(tmp_path / "c")["npy"]), allow_pickle=True)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "c"}


@fuzz(name=WORDS | st.text(st.sampled_from("../\\~: -_ax\n\0"), max_size=8))
@example(name="..")
@example(name="a/../../b")
@example(name="/tmp")
@example(name="a\n")
def test_a_data_set_is_a_folder_within_its_store(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    raw, store = tmp_path_factory.getbasetemp() / "raw", tmp_path_factory.getbasetemp() / "store"
    if not raw.exists():
        bundle(raw, 1)
    try:
        found = own_folders(name, raw / "images", raw / "masks")
    except ValueError as error:
        assert repr(name) in str(error)
    else:
        assert (store / found.name).resolve().parent == store.resolve()


@fuzz(
    parts=st.lists(
        st.sampled_from(["in", "..", "*", "**", "a", "?.png", "*.png", "[a", "[a]*"]), min_size=1, max_size=5
    )
)
@example(parts=["*", "..", "..", "*.png"])
@example(parts=["a", "..", "*.png"])
def test_what_is_predicted_is_named_within_the_results(
    parts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.getbasetemp() / "named" / "deep"
    if not base.exists():
        touch(base, "in/a/1.png", "in/b.png", "in/a.png", "in/\udcff.png", "a/a.jpg", "../x.png")
    taken: set[str] = set()
    try:
        sources = find_sources([str(base / "in" / Path(*parts))])
    except OSError:
        return
    for source in sources:
        name = distinct(source, taken)
        taken |= claims(name)
        name.encode()  # it can be written to a file
        assert (base / "out" / name).resolve().is_relative_to((base / "out").resolve())


def test_a_record_cannot_say_where_to_write(tmp_path: Path) -> None:
    entry = {"image": "a.png", "sha256": "", "moving": False, "settings": {}, "frames": []}
    names = ["../a", "/tmp/a", "a/../../b", "a/b", "..a"]
    lines = [json.dumps({**entry, "image": name, "name": name}) for name in names]
    (tmp_path / "predictions.jsonl").write_text("\n".join(lines))
    assert list(PredictionRecord(tmp_path).entries) == ["a/b", "..a"]


def test_a_file_whose_name_is_no_text_gets_one(tmp_path: Path) -> None:
    assert distinct(Source(tmp_path / "\udcff.png", "\udcff"), set()) == "\\udcff"
