"""Draws the picture of a report for these pages: python docs/draw_report.py RUN [--browser chromium]

RUN's report is written into a temporary folder, and its first screens are pictured by a headless Chromium
(Debian's package chromium), in few colours, into docs/pictures/report.png.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image  # matplotlib needs it, too

PICTURE = Path(__file__).resolve().parent / "pictures" / "report.png"
WIDTH, HEIGHT = 1160, 2030
N_COLOURS = 256

QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def main(run: Path, browser: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        subprocess.run([sys.executable, "-m", "dragoman", "report", run, "--out", folder], check=True)
        screen = folder / "screen.png"
        options = [*QUIET, f"--user-data-dir={folder / 'profile'}", f"--window-size={WIDTH},{HEIGHT}"]
        page = (folder / "report.html").as_uri()
        subprocess.run(
            [browser, *options, f"--screenshot={screen}", page], check=True, timeout=300, capture_output=True
        )
        save(screen, PICTURE)


def save(screen: Path, picture: Path) -> None:
    """Write a screenshot as a picture of few colours."""
    picture.parent.mkdir(exist_ok=True)
    with Image.open(screen) as image:
        few = image.convert("RGB").quantize(N_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(picture, optimize=True)
    print(picture, f"{picture.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--browser", default="chromium")
    given = parser.parse_args()
    main(given.run, given.browser)
