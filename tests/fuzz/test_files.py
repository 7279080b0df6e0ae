"""Files that the package wrote, changed by accident or by malice: read as they are meant, or refused with a sentence.

Every byte of an ONNX file is guarded by its hash, see tests/serving/test_onnx_engine.py; here the hash is made anew.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import example
from hypothesis import strategies as st

from fpgm.config import RunConfig, keys, resolve
from fpgm.data.manifest import MANIFEST, ImageRow, Manifest
from fpgm.runs.card import parse_card
from fpgm.runs.evaluation import read_masks
from fpgm.serving.folders.record import RECORD, Entry, Frame
from fpgm.serving.folders.record import PredictionRecord as Predictions
from fpgm.serving.onnx_engine import DIGEST, UNSEALED, OnnxEngine
from fpgm.spectrum import FrequencyPrior, align
from tests.fuzz.making import NUMBERS, WORDS, documents, fuzz, refusable, spoiled
from tests.fuzz.records import CARD_RECORD, YAML

SCRATCH = tempfile.TemporaryDirectory()  # until the tests end
HERE = Path(SCRATCH.name)
DATA = {"store": Path("store"), "split": "paper-0"}


def write(name: str, content: bytes) -> Path:
    path = HERE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def prior() -> dict[str, Any]:
    learned, mask = FrequencyPrior(), torch.zeros(1, 16, 16)
    mask[:, 4:12, 4:12] = 1
    learned.update(torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0)), mask)
    learned.save(HERE / "prior.json")
    record: dict[str, Any] = json.loads((HERE / "prior.json").read_text())
    return record


PRIOR = prior()


def with_prior(**changes: Any) -> bytes:
    return json.dumps({**PRIOR, **changes}).encode()


@fuzz(content=documents(PRIOR))
@example(content=with_prior(momentum=10**400))
@example(content=with_prior(profile=[1] * 8))
@example(content=with_prior(profile=[10**30] * 8))
@example(content=with_prior(profile=[1e-300] * 8))
@example(content=with_prior(profile=[3e38] * 8))
@example(content=b"9" * 5000)
def test_a_prior(content: bytes) -> None:
    path = write("prior.json", content)
    with refusable(path):
        loaded = FrequencyPrior.load(path)
        assert loaded.profile.dtype == torch.float32
        assert align(torch.rand(1, 3, 16, 16), loaded.profile, 0.5, "radial").isfinite().all()


@fuzz(content=documents(CARD_RECORD))
def test_a_card(content: bytes) -> None:
    path = write("model.json", content)
    with refusable(path):
        assert parse_card(content, str(path)).net


@fuzz(content=YAML)
@example(content=b"{method: fpgm, arguments: 3}")
@example(content=b"{method: [1]}")
@example(content=b"{method: 3}")
@example(content=b"{method: fpgm, 1: 2}")
@example(content=b"!!bool foo")
@example(content=b"!!timestamp x")
@example(content=b"!!int _")
@example(content=b"[" * 800)
@example(content=b"method: &a [*a]")
@example(content=b"\xff\xfe\xff")
def test_a_configuration(content: bytes) -> None:
    path = write("config.yaml", content)
    with refusable(path):
        assert RunConfig.load(path).method == "fpgm"


SETTINGS = st.tuples(st.sampled_from([*keys("fpgm"), "method.gama", ""]), WORDS | NUMBERS.map(str))


@fuzz(settings=st.lists(SETTINGS.map("=".join) | WORDS, max_size=3))
@example(settings=["method.gamma=["])
@example(settings=["method.gamma=!!bool x"])
@example(settings=["train.seed=99999999999999999999"])
def test_settings(settings: list[str]) -> None:
    with refusable():
        found = resolve("paper", "fpgm", DATA, settings)
        torch.Generator().manual_seed(found.train.seed)


ROW = ImageRow("1", "images/1.png", "masks/1.png", "0" * 64, "1" * 64, 64, 48, 0.1)
HEADER = {"name": "a", "source": "own folders", "size": 16, "rules": {}, "inputs": ""}
MANIFEST_RECORD = json.loads(Manifest.describe([ROW], **HEADER).model_dump_json())


@fuzz(content=documents(MANIFEST_RECORD))
def test_a_manifest(content: bytes) -> None:
    path = write(MANIFEST, content)
    with refusable(path):
        assert Manifest.load(HERE).format == "fpgm store"


ENTRY = Entry(
    image="a.png", sha256="0" * 64, name="a", moving=False, settings={}, frames=(Frame(pixels=9, findings=()),)
)


@fuzz(content=st.lists(documents(ENTRY.model_dump(mode="json")), max_size=3).map(b"\n".join))
@example(content=ENTRY.model_copy(update={"name": "../../x"}).model_dump_json().encode())
@example(content=ENTRY.model_copy(update={"frames": ()}).model_dump_json().encode())
@example(content=ENTRY.model_copy(update={"name": "a\0b"}).model_dump_json().encode())
@example(
    content=ENTRY.model_dump_json()
    .replace('"pixels":9,"findings":[]', '"pixels":0,"findings":[[1,1,[1,1,1,1]]]')
    .encode()
)
@example(content=b"\xff")
def test_what_was_predicted_before(content: bytes) -> None:
    path = write(f"out/{RECORD}", content)
    with refusable(path):
        found = Predictions(path.parent)
        for entry in found.entries.values():
            assert all((path.parent / name).resolve().is_relative_to(path.parent.resolve()) for name in entry.names())
            found.write_table(path.parent / "findings.csv", entry.settings)


def test_a_name_that_ends_lines_elsewhere_is_remembered() -> None:
    entry = ENTRY.model_copy(update={"image": "a\u2028\x85.png"})
    write(f"lines/{RECORD}", entry.model_dump_json().encode())
    assert list(Predictions(HERE / "lines").entries.values()) == [entry]


def masks(count: int) -> bytes:
    np.savez_compressed(data := io.BytesIO(), masks=np.zeros((count, 16, 2), np.uint8))
    return data.getvalue()


@fuzz(content=st.one_of(spoiled([masks(3)]), st.binary(max_size=300)))
@example(content=masks(100_000))  # a thousand times as large in memory
@example(content=b"PK\5\6" + bytes(18))  # an archive of nothing
@example(content=masks(3)[:6] + masks(3)[8:])  # two bytes are gone, so that the array begins before the file
def test_predicted_masks(content: bytes) -> None:
    path = write("run/evaluation/b.npz", content)
    with refusable(path):
        found = read_masks(HERE / "run", "b", 16, 3)
        assert found.shape[1:] == (16, 16) and len(found) <= 40  # the header may be short, too


def sealed(content: bytes) -> bytes:
    """Write the hash of a file into it, as `fpgm export` does."""
    place = DIGEST.encode() + b"\x12\x40"
    data = content + place + UNSEALED.encode()
    return content + place + hashlib.sha256(data).hexdigest().encode()


@pytest.mark.parametrize("kind", ["junk", "without a card", "another graph"])
def test_an_onnx_file_with_a_hash_made_anew(kind: str, tmp_path: Path) -> None:
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in ("image", "logits")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["image"], ["logits"])], "g", *[[end] for end in ends])
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    text = json.dumps(CARD_RECORD) if kind == "another graph" else "none"
    onnx.helper.set_model_props(proto, {"fpgm": text, DIGEST: UNSEALED})
    whole = proto.SerializeToString()
    data = (
        sealed(b"junk")
        if kind == "junk"
        else whole.replace(UNSEALED.encode(), hashlib.sha256(whole).hexdigest().encode())
    )
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(ValueError, match=r"m\.onnx (cannot be loaded|is not the card|does not map)"):
        OnnxEngine(tmp_path / "m.onnx")
