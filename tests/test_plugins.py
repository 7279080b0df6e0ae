"""Names of other packages: what is found, what is refused, and that looking for a name imports nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fpgm.plugins import import_reference, is_reference, load_plugin, plugin_names


def install(folder: Path, package: str, points: str, code: str = "thing = 1") -> None:
    """Put what `pip install` leaves of a package into a folder: a module and its entry points."""
    (folder / f"{package}.py").write_text(code)
    record = folder / f"{package}-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(points)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_registered_name_is_imported_when_it_is_asked_for(site: Path) -> None:
    install(site, "lazy_one", "[fpgm.nets]\nlazy = lazy_one:thing\n")
    assert "lazy" in plugin_names("fpgm.nets") and "lazy" not in plugin_names("fpgm.methods")
    assert "lazy_one" not in sys.modules
    assert load_plugin("fpgm.nets", "lazy") == 1 and load_plugin("fpgm.nets", "lazy_one:thing") is None


def test_a_name_that_two_packages_register_is_refused(site: Path) -> None:
    install(site, "first_one", "[fpgm.nets]\ntwice = first_one:thing\n")
    install(site, "second_one", "[fpgm.nets]\ntwice = second_one:thing\n")
    with pytest.raises(ValueError, match="registered as first_one:thing and as second_one:thing: uninstall one"):
        load_plugin("fpgm.nets", "twice")


def test_a_package_that_cannot_be_imported_is_a_sentence(site: Path) -> None:
    install(site, "sick_one", "[fpgm.nets]\nsick = sick_one:thing\n", "raise RuntimeError('no GPU')")
    with pytest.raises(ValueError, match="sick_one:thing, which cannot be imported: RuntimeError: no GPU"):
        load_plugin("fpgm.nets", "sick")


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("a:B", True),
        ("a.b_1:B", True),
        ("a", False),
        ("a.b", False),
        ("../a:B", False),
        ("a:B.c", False),
        (":B", False),
    ],
)
def test_what_names_a_class(text: str, good: bool) -> None:
    assert is_reference(text) is good


def test_modules_of_the_working_directory_are_found_as_long_as_one_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here_alone.py").write_text("class Thing: pass")
    (tmp_path / "json.py").write_text("raise RuntimeError('never imported: the library comes first')")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert import_reference("here_alone:Thing").__name__ == "Thing"
    assert import_reference("json:dumps") is __import__("json").dumps
    assert sys.path == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("json:Nothing", "the module json has no Nothing"),
        ("no_such_one:A", "no_such_one cannot be imported: ModuleNot"),
    ],
)
def test_what_is_not_there_is_a_sentence(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        import_reference(text)
