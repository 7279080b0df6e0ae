"""onnxruntime and OpenVINO: the same logits, nothing sent, refusals in a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import get_args

import numpy as np
import onnx
import pytest

from fpgm.serving import onnx_sessions
from fpgm.serving.onnx_engine import OnnxEngine
from fpgm.serving.onnx_sessions import OnnxruntimeSession, OpenvinoSession, Runtime, open_session, thread_count
from fpgm.serving.torch_engine import has_bfloat16
from tests.serving.making import SIZE, onnx_file

HAS_OPENVINO = onnx_sessions._is_installed("openvino")
needs_openvino = pytest.mark.skipif(not HAS_OPENVINO, reason="openvino, 59 MB, is not in the lock file")


@needs_openvino
def test_both_give_the_same_logits_in_any_batch_and_thread() -> None:
    images = np.random.default_rng(0).random((5, 3, SIZE, SIZE), np.float32)
    data = onnx_file().read_bytes()
    one, other = (kind(data, "cpu", onnx_file()) for kind in (OnnxruntimeSession, OpenvinoSession))
    assert (one.card, one.inputs, one.outputs) == (other.card, other.inputs, other.outputs)
    expected = [one.run(images[:count]) for count in (1, 5, 3)]
    assert np.ptp(expected[1]) > 1
    found: dict[int, list[np.ndarray]] = {}

    def work(number: int) -> None:
        found[number] = [other.run(images[:count]) for count in (1, 5, 3)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for logits in found.values():
        for left, right in zip(expected, logits, strict=True):
            assert left.shape == right.shape and np.allclose(left, right, atol=1e-4)


@needs_openvino
def test_openvino_sends_nothing_and_writes_nothing_at_home(tmp_path: Path) -> None:
    """Its own import sends an event to a host, and keeps an id of the user in ~/intel."""
    script = """
import socket, sys
def refuse(*given): raise AssertionError("a connection")
socket.socket.connect = refuse
from fpgm.serving.onnx_sessions import import_openvino
print(import_openvino().Core is not None, "openvino_telemetry" in sys.modules)
"""
    environment = {**os.environ, "HOME": str(tmp_path)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.split() == ["True", "False"], done.stderr
    assert not list(tmp_path.iterdir())


@needs_openvino
def test_openvino_refuses_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--device cuda cannot be used here: OpenVINO"):
        OpenvinoSession(onnx_file().read_bytes(), "cuda", onnx_file())
    with pytest.raises(ValueError, match=r"bad\.onnx cannot be loaded by OpenVINO: [^\n]+; export the model again$"):
        OpenvinoSession(b"hello", "cpu", tmp_path / "bad.onnx")
    foreign = onnx.load(onnx_file())
    del foreign.metadata_props[:]
    assert OpenvinoSession(foreign.SerializeToString(), "cpu", onnx_file()).card == ""


@needs_openvino
def test_predictions_of_engines_are_told_apart() -> None:
    one, *others = (OnnxEngine(onnx_file(), "cpu", name) for name in get_args(Runtime))
    assert one.identity == one.sha256
    assert [other.identity for other in others] == [f"{one.sha256} openvino", f"{one.sha256} openvino-bfloat16"]


@needs_openvino
@pytest.mark.skipif(not has_bfloat16(), reason="the processor emulates bfloat16")
def test_bfloat16_is_near_float32_and_not_the_same() -> None:
    images = np.random.default_rng(0).random((2, 3, SIZE, SIZE), np.float32)
    exact, rounded = (
        OnnxEngine(onnx_file(), "cpu", name).probabilities(images) for name in ("openvino", "openvino-bfloat16")
    )
    assert 0 < np.abs(exact - rounded).max() < 0.1


@pytest.mark.parametrize(
    ("installed", "expected"),
    [({"onnxruntime", "openvino"}, "rt"), ({"openvino"}, "ov"), ({"onnxruntime"}, "rt"), (set(), "rt")],
)
def test_openvino_stands_in_where_onnxruntime_is_missing(
    installed: set[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_sessions, "_is_installed", installed.__contains__)
    monkeypatch.setattr(onnx_sessions, "OnnxruntimeSession", lambda *given: "rt")
    monkeypatch.setattr(onnx_sessions, "OpenvinoSession", lambda *given: "ov")
    assert open_session(b"", "auto", Path("model.onnx")) == expected
    assert open_session(b"", "auto", Path("model.onnx"), "openvino") == "ov"
    assert open_session(b"", "auto", Path("model.onnx"), "openvino-bfloat16") == "ov"


def test_a_missing_openvino_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_sessions, "_is_installed", lambda name: False)
    with pytest.raises(ValueError, match=r"pip install 'fpgm\[openvino\]'"):
        open_session(b"", "auto", Path("model.onnx"), "openvino")


@pytest.mark.parametrize(("text", "count"), [("2", 2), (" 4 ", 4), ("2,1", 2), ("", None), ("many", None), ("0", None)])
def test_threads_are_those_of_the_environment(text: str, count: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert thread_count() == count
