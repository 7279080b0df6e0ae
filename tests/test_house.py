"""Who may import whom, and what the core must do without: the table of the design, held by a test."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.report.making import bars, write_run

PACKAGE = Path(__file__).parents[1] / "src" / "fpgm"

# Room -> the rooms of the package it may import. A module of its own room is always allowed.
MAY_IMPORT = {
    "_version": set(),
    "files": set(),
    "pacing": set(),
    "plugins": set(),
    "spectrum": {"_version", "files"},
    "losses": set(),
    "nets": {"files", "plugins"},
    "metrics": set(),
    "calibration": set(),
    "regions": set(),
    "data": {"_version", "files"},
    "runs": {"_version", "calibration", "data", "files"},
    "methods": {"data", "losses", "nets", "spectrum"},
    "registry": {"data", "files", "methods", "plugins"},
    "config": {"_version", "data", "methods", "registry", "runs"},
    "tensors": {"_version", "files"},
    "model": {"files", "nets", "runs", "tensors"},
    "evaluation": {"calibration", "data", "files", "metrics", "model", "regions", "runs"},
    "analysis": {"_version", "data", "files", "spectrum"},
    "report": {"calibration", "data", "files", "runs"},
    "serving": {
        "_version",
        "calibration",
        "data",
        "evaluation",
        "files",
        "metrics",
        "model",
        "nets",
        "regions",
        "runs",
        "spectrum",
    },
    "labeling": {"calibration", "data", "evaluation", "files", "model", "nets", "regions", "report", "runs", "serving"},
    "training": {
        "config",
        "data",
        "evaluation",
        "files",
        "methods",
        "model",
        "nets",
        "pacing",
        "registry",
        "report",  # the pictures of a run under way
        "runs",
        "spectrum",
        "tensors",
    },
    "experiments": {"config", "data", "evaluation", "files", "methods", "plugins", "registry", "runs", "training"},
    "cli": {"*"},
    "__main__": {"cli"},
    "__init__": {"_version", "api", "serving"},
    "api": {"config", "data", "evaluation", "model", "notebook", "runs", "serving", "training"},
    "notebook": {"data", "runs", "serving"},
}
MOST_MODULES = 16  # in a folder

# Tests of several modules at once, which are named for what they ask.
TESTS = Path(__file__).parent
ACROSS = {
    "test_benchmarks.py",
    "test_deploy.py",
    "test_docs.py",
    "test_examples.py",
    "test_house.py",
    "test_methods_page.py",
    "test_packaging.py",
    "test_public_names.py",
    "test_results.py",
    "methods/test_contract.py",
    "methods/test_ranks.py",
    "serving/web/test_static.py",  # the page in a browser
    "spectrum/test_released.py",
}
ACROSS_FOLDERS = {"faults", "fuzz"}


def room(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Return the full names of all modules a file imports, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively; write the whole name"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


MODULES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_follow_the_design(path: Path) -> None:
    own = room(path)
    assert own in MAY_IMPORT, f"a new room {own!r}: say in this table whom it may import"
    used = {name.split(".")[1] for name in imports(path) if name.startswith("fpgm.")}
    rooms = {name if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file() else "_version" for name in used}
    allowed = MAY_IMPORT[own] | {own}
    assert "*" in allowed or rooms <= allowed, f"{own} may not import {sorted(rooms - allowed)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_command_line_prints_and_exits(path: Path) -> None:
    if room(path) in ("cli", "__main__"):
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("print", "exit", "quit", "sys.exit", "os._exit"), f"{called} in {path}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_global_randomness(path: Path) -> None:
    banned = ("random.", "np.random.seed", "np.random.rand", "numpy.random.seed", "torch.manual_seed", "torch.seed")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            # The layers of torch draw from its own generator; the loop alone decides what they draw.
            allowed = room(path) == "training" and called == "torch.manual_seed"
            assert allowed or not called.startswith(banned), f"{called} in {path}: pass a generator instead"


def test_the_core_needs_torch_alone() -> None:
    script = """
import sys, torch  # what torch itself brings is there already
core = {"numpy", "scipy", "PIL", "h5py", "kornia", "lightning", "lightning_fabric", "pydantic",
        "rich", "safetensors", "matplotlib", "monai", "ray", "fastapi", "onnx", "docstring_parser", "yaml"}
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in core:
            raise ImportError(f"{name} is blocked")
for name in [name for name in sys.modules if name.split(".")[0] in core]:
    del sys.modules[name]
sys.meta_path.insert(0, Blocked())
from fpgm.spectrum import FrequencyPrior, SpectralAlignment, align, edge_mask, generic_profile, low_pass, radial_profile
prior = FrequencyPrior()
mask = torch.zeros(1, 16, 16); mask[:, 4:12, 4:12] = 1
prior.update(torch.rand(1, 3, 16, 16), mask)
print(tuple(SpectralAlignment(prior)(torch.rand(1, 3, 16, 16)).shape))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "(1, 3, 16, 16)", done.stderr


def test_a_report_needs_no_torch(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"phantom-a": bars(4, 5)}, {"phantom-a": bars(4, 6)})
    script = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "lightning_fabric", "kornia", "monai"}:
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocked())
from importlib import import_module
from pathlib import Path
import fpgm.report, fpgm.runs
for package in (fpgm.report, fpgm.runs):
    folder = Path(package.__path__[0])
    for path in folder.rglob("*.py"):
        import_module(".".join([package.__name__, *path.relative_to(folder).with_suffix("").parts]))
from fpgm.report.pages.report import write_report
from fpgm.runs.results import read_result
print(write_report([read_result(Path(sys.argv[1]))], [], Path(sys.argv[2])))
"""
    out = tmp_path / "report"
    command = [sys.executable, "-c", script, str(tmp_path / "run"), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(out / "index.html"), done.stderr
    assert "Dice" in (out / "index.html").read_text()


@pytest.mark.parametrize("folder", sorted({path.parent for path in MODULES}), ids=lambda path: path.name)
def test_a_folder_is_small_enough_to_read(folder: Path) -> None:
    assert len(list(folder.glob("*.py"))) <= MOST_MODULES, f"{folder} is crowded: cut it into rooms"


def test_tests_mirror_the_package() -> None:
    for path in sorted(TESTS.rglob("test_*.py")):
        own = path.relative_to(TESTS)
        if own.as_posix() in ACROSS or own.parts[0] in ACROSS_FOLDERS:
            continue
        module = PACKAGE / own.with_name(own.name.removeprefix("test_"))
        assert module.is_file(), f"{own} tests no module: there is no {module.relative_to(PACKAGE)}"


def test_no_test_imports_another() -> None:
    for path in sorted(TESTS.rglob("*.py")):
        for name in re.findall(r"^ *(?:from|import) (tests[\w.]*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            borrowed = [part for part in name.split(".") if part.startswith("test_")]
            assert not borrowed, f"{path.relative_to(TESTS)} imports {name}: move what they share to a helper module"


FLAWED = {"pillow": "12.3.0", "starlette": "1.0.0", "h11": "0.15.0", "onnx": "1.20.1"}  # the last with a known flaw


def test_floors_exclude_known_flaws_and_the_lock_meets_them() -> None:
    root = PACKAGE.parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = [Requirement(one) for one in (*project["dependencies"], *extras["web"], *extras["export"])]
    lines = (root / "requirements.lock").read_text(encoding="utf-8").splitlines()
    locked = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}
    floors = {canonicalize_name(one.name): one.specifier for one in needed}
    for name, specifier in floors.items():
        assert locked[name] in specifier, f"the lock has {name} {locked[name]}, the project asks for {specifier}"
    for name, version in FLAWED.items():
        assert version not in floors[name], f"{name} {version} has a known flaw"


def test_the_tests_that_the_page_on_security_names_are_there() -> None:
    root = PACKAGE.parents[1]
    named = re.findall(r"`(tests/[\w/.]+)`", (root / "docs" / "security.md").read_text(encoding="utf-8"))
    assert len(named) > 10 and not [place for place in named if not (root / place).exists()]
