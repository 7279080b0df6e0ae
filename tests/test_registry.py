"""Methods by name, and classes that a user names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fpgm.config import RunConfig, resolve
from fpgm.methods import METHODS
from fpgm.methods.supervised import Supervised
from fpgm.registry import find_method, import_method, method_names

OWN = """
from pathlib import Path
from fpgm.methods import Method
from fpgm.methods.supervised import Supervised
Path("imported").touch()
class Own(Supervised):
    def __init__(self, net, weight: float = 0.5) -> None:
        super().__init__(net)
class Untyped(Supervised):
    def __init__(self, net, weight) -> None: ...
class Alone(Supervised):
    def __init__(self, weight: float = 1.0) -> None: ...
class Half(Method):
    pass
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module in the working directory, under a name that no other test has imported."""
    name = f"own_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    yield name
    METHODS.pop(f"{name}.Own", None)


def test_a_class_that_the_user_names_is_a_method(module: str) -> None:
    name = import_method(f"{module}:Own")
    assert name == f"{module}.Own" and find_method(name).__name__ == "Own" and name in method_names()
    data = {"store": Path("store"), "split": "paper-0", "labeled": "5%"}
    config = resolve("mini", name, data, ["method.weight=0.1"])
    config.save(Path("config.yaml"))
    assert dict(RunConfig.load(Path("config.yaml")).arguments) == {"weight": 0.1}
    assert config.departures() == ["arguments.weight"]


def test_a_file_that_names_a_class_imports_nothing(module: str) -> None:
    data = {"store": Path("store"), "split": "paper-0", "labeled": "5%"}
    resolve("mini", "supervised", data).save(Path("config.yaml"))
    text = Path("config.yaml").read_text()
    for name in (f"{module}:Own", f"{module}.Own"):
        Path("config.yaml").write_text(text.replace("method: supervised", f"method: {name}"))
        with pytest.raises(
            ValueError, match=f"of the method '{name}', which is neither ours nor.*--method MODULE:CLASS"
        ):
            RunConfig.load(Path("config.yaml"))
        with pytest.raises(ValueError, match="there is no method"):
            find_method(name)
    assert not Path("imported").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Path", "is not a method: a method is a class derived from"),
        ("Half", "is not a whole method: it has no losses and no predictor"),
        ("Untyped", "its argument weight has no type or no default"),
        ("Alone", "the first argument of its __init__ is to be called net"),
        ("None_", "has no None_"),
    ],
)
def test_what_is_no_method_is_a_sentence(module: str, name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        import_method(f"{module}:{name}")
    assert not any(name.startswith(module) for name in METHODS)


def test_plain_names_are_as_they_were() -> None:
    assert import_method("supervised") == "supervised" and find_method("supervised") is Supervised
    with pytest.raises(ValueError, match="there is no method 'unimach'; near it: unimatch"):
        find_method("unimach")
