"""The folder of `dragoman export --to browser` in a real browser, beside the same graphs in Python.

The npm package of onnxruntime-web comes from DRAGOMAN_ONNXRUNTIME_WEB, an installed one, or from npm.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from browser_page import static_files
from dragoman.config import SearchConfig
from dragoman.data.catalog.download import DownloadError
from dragoman.interop.browser import runtime_files
from dragoman.interop.exporting import ExportReport, export_run
from dragoman.interop.onnx import OnnxEngine
from dragoman.interop.parity import random_texts
from dragoman.predict.engine import SearchInput
from dragoman.predict.translator import Translator
from dragoman.text.normalisation import is_wordy
from dragoman.text.tokenizer import EOS_ID
from exports import untrained_run
from pages import Watched, browsing, new_context, violations

pytestmark = [pytest.mark.browser, pytest.mark.nightly]

GOLDEN = Path(__file__).parent.parent / "compatibility" / "0.1" / "translation"

NASTY = [
    "", " ", "  a\tb\u2028c\x0bd  ", "no\x00thing\x07 here\x7f", "e\u0301te\u0301 A\u030a \u1100\u1161\u11a8",
    "👩‍👩‍👧 🇩🇪 👍🏽", "你好，世界。", "\u200fשלום\u200e نص", "▁under▁score", "</s> <unk> <0x41> <pad> <2de>",
    "\ufde0 slot \ufde7", "\ufffe\U0001ffff", "one\u00a0two\u3000three", "x" * 300, "1234 ½ ² Ⅷ ٣", "Iİıß ǅ",
    "a\u0300\u0301\u0302",
    "\ufeffbom", "don't—stop…", "\u0344 \u0958 ﬁ", "𝒳𝓎 𐍈",
]  # fmt: skip
"""Emoji, marks, controls, scripts, what looks like tokens: all that a tokenizer may trip over."""


class Opened(NamedTuple):
    """A page that has loaded its model, and what it was made of."""

    page: Any
    url: str
    folder: Path
    report: ExportReport
    watched: Watched

    def call(self, function: str, argument: Any) -> Any:
        """What `function` of JavaScript gives, with the page's translator."""
        code = f"async (given) => {{ const {{ translator }} = await import('./page.js'); {function} }}"
        return self.page.evaluate(code, argument)


def package() -> Path | None:
    """The folder of an installed onnxruntime-web; None: from npm. Skips the test where there is neither."""
    installed = os.environ.get("DRAGOMAN_ONNXRUNTIME_WEB")
    if installed:
        return Path(installed)
    try:
        runtime_files()
    except DownloadError as error:
        pytest.skip(f"needs onnxruntime-web: {error}")
    return None


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    pytest.importorskip("onnxruntime", reason="needs pip install 'dragoman[onnx]'")
    with browsing() as browser:
        folder = tmp_path_factory.mktemp("page") / "out"
        report = export_run(GOLDEN, folder, to="browser", onnxruntime_web=package(), n_sentences=50)
        with static_files(folder) as url:
            page = new_context(browser).new_page()
            watched = Watched()
            watched.watch(page)
            page.goto(url)
            page.locator("#status", has_text="Ready").wait_for()
            yield Opened(page, url, folder, report, watched)


def test_the_page_translates_as_the_same_graphs_do_in_python(opened: Opened) -> None:
    translator = Translator.load(GOLDEN, device="cpu", precision="fp32")
    texts = [text for text in random_texts(translator.tokenizers.src, 200, 30) if is_wordy(text)]
    given = opened.call(
        "const all = []; for (const text of given) all.push(await translator.translate(text)); return all;",
        texts,
    )
    search = translator.config.search
    limits = {name: getattr(search, name) for name in ("max_length_factor", "max_length_extra")}
    engine = OnnxEngine(opened.folder, max_positions=translator.max_positions)
    greedy = SearchConfig(beam_size=1, **limits)
    found = [
        engine.search([SearchInput([*ids, EOS_ID])], greedy)[0][0].ids
        for ids in translator.tokenizers.src.encode_batch(texts)
    ]
    same = sum(tuple(one["ids"]) == ids for one, ids in zip(given, found, strict=True))
    assert same >= len(texts) - 2 > 150  # sums of floats have another order there
    assert [g["text"] for g in given] == translator.tokenizers.tgt.decode_batch([g["ids"] for g in given])
    assert opened.report.parity.same["greedy"] > 0.5  # a model that has learnt little
    assert opened.report.parity.largest["nats a token of a translation, on average"] < 0.5


def test_the_page_reads_and_writes_text_as_the_run_does(opened: Opened) -> None:
    tokenizer = Translator.load(GOLDEN, device="cpu", precision="fp32").tokenizers.src
    texts = [*NASTY, *random_texts(tokenizer, 100, 30)]
    rows = opened.call("return given.map((text) => translator.source.encode(text));", texts)
    assert rows == tokenizer.encode_batch(texts)
    broken = [[i] for i in range(4, 260)] + [
        [260, 199, 260],
        [230, 132, 199],
        list(range(4, 400)),
        [1, 2, 3, 0],
    ]
    ids = [*rows, *broken]
    decoded = opened.call("return given.map((ids) => translator.target.decode(ids));", ids)
    assert decoded == tokenizer.decode_batch(ids)
    (lone,) = opened.call(r"return ['a\ud800b'].map((text) => translator.source.encode(text));", [])
    assert lone == tokenizer.encode("a\ufffdb")


def test_the_page_reads_capitals_titles_numbers_and_links_as_the_run(opened: Opened, tmp_path: Path) -> None:
    texts = [
        "A RED HOUSE.", "An Old Dog Sees The River", "12:30, 42.", " ", "A RED HOUSE AT 14:30, www.a.de, 99",
    ]  # fmt: skip
    opened.page.fill("#source", texts[0])
    opened.page.locator("#status", has_text="1 sentence in").wait_for()
    assert opened.page.locator("#output").inner_text().isupper()
    slotted = untrained_run(tmp_path / "run", model={"output_bias": True}, slots=True)
    export_run(slotted, tmp_path / "out", to="browser", onnxruntime_web=package(), n_sentences=3)
    with static_files(tmp_path / "out") as url:
        other = opened._replace(page=opened.page.context.new_page())
        other.page.goto(url)
        other.page.locator("#status", has_text="Ready").wait_for()
        for run, page in ((GOLDEN, opened), (slotted, other)):
            translator = Translator.load(run, device="cpu", precision="fp32")
            given = page.call("return translator.translateAll(given);", texts)
            read = page.call("return given.map((text) => translator.read(text).ids);", texts)
            sentences = translator.inputs(texts, None, None, first_number=1, recase=True)
            assert read == [list(sentence.source) for sentence in sentences]
            for text, one, sentence in zip(texts, given, sentences, strict=True):
                written = translator.written(sentence, [one["ids"]])[0] if one["ids"] else text.strip()
                assert one["text"] == written


def test_the_page_shows_lines_as_they_are_typed_and_asks_nobody_else(opened: Opened) -> None:
    page = opened.page
    page.fill("#source", "A red house. An old dog!\n\n\nA tree")
    page.locator("#status", has_text="3 sentences in").wait_for()
    assert page.locator("#output").inner_text().count("\n") == 3
    page.fill("#source", "")
    page.locator("#placeholder").wait_for()
    assert violations(page) == []
    assert opened.watched.complaints == []
    assert all(address.startswith(opened.url) for address in opened.watched.addresses)


def test_the_page_works_without_a_server_once_it_was_open(opened: Opened, tmp_path: Path) -> None:
    with static_files(opened.folder) as url:
        page = opened.page.context.new_page()
        page.goto(url)
        page.evaluate("async () => { await navigator.serviceWorker.ready; }")
        page.locator("#status", has_text="Ready").wait_for()
    page.goto(url)
    page.locator("#status", has_text="Ready").wait_for()
    page.fill("#source", "A red house")
    page.locator("#status", has_text="1 sentence in").wait_for()
    assert page.locator("#output").inner_text()
