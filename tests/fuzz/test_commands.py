"""The command line with any arguments: an exit code and a sentence, never a traceback.

What would take long is cut off where it begins, as if a user had pressed Ctrl-C there: training, drawing many phantoms,
exporting, measuring, serving. Each case has a folder of its own, with a store, a run, pictures and a text.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import shutil
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import example
from hypothesis import strategies as st

from fpgm import cli
from fpgm.config import resolve
from fpgm.data.splits.split import Split
from fpgm.runs.card import read_card
from tests.data.pictures import bundle
from tests.fuzz.making import fuzz
from tests.serving.running import make_run

HERE = tempfile.TemporaryDirectory()  # until the tests end
TEMPLATE, PLACE = Path(HERE.name) / "template", Path(HERE.name) / "place"
PATHS = ["store", "store/phantom-a", "store/splits/strict-0", "run", "run/model", "run/prior.json", "raw", "raw/images"]
PATHS += ["raw/images/1.png", "text", "empty", "none", "text/below", "new.onnx", "new.png", "new.csv", ".", ""]
WORDS = [
    "",
    "x",
    "5%",
    "200%",
    "0",
    "-1",
    "nan",
    "a=b",
    "method.gamma=[",
    "train.seed=1",
    "[1",
    "{",
    "!!bool x",
    "@text",
]
WORDS += [
    "fpgm",
    "supervised",
    "phantom-a",
    "paper-0",
    "strict-0",
    "cpu",
    "cuda",
    "auto",
    "32-true",
    "é",
    "\udcff",
    "[b]x",
]
WORDS += [
    "*.png",
    "raw/**/*",
    "phantom-a/train=text",
    "127.0.0.1",
    "a..b",
    "1,2",
    "null",
    "~",
    "-",
    "--",
    "../x",
    "a b",
]
NUMBERS = ["-1", "0", "1", "2", "0.5", "1e400", "nan", "inf", "99999999999999999999", "x", "", "1_0", "0x10", "true"]
SMALL = ["-1", "0", "1", "x", "1.5", ""]  # of what is done so often, or starts so many processes
BOUNDED = {"count", "workers", "devices", "num_nodes", "jobs", "cpus", "size", "batch_size", "min_area", "host"}
RIGHT = {  # by the name of an option, so that most cases get to where the work is
    "accelerator": ["cpu"],
    "data": ["store"],
    "datasets": ["phantom-a", "phantom-e"],
    "device": ["cpu", "auto"],
    "domains": ["phantom-b"],
    "fractions": ["0.5", "0.25"],
    "frames": ["raw/images", "store/phantom-e"],
    "images": ["raw/images", "raw/images/1.png"],
    "iterations": ["1", "2"],
    "labeled": ["1", "2", "50%"],
    "leave_out": ["phantom-a", "phantom-e"],
    "lists": ["phantom-a/train=list", "phantom-a/test=other"],
    "masks": ["raw/masks"],
    "method": ["fpgm", "supervised", "urpc"],
    "methods": ["fpgm", "supervised,urpc"],
    "model": ["run", "run/model"],
    "name": ["mine"],
    "out": ["new", "new.onnx", "new.png", "new.json"],
    "prior": ["run/prior.json"],
    "priors": ["run/prior.json"],
    "root": ["raw"],
    "run": ["run"],
    "runs": ["run"],
    "seeds": ["0", "1,2"],
    "set": ["train.validate_every=1", "net.arguments={}", "optimizer.name=adamw"],
    "split": ["strict-0", "store/splits/strict-0"],
    "store": ["store"],
    "unlabeled": ["more"],
    "unseen": ["phantom-e"],
    "workers": ["1"],
}


def commands(table: Any = cli.COMMANDS, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in table.items():
        yield from commands(command, (*words, name)) if isinstance(command, dict) else [((*words, name), command)]


def values(name: str, hint: Any) -> st.SearchStrategy[str]:
    """Words that an option might be given: mostly of its kind."""
    kinds = {hint, *get_args(hint)} | {inner for part in get_args(hint) for inner in get_args(part)}
    if name == "host":
        return st.sampled_from(["127.0.0.1", "::1", "", "a..b", "x" * 70, "\udcff"])  # none that asks a name server
    if any(get_origin(kind) is Literal for kind in kinds):
        choices = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
        return st.sampled_from([*choices, "x", ""])
    if Path in kinds:
        return st.sampled_from(PATHS)
    if int in kinds or float in kinds:
        return st.sampled_from(SMALL if name in BOUNDED else NUMBERS)
    return st.sampled_from([*WORDS, *PATHS]) | st.text(st.characters(exclude_characters="/.\0"), max_size=6)


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    """A command with some of its arguments, all that it needs more often than not, and sometimes something else."""
    words, command = draw(st.sampled_from(list(commands())))
    hints, line = get_type_hints(command), list(words)
    for name, parameter in inspect.signature(command).parameters.items():
        needed = parameter.default is inspect.Parameter.empty
        if draw(st.integers(0, 9)) >= (9 if needed else 3):
            continue
        flag = [f"--{name.replace('_', '-')}"] if parameter.kind is inspect.Parameter.KEYWORD_ONLY else []
        many = "list" in str(hints[name])
        right = name in RIGHT and draw(st.integers(0, 9)) < 8
        word = st.sampled_from(RIGHT[name]) if right else values(name, hints[name])
        given = draw(st.lists(word, min_size=1, max_size=2 if many else 1, unique=True))
        line += flag if hints[name] is bool else [*flag, *given]
    if draw(st.integers(0, 9)) == 0:
        line.insert(
            draw(st.integers(0, len(line))), draw(st.sampled_from(["--help", "--nonsense", "-h", "--", "x", "--set"]))
        )
    return line


@pytest.fixture(scope="module", autouse=True)
def workshop() -> Iterator[None]:
    """Make the folder of which every case gets a copy, and cut off what would take long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "cpu_count", lambda: 1)
        patch.delenv("FPGM_DEBUG", raising=False)
        store = [
            "--out",
            str(TEMPLATE / "store"),
            "--count",
            "6",
            "--size",
            "64",
            "--domains",
            "phantom-a",
            "phantom-e",
        ]
        assert cli.main(["data", "synth", *store]) == 0
        assert (
            cli.main(["data", "split", "--data", str(TEMPLATE / "store"), "--protocol", "strict", "--labeled", "1"])
            == 0
        )
        evaluated_run(TEMPLATE / "run", TEMPLATE / "store")
        bundle(TEMPLATE / "raw", 2)
        bundle(TEMPLATE / "more", 1, first=7)
        (TEMPLATE / "list").write_text("00000\n00001.png\n")
        (TEMPLATE / "other").write_text("00002\n")
        (TEMPLATE / "empty").mkdir()
        (TEMPLATE / "text").write_text("no picture\n")
        for name in (
            "fpgm.training.trainer.Trainer.fit",
            "fpgm.data.synthetic_store.build_phantom",
            "fpgm.experiments.runner.run",
            "fpgm.experiments.timing.times",
            "fpgm.experiments.cluster.Cluster.__init__",
            "fpgm.serving.export._to_program",
            "uvicorn.Server.run",
        ):
            patch.setattr(name, interrupt)
        yield
    shutil.rmtree(TEMPLATE)  # a process that is given one more test of this file makes it again


def evaluated_run(folder: Path, store: Path) -> None:
    """Write a run folder as if the small model had been trained on a store, and evaluate it."""
    make_run(folder)
    resolve("mini", "supervised", {"store": store, "split": "strict-0", "labeled": "1"}).save(folder / "config.yaml")
    training = {"train_sha256": Split.load(store / "splits" / "strict-0").train_sha256()}
    card = read_card(folder / "model").model_copy(update={"training": training})
    (folder / "model" / "model.json").write_text(card.model_dump_json())
    (folder / "metrics.csv").write_text("step,total,validation_dice\n")
    assert cli.main(["evaluate", str(folder), "--device", "cpu"]) == 0


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run(line: list[str]) -> tuple[int, str, str]:
    """Run a command in a fresh folder, with streams that take UTF-8 alone, as a terminal's do."""
    shutil.rmtree(PLACE, ignore_errors=True)
    shutil.copytree(TEMPLATE, PLACE)
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace", newline="")
    with inside(PLACE), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: Any = cli.main(line)
        except SystemExit as end:  # of the parser
            code = end.code
    out.flush(), err.flush()
    return code, *(stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]  # both have one


@fuzz(line=lines())
@example(line=["train", "--method", "fpgm", "--data", "store", "--out", "new", "--set", "method.gamma=["])
@example(line=["train", "--method", "fpgm", "--data", "store", "--out", "new", "--seed", "99999999999999999999"])
@example(line=["train", "--method", "fpgm", "--data", "store", "--out", "new", "--labeled", "1", "--devices", "-1"])
@example(line=["predict", "run", "raw/images", "--out", "new", "--device", "cpu"])
@example(line=["data", "audit", "--data", "store"])
def test_any_arguments(line: list[str]) -> None:
    try:
        code, out, err = run(line)
    except Exception as error:
        pytest.fail("".join(traceback.format_exception(error)[-6:]))
    assert type(code) is int and code in (0, 1, 2, 130)
    assert "Traceback" not in out + err
    assert code != 2 or err.strip()
    assert not re.search(r"Parser key|<class '|usage: fpgm|\[Errno", err)


@fuzz(
    line=st.lists(st.sampled_from([*WORDS, *PATHS, *NUMBERS, *cli.COMMANDS, "--out", "--data", "--json"]), max_size=6)
)
def test_words_in_any_order(line: list[str]) -> None:
    code, out, err = run(line)
    assert code in (0, 1, 2, 130) and "Traceback" not in out + err
