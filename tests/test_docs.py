"""Every snippet of the documentation runs, in the order of its page, in a folder with what the page takes for granted.

Shell lines that start with `fpgm` run in this process, a few steps long and with a small network; `fpgm serve` ends
where it would begin to wait, and the requests of its page are made by tests/cli/test_serve.py. `make` and `pip install`
are not run, but what they name must exist. All other lines go to bash. A block that needs what no test has, such as a
cluster, says so in its title: ```sh title="not run: …".
"""

from __future__ import annotations

import functools
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import uvicorn
import yaml
from PIL import Image

import fpgm as package
from fpgm import config
from fpgm.cli import demo, main
from fpgm.data.synthetic import phantom
from fpgm.experiments import plan, timing
from fpgm.methods import METHODS
from tests.conftest import compute_here, draw_coarsely, shrink_demo
from tests.data.films import make_film
from tests.small_net import use_small_net

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r'^```(\w*)(?: title="([^"]*)")?\n(.*?)^```$', re.M | re.S)
NOT_RUN = "not run: "
OWN = ("frames", "masks", "more-frames")
# What a page takes for granted; the store has one split, `paper-0`, on which `run` was trained.
NEEDS: dict[str, tuple[str, ...]] = {
    "README.md": OWN,
    "benchmark.md": ("downloads",),
    "results.md": ("downloads",),
    "how-to/your-own-data.md": OWN,
    "how-to/public-data.md": ("downloads", "train.txt", "test.txt"),
    "how-to/python.md": OWN,
    "how-to/train.md": ("store",),
    "how-to/evaluate.md": ("store", "run", "ward"),
    "how-to/report.md": ("store", "runs"),
    "how-to/reproduce.md": ("store",),
    "how-to/predict.md": ("store", "run", "images", "film.mp4"),
    "how-to/label.md": ("store", "run", "images"),
    "how-to/adapt.md": ("store", "run", "images", "frames", "masks"),
    "how-to/export.md": ("run", "images"),
    "how-to/serve.md": ("run", "demo", "frame.jpg"),
    "how-to/prior.md": ("store", "run", "frames", "masks", "examples"),
    "how-to/analyze.md": ("store",),
}

SHORT = {"--iterations": "2", "--count": "12", "--size": "64"}
MORE = {"demo": ["--iterations", "2"], "prepare": ["--size", "64"], "serve": ["--port", "0"]}


class Snippet(NamedTuple):
    language: str
    title: str
    text: str


def snippets(page: Path) -> list[Snippet]:
    return [Snippet(*found) for found in FENCE.findall(page.read_text(encoding="utf-8"))]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT if page.parent == ROOT else DOCS))


RUNNABLE = [page for page in PAGES if any(one.language in ("sh", "python") for one in snippets(page))]


def tiny(preset: Callable[[str], dict[str, Any]], method: str) -> dict[str, Any]:
    """Return a preset with a network and a training that take no time."""
    small = {"arguments": {"dropout": 0.0, "channels": [2, 4, 4, 8, 8]}}
    return {**preset(method), "net": small, "train": {"iterations": 2, "pictures_every": 0, "choose_statistics": False}}


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    """What is tested is that commands are right, not that they learn."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "cpu_count", lambda: 1)
        shrink_demo(patch)
        use_small_net(patch)
        draw_coarsely(patch)
        compute_here(patch)
        train = package.train
        patch.setattr(package, "train", lambda *given, **more: train(*given, **more | {"iterations": 2}))
        patch.setattr(uvicorn.Server, "run", lambda server, sockets: None)
        for key, preset in config.PRESETS.items():
            patch.setitem(config.PRESETS, key, functools.partial(tiny, preset))
        rows = {table: (variants[0], variants[-1]) for table, variants in plan.ROWS.items()}
        patch.setattr(plan, "ROWS", rows | {"main": plan.ROWS["main"][:2]})
        patch.setattr(plan, "LABELED", dict.fromkeys(plan.LABELED, ("20%",)))
        patch.setattr(plan, "SEEDS", dict.fromkeys(plan.SEEDS, (0,)))
        patch.setattr(timing, "STEPS", 1)
        yield
    torch.set_num_threads(threads)


class Kit:
    """What pages take for granted, each thing made when the first page asks for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def copy(self, thing: str, to: Path) -> None:
        source = self.make(thing)
        if source.is_dir():
            shutil.copytree(source, to / thing)
        else:
            shutil.copy(source, to / thing)

    def make(self, thing: str) -> Path:
        path = self.folder / thing
        if path.exists():
            return path
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            if thing == "store":
                fpgm("data synth --out store --count 12 --size 64")
                fpgm("data split --data store")
            elif thing == "run":
                self.make("store")
                fpgm("train --method fpgm --preset mini --data store --labeled 20% --out run")
            elif thing in ("runs", "demo"):
                shutil.copytree(self.make("run"), path / ("fpgm" if thing == "runs" else demo.OURS))
            elif thing == "ward":
                draw(path, "images", "masks", "phantom-f")
            elif thing == "examples":
                shutil.copytree(ROOT / "examples", path)
            elif thing == "downloads":  # under the names of two public data sets, in their layouts
                draw(path / "Kvasir-SEG", "images", "masks", "phantom-a")
                draw(path / "CVC-ClinicDB", "Original", "Ground Truth", "phantom-b")
            elif thing.endswith(".txt"):
                path.write_text(
                    "".join(f"phantom-b-{index}\n" for index in range(14) if (index < 10) == (thing == "train.txt"))
                )
            elif thing == "frame.jpg":
                Image.fromarray(phantom("phantom-c", 0, size=96).image).save(path)
            elif thing == "film.mp4":
                make_film(path, [0, 120, 240], sound="aac")
            else:
                draw(self.folder, "frames", "masks", "phantom-a")
                draw(self.folder, "more-frames", None, "phantom-b")
                draw(self.folder, "images", None, "phantom-c", count=3)
        return path


def draw(folder: Path, images: str, masks: str | None, domain: str, count: int = 14) -> None:
    """Write phantoms as picture files."""
    for index in range(count):
        sample = phantom(domain, index, size=96)
        for kind, pixels in ((images, sample.image), (masks, sample.mask.astype(np.uint8) * 255)):
            if kind is not None:
                (folder / kind).mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels).save(folder / kind / f"{domain}-{index}.png")


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    return Kit(tmp_path_factory.mktemp("kit"))


def fpgm(line: str) -> None:
    """Run a command of ours, short where it would be long."""
    arguments = shlex.split(line, comments=True)
    for option, value in SHORT.items():
        if option in arguments:
            arguments[arguments.index(option) + 1] = value
    if missing := MORE.get(arguments[0] if arguments[0] != "data" else arguments[1]):
        arguments += missing if missing[0] not in arguments else []
    verdict = arguments[:2] in (
        ["data", "verify"],
        ["data", "audit"],
    )  # they may say that the drawn images are not good
    assert main(arguments) in ((0, 1) if verdict else (0,)), shlex.join(arguments)


def shell(text: str) -> None:
    """Run the lines of a block; one that ends with a backslash goes on in the next."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["fpgm"]:
            fpgm(line.removeprefix("fpgm"))
        elif words[:1] == ["make"]:
            assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text(encoding="utf-8"), line
        elif words[:2] == ["pip", "install"]:
            check_install(words[2:])
        elif words and words[0] != "curl":
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            subprocess.run(["bash", "-c", line], env={**os.environ, "PATH": path}, check=True)


def check_install(words: list[str]) -> None:
    """Refuse an extra that the package does not have."""
    _, _, extras = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project.optional-dependencies]")
    for extra in re.findall(r"fpgm\[(.*?)\]", " ".join(words)):
        assert re.search(rf"^{extra} = ", extras, re.M), extra


@pytest.mark.parametrize("page", RUNNABLE, ids=name)
def test_the_snippets_of_a_page_run(page: Path, kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for thing in NEEDS.get(name(page), ()):
        kit.copy(thing, tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    known = dict(METHODS)
    try:
        for language, title, text in snippets(page):
            if title.startswith(NOT_RUN):
                continue
            if language == "python":
                exec(compile(text, page.name, "exec"), names)
            elif language == "sh":
                shell(text)
    finally:
        for added in METHODS.keys() - known:  # a snippet may register one of its own
            del METHODS[added]


def test_every_block_runs_or_says_why_not() -> None:
    for page in PAGES:
        found = snippets(page)
        fences = re.findall(r"^\s*```", page.read_text(encoding="utf-8"), re.M)
        assert len(fences) == 2 * len(found), f"{name(page)} has a fence that this test does not understand"
        for language, title, text in found:
            assert language in ("sh", "python", "text", "", "json", "bibtex"), f"{name(page)}: {language!r} is not run"
            assert language not in ("text", "") or not re.search(r"^(fpgm|import|from) ", text, re.M), (
                f"{name(page)}: {text}"
            )
            assert "curl" not in text or page.name == "serve.md", f"{name(page)}: no test makes its requests"
            assert not title.startswith(NOT_RUN) or len(title) > len(NOT_RUN) + 8, f"{name(page)}: no reason"


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (nav,) = re.findall(r"^nav:\n(?:  .*\n)+", text, re.M)
    listed = re.findall(r"([\w/-]+\.md)$", nav, re.M)
    assert sorted(listed) == sorted(name(page) for page in PAGES[1:]) and len(set(listed)) == len(listed)
    assert yaml.safe_load(nav)


def test_every_picture_is_there_and_shown() -> None:
    shown = {path for page in PAGES for path in re.findall(r"images/([\w.-]+\.\w+)", page.read_text(encoding="utf-8"))}
    assert shown == {path.name for path in (DOCS / "images").iterdir()}


def test_the_gallery_page_shows_what_is_made_for_it(tmp_path: Path) -> None:
    make = runpy.run_path(str(ROOT / ".ci" / "gallery.py"))["make"]
    make(tmp_path, "2")
    shown = re.findall(r"\"gallery/([\w.-]+)\"", (DOCS / "gallery.md").read_text(encoding="utf-8"))
    assert set(shown) == {path.name for path in tmp_path.iterdir()}


def test_a_whole_method_takes_sixty_lines_at_most() -> None:
    (snippet,) = [one for one in snippets(DOCS / "how-to" / "add-a-method.md") if one.language == "python"]
    assert len(snippet.text.splitlines()) <= 60
