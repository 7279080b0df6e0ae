"""Write, read back, read in any order, in other processes; refuse what is not whole."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from fpgm.data.manifest import ImageRow, LeftOut, Manifest
from fpgm.data.store import Store, StoredImage, open_stores, write_store
from tests.processes import PATIENCE

S = 16
HEADER = {"name": "mine", "source": "by hand", "size": S, "rules": {"image": "none"}, "inputs": "0" * 64}


def record(number: int, labeled: bool = True, id_: str | None = None) -> StoredImage:
    rng = np.random.default_rng(number)
    image = rng.integers(0, 256, (S, S, 3), dtype=np.uint8)
    mask = rng.integers(0, 2, (S, S), dtype=np.uint8) if labeled else None
    name = id_ or str(number)
    row = ImageRow(name, f"i/{name}.png", f"m/{name}.png", "a", "b", 40 + number, 30, 0.25 if labeled else None)
    return StoredImage(row, image, mask, f"{number:064x}")


def write(folder: Path, records: list[StoredImage], problems: tuple[LeftOut, ...] = (), **header: object) -> Manifest:
    return write_store(folder, records, lambda rows: Manifest.describe(rows, problems, **{**HEADER, **header}))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    write(tmp_path / "mine", [record(n, labeled=n % 3 != 2) for n in range(7)])
    return Store.open(tmp_path / "mine")


def test_what_is_written_is_read(store: Store) -> None:
    assert (store.name, store.size, len(store)) == ("mine", S, 7)
    assert store.ids == tuple("0123456")
    assert store.has_mask.tolist() == [True, True, False, True, True, False, True]
    assert store.dhash == tuple(f"{n:064x}" for n in range(7))
    assert store.source_size.tolist() == [[40 + n, 30] for n in range(7)]
    assert np.isnan(store.foreground).tolist() == (~store.has_mask).tolist()
    assert store.foreground[0] == 0.25
    for n in range(7):
        assert np.array_equal(store.images([n])[0], record(n).image)
    assert np.array_equal(store.masks([3])[0], record(3).mask)


def test_any_order_and_repeats(store: Store) -> None:
    rows = [6, 0, 3, 3, 1]
    images, masks = store.images(np.array(rows)), store.masks(rows)
    assert (images.dtype, images.shape) == (np.uint8, (5, S, S, 3))
    assert (masks.dtype, masks.shape) == (np.uint8, (5, S, S))
    for place, n in enumerate(rows):
        assert np.array_equal(images[place], record(n).image)
        assert np.array_equal(masks[place], record(n).mask)
    assert store.images([]).shape == (0, S, S, 3)


def test_there_is_no_mask_of_an_unlabelled_image(store: Store) -> None:
    with pytest.raises(ValueError, match="mine/2 is unlabelled"):
        store.masks([0, 2])


def test_rows_beyond_the_end_and_choices_are_refused(store: Store) -> None:
    with pytest.raises((IndexError, ValueError)):
        store.images([7])
    with pytest.raises(AssertionError):
        store.images(store.has_mask)


def test_an_unlabelled_image_takes_no_room_for_a_mask(tmp_path: Path) -> None:
    write(tmp_path / "mine", [record(n, labeled=n == 1) for n in range(3)])
    with h5py.File(tmp_path / "mine/data.h5") as file:
        assert file["masks"].id.get_num_chunks() == 1
        assert file["images"].id.get_num_chunks() == 3
        assert file["images"].chunks == (1, S, S, 3)


def test_other_programs_can_read_it(store: Store) -> None:
    with h5py.File(store.folder / "data.h5") as file:
        assert file["id"].asstr()[:].tolist() == list(store.ids)
        assert file["images"].shape == (7, S, S, 3)
        assert file["masks"].shape == (7, S, S)
        assert file["images"].compression is None


def test_a_pipe_in_the_place_of_the_data_is_not_waited_for(store: Store) -> None:
    (store.folder / "data.h5").unlink()
    os.mkfifo(store.folder / "data.h5")
    with pytest.raises(ValueError, match="is not a regular file"):
        Store.open(store.folder)


def test_growing_past_a_block(tmp_path: Path) -> None:
    write(tmp_path / "mine", [record(n) for n in range(257)])
    store = Store.open(tmp_path / "mine")
    assert np.array_equal(store.images([256, 255]), np.stack([record(256).image, record(255).image]))
    assert len(store) == 257


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name, [record(n, labeled=n != 4) for n in range(9)])
    for file in ("data.h5", "manifest.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_ids_of_any_script(tmp_path: Path) -> None:
    names = ["ü", "息肉", "a b"]
    write(tmp_path / "mine", [record(n, id_=name) for n, name in enumerate(names)])
    store = Store.open(tmp_path / "mine")
    assert store.ids == tuple(names)
    assert [row.id for row in store.manifest.images] == names


# ---- other processes


def pixels(store: Store, queue: multiprocessing.Queue[bytes]) -> None:
    queue.put(store.images([4]).tobytes())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_too(store: Store, method: str) -> None:
    expected = store.images([4]).tobytes()  # the file is open here when the worker starts
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    worker = context.Process(target=pixels, args=(store, queue))
    worker.start()
    assert queue.get(timeout=PATIENCE) == expected
    worker.join()
    assert store.images([4]).tobytes() == expected


def test_pickle_holds_no_pixels(store: Store) -> None:
    data = pickle.dumps(store)
    assert len(data) < 1000
    assert np.array_equal(pickle.loads(data).images([1]), store.images([1]))


# ---- manifest


def test_manifest_is_readable_and_complete(tmp_path: Path) -> None:
    problems = (
        LeftOut("empty mask", "m/9.png", "no"),
        LeftOut("empty mask", "m/8.png", "no"),
        LeftOut("wrong count", "", "?"),
    )
    written = write(tmp_path / "mine", [record(0), record(1, labeled=False)], problems)
    text = (tmp_path / "mine/manifest.json").read_text()
    assert Manifest.load(tmp_path / "mine") == written
    content = json.loads(text)
    assert (content["format"], content["version"]) == ("fpgm store", 1)
    assert (content["pairs"], content["unlabeled"], content["skipped"]) == (1, 1, {"empty mask": 2})
    assert set(content["versions"]) == {"fpgm", "numpy", "pillow", "h5py", "hdf5"}
    assert dict(zip(content["columns"], content["images"][0], strict=True))["image"] == "i/0.png"
    assert sum('"i/0.png"' in line and '"m/0.png"' in line for line in text.splitlines()) == 1  # a line per image
    assert str(tmp_path) not in text


@pytest.mark.parametrize("text", ["", "{}", '{"format": "other"}', "[1, 2"])
def test_a_manifest_of_something_else(store: Store, text: str) -> None:
    (store.folder / "manifest.json").write_text(text)
    with pytest.raises(ValueError, match="is not a manifest of this release") as error:
        _ = Store.open(store.folder).manifest
    assert "fpgm data prepare" in str(error.value)


def test_halves_of_two_runs_are_refused(store: Store, tmp_path: Path) -> None:
    write(tmp_path / "other", [record(0)])
    (tmp_path / "other/manifest.json").replace(store.folder / "manifest.json")
    with pytest.raises(ValueError, match="not of one run"):
        _ = Store.open(store.folder).manifest


# ---- opening


def test_nothing_there_names_the_command(tmp_path: Path) -> None:
    for call in (lambda: Store.open(tmp_path / "mine"), lambda: open_stores(tmp_path)):
        with pytest.raises(FileNotFoundError, match=r"`fpgm data prepare .* `fpgm data synth "):
            call()


def test_data_without_manifest_is_not_finished(store: Store) -> None:
    (store.folder / "manifest.json").unlink()
    with pytest.raises(FileNotFoundError, match="no prepared data set"):
        Store.open(store.folder)
    with pytest.raises(FileNotFoundError, match="no prepared data"):
        open_stores(store.folder.parent)


@pytest.mark.parametrize("data", [b"", b"nonsense", None, "half"])
def test_damaged_data_is_said_in_words(store: Store, data: bytes | str | None) -> None:
    path = store.folder / "data.h5"
    whole = path.read_bytes()
    path.unlink()
    if data is not None:
        path.write_bytes(whole[: len(whole) // 2] if isinstance(data, str) else data)
    with pytest.raises(ValueError, match=r"data.h5 cannot be read .* make it again"):
        Store.open(store.folder)


def test_open_stores(tmp_path: Path) -> None:
    for name in ("zebra", "CVC-300", "Kvasir-SEG"):
        write(tmp_path / name, [record(0)], name=name)
    (tmp_path / "splits").mkdir()
    assert list(open_stores(tmp_path)) == ["Kvasir-SEG", "CVC-300", "zebra"]
    assert list(open_stores(tmp_path, ["zebra", "kvasir"])) == ["Kvasir-SEG", "zebra"]
    with pytest.raises(ValueError, match="does not hold BKAI-IGH, only CVC-300, Kvasir-SEG, zebra"):
        open_stores(tmp_path, ["BKAI"])
    with pytest.raises(ValueError, match="one data set of a store; give the folder above it"):
        open_stores(tmp_path / "zebra")


# ---- writing


def test_an_error_while_writing_leaves_the_old_store(store: Store) -> None:
    before = {path.name: path.read_bytes() for path in store.folder.iterdir()}

    def records() -> Iterator[StoredImage]:
        yield record(0)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_store(store.folder, records(), lambda rows: Manifest.describe(rows, **HEADER))
    assert {path.name: path.read_bytes() for path in store.folder.iterdir()} == before


def test_records_are_taken_one_by_one(tmp_path: Path) -> None:
    """A record is written before the next is asked for, so memory does not grow with their number."""
    alive: list[int] = []

    class Watched(np.ndarray):
        def __del__(self) -> None:
            alive.pop()

    def records() -> Iterator[StoredImage]:
        for n in range(20):
            made = record(n)
            alive.append(n)
            assert len(alive) <= 3
            yield made._replace(image=made.image.view(Watched))

    write_store(tmp_path / "mine", records(), lambda rows: Manifest.describe(rows, **HEADER))
    assert len(Store.open(tmp_path / "mine")) == 20


def damage(store: Store, change: Callable[[h5py.File], object]) -> Path:
    """Change the file of a store that is not open in this process."""
    store._data.close()
    with h5py.File(store.folder / "data.h5", "r+") as file:
        change(file)
    return store.folder


def replaced(name: str, *arguments: Any, **options: Any) -> Callable[[h5py.File], object]:
    """Return a change that puts another array in the place of one."""

    def change(file: h5py.File) -> None:
        del file[name]
        file.create_dataset(name, *arguments, **options)

    return change


def linked(name: str, link: object) -> Callable[[h5py.File], object]:
    def change(file: h5py.File) -> None:
        file.move(name, "other")
        file[name] = link

    return change


GIANT = (10**9, S, S, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (linked("images", h5py.SoftLink("/other")), "images is a link"),
        (linked("masks", h5py.ExternalLink("elsewhere.h5", "/masks")), "masks is a link"),
        (
            replaced("images", (7, S, S, 3), "u1", external=[("elsewhere", 0, 7 * S * S * 3)]),
            "images is kept in another",
        ),
        (replaced("images", GIANT, "u1", chunks=(1, S, S, 3)), r"images are .*which a file of .* bytes does not hold"),
        (replaced("images", (7, S, S, 3), "u1", chunks=(1, S, S, 3), compression="gzip"), "images are"),
        (replaced("masks", (3, S, S), "u1", chunks=(1, S, S)), r"masks is \(3, 16, 16\), expected \(7, 16, 16\)"),
        (replaced("masks", (7, S, S), "u1", chunks=(7, S, S)), "masks is not kept image by image"),
        (replaced("id", (10**12,), "S8", chunks=(10**6,)), "id is"),
        (replaced("id", (7,), h5py.string_dtype()), "id holds object"),
        (replaced("has_mask", data=np.ones(2, bool)), "has_mask is"),
        (replaced("dhash", data=np.ones(7)), "dhash holds float64"),
        (lambda file: file.attrs.__setitem__("size", 10**6), "size 1000000 is not between"),
        (lambda file: file.attrs.__setitem__("name", "../x"), "the name of the data set is"),
        (lambda file: file.attrs.__delitem__("size"), "size"),
        (lambda file: file.__delitem__("dhash"), "dhash is a link or not an array"),
    ],
)
def test_arrays_that_we_do_not_write_are_refused(
    store: Store, change: Callable[[h5py.File], object], message: str
) -> None:
    folder = damage(store, change)
    with pytest.raises(ValueError, match=f"data.h5 cannot be read .*{message}"):
        Store.open(folder)


def test_a_link_out_of_the_folder_is_refused(store: Store, tmp_path: Path) -> None:
    for name in ("data.h5", "manifest.json"):
        (store.folder / name).rename(tmp_path / name)
        (store.folder / name).symlink_to(tmp_path / name)
    with pytest.raises(ValueError, match="is a link out of"):
        Store.open(store.folder)
    with pytest.raises(ValueError, match="is a link out of"):
        Manifest.load(store.folder)


def test_the_manifest_has_the_hash_of_the_data(store: Store) -> None:
    assert store.manifest.data_sha256 == hashlib.sha256((store.folder / "data.h5").read_bytes()).hexdigest()
