"""Run and model folders, splits and file names that came from elsewhere: read as they are meant, or refused."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example
from hypothesis import strategies as st
from safetensors.torch import save_file

from fpgm import cli
from fpgm.data.splits.split import Split
from fpgm.model import FORMAT, WEIGHTS, choose_device, load_model
from fpgm.runs.card import CARD
from fpgm.runs.results import read_result
from fpgm.tensors import _HEADER, read_tensors
from tests.data.pictures import bundle
from tests.fuzz.making import WORDS, documents, fuzz, refusable
from tests.fuzz.records import CARD_RECORD, YAML
from tests.report.making import bars, write_run
from tests.serving.making import model

HERE = Path((SCRATCH := tempfile.TemporaryDirectory()).name)  # until the tests end


def test_a_device_without_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="--device meta cannot be used here"):
        choose_device("meta")


def test_a_file_whose_name_is_no_text_is_left_out(tmp_path: Path) -> None:
    raw = bundle(tmp_path / "raw", 2)
    shutil.copy(raw / "images" / "1.png", os.fsencode(raw / "images") + b"/x\xff.png")
    own = ["--images", str(raw / "images"), "--masks", str(raw / "masks"), "--name", "mine", "--workers", "1"]
    assert cli.main(["data", "prepare", *own, "--size", "16", "--out", str(tmp_path / "store")]) == 0


SMALL = st.one_of(st.integers(-2, 40), WORDS, st.none(), st.booleans(), st.lists(st.integers(-1, 9), max_size=6))


@fuzz(arguments=st.dictionaries(st.sampled_from(["channels", "dropout", "classes", "in_channels", "name"]), SMALL))
@example(arguments={"name": "unet"})
@example(arguments={"in_channels": "x"})
@example(arguments={"classes": -1})
@example(arguments={"dropout": "x"})
@example(arguments={"channels": [0, 0, 0, 0, 0]})
@example(arguments={"channels": [8000] * 5})
@example(arguments={"channels": [10**12] * 5})
def test_a_card_of_another_network(arguments: dict[str, Any]) -> None:
    folder = HERE / "other"
    shutil.copytree(model(), folder, dirs_exist_ok=True)
    (folder / CARD).write_text(json.dumps({**CARD_RECORD, "arguments": arguments}))
    with refusable():
        load_model(folder)


def reweighted(folder: Path, content: bytes) -> Path:
    """Write weights, and their hash to the card, as someone would who wants them to be read."""
    folder.mkdir(exist_ok=True)
    (folder / WEIGHTS).write_bytes(content)
    (folder / CARD).write_text(json.dumps({**CARD_RECORD, "weights_sha256": hashlib.sha256(content).hexdigest()}))
    return folder


@fuzz(place=st.floats(0, 1, exclude_max=True), junk=st.binary(min_size=1, max_size=8), cut=st.booleans())
@example(place=0.0, junk=b"\xff" * 8, cut=False)  # a header longer than the file
def test_weights_with_a_hash_made_anew(place: float, junk: bytes, cut: bool) -> None:
    whole = (model() / WEIGHTS).read_bytes()
    start = int(place * 2**14) if place < 0.5 else int(place * len(whole))  # the header, or anywhere
    rest = b"" if cut else whole[start + len(junk) :]
    with refusable():
        load_model(reweighted(HERE / "weights", whole[:start] + junk + rest))


def test_weights_without_what_we_write_beside_them() -> None:
    path = HERE / "plain.safetensors"
    save_file({"x": torch.zeros(1)}, path, {_HEADER: json.dumps({"format": FORMAT})})
    with pytest.raises(ValueError, match="not a file of kind"):
        read_tensors(path, FORMAT)


SPLIT = Split(("a/1", "a/2", "b/3"), ("a/4",), ("b/5",), ("c/6",), "paper", 0)
SPLIT.save(HERE / "split")
LISTS = {path.name: path.read_bytes() for path in (HERE / "split").iterdir()}


@fuzz(
    content=documents(json.loads(LISTS["split.json"])),
    name=st.sampled_from(sorted(LISTS)),
    junk=st.binary(max_size=20),
)
@example(content=LISTS["split.json"], name="test.txt", junk=b"\xff\n")
def test_a_split(content: bytes, name: str, junk: bytes) -> None:
    folder = HERE / "split"
    for file, whole in LISTS.items():
        (folder / file).write_bytes({"split.json": content, name: junk}.get(file, whole))
    with refusable(folder):
        split = Split.load(folder)
        assert split.labeled("1") + split.unlabeled("1") == list(split.train)


RUN = HERE / "run"
write_run(RUN, {"b": bars(2, 3)}, {"b": bars(3, 3)})
RUN_FILES = {
    name: (RUN / name).read_bytes() for name in ("config.yaml", "evaluation/evaluation.json", "model/model.json")
}
EVALUATION = json.loads(RUN_FILES["evaluation/evaluation.json"])


# 1.1 KB that stand for nine to the power of nine texts
LINES = [f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]" for a, b in pairwise("abcdefghi")]
BOMB = "\n".join(["a: &a [x, x, x, x, x, x, x, x, x]", *LINES]).encode()


def renamed(name: str) -> bytes:
    return json.dumps({**EVALUATION, "datasets": {name: EVALUATION["datasets"]["b"]}}).encode()


@fuzz(
    contents=st.fixed_dictionaries(
        {},
        optional={
            "config.yaml": YAML,
            "evaluation/evaluation.json": documents(EVALUATION),
            "model/model.json": documents(json.loads(RUN_FILES["model/model.json"])),
        },
    )
)
@example(contents={"evaluation/evaluation.json": renamed("../evaluation/b")})  # its images would begin with ../
@example(contents={"config.yaml": b"!!bool foo"})
@example(contents={"config.yaml": b"[" * 800})
@example(contents={"model/model.json": b"[" * 100_000})
@example(contents={"evaluation/evaluation.json": b'{"a":' * 100_000})
@example(contents={"config.yaml": BOMB})
@example(contents={"config.yaml": RUN_FILES["config.yaml"].replace(b"preset: mini", b"preset: /tmp/x")})
@example(contents={"evaluation/evaluation.json": json.dumps({**EVALUATION, "protocol": "../../x"}).encode()})
@example(contents={"evaluation/evaluation.json": json.dumps({**EVALUATION, "split": "/tmp/x"}).encode()})
@example(contents={"evaluation/evaluation.json": renamed("=1+1")})
def test_an_evaluated_run(contents: dict[str, bytes]) -> None:
    for name, whole in RUN_FILES.items():
        (RUN / name).write_bytes(contents.get(name, whole))
    with refusable(RUN):
        result = read_result(RUN)
        assert set(result.scores) <= {"b"}
        for part in (result.protocol, result.split, result.preset, result.labeled):
            assert (HERE / part).parent == HERE and not part.startswith(("=", "+", "-", "@", "."))
