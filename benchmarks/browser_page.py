"""How fast the page of `dragoman export --to browser` is in Chromium, from opening it to the last sentence.

    python benchmarks/browser_page.py RUN
    python benchmarks/browser_page.py RUN --onnxruntime-web node_modules/onnxruntime-web --rounds 5

Exports the run into a temporary folder, serves that on 127.0.0.1 and opens it in a fresh profile, `--rounds`
times. Prints the size of model and page, and medians: the seconds from opening the page to "Ready", from
there to the first translation, from opening it a second time (all files kept by its worker) to "Ready", and
sentences a second of the run's validation sources, one by one and eight at once. Greedy search in int8 by
onnxruntime-web, one thread. Needs playwright and a Chromium (Debian's package chromium).
"""

from __future__ import annotations

import statistics
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from dragoman.interop.exporting import export_run
from dragoman.predict.model import translation_config
from dragoman.runs import Run
from measuring import Result, in_turn, parser_of, seconds_of
from texts import valid_pairs

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
"""Chromium's options: a browser that asks nobody for anything by itself."""
TRANSLATE = """async ([texts, at_once]) => {
  const { translator } = await import('./page.js');
  const begin = performance.now();
  for (let i = 0; i < texts.length; i += at_once) {
    await translator.translateAll(texts.slice(i, i + at_once));
  }
  return (performance.now() - begin) / 1000;
}"""
"""Seconds that the page's translator takes."""


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--onnxruntime-web", type=Path, help="an installed package; else it is downloaded")
    options = parser.parse_args()
    pairs = valid_pairs(translation_config(Run.open(options.run)))[: options.sentences]
    texts = [pair.src for pair in pairs]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = Path(folder) / "page"
        export_run(options.run, page, to="browser", onnxruntime_web=options.onnxruntime_web)
        browser = driver.chromium.launch(executable_path=options.chromium, args=list(FLAGS))
        sizes = {path.relative_to(page): path.stat().st_size for path in page.rglob("*") if path.is_file()}
        with static_files(page) as url, Result("browser_page", options) as result:
            print(f"Chromium {browser.version}")
            model = sum(size for path, size in sizes.items() if path.suffix == ".onnx")
            runtime = sum(size for path, size in sizes.items() if path.parts[0] == "onnxruntime")
            result.figure("model, MB", model / 1e6, ".1f")
            result.figure("with tokenizer and page, MB", (sum(sizes.values()) - runtime) / 1e6, ".1f")
            rounds = in_turn({"page": partial(measure, browser, url, texts)}, options.rounds, warm_up=0)
            table = result.table({"": "", "median": ".2f", "least": ".2f", "most": ".2f"})
            for name in rounds["page"][0]:
                values = [each[name] for each in rounds["page"]]
                table.add(name, statistics.median(values), min(values), max(values))
        browser.close()


def measure(browser: Any, url: str, texts: list[str]) -> dict[str, float]:
    """Return the figures of one fresh profile, by what they are called."""
    context = browser.new_context()
    page = context.new_page()
    opened = seconds_of(partial(open_page, page, url))
    first = page.evaluate(TRANSLATE, [texts[:1], 1])
    page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    open_page(page, url)  # from here on by its worker, which keeps what it passes on
    again = seconds_of(partial(open_page, page, url))
    speeds = {f"sentences/s, {n} at once": len(texts) / page.evaluate(TRANSLATE, [texts, n]) for n in (1, 8)}
    context.close()
    return {
        "seconds from opening to ready": opened,
        "seconds from there to the first translation": first,
        "seconds from opening it again to ready": again,
        **speeds,
    }


def open_page(page: Any, url: str) -> None:
    """Open the page, and wait until its model is loaded."""
    page.goto(url)
    page.locator("#status", has_text="Ready").wait_for()


@contextmanager
def static_files(folder: Path) -> Iterator[str]:
    """Serve the files of a folder on this machine until the block ends; the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class _Files(SimpleHTTPRequestHandler):
    """Static files, without a log."""

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


if __name__ == "__main__":
    main()
