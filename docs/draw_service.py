"""Draws the pictures of a service's page: python docs/draw_service.py http://127.0.0.1:8000

The service is `dragoman serve runs/demo`, with the run of `dragoman demo`. It needs playwright and a Chromium
(Debian's package chromium).
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from draw_report import QUIET, save
from playwright.sync_api import sync_playwright

PICTURES = Path(__file__).resolve().parent / "pictures"
SENTENCES = "Maria went to Italy the day before yesterday. We cannot ride a bicycle because it is foggy."
OTHERS = "We visited Italy yesterday. Our dog wants to be a lawyer in Beijing."
WIDE = {"viewport": {"width": 1280, "height": 720}, "device_scale_factor": 1.5}
PHONE = {"viewport": {"width": 390, "height": 720}, "device_scale_factor": 2, "has_touch": True}


def main(url: str, browser: str) -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser, args=list(QUIET))

        def take(page: Any, name: str) -> None:
            page.screenshot(path=Path(folder) / name)
            save(Path(folder) / name, PICTURES / name)

        page = translated(opened, url, WIDE)
        bicycle = page.locator("#output .word:has-text('Fahrrad')")
        bicycle.hover()
        take(page, "page.png")
        bicycle.click()
        page.wait_for_selector("#alternatives-list button")
        take(page, "page-alternatives.png")
        page.keyboard.press("Escape")
        page.click("#theme")
        page.click("#confidence")
        page.fill("#source", OTHERS)
        page.locator("#output .word:has-text('Peking')").hover()
        page.wait_for_selector("#output .sentence.done >> nth=1")
        take(page, "page-dark.png")
        phone = translated(opened, url, PHONE)
        phone.click("#confidence")
        take(phone, "page-phone.png")
        opened.close()


def translated(browser: Any, url: str, settings: dict[str, Any]) -> Any:
    """Return a page with the translation of SENTENCES."""
    page = browser.new_context(locale="en-GB", reduced_motion="reduce", **settings).new_page()
    page.goto(url)
    page.fill("#source", SENTENCES)
    page.wait_for_selector("#output .sentence.done >> nth=1")
    return page


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url", help="where the service answers")
    parser.add_argument("--browser", default=shutil.which("chromium") or "chromium")
    given = parser.parse_args()
    main(given.url, given.browser)
