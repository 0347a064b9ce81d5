"""The page of `dragoman serve` as people use it: every feature by click and key, by what is seen."""

import re
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pages import Watched, ask, browsing, new_context, served, violations

pytest.importorskip("fastapi", reason="needs pip install 'dragoman[serve]'")

from services import named

pytestmark = pytest.mark.browser

Direct = Callable[..., Any]

TEXT = "the red cat. 😀 the old dog!"
"""Two sentences; the emoji is one character here and two in JavaScript."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def url(
    browser: Any, tiny_run: Path, tiny_classifier_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A service with two translators en → de, one back, and a classifier."""
    folder = tmp_path_factory.mktemp("served")
    runs = [
        named(tiny_run, folder, "first"), named(tiny_run, folder, "second"),
        named(tiny_run, folder, "back", source="de", target="en"),
        named(tiny_classifier_run, folder, "praise"),
    ]  # fmt: skip
    with served(runs) as address:
        yield address


@pytest.fixture(scope="module")
def single(browser: Any, tiny_run: Path) -> Iterator[str]:
    """A service with one translator, which takes 60 characters."""
    with served([tiny_run], characters=60) as address:
        yield address


class Opened:
    """Opens pages, and keeps what they did."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.watched = Watched()
        self.expected: list[str] = []
        """Parts of complaints that a test provokes."""
        self.stack = ExitStack()

    def __call__(self, url: str, *, kept: dict[str, str] | None = None, **settings: Any) -> Any:
        context = new_context(self.browser, **{"locale": "en-GB", **settings})
        self.stack.callback(context.close)
        page = context.new_page()
        self.watched.watch(page)
        if kept:
            items = "".join(f"localStorage.setItem({f'dragoman.{k}'!r}, {v!r});" for k, v in kept.items())
            context.add_init_script(f"if (!localStorage.length) {{ {items} }}")
        page.goto(url)
        page.wait_for_selector("nav [aria-current]")
        return page


@pytest.fixture
def opened(browser: Any) -> Iterator[Opened]:
    """Every page of every test: it asks nothing of others, and its console stays empty."""
    found = Opened(browser)
    yield found
    found.stack.close()
    hosts = {urllib.parse.urlsplit(address).hostname for address in found.watched.addresses}
    assert hosts <= {"127.0.0.1", None}  # None: blob:, data:
    left = [text for text in found.watched.complaints if not any(part in text for part in found.expected)]
    assert left == []


@pytest.fixture
def direct(opened: Opened, url: str) -> Direct:
    """A page of the first service that translates from English into German."""

    def page(**settings: Any) -> Any:
        return opened(url, kept={"direction": '["en", "de", "first"]'}, **settings)

    return page


def translated(page: Any, text: str = TEXT) -> dict[str, Any]:
    """Types the text and waits until the page shows what the service says: its answer."""
    base = page.url.split("#")[0]
    asked = {"text": text.split("\n"), "source": "en", "target": "de", "align": True, "confidence": True}
    answer = ask(f"{base}v1/translate", asked)
    page.fill("#source", text)
    seen(page, "\n".join(each["text"] for each in answer["translations"]))
    return answer


def seen(page: Any, text: str) -> None:
    """Waits until the translation is this."""
    page.wait_for_function(
        """(text) => document.querySelector("#working").hidden
             && [...document.querySelectorAll("#output .line")]
               .map((e) => e.textContent).join("\\n") === text""",
        arg=text,
    )


def texts(page: Any, selector: str) -> list[str]:
    found: list[str] = page.eval_on_selector_all(selector, "(all) => all.map((e) => e.textContent)")
    return found


def cut(text: str, span: list[int]) -> str:
    return text[span[0] : span[1]]


def frames(page: Any) -> None:
    """Waits until what was changed is drawn."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_what_is_typed_is_translated_kept_copied_and_cleared(direct: Direct, opened: Opened) -> None:
    page = direct(permissions=["clipboard-read", "clipboard-write"])
    answer = translated(page)["translations"][0]
    assert texts(page, "#output .sentence") == [sentence["text"] for sentence in answer["sentences"]]
    assert [page.get_attribute(side, "lang") for side in ("#source", "#output")] == ["en", "de"]
    assert [each["stream"] for each in opened.watched.sent("translate")] == [True]
    page.reload()
    seen(page, answer["text"])
    assert page.input_value("#source") == TEXT
    page.click("#copy")
    page.wait_for_selector("#copy:has-text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == answer["text"]
    page.click("#clear")
    seen(page, "")
    assert page.input_value("#source") == ""
    assert page.is_visible("#output-placeholder")
    assert page.is_disabled("#copy")


@pytest.mark.nightly
def test_the_translation_appears_sentence_by_sentence(direct: Direct) -> None:
    page = direct()
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    slow = {"offline": False, "latency": 0, "uploadThroughput": -1, "downloadThroughput": 6000}
    session.send("Network.emulateNetworkConditions", slow)
    page.evaluate(
        """() => {
          window.states = [];
          const look = () => states.push([...document.querySelectorAll("#output .sentence")]
            .map((e) => e.className.replace(/sentence|near/g, "").trim()).join(" "));
          const all = { childList: true, subtree: true, characterData: true };
          new MutationObserver(look).observe(document.querySelector("#output"), all);
        }"""
    )
    translated(page, "the red cat. the old dog! a big house. my small tree.")
    states = page.evaluate("states.filter((state, i) => state !== states[i - 1])")
    assert any(state.startswith("done") and state.endswith("waiting") for state in states)
    assert states[-1] == "done done done done"


def test_only_a_rest_in_typing_asks_and_for_the_changed_line_alone(direct: Direct, opened: Opened) -> None:
    page = direct()
    translated(page, "the red cat\n\nthe old dog")
    asked = [request["text"] for request in opened.watched.sent("translate")]
    assert asked == [["the red cat", "the old dog"]]
    with page.expect_request("**/v1/translate"):
        page.evaluate(  # at once, however slow the machine is
            """() => {
              const field = document.querySelector("#source");
              for (const letter of " big") {
                field.value += letter;
                field.dispatchEvent(new InputEvent("input", { data: letter, bubbles: true }));
              }
            }"""
        )
    page.wait_for_timeout(400)
    asked = [request["text"] for request in opened.watched.sent("translate")]
    assert asked[1:] == [["the old dog big"]]
    assert len(texts(page, "#output .line")) == 3


@pytest.mark.nightly
def test_what_an_input_method_has_half_written_is_not_sent(direct: Direct, opened: Opened) -> None:
    page = direct()
    composing = """(text) => {
      const field = document.querySelector("#source");
      field.value = text;
      field.dispatchEvent(new InputEvent("input", { isComposing: true, bubbles: true }));
      return field;
    }"""
    page.evaluate(composing, "ni")
    page.wait_for_timeout(400)
    assert opened.watched.sent("translate") == []
    field = page.evaluate_handle(composing, "你")
    field.evaluate("(e) => e.dispatchEvent(new CompositionEvent('compositionend', { bubbles: true }))")
    page.wait_for_selector("#output .sentence.done")
    assert [request["text"] for request in opened.watched.sent("translate")] == [["你"]]


def n_best(url: str, source: str, prefix: str | None) -> list[str]:
    asked = {"text": source, "source": "en", "target": "de", "split": False, "n_best": 5, "prefix": prefix}
    found = ask(f"{url}/v1/translate", asked)["translations"][0]["sentences"][0]["alternatives"]
    return list(dict.fromkeys(each["text"] for each in found if each["text"]))


def test_a_word_and_a_sentence_have_others_to_choose(direct: Direct, opened: Opened, url: str) -> None:
    page = direct()
    first, second = translated(page)["translations"][0]["sentences"]
    word = page.locator("#output .sentence").first.locator(".word").last
    prefix = first["text"][: int(word.get_attribute("data-start"))].rstrip() or None
    word.click()
    page.wait_for_selector("#alternatives-list button")
    assert opened.watched.sent("translate")[-1]["prefix"] == prefix
    others = [text for text in n_best(url, first["source"], prefix) if text != first["text"]]
    assert texts(page, "#alternatives-list button") == [first["text"], *others]
    page.click("#alternatives-sentence")
    page.wait_for_selector("#alternatives-list button >> nth=1")
    assert page.get_attribute("#alternatives-sentence", "aria-pressed") == "true"
    offered = texts(page, "#alternatives-list button")
    assert offered[1:] == [text for text in n_best(url, first["source"], None) if text != first["text"]]
    page.click("#alternatives-list button >> nth=1")
    seen(page, f"{offered[1]} {second['text']}")
    assert page.is_hidden("#alternatives")
    page.locator("#source").press("End")
    page.locator("#source").press_sequentially(" a")
    page.wait_for_timeout(500)
    assert texts(page, "#output .sentence")[0] == offered[1], "what was chosen stays while typing goes on"


def test_alternatives_are_reached_and_left_with_keys(direct: Direct) -> None:
    page = direct()
    translated(page)
    page.focus("#source")
    page.keyboard.press("Alt+KeyO")
    assert page.evaluate("document.activeElement.matches('#output .word')")
    page.keyboard.press("ArrowRight")
    word = page.evaluate("document.activeElement.textContent")
    assert word == texts(page, "#output .word")[1]
    page.keyboard.press("Enter")
    page.wait_for_selector("#alternatives-list button")
    assert page.evaluate("document.activeElement.matches('.option')")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    assert page.is_hidden("#alternatives")
    assert page.evaluate("document.activeElement.textContent") == word
    page.keyboard.press("Shift+Enter")
    page.wait_for_selector("#alternatives-list button >> nth=1")
    page.keyboard.press("ArrowDown")
    chosen = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    first = "(text) => document.querySelector('#output .sentence').textContent === text"
    page.wait_for_function(first, arg=chosen)
    frames(page)
    assert page.evaluate("document.activeElement.matches('#output .word')")
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.textContent") == texts(page, "#output .word")[-1]
    assert page.locator("#output [tabindex='0']").count() == 1


def point_at(page: Any, word: Any) -> None:
    box = word.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def linked(page: Any) -> tuple[list[str], list[str]]:
    return texts(page, "#mirror .word.linked"), texts(page, "#output .word.linked")


def test_words_that_belong_together_are_marked_from_both_sides(direct: Direct) -> None:
    page = direct()
    sentence = translated(page)["translations"][0]["sentences"][1]
    assert sentence["source"].startswith("😀")
    words = page.locator("#output .sentence >> nth=1").locator(".word")
    for i, each in enumerate(sentence["words"]):
        links = [link for link in sentence["links"] if link["target"][0] == each["start"]]
        words.nth(i).hover()
        sources, targets = linked(page)
        assert sources == list(dict.fromkeys(cut(sentence["source"], link["source"]) for link in links))
        assert targets == [cut(sentence["text"], [each["start"], each["end"]])]
    for word in page.locator("#mirror .sentence >> nth=1").locator(".word").all():
        point_at(page, word)
        start = int(word.get_attribute("data-start"))
        links = [link for link in sentence["links"] if link["source"][0] == start]
        sources, targets = linked(page)
        assert sources == [word.text_content()]
        assert targets == [cut(sentence["text"], link["target"]) for link in links]
    page.mouse.move(0, 0)
    assert linked(page) == ([], [])


def test_confidence_is_shown_by_shade_line_and_word(direct: Direct) -> None:
    page = direct()
    sentences = translated(page)["translations"][0]["sentences"]
    assert page.is_hidden("#legend")
    page.click("#confidence")
    assert page.get_attribute("#confidence", "aria-pressed") == "true"
    assert page.is_visible("#legend")
    frames(page)
    words = page.locator("#output .word").all()
    every = [(s["text"], word) for s in sentences for word in s["words"]]
    assert len(words) == len(every)
    for element, (text, word) in zip(words, every, strict=True):
        step = sum(word["probability"] >= bound for bound in (0.25, 0.5, 0.75))
        assert f"sure-{step}" in element.get_attribute("class")
        label = element.get_attribute("aria-label")
        assert label == f"{text[word['start'] : word['end']]}, {round(100 * word['probability'])}%"
    style = "(all) => all.map((e) => getComputedStyle(e).textDecoration)"
    assert len(set(page.eval_on_selector_all("#legend li span", style))) == 4
    page.reload()
    page.wait_for_selector("#output .word[aria-label]")
    page.keyboard.press("Alt+KeyK")
    frames(page)
    assert page.locator("#output .word[aria-label]").count() == 0


def options(page: Any, selector: str) -> list[str]:
    return texts(page, f"{selector} option")


def test_menus_offer_what_is_served_and_the_language_is_detected(opened: Opened, url: str) -> None:
    page = opened(url)
    assert options(page, "#source-language") == ["Detect language", "English", "German"]
    page.fill("#source", "Der alte Hund schläft vor dem großen Haus am Fluss.")
    page.wait_for_selector("#output .sentence.done")
    assert options(page, "#source-language")[0] == "German (detected)"
    assert page.input_value("#target-language") == "en"
    assert opened.watched.sent("translate")[-1]["source"] == "de"
    page.fill("#source", "The old dog is sleeping in front of the big house by the river.")
    page.wait_for_function("() => document.querySelector('#target-language').value === 'de'")
    assert options(page, "#source-language")[0] == "English (detected)"
    page.fill("#source", "El perro viejo duerme delante de la casa grande junto al río.")
    page.wait_for_selector("#source-language option:has-text('(Spanish is not served)')", state="attached")
    page.select_option("#source-language", "en")
    assert options(page, "#source-language")[0] == "Detect language"
    assert options(page, "#target-language") == ["German"]
    assert [text.split(" · ")[0] for text in options(page, "#model")] == ["first", "second"]
    page.select_option("#model", "second")
    page.fill("#source", "a cat")
    page.wait_for_selector("#output .sentence.done")
    assert opened.watched.sent("translate")[-1]["model"] == "second"
    page.reload()
    page.wait_for_selector("nav [aria-current]")
    assert page.input_value("#model") == "second"


@pytest.mark.nightly
def test_swapping_takes_the_translation_along_or_says_why_not(
    direct: Direct, opened: Opened, single: str
) -> None:
    page = direct()
    answer = translated(page, "the red cat")
    page.click("#swap")
    assert page.input_value("#source") == answer["translations"][0]["text"]
    assert (page.input_value("#source-language"), page.input_value("#target-language")) == ("de", "en")
    page.wait_for_function("() => document.querySelector('#output').lang === 'en'")
    assert opened.watched.sent("translate")[-1]["model"] == "back"
    page = opened(single)
    assert page.get_attribute("#swap", "aria-disabled") == "true"
    assert page.text_content("#swap-reason") == "No model here translates from German to English."
    page.click("#swap", force=True)
    assert page.input_value("#target-language") == "de"
    assert page.is_hidden("[data-view=classify]")


def file(content: str, name: str) -> dict[str, Any]:
    """A file as a user chooses it."""
    return {"name": name, "mimeType": "text/plain", "buffer": content.encode()}


def test_a_document_comes_back_translated(direct: Direct, url: str) -> None:
    page = direct()
    page.click("[data-view=documents]")
    text = "the red cat.\n\nthe old dog.\n"
    with page.expect_download() as coming:
        page.set_input_files("#file", file(text, "letter.txt"))
    asked = {"text": text, "source": "en", "target": "de"}
    expected = ask(f"{url}/v1/translate", asked)["translations"][0]["text"]
    assert Path(coming.value.path()).read_text("utf-8") == expected
    assert coming.value.suggested_filename == "letter.de.txt"
    with page.expect_download() as again:
        page.click("#jobs .ready a")
    assert again.value.suggested_filename == "letter.de.txt"
    page.click("#jobs li .icon")
    assert page.locator("#jobs li").count() == 0


@pytest.mark.nightly
def test_a_document_that_fails_says_why_and_can_be_tried_again(
    direct: Direct, opened: Opened, url: str
) -> None:
    opened.expected = ["400"]
    page = direct()
    page.evaluate(
        """() => {
          const transfer = new DataTransfer();
          transfer.items.add(new File(["text"], "picture.png"));
          for (const type of ["dragenter", "dragover", "drop"]) {
            document.body.dispatchEvent(
              new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
          }
        }"""
    )
    page.wait_for_selector("#jobs .failed")
    assert page.is_visible("#documents-view")
    formats = " ".join(ask(f"{url}/v1/models")["formats"])
    assert page.text_content("#jobs .failed .hint") == f"This format is not served; there are {formats}."
    page.click("#jobs li .icon")
    complaint = '{"error": "letter.txt: line 3 is not UTF-8; save it as UTF-8"}'
    answers = iter([{"status": 400, "body": complaint}, {"status": 200, "body": "gut"}])
    page.route("**/v1/documents", lambda route: route.fulfill(**next(answers)))
    page.set_input_files("#file", file("x", "letter.txt"))
    page.wait_for_selector("#jobs .failed")
    assert "letter.txt: line 3 is not UTF-8; save it as UTF-8" in page.text_content("#jobs .failed .hint")
    with page.expect_download():
        page.click("#jobs .failed .quiet")


def test_history_is_kept_on_the_device_searched_restored_and_cleared(direct: Direct) -> None:
    page = direct()
    for text in ("the red cat", "an old dog"):
        translated(page, text)
        if text == "an old dog":  # the first was kept after a while, the second is at once
            page.click("#copy")
        kept = "(text) => (localStorage.getItem('dragoman.history') ?? '').includes(text)"
        page.wait_for_function(kept, arg=text)
    page.click("#open-history")
    assert texts(page, "#history .said") == ["an old dog", "the red cat"]
    page.fill("#history-search", "CAT")
    assert texts(page, "#history .said") == ["the red cat"]
    page.fill("#history-search", "zebra")
    assert page.text_content("#history-state") == "Nothing found."
    page.fill("#history-search", "")
    page.click("#history .entry >> nth=1")
    assert page.input_value("#source") == "the red cat"
    page.keyboard.press("Alt+KeyH")
    page.locator("#history li .icon").first.click()
    assert texts(page, "#history .said") == ["the red cat"]
    page.click("#history-clear")
    page.click("#history-yes")
    assert page.text_content("#history-state") == "Nothing here yet."
    assert page.evaluate("localStorage.getItem('dragoman.history')") is None


def upload(page: Any, name: str, content: str) -> None:
    """Chooses a glossary file in the dialog and waits for what the page says of it."""
    page.evaluate("document.querySelector('#terms-state').textContent = ''")
    page.set_input_files("#glossary", file(content, name))
    page.wait_for_function("() => document.querySelector('#terms-state').textContent")


def test_a_glossary_is_kept_on_the_device_and_its_terms_are_in_translations_until_it_is_removed(
    direct: Direct, opened: Opened
) -> None:
    page = direct()
    plain = translated(page, "the red cat")["translations"][0]["text"]
    assert "Zebra" not in plain
    page.click("#open-terms")
    upload(page, "terms.csv", 'de;en;note\r\n"Zebra";"cat";"a; b"\r\n\r\nVogel;BIRD;\r\n')
    assert texts(page, "#glossaries li > span") == ["terms.csv", "en-de · 2 entries"]
    page.wait_for_function("() => document.querySelector('#output').textContent.includes('Zebra')")
    page.reload()
    page.wait_for_function("() => document.querySelector('#output').textContent.includes('Zebra')")
    assert opened.watched.sent("translate")[-1]["glossary"] == [["cat", "Zebra"], ["BIRD", "Vogel"]]
    page.click("#open-terms")
    page.click("#terms .switch:has(#inflect)")
    page.click("#terms .switch:has(#protect)")
    page.keyboard.press("Escape")
    page.fill("#source", "the cat costs 12.50")
    page.wait_for_function("() => document.querySelector('#output').textContent.includes('12.50')")
    sent = opened.watched.sent("translate")[-1]
    assert (sent["inflect"], sent["protect"]) == (True, True)
    page.reload()
    assert page.is_checked("#inflect")
    page.click("#open-terms")
    page.click("#terms .switch:has(#protect)")
    page.click("#glossaries li .icon")
    page.keyboard.press("Escape")
    page.fill("#source", "the red cat")
    seen(page, plain)
    assert page.evaluate("localStorage.getItem('dragoman.glossaries')") is None
    assert "glossary" not in opened.watched.sent("translate")[-1]


TBX = """<?xml version="1.0"?><tbx xmlns="urn:iso:std:iso:30042:ed-2"><text><body><conceptEntry>
<langSec xml:lang="en-US"><termSec><term>cat</term></termSec><termSec><term>kitty</term></termSec></langSec>
<langSec xml:lang="de"><termSec><term>Zebra</term></termSec><termSec><term>Katze</term></termSec></langSec>
</conceptEntry></body></text></tbx>"""


GLOSSARIES = [
    ("terms.tbx", TBX, "2 entries"),
    ("terms.TSV", "cat\tKatze\r\ndog\tHund\r\n", "2 entries"),
    ("terms.csv", 'cat,Katze\n"the ""old"" dog, red","alter Hund\nrot"\n', "2 entries"),
    ("terms.csv", "cat,Katze\n\ndog\n", "terms.csv: Line 3 is not a term and its translation."),
    ("terms.tsv", "cat\tKatze\ncat\tKater\n", "terms.tsv: “cat” has two translations; keep one of them."),
    ("terms.tsv", "source\ttarget\n", "terms.tsv: It has no entry in these languages."),
    ("terms.tbx", TBX[:-9], "terms.tbx: It is not XML, or cut short."),
]
"""The name of a file, its content, and what the page says of it."""


@pytest.mark.nightly
def test_a_glossary_file_is_read_or_the_page_says_why_not(direct: Direct, opened: Opened) -> None:
    opened.expected.append("inline style")  # the browser's own page about XML that is cut short has some
    page = direct()
    page.click("#open-terms")
    for name, content, said in GLOSSARIES:
        upload(page, name, content)
        assert page.text_content("#terms-state") == said
        is_read = said.endswith(" entries")
        assert len(texts(page, "#glossaries li")) == is_read, said
        if is_read:
            page.click("#glossaries li .icon")
            page.wait_for_selector("#glossaries li", state="detached")


@pytest.mark.nightly
def test_the_theme_follows_the_system_until_one_is_chosen(direct: Direct) -> None:
    page = direct(color_scheme="dark")
    paper = "getComputedStyle(document.querySelector('#translator')).backgroundColor"
    dark = page.evaluate(paper)
    assert page.get_attribute("#theme", "aria-pressed") == "true"
    page.click("#theme")
    light = page.evaluate(paper)
    assert light == "rgb(255, 255, 255)" != dark
    page.reload()
    assert page.evaluate(paper) == light
    page.keyboard.press("Alt+KeyT")
    assert page.evaluate(paper) == dark


@pytest.mark.nightly
def test_the_page_speaks_the_reader_s_language(opened: Opened, url: str) -> None:
    for locale, lang, heading in (("fr-FR", "en", "Text"), ("zh-CN", "zh-Hans", "文本")):
        page = opened(url, locale=locale)
        assert page.get_attribute("html", "lang") == lang
        assert page.text_content("[data-view=text]") == heading
    page.select_option("#interface-language", "de")
    page.wait_for_selector("[data-view=documents]:has-text('Dokumente')")
    assert options(page, "#source-language") == ["Sprache erkennen", "Deutsch", "Englisch"]
    assert page.get_attribute("#source", "placeholder") == "Text eingeben oder einfügen"
    page.reload()
    page.wait_for_selector("html[lang=de]")


@pytest.mark.nightly
def test_nothing_is_wider_than_a_phone(direct: Direct) -> None:
    width = 320
    page = direct(viewport={"width": width, "height": 640}, has_touch=True)
    translated(page, f"{TEXT} {'word' * 40}")
    page.click("#confidence")
    for view in ("text", "documents", "classify"):
        page.click(f"[data-view={view}]")
        assert page.evaluate("document.documentElement.scrollWidth") == width, view
    page.click("[data-view=text]")
    page.locator("#output .word").first.tap()
    page.wait_for_selector("#alternatives-list button")
    box = page.locator("#alternatives").bounding_box()
    assert (box["x"], box["width"]) == (0, width)
    page.keyboard.press("Escape")
    for button in ("history", "shortcuts", "terms"):
        page.click(f"#open-{button}")
        box = page.locator(f"#{button}").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        page.keyboard.press("Escape")


@pytest.mark.nightly
def test_keys_do_what_the_mouse_does_and_tab_begins_with_a_way_to_the_text(
    direct: Direct, opened: Opened
) -> None:
    page = direct()
    page.wait_for_selector("#source:focus")  # users can type at once
    page.keyboard.type("?a cat")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#output .sentence.done")
    assert opened.watched.sent("translate")[0]["text"] == ["?a cat"]
    page.locator("#source").blur()
    page.keyboard.press("?")
    assert page.locator("#shortcuts-list dt").count() == 13
    page.keyboard.press("Escape")
    page.keyboard.press("Alt+KeyS")
    assert page.input_value("#source-language") == "de"
    page.focus(".brand")
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    assert page.locator("#skip").bounding_box()["y"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "source"
    page.focus(".brand")
    for stop in ("text", "documents", "classify", "open-history", "theme"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id || document.activeElement.dataset.view") == stop
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_a_text_that_is_too_long_is_kept_and_not_sent(opened: Opened, single: str) -> None:
    page = opened(single)
    page.fill("#source", "😀" * 61)
    page.wait_for_selector("#notice:visible")
    assert page.text_content("#counter") == "61 / 60"
    assert page.get_attribute("#source", "aria-invalid") == "true"
    assert "too long" in page.text_content("#notice-text")
    page.wait_for_timeout(400)
    assert opened.watched.sent("translate") == []
    page.fill("#source", "😀" * 60)
    page.wait_for_selector("#output .sentence.done, #output .line")
    page.wait_for_selector("#notice", state="hidden")
    assert page.text_content("#counter") == "60 / 60"


def test_a_service_that_is_away_is_waited_for(direct: Direct, opened: Opened) -> None:
    opened.expected = ["ERR_INTERNET_DISCONNECTED"]
    page = direct()
    page.context.set_offline(True)
    page.fill("#source", "the red cat")
    page.wait_for_selector("#notice:visible")
    assert page.text_content("#notice-text") == "The service does not answer. Your text is still here."
    assert re.fullmatch(r"again in \d s", page.text_content("#notice-count"))
    page.context.set_offline(False)
    page.wait_for_selector("#output .sentence.done")
    assert page.is_hidden("#notice")
    assert page.input_value("#source") == "the red cat"


def fulfil(route: Any, **answer: Any) -> None:
    route.fulfill(**answer)


@pytest.mark.nightly
def test_what_the_service_refuses_is_said_and_the_text_stays(direct: Direct, opened: Opened) -> None:
    page = direct()
    refusal = '{"error": "what, where, what to do"}'
    for status, said in (
        (504, "This took too long. A shorter text may help."),
        (400, "The service says: what, where, what to do"),
        (503, "The service is not ready yet."),
        (200, "The service says: took more than the 60 s"),
        (429, "The service has too much to do"),
    ):
        opened.expected.append(str(status))
        body = 'event: error\ndata: {"error": "took more than the 60 s"}\n\n' if status == 200 else refusal
        answer = {"status": status, "body": body, "headers": {"Retry-After": "1"}}
        page.route("**/v1/translate", partial(fulfil, **answer))
        page.fill("#source", f"the red cat {status}")
        page.wait_for_selector(f"#notice:has-text('{said}')")
        assert page.input_value("#source") == f"the red cat {status}"
        page.unroute("**/v1/translate")
        if status == 504:
            page.click("#notice-retry")
        if status in (503, 504, 429):  # but for 504 tried again by itself, after the second asked for
            page.wait_for_selector("#output .sentence.done")
            page.wait_for_selector("#notice", state="hidden")


def test_a_key_is_asked_for_kept_for_the_tab_and_sent(
    opened: Opened, browser: Any, tiny_run: Path, tmp_path: Path
) -> None:
    from dragoman.serving.access import make_key

    opened.expected = ["403"]
    key = make_key(tmp_path / "keys.toml", "reader")
    with served([tiny_run], keys=tmp_path / "keys.toml") as url:
        page = opened(url)
        page.wait_for_selector("#key[open]")
        page.keyboard.press("Enter")
        assert page.text_content("#key-error") == "Enter the key."
        page.fill("#key-value", "wrong")
        page.keyboard.press("Enter")
        page.fill("#source", "the red cat")
        page.wait_for_selector("#key[open]")
        assert page.text_content("#key-error") == "This key was not accepted."
        page.fill("#key-value", key)
        page.click("#key-form .primary")
        page.wait_for_selector("#output .sentence.done")
        assert page.input_value("#source") == "the red cat"
        assert page.evaluate("Object.values(localStorage).join()").find(key) == -1
        page.reload()
        page.wait_for_selector("#output .sentence.done")
        assert page.is_hidden("#key")
        page.context.close()


def test_classes_are_bars(opened: Opened, url: str) -> None:
    page = opened(f"{url}/#classify")
    text = "😀 great cat"
    answer = ask(f"{url}/v1/classify", {"text": text, "model": "praise"})["results"][0]
    page.fill("#classify-source", text)
    page.wait_for_selector("#bars li")
    assert page.text_content("#label") == answer["label"] == "praise"
    shares = sorted(answer["probabilities"].items(), key=lambda each: -each[1])
    assert texts(page, "#bars .name") == [name for name, _ in shares]
    widths = page.eval_on_selector_all("#bars .fill", "(all) => all.map((e) => parseFloat(e.style.width))")
    assert widths == pytest.approx([100 * share for _, share in shares], abs=1e-3)
    page.fill("#classify-source", "")
    page.wait_for_selector("#classify-placeholder:visible")
    assert page.locator("#bars li").count() == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"color_scheme": "light"},
        pytest.param({"color_scheme": "dark"}, marks=pytest.mark.nightly),
    ],
    ids=["light", "dark"],
)
def test_axe_finds_nothing(direct: Direct, settings: dict[str, Any]) -> None:
    page = direct(reduced_motion="reduce", **settings)
    translated(page, "a 😀")
    page.click("#confidence")
    page.locator("#output .word").first.hover()
    frames(page)
    assert violations(page) == []
    page.locator("#output .word").first.click()
    page.wait_for_selector("#alternatives-list button")
    assert violations(page, "#alternatives") == []
    page.keyboard.press("Escape")
    page.click("#copy")
    page.click("#open-history")
    assert violations(page, "#history") == []
    page.click("#history-clear")
    page.keyboard.press("Escape")
    page.click("#open-terms")
    upload(page, "terms.tsv", "cat\tZebra\n")
    assert violations(page, "#terms") == []
    page.keyboard.press("Escape")
    page.click("#open-shortcuts")
    assert violations(page, "#shortcuts") == []
    page.keyboard.press("Escape")
    page.click("[data-view=documents]")
    page.set_input_files("#file", file("x", "a.png"))
    assert violations(page, "#documents-view") == []
    page.click("[data-view=classify]")
    page.fill("#classify-source", "a great cat and an awful dog")
    page.wait_for_selector("#bars li")
    assert violations(page, "#classify-view") == []


@pytest.mark.nightly
def test_axe_finds_nothing_where_something_is_wrong(opened: Opened, single: str) -> None:
    page = opened(single)
    page.fill("#source", "a" * 61)
    page.wait_for_selector("#notice:visible")
    assert violations(page) == []
    page.evaluate("document.querySelector('#open-key').hidden = false")
    page.click("#open-key")
    assert violations(page, "#key") == []
