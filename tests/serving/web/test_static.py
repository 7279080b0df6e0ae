"""The page in a real browser: upload, slider, numbers, alignment, bad files; nothing leaves the server's origin.

Playwright drives the system's Chromium and downloads none. Set FPGM_SCREENSHOTS to a folder to look at the page.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from fpgm.data.synthetic import phantom
from tests.data.films import make_film
from tests.processes import PATIENCE
from tests.serving.running import make_run, picture, png_header, serving

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
MILLISECONDS = 1000 * PATIENCE


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(make_run(tmp_path_factory.mktemp("run"))) as address:
        yield address


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("frames") / "my frame.jpg"
    Image.fromarray(phantom("phantom-b", 5, size=256).image).resize((320, 240)).save(path)
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: playwright.Browser, server: str) -> Iterator[playwright.Page]:
    """Open the page; at its end, no request may have gone elsewhere and no script have failed."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(MILLISECONDS)
    page, requests, errors = context.new_page(), [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if "Policy" in message.text else None)
    page.goto(server)
    yield page
    outside = [url for url in requests if not url.startswith((f"{server}/", "data:", "blob:"))]
    assert not outside and not errors and len(requests) > 5
    context.close()


def expect(locator: playwright.Locator) -> playwright.LocatorAssertions:
    return playwright.expect(locator)


@pytest.fixture(autouse=True, scope="module")
def patience() -> None:
    if BROWSER is not None:
        playwright.expect.set_options(timeout=MILLISECONDS)


def upload(page: playwright.Page, path: Path) -> None:
    page.set_input_files("#file", path)
    expect(page.locator("#status")).to_contain_text(f"Shown: {path.name}")


def shoot(page: playwright.Page, name: str) -> None:
    if folder := os.environ.get("FPGM_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def pixels(page: playwright.Page, canvas: str) -> list[int]:
    """Return a canvas's size and the sums of its colours."""
    return page.evaluate(
        """id => { const canvas = document.getElementById(id);
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const sums = [canvas.width, canvas.height, 0, 0, 0];
        data.forEach((value, i) => { if (i % 4 < 3) sums[2 + i % 4] += value; });
        return sums; }""",
        canvas,
    )


def numbers(page: playwright.Page) -> tuple[int, int]:
    area = page.inner_text("#area").partition(" px")[0]
    return int(page.inner_text("#count")), int(area.replace(",", ""))


def test_upload_slider_numbers(page: playwright.Page, server: str, frame: Path) -> None:
    upload(page, frame)
    query = f"{server}/api/predict?pictures=true"
    answer = httpx.post(query, content=frame.read_bytes(), timeout=PATIENCE).json()
    assert numbers(page) == (len(answer["polyps"]), answer["area"])
    assert page.inner_text("#confidence") == f"{100 * answer['confidence']:.0f} %"
    assert page.inner_text("#polyps tbody tr:first-child td:last-child") == ", ".join(
        map(str, answer["polyps"][0]["box"])
    )
    before = pixels(page, "overlay")
    assert before[:2] == [320, 240]
    levels = picture(answer["probability"])
    for threshold in (0.3, 0.71):  # the regions are those that scipy finds in the map
        page.fill("#threshold", str(threshold))
        expect(page.locator("#threshold-value")).to_have_text(f"{threshold:.2f}")
        mask = levels >= threshold * 255
        _, count = ndimage.label(mask, np.ones((3, 3)))
        assert numbers(page) == (count, int(mask.sum()))
        after = pixels(page, "overlay")
        assert after != before
        before = after
    shoot(page, "find")


def test_specks_are_left_out_at_the_second_slider(page: playwright.Page, server: str, frame: Path) -> None:
    upload(page, frame)
    answer = httpx.post(f"{server}/api/predict?pictures=true", content=frame.read_bytes(), timeout=PATIENCE).json()
    levels = picture(answer["probability"])
    page.fill("#threshold", "0.3")
    labels, count = ndimage.label(levels >= 0.3 * 255, np.ones((3, 3)))
    areas = np.bincount(labels.ravel())[1:]
    for percent in ("0.1", "1"):
        page.fill("#least", percent)
        least = round(float(percent) / 100 * labels.size)
        expect(page.locator("#least-value")).to_have_text(f"{least} px")
        kept = areas[areas >= least]
        assert len(kept) and numbers(page) == (len(kept), kept.sum())
    assert len(kept) < count
    with page.expect_download() as waiting:
        page.click("[data-download=mask]")
    assert (np.asarray(Image.open(waiting.value.path()).convert("L")) > 0).sum() == kept.sum()


def test_the_slider_can_be_moved_by_keys_and_empties_the_mask(page: playwright.Page, frame: Path) -> None:
    upload(page, frame)
    found = pixels(page, "overlay")
    page.focus("#threshold")
    page.keyboard.press("End")
    expect(page.locator("#threshold-value")).to_have_text("0.99")
    expect(page.locator("#count")).to_have_text("none")
    assert pixels(page, "overlay") != found and page.is_hidden("#polyps")
    assert page.inner_text("#confidence") == "–"


def test_downloads_are_what_is_seen(page: playwright.Page, frame: Path, tmp_path: Path) -> None:
    upload(page, frame)
    page.fill("#threshold", "0.4")
    expect(page.locator("#threshold-value")).to_have_text("0.40")
    for what in ("overlay", "mask", "probability", "numbers"):
        with page.expect_download() as waiting:
            page.click(f"[data-download={what}]")
        suffix = "csv" if what == "numbers" else "png"
        assert waiting.value.suggested_filename == f"my frame-{what}.{suffix}"
        waiting.value.save_as(tmp_path / what)
    mask, levels = (np.asarray(Image.open(tmp_path / what).convert("L")) for what in ("mask", "probability"))
    assert np.array_equal(mask > 0, levels >= 0.4 * 255) and set(np.unique(mask)) <= {0, 255}
    rows = list(csv.DictReader((tmp_path / "numbers").read_text().splitlines()))
    assert len(rows) == numbers(page)[0]
    assert sum(int(row["area"]) for row in rows) == int((mask > 0).sum())
    assert Image.open(tmp_path / "overlay").size == (320, 240)


def test_an_example_and_the_second_tab_by_keyboard_alone(page: playwright.Page) -> None:
    page.focus("#examples li:nth-child(2) button")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_contain_text("Shown: phantom-b, 384 × 384")
    assert page.get_attribute("#examples li:nth-child(2) button", "aria-pressed") == "true"
    page.focus("#tab-find")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tab-see")).to_be_focused()
    expect(page.locator("#see .result")).to_be_visible()
    expect(page.locator("#find")).to_be_hidden()
    assert page.locator("#plot path.curve").count() == 3
    first = page.get_attribute("#aligned", "src")
    page.focus("#gamma")
    page.keyboard.press("End")
    expect(page.locator("#gamma-value")).to_have_text("1.00")
    expect(page.locator("#aligned")).not_to_have_attribute("src", first or "")
    shoot(page, "see")
    page.keyboard.press("Home")  # without guidance nothing changes
    expect(page.locator("#change")).to_contain_text("0.000")
    assert page.get_attribute("#aligned", "src") == page.get_attribute("#original", "src")
    page.check("input[value=low-pass]")
    expect(page.locator("#cutoff-slider")).to_be_visible()
    expect(page.locator("#plot path.curve")).to_have_count(2)
    assert page.is_hidden("#gamma-slider") and page.is_hidden("#reconstruction")


BAD = {
    "notes.txt": (b"a text, no picture", "no picture of a known format"),
    "empty.png": (b"", "no content"),
    "huge.png": (png_header(20_000), "too many pixels"),
    "header.png": (png_header(20_000, data=False), "No usable picture"),
    "heavy.bmp": (bytes(20 * 2**20 + 1), "over 20 MB"),
}


def test_a_bad_upload_gives_a_message_and_the_server_lives_on(
    page: playwright.Page, frame: Path, tmp_path: Path
) -> None:
    upload(page, frame)
    for name, (data, words) in BAD.items():
        (tmp_path / name).write_bytes(data)
        page.set_input_files("#file", tmp_path / name)
        expect(page.locator("#problem")).to_contain_text(re.compile(f"^{re.escape(name)}: .*{words}"))
        expect(page.locator("#find .result")).to_be_hidden()  # nothing of the frame before
        expect(page.locator("#find .empty")).to_be_visible()
        assert page.inner_text("#status") == ""
    shoot(page, "problem")
    upload(page, frame)
    expect(page.locator("#problem")).to_be_hidden()


def test_several_files_are_a_strip_to_step_through_by_keys(page: playwright.Page, frame: Path, tmp_path: Path) -> None:
    other, bad = tmp_path / "other.png", tmp_path / "bad.png"
    Image.fromarray(phantom("phantom-c", 1, size=96).image).save(other)
    bad.write_text("no picture")
    page.set_input_files("#file", [frame, bad, other])
    expect(page.locator("#status")).to_contain_text("Shown: my frame.jpg")
    assert page.locator("#frames button").count() == 3 and page.is_disabled("#before")
    page.locator("body").press("ArrowRight")
    expect(page.locator("#problem")).to_contain_text("bad.png")
    expect(page.locator("#find .result")).to_be_hidden()
    page.locator("body").press("ArrowRight")
    expect(page.locator("#status")).to_contain_text("Shown: other.png, 96 × 96")
    expect(page.locator("#frames [aria-current=true]")).to_have_text("3")
    assert page.is_hidden("#problem") and page.is_disabled("#after")
    page.locator("body").press("ArrowRight")  # there is none beyond the last
    page.click("#frames li:first-child button")
    expect(page.locator("#status")).to_contain_text("Shown: my frame.jpg")
    shoot(page, "strip")
    page.focus("#threshold")
    page.keyboard.press("ArrowRight")  # a slider has its own arrows
    expect(page.locator("#frames [aria-current=true]")).to_have_text("1")
    upload(page, other)
    expect(page.locator("#strip")).to_be_hidden()


def reds(page: playwright.Page) -> float:
    width, height, red, *_ = pixels(page, "overlay")
    return red / (width * height)


def test_a_film_is_a_strip_of_frames_and_is_not_sent(page: playwright.Page, tmp_path: Path) -> None:
    """Ten frames, each a little redder: which one is shown is told by its colour."""
    shades = [25 * number for number in range(10)]
    film = make_film(tmp_path / "my film.webm", shades, codec="libvpx", base=Fraction(1, 25), ticks=lambda k: k)
    sizes: list[int] = []
    page.on("request", lambda request: sizes.append(len(request.post_data_buffer or b"")))
    page.set_input_files("#file", film)
    expect(page.locator("#status")).to_contain_text("Shown: my film.webm at 0.00 s, 64 × 48")
    page.fill("#threshold", "0.99")  # no outline, no tint
    page.evaluate("document.activeElement.blur()")  # a slider has its own arrows
    expect(page.locator("#film-note")).to_contain_text("one frame every 0.04 s, 10 in all")
    expect(page.locator("#film-note")).to_contain_text("fpgm predict")
    expect(page.locator("#frames canvas")).to_have_count(10)
    for place in (1, 2, 3):
        page.locator("body").press("ArrowRight")
        expect(page.locator("#status")).to_contain_text(f"Shown: my film.webm at 0.{4 * place:02d} s")
        expect(page.locator("#frames [aria-current=true]")).to_have_text(f"0:00.{4 * place:02d}")
        assert abs(reds(page) - shades[place]) < 12
    page.click("#frames li:last-child button")
    expect(page.locator("#status")).to_contain_text("Shown: my film.webm at 0.36 s")
    assert abs(reds(page) - shades[9]) < 12 and page.is_disabled("#after")
    with page.expect_download() as waiting:
        page.click("[data-download=mask]")
    assert waiting.value.suggested_filename == "my film-0.36s-mask.png"
    assert film.read_bytes() and max(sizes) < film.stat().st_size  # pictures of single frames
    shoot(page, "film")


def test_a_film_that_the_browser_cannot_play_is_one_sentence(
    page: playwright.Page, frame: Path, tmp_path: Path
) -> None:
    upload(page, frame)
    (tmp_path / "film.avi").write_bytes(b"RIFF")
    page.set_input_files("#file", tmp_path / "film.avi")
    expect(page.locator("#problem")).to_contain_text("film.avi: This browser cannot play it")
    expect(page.locator("#find .result")).to_be_hidden()
    page.set_input_files("#file", [tmp_path / "film.avi", frame])  # what can be used is
    expect(page.locator("#status")).to_contain_text("Shown: my frame.jpg")
    expect(page.locator("#problem")).to_contain_text("film.avi: This browser cannot play it")


def test_a_long_film_has_fewer_frames_a_second_and_large_ones_are_refused(
    page: playwright.Page, tmp_path: Path
) -> None:
    slow = make_film(
        tmp_path / "slow.webm", [0, 99, 200], codec="libvpx", base=Fraction(1, 25), ticks=lambda k: 375 * k
    )
    page.set_input_files("#file", slow)
    expect(page.locator("#film-note")).to_contain_text(re.compile(r"every 0\.2 s, 1[56]\d in all"))
    large = make_film(tmp_path / "large.webm", [0], (4096, 2176), codec="libvpx", base=Fraction(1, 25))
    page.set_input_files("#file", large)
    expect(page.locator("#problem")).to_contain_text("4096 × 2176 pixels, more than this server takes")


def test_the_page_fits_a_phone_in_the_dark(browser: playwright.Browser, server: str, frame: Path) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme="dark")
    context.set_default_timeout(MILLISECONDS)
    page = context.new_page()
    page.goto(server)
    upload(page, frame)
    for tab in ("find", "see"):
        page.click(f"#tab-{tab}")
        expect(page.locator(f"#{tab} .result")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        shoot(page, f"phone-{tab}")
    red, green, blue = map(
        int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]
    )
    assert max(red, green, blue) < 60
    context.close()


def test_everything_that_takes_input_has_a_name(page: playwright.Page, frame: Path) -> None:
    upload(page, frame)
    for tab in ("find", "see"):
        page.click(f"#tab-{tab}")
        expect(page.locator(f"#{tab} .result")).to_be_visible()
        for control in page.locator("button:visible, input:visible, [role=img]:visible, img:visible").all():
            if control.evaluate("e => e.tagName === 'IMG' && e.closest('button') !== null"):
                continue  # the button speaks for it
            named = control.evaluate(
                "e => e.getAttribute('aria-label') || e.alt || e.labels?.[0]?.textContent || e.textContent"
            )
            assert named.strip(), control.evaluate("e => e.outerHTML")
