"""The HTTP API and the page's files, with a model whose answers are known: the probability is the red of the image."""

from __future__ import annotations

import asyncio
import io
import re
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi import HTTPException
from fastapi.testclient import TestClient
from numpy.typing import NDArray
from PIL import Image

from fpgm.data.synthetic import phantom
from fpgm.runs.card import ModelCard
from fpgm.serving.predictor import Predictor
from fpgm.serving.web import answers
from fpgm.serving.web.alignment import Aligner
from fpgm.serving.web.app import STATIC, create_app
from fpgm.serving.web.limits import Limits, read_body
from fpgm.spectrum import FrequencyPrior, amplitude, generic_profile, low_pass, radial_profile
from tests.processes import PATIENCE, wait
from tests.serving.making import SIZE, SPECKS, Red, onnx_file, run_without
from tests.serving.running import make_run, picture, png_header


class Known(Red):
    """An engine that takes the red of an image for the probability."""

    card = ModelCard(net="red", arguments={}, size=SIZE, training={"method": "none", "iterations": 7})

    def __init__(self) -> None:
        super().__init__(SIZE)


def client(engine: Any = None, **settings: Any) -> TestClient:
    app = create_app(Predictor(engine or Known()), settings.pop("aligner", None), **settings)
    return TestClient(app, "http://localhost:8000")


def png(pixels: NDArray[np.uint8]) -> bytes:
    Image.fromarray(pixels).save(file := io.BytesIO(), "png")
    return file.getvalue()


@pytest.fixture(scope="module")
def frame() -> NDArray[np.uint8]:
    """Two regions: 10 x 6 pixels of red 204 (0.8) at (20, 8), and two of red 153 (0.6) that touch at a corner."""
    pixels = np.full((SIZE, SIZE, 3), 40, np.uint8)
    pixels[8:14, 20:30, 0] = 204
    pixels[40, 50, 0] = pixels[41, 51, 0] = 153
    return pixels


def test_the_numbers_of_a_frame_drawn_by_hand(frame: NDArray[np.uint8]) -> None:
    answer = client().post("/api/predict", content=png(frame)).json()
    confidence = (60 * 0.8 + 2 * 0.6) / 62
    assert answer.pop("confidence") == pytest.approx(confidence, abs=1e-6)
    assert [polyp.pop("confidence") for polyp in answer["polyps"]] == pytest.approx([0.8, 0.6], abs=1e-6)
    assert answer == {
        "width": SIZE,
        "height": SIZE,
        "threshold": 0.5,
        "min_area": 0,
        "area": 62,
        "share": 62 / SIZE**2,
        "polyps": [{"area": 60, "box": [20, 8, 10, 6]}, {"area": 2, "box": [50, 40, 2, 2]}],
    }


@pytest.mark.parametrize(("threshold", "area"), [(0.01, SIZE**2), (0.7, 60), (0.8, 60), (0.81, 0), (1, 0)])
def test_the_threshold_decides(frame: NDArray[np.uint8], threshold: float, area: int) -> None:
    answer = client().post(f"/api/predict?threshold={threshold}", content=png(frame)).json()
    assert answer["area"] == area and (answer["confidence"] is None) == (area == 0)


def test_specks_are_left_out_as_the_model_or_the_request_says(frame: NDArray[np.uint8]) -> None:
    engine = Red(SIZE)
    engine.card = engine.card.model_copy(update={"size": SIZE, "least_area": SPECKS})  # 16 pixels
    asking = client(engine)
    assert asking.get("/api/about").json()["least_share"] == 0.004
    for query, least, area in (("", 16, 60), ("min_area=0", 0, 62), ("min_area=60", 60, 60), ("min_area=61", 61, 0)):
        answer = asking.post(f"/api/predict?{query}", content=png(frame)).json()
        assert (answer["min_area"], answer["area"]) == (least, area)
        mask = asking.post(f"/api/predict?output=mask&{query}", content=png(frame)).content
        assert (picture(mask) > 0).sum() == area
    assert asking.post("/api/predict?min_area=-1", content=png(frame)).status_code == 422


def test_pictures_have_the_size_of_the_upload(frame: NDArray[np.uint8]) -> None:
    upload = png(np.asarray(Image.fromarray(frame).resize((90, 30))))
    shapes = {"mask": (30, 90), "probability": (30, 90), "overlay": (30, 90, 3)}
    for output, shape in shapes.items():
        answer = client().post(f"/api/predict?output={output}", content=upload)
        assert answer.headers["content-type"] == "image/png" and picture(answer.content).shape == shape


def test_pictures_say_what_the_numbers_say(frame: NDArray[np.uint8]) -> None:
    def ask(output: str) -> NDArray[np.uint8]:
        return picture(client().post(f"/api/predict?output={output}", content=png(frame)).content)

    mask, probability, overlay = (ask(output) for output in ("mask", "probability", "overlay"))
    assert np.array_equal(probability, frame[..., 0].astype(np.uint16) * 257)  # 65535 = 255 * 257
    assert np.array_equal(mask, np.where(frame[..., 0] >= 128, 255, 0))
    changed = (overlay != frame).any(-1)
    near = np.zeros_like(changed)
    near[6:16, 18:32] = near[38:44, 48:54] = True
    assert changed.any() and not changed[mask > 0].any() and not changed[~near].any()
    assert overlay[7, 20].tolist() == [255, 212, 0]


def test_the_page_gets_picture_and_map_with_the_numbers(frame: NDArray[np.uint8]) -> None:
    answer = client().post("/api/predict?pictures=true", content=png(frame)).json()
    assert np.array_equal(picture(answer["probability"]), frame[..., 0])
    shown = picture(answer["picture"])
    assert shown.shape == frame.shape and np.abs(shown.astype(int) - frame).mean() < 4


def test_convention_a_level_of_128_stands_for_half_and_more() -> None:
    around = np.array([[0.49999997, 0.5, 0.4980392, 0.501]], np.float32)
    assert ((answers.levels(around) >= 128) == (around >= 0.5)).all()


def bad_uploads() -> dict[str, tuple[bytes, int, str]]:
    jpeg = io.BytesIO()
    Image.fromarray(phantom("phantom-a", 0).image).save(jpeg, "jpeg")
    return {
        "text": (b"a text, no picture\n" * 9, 422, "no picture of a known format"),
        "nothing": (b"", 422, "no content"),
        "header alone": (png_header(20_000, data=False), 422, "no picture of a known format"),
        "huge": (png_header(20_000), 413, "too many pixels; this server takes up to 8.4 million"),
        "above the limit": (png_header(3000), 413, "3,000 x 3,000"),
        "bomb": (png_header(2**31 - 1), 413, "too many pixels"),
        "cut short": (jpeg.getvalue()[:2000], 422, "truncated"),
        "many bytes": (bytes(20 * 2**20 + 1), 413, "over 20 MB"),
    }


@pytest.mark.parametrize("kind", bad_uploads())
@pytest.mark.parametrize("path", ["/api/predict", "/api/align"])
def test_a_bad_upload_gets_a_sentence_and_the_server_lives_on(kind: str, path: str, frame: NDArray[np.uint8]) -> None:
    data, status, words = bad_uploads()[kind]
    asking = client(aligner=Aligner(SIZE))
    answer = asking.post(path, content=data)
    assert answer.status_code == status and words in answer.json()["detail"]
    assert_no_path(answer.text)
    assert asking.post(path, content=png(frame)).status_code == 200


def assert_no_path(text: str) -> None:
    assert not re.search(r"(/\w+){2}|\.py\b|0x[0-9a-f]{6}|Traceback", text), text


@pytest.mark.parametrize(
    "query",
    ["threshold=0", "threshold=1.5", "threshold=nan", "threshold=../../etc", "output=exe", "pictures=perhaps"],
)
def test_a_parameter_out_of_range_gets_a_sentence(query: str, frame: NDArray[np.uint8]) -> None:
    answer = client().post(f"/api/predict?{query}", content=png(frame))
    assert answer.status_code == 422 and answer.json()["detail"].startswith(query.partition("=")[0])


def test_a_form_is_told_how_to_send_a_file(frame: NDArray[np.uint8]) -> None:
    answer = client().post("/api/predict", files={"image": ("../../evil.png", png(frame))})
    assert answer.status_code == 415 and "--data-binary" in answer.json()["detail"]


def test_a_fault_of_ours_is_logged_and_not_shown(frame: NDArray[np.uint8], caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Known):
        def probabilities(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
            raise RuntimeError("weights of /secret/place/model.py are broken")

    answer = client(Broken()).post("/api/predict", content=png(frame))
    assert answer.status_code == 500 and "secret" in caplog.text
    assert "its log says why" in answer.json()["detail"] and "secret" not in answer.text


def test_a_full_queue_says_so_and_empties(frame: NDArray[np.uint8]) -> None:
    go, statuses = threading.Event(), []

    class Slow(Known):
        def probabilities(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
            go.wait(PATIENCE)
            return super().probabilities(batch)

    with client(Slow(), limits=Limits(places=2, threads=1)) as asking:

        def post() -> None:
            statuses.append(asking.post("/api/predict", content=png(frame)).status_code)

        threads = [threading.Thread(target=post) for _ in range(2)]
        for thread in threads:
            thread.start()
        wait(lambda: asking.get("/health").json()["taken"] == 2)
        refused = asking.post("/api/predict", content=png(frame))
        assert refused.status_code == 503 and refused.headers["retry-after"] == "2"
        assert "all its 2 places are taken" in refused.json()["detail"]
        go.set()
        for thread in threads:
            thread.join()
        assert statuses == [200, 200] and asking.get("/health").json()["taken"] == 0
        assert asking.post("/api/predict", content=png(frame)).status_code == 200


def test_an_upload_may_not_take_for_ever() -> None:
    async def drip() -> AsyncIterator[bytes]:
        while True:
            yield b"x"
            await asyncio.sleep(0.01)

    with pytest.raises(HTTPException) as caught:
        asyncio.run(read_body(drip(), Limits(seconds=0.1)))
    assert caught.value.status_code == 408


@pytest.mark.parametrize("turns", range(4))
def test_its_time_ends_also_where_a_piece_arrives_at_that_moment(turns: int) -> None:
    async def late() -> AsyncIterator[bytes]:
        time.sleep(0.12)  # nobody else has a turn meanwhile
        for _ in range(turns):
            await asyncio.sleep(0)
        for _ in range(100):
            yield b"x"
            await asyncio.sleep(0.002)

    with pytest.raises(HTTPException) as caught:
        asyncio.run(read_body(late(), Limits(seconds=0.1)))
    assert caught.value.status_code == 408


def test_an_upload_without_end_is_broken_off() -> None:
    async def flood() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1000)

    with pytest.raises(HTTPException) as caught:
        asyncio.run(read_body(flood(), Limits(max_bytes=10_000)))
    assert caught.value.status_code == 413


@pytest.fixture(scope="module")
def prior() -> FrequencyPrior:
    learned, mask = FrequencyPrior(), torch.zeros(1, SIZE, SIZE)
    mask[:, 20:40, 20:40] = 1
    learned.update(torch.rand(1, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0)), mask)
    return learned


@pytest.fixture(scope="module")
def scene() -> NDArray[np.uint8]:
    return phantom("phantom-c", 3, size=SIZE).image


def align(scene: NDArray[np.uint8], query: str, learned: FrequencyPrior | None = None) -> dict[str, Any]:
    answer = client(aligner=Aligner(SIZE, learned)).post(f"/api/align?{query}", content=png(scene))
    assert answer.status_code == 200, answer.text
    return answer.json()


def shape(profile: torch.Tensor) -> torch.Tensor:
    return profile / profile.sum()


@pytest.mark.parametrize("reconstruction", ["radial", "ratio"])
def test_without_guidance_nothing_changes(scene: NDArray[np.uint8], reconstruction: str) -> None:
    answer = align(scene, f"gamma=0&reconstruction={reconstruction}")
    assert answer["change"] == 0 and answer["profile"] == answer["aligned_profile"]
    assert np.array_equal(picture(answer["original"]), scene)
    assert answer["original"] == answer["aligned"]
    assert (picture(answer["difference"]) == 247).all()


@pytest.mark.parametrize("name", ["learned", "generic"])
def test_full_guidance_gives_the_prior_s_profile(scene: NDArray[np.uint8], prior: FrequencyPrior, name: str) -> None:
    answer = align(scene, f"gamma=1&prior={name}", prior)
    target = shape(prior.profile if name == "learned" else generic_profile(SIZE // 2))
    assert answer["prior_profile"] == pytest.approx(target.tolist(), rel=1e-4)
    assert answer["aligned_profile"] == pytest.approx(target.tolist(), rel=1e-3)
    own = radial_profile(amplitude(torch.from_numpy(scene).permute(2, 0, 1) / 255), SIZE).mean(0)
    assert answer["profile"] == pytest.approx(shape(own).tolist(), rel=1e-4)


def test_low_pass_is_the_filter(scene: NDArray[np.uint8]) -> None:
    answer = align(scene, "prior=low-pass&cutoff=5")
    image = torch.from_numpy(scene).permute(2, 0, 1)[None] / 255
    expected = low_pass(image, 5)
    assert answer["prior_profile"] is None and max(answer["aligned_profile"][7:]) < 1e-5
    assert answer["change"] == pytest.approx(float((expected - image).abs().mean()), rel=1e-4)
    pixels = (expected[0].permute(1, 2, 0).clamp(0, 1) * 255).round().byte().numpy()
    assert np.array_equal(picture(answer["aligned"]), pixels)


def test_the_difference_is_blue_where_it_is_darker(scene: NDArray[np.uint8]) -> None:
    answer = align(scene, "gamma=0.3&prior=generic")
    before, after, colours = (picture(answer[name]).astype(int) for name in ("original", "aligned", "difference"))
    change = (after - before).mean(-1) / 255
    warmth = colours[..., 0] - colours[..., 2]
    far = np.abs(change) > 0.3 * answer["reach"]
    assert far.any() and (np.sign(warmth) == np.sign(change))[far].all()


def test_what_was_prepared_can_be_sent_again(scene: NDArray[np.uint8], prior: FrequencyPrior) -> None:
    large = np.asarray(Image.fromarray(scene).resize((200, 120)))
    first = align(large, "gamma=0.2", prior)
    assert align(picture(first["original"]), "gamma=0.2", prior) == first


def test_a_model_without_prior_says_so(scene: NDArray[np.uint8], tmp_path: Path) -> None:
    run = make_run(tmp_path, prior=False)
    asking = client(aligner=Aligner.of_run(run, SIZE))
    assert asking.get("/api/about").json()["priors"] == ["generic", "low-pass"]
    answer = asking.post("/api/align?prior=learned", content=png(scene))
    assert answer.status_code == 422 and "no learned prior" in answer.json()["detail"]
    assert Aligner.of_run(make_run(tmp_path), SIZE).priors == ("learned", "generic", "low-pass")


def test_without_torch_there_is_no_alignment(scene: NDArray[np.uint8]) -> None:
    asking = client()
    assert asking.get("/api/about").json()["priors"] == []
    answer = asking.post("/api/align", content=png(scene))
    assert answer.status_code == 501 and "torch" in answer.json()["detail"]


def test_a_model_in_onnx_is_served_without_torch(tmp_path: Path) -> None:
    (tmp_path / "frame.png").write_bytes(png(phantom("phantom-a", 0, size=128).image))
    script = """
import sys
from pathlib import Path
from fastapi.testclient import TestClient
from fpgm.serving.predictor import load_predictor
from fpgm.serving.web.app import create_app
client = TestClient(create_app(load_predictor(sys.argv[1])), "http://localhost")
frame = Path(sys.argv[2]).read_bytes()
print(client.post("/api/predict", content=frame).json()["width"], client.post("/api/align", content=frame).status_code)
"""
    done = run_without("torch", script, str(onnx_file()), str(tmp_path / "frame.png"))
    assert done.stdout.split() == ["128", "501"], done.stderr


def test_facts() -> None:
    about = client(note="drawn").get("/api/about").json()
    assert about["note"] == "drawn" and about["size"] == SIZE and about["training"]["iterations"] == "7"
    assert about["max_bytes"] == 20 * 2**20 and about["threshold"] == 0.5 and about["statistics"] == ""


def test_examples_are_drawn_and_not_those_of_the_demo() -> None:
    asking = client()
    for name in asking.get("/api/about").json()["examples"]:
        drawn = picture(asking.get(f"/api/examples/{name}.png").content)
        assert np.array_equal(drawn, phantom(name, 0, answers.EXAMPLE_SEED, answers.EXAMPLE_SIZE).image)
    assert answers.EXAMPLE_SEED != 0  # the demo's
    for name in ("phantom-z", "..%2f..%2fweb", "%2e%2e"):
        answer = asking.get(f"/api/examples/{name}.png")
        assert answer.status_code == 404
        assert_no_path(answer.text)


@pytest.mark.parametrize("path", ["/../web.py", "/%2e%2e/web.py", "/..%2fweb.py", "//etc/passwd", "/%2fetc/passwd"])
def test_only_the_page_s_files_are_given(path: str) -> None:
    assert client().get(f"/static{path}").status_code in (404, 405)


def every_answer() -> Iterator[Any]:
    asking = client()
    for path in ("/", "/api", "/openapi.json", "/health", "/api/about", "/static/app.js", "/nowhere"):
        yield asking.get(path)
    yield asking.post("/api/predict", content=b"")
    yield asking.get("/", headers={"Host": "evil.example"})


def test_every_answer_is_guarded() -> None:
    for answer in every_answer():
        policy = answer.headers["content-security-policy"]
        assert (
            policy.startswith("default-src 'self'; img-src 'self' data: blob:; media-src blob:;")
            and "unsafe" not in policy
        )
        assert answer.headers["cache-control"] == "no-store" and answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        *((name, True) for name in ("localhost:8000", "127.0.0.1", "[::1]:80")),
        *((name, False) for name in ("evil.example", "localhost.evil.example", "192.168.0.7:8000", "[::1", "")),
    ],
)
def test_a_local_server_answers_to_local_names(host: str, allowed: bool) -> None:
    assert client().get("/health", headers={"Host": host}).status_code == (200 if allowed else 403)
    assert client(local=False).get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:9000"])
def test_pages_of_other_sites_get_no_answer(origin: str, frame: NDArray[np.uint8]) -> None:
    answer = client().post("/api/predict", content=png(frame), headers={"Origin": origin})
    assert answer.status_code == 403
    own = {"Origin": "http://localhost:8000"}
    assert client().post("/api/predict", content=png(frame), headers=own).status_code == 200


def test_the_files_of_the_page_name_no_other_host() -> None:
    for path in STATIC.iterdir():
        addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.[\w./-]+", path.read_text(encoding="utf-8")))
        assert addresses <= {"http://www.w3.org/2000/svg"}, path.name  # a name of the language, never fetched
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=", page)


def test_the_api_page_explains_every_path_and_loads_nothing() -> None:
    asking = client()
    page, openapi = asking.get("/api").text, asking.get("/openapi.json").json()
    for path, methods in openapi["paths"].items():
        assert all(f"{method.upper()} {path}" in page for method in methods)
    assert set(openapi["paths"]) == {
        "/health",
        "/api/about",
        "/api/examples/{name}.png",
        "/api/predict",
        "/api/align",
    }
    assert "<script" not in page and set(re.findall(r"https?://[\w.]+", page)) == {"http://127.0.0.1"}
    assert "HTTPValidationError" not in openapi["components"]["schemas"]


def test_answers_are_what_the_api_says(frame: NDArray[np.uint8]) -> None:
    asking = client(aligner=Aligner(SIZE))
    openapi = asking.get("/openapi.json").json()["components"]["schemas"]
    for path, name in (("/api/predict?pictures=true", "Prediction"), ("/api/align", "Alignment")):
        assert set(asking.post(path, content=png(frame)).json()) == set(openapi[name]["properties"])
    assert set(asking.get("/api/about").json()) == set(openapi["About"]["properties"])
