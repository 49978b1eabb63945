"""The drawings of `ptxkit occupancy` and `ptxkit bench`, and that of the book, in headless
Chromium: their text is legible, nothing lies over it, and their curves are in the picture.

PTXKIT names the program, CHROMIUM the browser.
"""

import io
import os
import pathlib
import subprocess

import pytest
from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[4]
SAMPLES = ROOT / "ptx-samples"

# The background, and of each text what it says, its colour and where it is.
TEXTS = """() => {
  const colour = (element, name) =>
    getComputedStyle(element)[name].match(/[0-9.]+/g).slice(0, 3).map(Number);
  return {
    back: colour(document.querySelector("rect"), "fill"),
    size: [document.documentElement.clientWidth, document.documentElement.clientHeight],
    lines: [...document.querySelectorAll(".line")].map(line => colour(line, "stroke")),
    texts: [...document.querySelectorAll("text")].filter(text => text.textContent.trim()).map(text => {
      const box = text.getBoundingClientRect();
      return {
        says: text.textContent,
        colour: colour(text, "fill"),
        box: [box.left, box.top, box.right, box.bottom],
      };
    }),
  };
}"""


def run(*arguments):
    command = [os.environ["PTXKIT"], *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


@pytest.fixture(scope="session")
def drawings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawings")
    occupancy, roofline = folder / "occupancy.svg", folder / "roofline.svg"
    kernel = ["--target", "sm_90", "--block", 256, "--format", "svg"]
    occupancy.write_bytes(run("occupancy", SAMPLES / "matmul_shared.ptx", *kernel))
    run("bench", SAMPLES / "saxpy.toml", "--device", "cpu", "--roofline", roofline)
    return {"occupancy": occupancy, "roofline": roofline, "load": ROOT / "docs/load.svg"}


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(
            executable_path=os.environ["CHROMIUM"], args=["--no-sandbox"]
        )


def luminance(colour):
    """Relative luminance (WCAG 2.1)."""
    parts = [part / 255 for part in colour]
    parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one, other):
    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def overlap(one, other):
    """How far two boxes reach into one another, in pixels."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return min(width, height)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["occupancy", "roofline", "load"])
def test_a_drawing_is_legible(browser, drawings, name, scheme):
    page = browser.new_page(color_scheme=scheme)
    page.goto(drawings[name].as_uri())
    drawn = page.evaluate(TEXTS)
    picture = Image.open(io.BytesIO(page.locator("svg").screenshot())).convert("RGB")
    page.close()

    assert (luminance(drawn["back"]) > 0.5) == (scheme == "light")
    edge = picture.getpixel((2, picture.height // 2))
    assert all(abs(a - b) <= 2 for a, b in zip(edge, drawn["back"])), edge

    texts = drawn["texts"]
    assert len(texts) > 5
    for text in texts:
        assert contrast(text["colour"], drawn["back"]) >= 4.5, text
        left, top, right, bottom = text["box"]
        assert left >= 0 and top >= 0, text
        assert right <= picture.width and bottom <= picture.height, text
    for at, text in enumerate(texts):
        for other in texts[at + 1 :]:
            assert overlap(text["box"], other["box"]) < 3, (text, other)

    pixels = picture.getcolors(picture.width * picture.height)
    for line in drawn["lines"]:
        near = sum(
            count
            for count, pixel in pixels
            if all(abs(a - b) <= 24 for a, b in zip(pixel, line))
        )
        assert near > 40, (line, near)
