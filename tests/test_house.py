"""Who may import whom, and what the core must do without: the table of the design, held by a test."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "fpgm"

# Room -> the rooms of the package it may import. A module of its own room is always allowed.
MAY_IMPORT = {
    "_version": set(),
    "files": set(),
    "spectrum": {"_version", "files"},
    "losses": set(),
    "nets": {"files"},
    "metrics": set(),
    "data": {"_version", "files"},
    "methods": {"data", "losses", "nets", "spectrum"},
    "evaluation": {"_version", "card", "data", "files", "metrics", "model"},
    "config": {"_version", "files", "methods"},
    "tensors": {"_version", "files"},
    "card": {"_version"},
    "model": {"card", "files", "nets", "tensors"},
    "serving": {"_version", "card", "data", "evaluation", "files", "metrics", "model", "nets", "report", "spectrum"},
    "training": {
        "card",
        "config",
        "data",
        "evaluation",
        "files",
        "methods",
        "model",
        "nets",
        "report",
        "spectrum",
        "tensors",
    },
    "experiments": {"_version", "config", "data", "evaluation", "files", "methods", "serving", "training"},
    "analysis": {"_version", "data", "files", "spectrum"},
    "report": {"_version", "files"},
    "cli": {"*"},
    "__main__": {"cli"},
    "__init__": {"_version", "serving"},
}


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
core = {"numpy", "scipy", "PIL", "h5py", "kornia", "lightning", "lightning_fabric", "pydantic", "jsonargparse",
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
