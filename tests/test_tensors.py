"""A file of tensors: the same content is the same bytes, and what is none of ours is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from fpgm.tensors import read_tensors, write_tensors

TENSORS = {name: torch.full((2, 3), float(number)) for number, name in enumerate(("weight", "bias", "mean"))}


def test_equal_contents_are_equal_files(tmp_path: Path) -> None:
    for number in range(8):  # a header whose order is left to chance would hardly be the same eight times
        write_tensors(tmp_path / f"{number}", TENSORS, "kind-1", {"step": 3, "names": ["a"]})
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
    tensors, content = read_tensors(tmp_path / "0", "kind-1")
    assert content == {"step": 3, "names": ["a"]} and tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], value) for name, value in TENSORS.items())


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "not a file of kind kind-1, but without a kind"),
        ({"fpgm": "[]"}, "but without a kind"),
        ({"fpgm": "{"}, "is damaged or cut short"),
        ({"fpgm": '{"format": "kind-2"}'}, "but kind-2"),
    ],
)
def test_other_files_are_refused(metadata: dict[str, str] | None, message: str, tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "file", metadata)
    with pytest.raises(ValueError, match=message):
        read_tensors(tmp_path / "file", "kind-1")
