"""Atomic writes: the old file or the new one, never half of either; and the rules for files of others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fpgm.files import (
    LOCK,
    atomic_path,
    check_inside,
    check_name,
    claim,
    csv_cell,
    file_sha256,
    open_regular,
    parse_json,
    read_file,
    sole_writer,
    write_text,
)
from tests.special_files import KINDS, make_special


def test_writes_and_replaces(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.txt"
    write_text(target, "one")
    write_text(target, "two")
    assert target.read_text() == "two"
    assert [path.name for path in target.parent.iterdir()] == ["file.txt"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    write_text(target, "old")
    with pytest.raises(RuntimeError), atomic_path(target) as draft:
        draft.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


def test_files_can_be_read_by_others_as_the_umask_allows(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        write_text(tmp_path / "file.txt", "")
    finally:
        os.umask(old)
    assert (tmp_path / "file.txt").stat().st_mode & 0o777 == 0o644


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


def test_a_lock_that_is_a_link_is_refused_and_what_it_points_to_stays(folder: Path) -> None:
    (folder / LOCK).symlink_to(folder.parent / "secret")
    with (
        pytest.raises(ValueError, match=r"run\.lock is a link, and not a file of ours: delete it"),
        sole_writer(folder),
    ):
        pass
    assert (folder.parent / "secret").read_text() == "secret"


def test_a_lock_leaves_the_content_of_its_file_alone(folder: Path) -> None:
    (folder / LOCK).write_text("mine")
    with claim(folder / LOCK) as free:
        assert free
    assert (folder / LOCK).read_text() == "mine"


def test_a_lock_that_is_a_pipe_does_not_wait(folder: Path) -> None:
    os.mkfifo(folder / LOCK)
    with claim(folder / LOCK) as free:
        assert free


def test_a_folder_with_a_link_out_of_it_is_not_written_to(folder: Path) -> None:
    (folder / "inside").mkdir()
    (folder / "fine").symlink_to(folder / "inside")
    with sole_writer(folder):
        pass
    (folder / "model").symlink_to(folder.parent)
    with pytest.raises(ValueError, match="model is a link out of"), sole_writer(folder):
        pass


def test_the_drafts_of_killed_writers_are_cleared_at_any_depth(folder: Path) -> None:
    for name in (".a.csv.x.part", "masks/.a.png.x.part", "masks/deep/er/.a.png.x.part", "masks/part.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    with sole_writer(folder):
        pass
    assert [path.name for path in folder.rglob("*part*")] == ["part.png"]


WRITER = """
import sys
from fpgm.files import atomic_path
with atomic_path(sys.argv[1]) as draft:
    print(draft, flush=True)
    input()
"""


def left_draft(target: Path, number: int = 0) -> Path:
    draft = target.with_name(f".{target.name}.{number}.part")
    draft.write_text("half")
    return draft


def test_the_next_writer_of_a_file_clears_the_drafts_of_killed_ones(folder: Path) -> None:
    drafts = [left_draft(folder / "a.onnx", number) for number in range(3)]
    other = left_draft(folder / "b.onnx")
    write_text(folder / "a.onnx", "new")
    assert not any(draft.exists() for draft in drafts) and other.exists()
    assert (folder / "a.onnx").read_text() == "new"


def test_a_draft_whose_writer_lives_stays(folder: Path) -> None:
    with atomic_path(folder / "a") as first:
        first.write_text("first")  # the lock outlasts the closing of the file
        with atomic_path(folder / "a") as second:
            assert first != second and first.exists()
            second.write_text("second")
        assert (folder / "a").read_text() == "second"
        with sole_writer(folder):
            assert first.exists()
    assert (folder / "a").read_text() == "first"
    assert sorted(path.name for path in folder.iterdir()) == [LOCK, "a"]


def test_a_writer_in_another_process_keeps_its_draft(folder: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(folder / "a")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        draft = Path(process.stdout.readline().strip())
        write_text(folder / "a", "mine")
        assert draft.exists()
        process.kill()
    assert draft.exists()
    write_text(folder / "a", "again")
    assert [path.name for path in folder.iterdir()] == ["a"]


def test_a_draft_that_is_a_link_or_a_folder_is_not_written_to(folder: Path) -> None:
    (folder / ".a.0.part").symlink_to(folder.parent / "secret")
    (folder / ".a.1.part").mkdir()
    with atomic_path(folder / "a") as first, atomic_path(folder / "a") as second:
        first.write_text("first")
        second.write_text("second")
    assert (folder.parent / "secret").read_text() == "secret" and (folder / ".a.1.part").is_dir()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_regular_file_is_refused_and_not_waited_for(kind: str, folder: Path) -> None:
    path = make_special(kind, folder / "a")
    for read in (open_regular, file_sha256, lambda path: read_file(path, within=Path("/"))):
        with pytest.raises(ValueError, match="is not a regular file: put one in its place"):
            read(path)


def test_the_hash_is_that_of_the_whole_file(folder: Path) -> None:
    (folder / "empty").touch()
    assert file_sha256(folder / "empty").startswith("e3b0c44298fc1c14")  # SHA-256 of nothing
    (folder / "long").write_bytes(bytes(3 << 20))
    (folder / "longer").write_bytes(bytes(3 << 20) + b"1")
    assert file_sha256(folder / "long") != file_sha256(folder / "longer")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        file_sha256(folder / "none")


def test_a_file_is_read_where_it_is(folder: Path) -> None:
    (folder / "a").write_text("a")
    (folder / "near").symlink_to("a")
    assert read_file(folder / "a") == read_file(folder / "near") == b"a"
    (folder / "far").symlink_to(folder.parent / "secret")
    (folder / "loop").symlink_to("loop")
    with pytest.raises(ValueError, match="far is a link out of"):
        read_file(folder / "far")
    assert read_file(folder / "far", within=folder.parent) == b"secret"
    with pytest.raises(OSError):
        read_file(folder / "loop")
    with pytest.raises(FileNotFoundError):
        read_file(folder / "none")
    with pytest.raises(ValueError, match="a has 1 bytes, and no file of its kind has over 0"):
        read_file(folder / "a", most=0)


def test_a_folder_whose_name_another_begins_with_is_another(folder: Path) -> None:
    (folder.parent / "folder2").mkdir()
    with pytest.raises(ValueError, match="a link out of"):
        check_inside(folder.parent / "folder2", folder)


def test_json_has_a_depth() -> None:
    text = '{"[[[": "\\"[[", "a": ' + "[" * 63 + "]" * 63 + "}"
    assert parse_json(text) == parse_json(text.encode())
    for deep in ("[" * 65 + "]" * 65, "[" * 10**6, '{"a":' * 10**5):
        with pytest.raises(ValueError, match="nested deeper than 64 levels"):
            parse_json(deep)
    for broken in ("", "{", '"', b"\xff", "9" * 10_000):
        with pytest.raises(ValueError):
            parse_json(broken)


@pytest.mark.parametrize("name", ["strict-0", "5%", "70", "Kvasir-SEG", "hospitals-été-0", "a b", "_x", "<b>"])
def test_names_that_are_names(name: str) -> None:
    assert check_name(name, "it") == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\\b", "C:x", "a\0", "a\nb", "~x", "-rf", "=1", "\udcff", "x" * 101]
)
def test_names_that_lead_elsewhere(name: str) -> None:
    with pytest.raises(ValueError, match=r"^the split is .*: a name has 1 to 100 letters"):
        check_name(name, "the split")


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-2+3", "@x", "\t=1", "\r=1", "-", "-a.png"])
def test_convention_a_formula_in_a_table_gets_an_apostrophe(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["a=1", "", "-0.5", "+1e-5", -0.5, None, 3])
def test_convention_other_cells_stay(value: object) -> None:
    assert csv_cell(value) is value
