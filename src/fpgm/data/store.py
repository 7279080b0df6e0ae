"""The prepared store: ``STORE/<data set>/data.h5`` for programs beside ``manifest.json`` for people.

For N images of S x S pixels, ``data.h5`` holds images (N, S, S, 3) and masks (N, S, S), both uint8; per image its id,
has_mask, and of the source the size, the foreground share and the fingerprint. One image is one chunk, so that any
one is read without its neighbours. Images are not compressed: lzf and gzip save a quarter to a third of the space and
read six to nine times slower. Masks are: gzip makes them 80 times smaller, at a third more time. An unlabelled image
has no mask chunk at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import islice
from mimetypes import guess_type
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from fpgm.data.catalog import CATALOG, find
from fpgm.data.manifest import MAKE, MANIFEST, ImageRow, Manifest
from fpgm.data.names import natural
from fpgm.data.pictures import check_size
from fpgm.files import NO_ROOM, atomic_path, check_inside, check_name, file_sha256, open_regular, sole_writer

Pixels = NDArray[np.uint8]
Indices = Sequence[int] | NDArray[np.integer]
DATA = "data.h5"
_LIBVER = ("v110", "v110")  # fixed, so that the bytes do not depend on the HDF5 release
_CACHE = 2**20  # bytes of an array that HDF5 keeps before it writes them
_SLACK = 4 * _CACHE  # more than that of both arrays, and what else it keeps
_GROWTH = 256  # rows by which the arrays grow while their number is not known
_LONGEST_ID = 4096  # bytes
_LOOKED_AT = 1000  # files of a folder that is no store, to say what it is instead
_KINDS = {  # arrays of the file, and the kinds of numbers or texts that they hold
    "images": "u",
    "masks": "u",
    "id": "S",
    "dhash": "S",
    "has_mask": "b",
    "foreground": "f",
    "source_size": "i",
}
_ARRAYS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "images": ((3,), {}),
    "masks": ((), {"compression": "gzip", "compression_opts": 1}),
}


class StoredImage(NamedTuple):
    """What is stored of one image: (S, S, 3), its mask (S, S) in {0, 1} or None, and its fingerprint."""

    row: ImageRow
    image: Pixels
    mask: Pixels | None
    dhash: str


class Store:
    """One prepared data set, read-only. It can be pickled and used in workers: each process opens the file itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: h5py.File | None = None
        self._process = 0
        check_inside(folder / DATA, folder)
        open_regular(folder / DATA).close()  # HDF5 would wait for a pipe
        self.name: str = check_name(self._data.attrs["name"], "the name of the data set")
        self.size: int = int(self._data.attrs["size"])
        _check(self._data, self.size, (folder / DATA).stat().st_size)
        self.ids: tuple[str, ...] = tuple(text.decode() for text in self._data["id"][:].tolist())
        self.has_mask: NDArray[np.bool_] = self._data["has_mask"][:].astype(bool)

    @classmethod
    def open(cls, folder: Path) -> Store:
        """Open the folder of one data set."""
        if not (folder / MANIFEST).is_file():
            raise FileNotFoundError(f"no prepared data set in {folder}; make one with {MAKE}")
        try:
            return cls(folder)
        except Exception as error:  # a damaged file can make HDF5 raise anything
            raise ValueError(f"{folder / DATA} cannot be read ({error}); make it again with {MAKE}") from None

    def __len__(self) -> int:
        return len(self.ids)

    def __reduce__(self) -> tuple[Callable[[Path], Store], tuple[Path]]:
        return Store.open, (self.folder,)

    @property
    def _data(self) -> h5py.File:
        """The file, opened once per process: a handle must not cross a fork."""
        if self._file is None or self._process != os.getpid():
            self._file, self._process = h5py.File(self.folder / DATA, "r"), os.getpid()
        return self._file

    @cached_property
    def manifest(self) -> Manifest:
        """What ``manifest.json`` says."""
        manifest = Manifest.load(self.folder)
        if tuple(row.id for row in manifest.images) != self.ids:
            raise ValueError(f"{self.folder}: {MANIFEST} and {DATA} are not of one run; make them again with {MAKE}")
        return manifest

    @cached_property
    def dhash(self) -> tuple[str, ...]:
        """Fingerprints of the source pictures, 64 hex digits each."""
        return tuple(text.decode() for text in self._data["dhash"][:].tolist())

    @cached_property
    def foreground(self) -> NDArray[np.float64]:
        """Shares of foreground in the source masks, (N,) in [0, 1]; NaN where there is no mask."""
        shares: NDArray[np.float64] = self._data["foreground"][:]
        return shares

    @cached_property
    def source_size(self) -> NDArray[np.int32]:
        """Width and height of the source pictures, (N, 2)."""
        sizes: NDArray[np.int32] = self._data["source_size"][:]
        return sizes

    def is_changed(self) -> bool:
        """Whether the file is not as it was written; a store of an earlier release does not say, and is not."""
        known = self.manifest.data_sha256
        return bool(known) and file_sha256(self.folder / DATA) != known

    def images(self, indices: Indices) -> Pixels:
        """Read images in any order, repeats allowed: (n, S, S, 3)."""
        return self._read("images", _rows(indices))

    def masks(self, indices: Indices) -> Pixels:
        """Read masks in any order, repeats allowed: (n, S, S) in {0, 1}; there is none for an unlabelled image."""
        rows = _rows(indices)
        if not self.has_mask[rows].all():
            without = self.ids[rows[~self.has_mask[rows]][0]]
            raise ValueError(f"{self.name}/{without} is unlabelled: it has no mask; ask only where has_mask is true")
        return self._read("masks", rows)

    def _read(self, array: str, rows: NDArray[np.intp]) -> Pixels:
        source = self._data[array]
        pixels = np.empty((len(rows), *source.shape[1:]), np.uint8)
        for place, row in enumerate(rows):
            source.read_direct(pixels, np.s_[row], np.s_[place])
        return pixels


def _check(file: h5py.File, size: int, length: int) -> None:
    """Refuse arrays that are not in the file itself, or not of the shapes that `write_store` gives them.

    HDF5 can name any other file as the place of an array, and claim more numbers than a file has bytes.

    Args:
        file: the open file.
        size: S, as the file says.
        length: number of its bytes.
    """
    check_size(size)
    for name, kinds in _KINDS.items():
        if not isinstance(file.get(name, getlink=True), h5py.HardLink) or not isinstance(file[name], h5py.Dataset):
            raise ValueError(f"{name} is a link or not an array")
        array = file[name]
        if array.external or array.is_virtual:
            raise ValueError(f"{name} is kept in another file")
        if array.dtype.kind not in kinds or array.dtype.itemsize > _LONGEST_ID:
            raise ValueError(f"{name} holds {array.dtype}")
    images = file["images"]
    count = len(images)
    pixels = count * size * size * 3
    if images.compression or images.id.get_storage_size() != pixels or pixels > length:
        raise ValueError(f"images are {images.shape}, which a file of {length:,} bytes does not hold")
    shapes = {"images": (count, size, size, 3), "masks": (count, size, size), "source_size": (count, 2)}
    for name in _KINDS:
        if file[name].shape != shapes.get(name, (count,)):
            raise ValueError(f"{name} is {file[name].shape}, expected {shapes.get(name, (count,))}")
    for name in _ARRAYS:
        if file[name].dtype != np.uint8 or file[name].chunks != (1, *file[name].shape[1:]):
            raise ValueError(f"{name} is not kept image by image, in bytes")


def _rows(indices: Indices) -> NDArray[np.intp]:
    rows = np.asarray(indices)
    assert rows.dtype != np.bool_, "indices are wanted, not a choice of rows"
    return rows.astype(np.intp)


def open_stores(folder: Path, names: Sequence[str] | None = None) -> dict[str, Store]:
    """Open all data sets of a store folder, or those of the given names or aliases, in the catalogue's order."""
    here = list_stores(folder)
    wanted = [known.key if (known := find(name)) else name for name in names or here]
    if missing := [name for name in wanted if name not in here]:
        raise ValueError(
            f"{folder} does not hold {', '.join(missing)}, only {', '.join(sorted(here))}; add with {MAKE}"
        )
    order = {key: rank for rank, key in enumerate(CATALOG)}
    ranked = sorted(set(wanted), key=lambda name: (order.get(name, len(order)), natural(name)))
    return {name: Store.open(folder / name) for name in ranked}


def list_stores(folder: Path) -> list[str]:
    """Return the names of the data sets in a store folder, or say what the folder is instead."""
    if (folder / MANIFEST).is_file():
        raise ValueError(f"{folder} is one data set of a store; give the folder above it, {folder.parent}")
    here = [path.parent.name for path in folder.glob(f"*/{MANIFEST}")]
    if here:
        return here
    files = islice(folder.rglob("*"), _LOOKED_AT)
    picture = next((path for path in files if (guess_type(path.name)[0] or "").startswith("image/")), None)
    if picture is None:
        raise FileNotFoundError(f"no prepared data in {folder}; make it with {MAKE}")
    options = f"--images {folder} --masks MASKS --name NAME" if picture.parent == folder else f"--root {folder}"
    raise FileNotFoundError(
        f"{folder} holds pictures and no prepared data: make a store of them with "
        f"`fpgm data prepare {options} --out STORE`, and give that"
    )


def write_store(
    folder: Path, records: Iterable[StoredImage], describe: Callable[[tuple[ImageRow, ...]], Manifest]
) -> Manifest:
    """Write a data set to its folder, replacing an earlier one at the end; equal records give equal bytes.

    A folder that another process writes to is refused.

    Args:
        folder: ``STORE/<data set>``.
        records: images in the order of the store; read one by one, never all in memory.
        describe: function that makes the manifest from the rows of all records.
    """
    with sole_writer(folder), atomic_path(folder / MANIFEST) as card, atomic_path(folder / DATA) as draft:
        with draft.open("wb") as empty:
            _reserve(empty.fileno(), 0, 0)
        # `atomic_path` has locked the draft already
        with h5py.File(draft, "w", libver=_LIBVER, rdcc_nbytes=_CACHE, locking=False) as file:
            manifest = describe(_fill(file, records))
            file.attrs["name"], file.attrs["size"] = manifest.name, manifest.size
            file.flush()
            length = file.id.get_filesize()
        os.truncate(draft, length)
        manifest = manifest.model_copy(update={"data_sha256": file_sha256(draft)})
        card.write_text(manifest.text(), encoding="utf-8", newline="\n")
        (folder / MANIFEST).unlink(missing_ok=True)  # from here to the last line there is no finished store
    return manifest


def _fill(file: h5py.File, records: Iterable[StoredImage]) -> tuple[ImageRow, ...]:
    """Append the records and return their rows."""
    rows: list[ImageRow] = []
    hashes: list[str] = []
    arrays: list[h5py.Dataset] = []
    for count, record in enumerate(records):
        _reserve(file.id.get_vfd_handle(), file.id.get_filesize(), 2 * record.image.nbytes)  # image and mask take less
        arrays = arrays or _arrays(file, record.image.shape[0])
        if count % _GROWTH == 0:
            _resize(arrays, count + _GROWTH)
        for array, pixels in zip(arrays, (record.image, record.mask), strict=True):
            if pixels is not None:
                array[count] = pixels
        rows.append(record.row)
        hashes.append(record.dhash)
    assert rows, "a store holds at least one image"
    _resize(arrays, len(rows))
    _describe(file, rows, hashes)
    return tuple(rows)


def _reserve(handle: int, end: int, size: int) -> None:
    """Reserve `size` bytes and some slack beyond the end, or raise: HDF5 on a full disk cannot even be closed."""
    try:
        os.posix_fallocate(handle, end, size + _SLACK)
    except AttributeError:  # of a system that cannot
        return
    except OSError as error:
        if error.errno in NO_ROOM:
            raise


def _arrays(file: h5py.File, size: int) -> list[h5py.Dataset]:
    """Make the arrays of images and masks, without rows."""
    arrays = []
    for name, (channels, packing) in _ARRAYS.items():
        shape = (size, size, *channels)
        kind: dict[str, Any] = {"maxshape": (None, *shape), "chunks": (1, *shape), "track_times": False}
        arrays.append(file.create_dataset(name, (0, *shape), np.uint8, **kind, **packing))
    return arrays


def _resize(arrays: Iterable[h5py.Dataset], rows: int) -> None:
    for array in arrays:
        array.resize(rows, axis=0)


def _describe(file: h5py.File, rows: Sequence[ImageRow], hashes: Sequence[str]) -> None:
    """Write what is known of each image besides its pixels."""
    ids = [row.id.encode() for row in rows]
    width = max(map(len, ids))
    shares = np.array([np.nan if row.foreground is None else row.foreground for row in rows], np.float64)
    columns = {
        "id": np.array(ids, f"S{width}").astype(h5py.string_dtype("utf-8", width)),
        "dhash": np.array(hashes, "S64"),
        "has_mask": ~np.isnan(shares),
        "foreground": shares,
        "source_size": np.array([(row.width, row.height) for row in rows], np.int32),
    }
    sizes = [values.nbytes for values in columns.values()]
    _reserve(file.id.get_vfd_handle(), file.id.get_filesize(), 2 * sum(sizes))
    for name, values in columns.items():
        file.create_dataset(name, data=values, track_times=False)
