"""Draws the pictures of pages that runs become: python docs/draw_pages.py [--runs FOLDER]

A comparison of two runs, the robustness section of a report, and the page of an export to browsers, without
a network. The runs learn the embedded phrasebook, by the recipe of the notebooks, into FOLDER (else a
temporary one; about two minutes of one core); those that are in FOLDER already are not trained again. The
first one is also that of docs/draw_pictures.py.

It needs playwright, a Chromium (Debian's package chromium) and onnxruntime-web, which is downloaded once from
npm, or taken from the folder of an installed package (--onnxruntime-web).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from draw_report import QUIET, save
from playwright.sync_api import sync_playwright

from dragoman.config import load_recipe
from dragoman.tasks.training import train

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
from browser_page import static_files

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
RECIPE = ROOT / "notebooks" / "phrasebook-en-de.toml"

MORE_OFTEN = "training.valid_every=100"
"""A change to the recipe, as in docs/draw_pictures.py: a curve needs some validations."""
RUNS = {
    "phrasebook-en-de": [],
    "one-layer": ["name=one-layer", "model.n_encoder_layers=1", "model.n_decoder_layers=1"],
}
"""The runs that are compared, and the settings that differ from the recipe."""
TEXT = "We cannot ride a bicycle because it is foggy. Maria went to Italy the day before yesterday."
WIDE = {"width": 1160, "height": 1530}
LOW = {"width": 1160, "height": 540}
MARGIN = 24
"""Around a part of a page."""

NAMES = ("comparison", "robustness", "offline")
"""The pictures, docs/pictures/NAME.png."""


def main(runs: Path, folder: Path, browser: str, package: Path | None) -> None:
    first, second = (trained(name, changes, runs) for name, changes in RUNS.items())
    dragoman("compare", first, second, "--out", folder / "comparison")
    dragoman("report", first, "--out", folder / "report")
    runtime = [] if package is None else ["--onnxruntime-web", package]
    dragoman("export", first, "--to", "browser", "--out", folder / "page", *runtime)
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser, args=list(QUIET))
        screens = {
            "comparison": lambda screen: picture_comparison(opened, folder / "comparison", screen),
            "robustness": lambda screen: picture_robustness(opened, folder / "report", screen),
            "offline": lambda screen: picture_offline(opened, folder / "page", screen),
        }
        for name in NAMES:
            screens[name](folder / f"{name}.png")
            save(folder / f"{name}.png", PICTURES / f"{name}.png")
        opened.close()


def trained(name: str, changes: list[str], runs: Path) -> Path:
    """Return the run of the recipe with these changes in the folder `runs`."""
    return train(load_recipe(RECIPE, [MORE_OFTEN, *changes]), runs / name)


def dragoman(*arguments: object) -> None:
    """Run a command of the package."""
    subprocess.run([sys.executable, "-m", "dragoman", *map(str, arguments)], check=True)


def picture_comparison(browser: Any, folder: Path, screen: Path) -> None:
    """Picture the top of a comparison."""
    page = browser.new_page(viewport=WIDE)
    page.goto((folder / "comparison.html").as_uri())
    page.screenshot(path=screen)


def picture_robustness(browser: Any, folder: Path, screen: Path) -> None:
    """Picture the section of a report about altered text."""
    page = browser.new_page(viewport=WIDE)
    page.goto((folder / "report.html").as_uri())
    heading = page.get_by_role("heading", name="Text that is written otherwise")
    box = page.locator("section", has=heading).bounding_box()
    clip = {"x": box["x"] - MARGIN, "y": box["y"] - MARGIN}
    clip |= {side: box[side] + 2 * MARGIN for side in ("width", "height")}
    page.screenshot(path=screen, clip=clip, full_page=True)


def picture_offline(browser: Any, folder: Path, screen: Path) -> None:
    """Picture the page of an export as it translates with neither its server nor a network."""
    context = browser.new_context(viewport=LOW, device_scale_factor=1.5, color_scheme="light")
    page = context.new_page()
    with static_files(folder) as url:
        page.goto(url)
        page.locator("#status", has_text="Ready").wait_for()
        page.evaluate("navigator.serviceWorker.ready.then(() => null)")
        page.reload()  # now by the worker, which keeps what it passes on
        page.locator("#status", has_text="Ready").wait_for()
    context.set_offline(True)
    page.reload()
    page.locator("#status", has_text="Ready").wait_for()
    page.fill("#source", TEXT)
    page.locator("#output", has_text="Italien").wait_for()
    page.screenshot(path=screen)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, help="where the models are, or are to be, trained")
    parser.add_argument("--browser", default=shutil.which("chromium") or "chromium")
    parser.add_argument("--onnxruntime-web", type=Path, help="folder of the installed npm package")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        main(given.runs or Path(temporary) / "runs", Path(temporary), given.browser, given.onnxruntime_web)
