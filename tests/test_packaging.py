"""What a user gets: the wheel in an environment of its own, a lock file per extra, the citation, the workflow."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

from fpgm import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel, from a copy, since building leaves files beside the source."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    _pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder), str(source))
    (made,) = folder.glob("*.whl")
    return made


def _pip(*words: str) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *words], check=True, env=_environment())


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = ROOT / "src" / "fpgm"
    files = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".pyc",)}
    assert names == {f"fpgm/{path.relative_to(package).as_posix()}" for path in files}
    assert {"fpgm/py.typed", "fpgm/serving/web/static/index.html", "fpgm/data/reference/fingerprints.csv"} <= names
    texts = [ZipFile(wheel).read(name) for name in names]
    assert not any(str(ROOT).encode() in text for text in texts)


def test_the_wheel_works_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    """The environment is empty, but for a link to the packages that the tests use."""
    venv.create(tmp_path / "empty", with_pip=False)
    place = tmp_path / "empty" / ("Scripts" if sys.platform == "win32" else "bin")
    _pip("--python", str(place / "python"), "install", "--no-deps", "--no-index", str(wheel))
    (site,) = (tmp_path / "empty").glob("**/site-packages")
    paths = {sysconfig.get_path("purelib"), *(path for path in sys.path if path.endswith("site-packages"))}
    (site / "others.pth").write_text("".join(f"{path}\n" for path in sorted(paths)))
    said = subprocess.run([place / "fpgm", "--version"], capture_output=True, text=True, check=True, env=_environment())
    assert said.stdout == f"fpgm {__version__}\n"
    code = """
import json
from importlib.resources import files
import fpgm, fpgm.report.reading.paper, fpgm.serving.web.api_page
from fpgm.data.synthetic import phantom
print(json.dumps([fpgm.__file__, phantom("phantom-a", 0, size=48).image.shape,
    (files("fpgm") / "serving/web/static/app.js").is_file(), len(fpgm.report.reading.paper.paper_figures(
    "main", "5%", "FPGM", "Kvasir-SEG"))]))
"""
    done = subprocess.run(
        [place / "python", "-c", code], capture_output=True, text=True, check=False, env=_environment()
    )
    file, shape, page, figures = json.loads(done.stdout or done.stderr)
    assert Path(file).is_relative_to(site) and shape == [48, 48, 3] and page and figures == 4


def test_lock_files_are_parts_of_the_whole_and_what_each_extra_needs() -> None:
    made = runpy.run_path(str(ROOT / ".ci" / "locks.py"))["locks"]()
    found = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "locks").glob("*.lock")}
    assert found == made, "run `make lock`, or .ci/locks.py in the environment of the lock file"
    whole = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    for name, text in found.items():
        assert set(text.splitlines()) <= set(whole) and len(text.splitlines()) < len(whole) / 2, name
    assert "pytest" not in found["core"] and "fastapi" in found["web"] and "ray==" in found["cluster"]


def test_the_citation_is_that_of_the_readme() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    article = cited["preferred-citation"]
    assert (
        cited["cff-version"] == "1.2.0" and cited["version"] == __version__ and cited["license"] == PROJECT["license"]
    )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    names = " and ".join(f"{one['family-names']}, {one['given-names']}" for one in article["authors"])
    assert f"{{{article['title']}}}" in readme and f"{{{names}}}" in readme


def test_the_workflow_runs_what_is_claimed() -> None:
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]["test"]
    matrix = job["strategy"]["matrix"]
    claimed = {found[1] for one in PROJECT["classifiers"] if (found := re.search(r":: (3\.\d+)$", one))}
    assert set(matrix["python"]) == claimed and min(claimed) == PROJECT["requires-python"].removeprefix(">=")
    assert set(matrix["os"]) == {"ubuntu-latest", "macos-latest"}
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"] and os.access(
        ROOT / ".ci/run", os.X_OK
    )
