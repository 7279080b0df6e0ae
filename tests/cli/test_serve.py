"""`fpgm serve`: what it says, when it refuses, how it finds or trains the demo's model, and the documented requests."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from inspect import signature
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi.testclient import TestClient
from PIL import Image

from fpgm.cli import demo, main, serve
from fpgm.data.headers import MAX_SCANS
from fpgm.data.synthetic import phantom
from tests.conftest import compute_here, shrink_demo
from tests.data.pictures import scan_bomb
from tests.processes import PATIENCE, wait
from tests.serving.making import SIZE
from tests.serving.running import make_run, picture, serving

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "serve.md"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def server(run: Path) -> Iterator[str]:
    with serving(run, fresh=True) as address:
        yield address


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Take the applications that would be served, without serving them."""
    taken: list[Any] = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: taken.append(self.config.app))
    return taken


def test_it_serves_until_it_is_interrupted(server: str) -> None:
    """Its end, exit code 0 without a traceback, is checked by `serving`."""
    assert httpx.get(f"{server}/health", timeout=PATIENCE).json()["status"] == "ok"
    assert "FPGM" in httpx.get(server, timeout=PATIENCE).text
    assert httpx.get(f"{server}/api/about", timeout=PATIENCE).json()["priors"] == ["learned", "generic", "low-pass"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_documented_requests_work(server: str, tmp_path: Path) -> None:
    commands = re.findall(r"^curl .*$", PAGE.read_text(encoding="utf-8"), re.M)
    assert len(commands) >= 4
    Image.fromarray(phantom("phantom-a", 1).image).resize((200, 150)).save(tmp_path / "frame.jpg")
    answers = []
    for command in commands:
        assert "http://127.0.0.1:8000" in command
        there = command.replace("http://127.0.0.1:8000", server).replace("curl ", "curl --fail --silent --show-error ")
        done = subprocess.run(there, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        answers.append(done.stdout)
    numbers = json.loads(answers[0])
    assert (numbers["width"], numbers["height"]) == (200, 150)
    for name in re.findall(r"(?:-o|--output) (\S+\.png)", "\n".join(commands)):
        assert picture((tmp_path / name).read_bytes()).shape[:2] == (150, 200)


def test_the_page_says_what_the_server_answers() -> None:
    """The example of an answer in the documentation has the fields of a real one."""
    from fpgm.serving.web.messages import Prediction

    (example,) = re.findall(r"^```json\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    Prediction.model_validate_json(example, strict=True)
    assert set(json.loads(example)) == set(Prediction.model_fields) - {"picture", "probability"}


def test_the_first_interrupt_ends_a_busy_server(run: Path) -> None:
    """Pictures that take seconds to decode are under way and wait; `serving` asks it to stop, once."""
    heavy = scan_bomb(MAX_SCANS, 4096, 2048)
    head = f"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(heavy)}\r\n\r\n".encode()
    with ExitStack() as stack, serving(run) as address:
        place = ("127.0.0.1", int(address.rpartition(":")[2]))
        for _ in range(6):
            client = stack.enter_context(socket.create_connection(place, timeout=PATIENCE))
            client.sendall(head + heavy)
        wait(lambda: httpx.get(f"{address}/health", timeout=PATIENCE).json()["taken"] >= 2)


def test_a_port_that_is_taken_is_said_before_anything_else(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where there is no demo: nothing may be trained first
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    assert f"cannot listen on 127.0.0.1 port {port}: " in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--port", "70000", "from 0 to 65535"),  # which the system would take for 4464
        ("--port", "-1", "from 0 to 65535"),
        ("--host", "no.such.host.invalid", "try another --port or --host"),
    ],
)
def test_what_cannot_be_listened_on_is_refused(
    option: str, value: str, words: str, run: Path, served: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(run), f"{option}={value}"]) == 2
    assert words in capsys.readouterr().err and not served


def test_a_folder_without_a_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path), "--port", "0"]) == 2
    assert "holds no model" in capsys.readouterr().err


def test_others_are_let_in_only_when_asked(run: Path, served: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(run), "--port", "0"]) == 0
    assert "password" not in capsys.readouterr().out
    assert main(["serve", str(run), "--port", "0", "--host", "0.0.0.0"]) == 0
    assert "no password and no encryption" in capsys.readouterr().out
    statuses = [TestClient(app, "http://somewhere.example").get("/health").status_code for app in served]
    assert statuses == [403, 200]


def test_without_a_run_the_demo_s_is_trained_once(
    tmp_path: Path, served: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shrink_demo(monkeypatch)
    compute_here(monkeypatch)
    monkeypatch.setattr(demo, "ITERATIONS", 2)
    for _ in range(2):
        assert main(["serve", "--port", "0"]) == 0
    said = capsys.readouterr().out
    assert said.count("training the demo's model in demo/fpgm_teacher") == 1
    for app in served:
        about = TestClient(app, "http://localhost").get("/api/about").json()
        assert "phantoms" in about["note"] and "says nothing about real colonoscopy" in about["note"]
        assert about["size"] == SIZE and about["priors"][0] == "learned" and about["training"]["iterations"] == "2"


@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["demo"]], ids=" ".join)
def test_its_training_can_be_interrupted(
    command: list[str],
    tmp_path: Path,
    served: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    shrink_demo(monkeypatch)
    monkeypatch.setattr("fpgm.experiments.processes.Processes.start", stop)
    assert main(command) == 130 and not served
    assert "the same command goes on" in capsys.readouterr().out


def test_it_takes_the_place_of_the_demo() -> None:
    """So that `fpgm demo` finds the run and goes on with it."""
    assert signature(demo.demo).parameters["out"].default == serve.DEMO
