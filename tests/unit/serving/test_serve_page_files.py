"""The files of the page: nothing from elsewhere, nothing inline, the same messages in every language."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import dragoman

PAGE = Path(dragoman.__file__).parent / "serving" / "page"
INDEX = (PAGE / "index.html").read_text("utf-8")
MODULES = {path.name: path.read_text("utf-8") for path in sorted(PAGE.glob("*.js"))}
MESSAGES: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text("utf-8")) for path in sorted((PAGE / "messages").glob("*.json"))
}
LANGUAGES = ("de", "en", "pl", "zh")
PLURALS = {
    "de": {"one", "other"},
    "en": {"one", "other"},
    "pl": {"one", "few", "many", "other"},
    "zh": {"other"},
}
"""The plural forms of whole numbers and fractions in each language: Unicode's CLDR."""


class Tags(HTMLParser):
    """Every tag with its attributes and the text right after it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.found:
            tag, attributes, text = self.found[-1]
            self.found[-1] = (tag, attributes, text or data.strip())


TAGS = Tags(INDEX).found


def forms(message: str | dict[str, str]) -> list[str]:
    return [message] if isinstance(message, str) else list(message.values())


def names(message: str | dict[str, str]) -> set[str]:
    return {name for form in forms(message) for name in re.findall(r"\{(\w+)\}", form)}


def used_keys() -> set[str]:
    """What index.html and the modules ask for."""
    keys = {
        value
        for _, attributes, _ in TAGS
        for name, value in attributes.items()
        if name in ("data-message", "data-label", "data-placeholder") and value
    }
    for source in MODULES.values():
        keys |= set(re.findall(r'say\(\s*(?:[\w.]+ \? )?"([\w.]+)"', source))
        keys |= set(re.findall(r'"(shortcut\.\w+)"', source))
        keys |= {f"view.{view}" for view in ("text", "documents", "classify") if "`view.${view}`" in source}
    keys |= {"copied", "copy"}
    return keys


def test_there_are_four_languages_and_the_menu_has_them() -> None:
    assert tuple(MESSAGES) == LANGUAGES
    menu = re.search(r"const LANGUAGES = \{(.*?)\}", MODULES["messages.js"])
    assert menu
    assert set(re.findall(r"(\w+):", menu[1])) == set(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_says_the_same_things(language: str) -> None:
    english, own = MESSAGES["en"], MESSAGES[language]
    assert list(own) == list(english)
    for key, message in own.items():
        assert names(message) == names(english[key]), key
        assert isinstance(message, dict) == isinstance(english[key], dict), key
        if isinstance(message, dict):
            assert set(message) == PLURALS[language], key
        assert all(form.strip() == form and form for form in forms(message)), key


def test_every_message_is_used_and_every_one_used_is_there() -> None:
    assert used_keys() == set(MESSAGES["en"])


def test_index_speaks_english_before_any_message_is_loaded() -> None:
    english = MESSAGES["en"]
    for _, attributes, text in TAGS:
        if "data-message" in attributes:
            assert text == english[attributes["data-message"]]
        if "data-label" in attributes:
            said = attributes.get("aria-label")
            assert said == english[attributes["data-label"]]
        if "data-placeholder" in attributes:
            assert attributes["placeholder"] == english[attributes["data-placeholder"]]


def test_nothing_is_inline_and_nothing_comes_from_elsewhere() -> None:
    for tag, attributes, text in TAGS:
        assert not any(name.startswith("on") or name == "style" for name in attributes), attributes
        assert tag not in ("style", "base", "iframe", "object", "embed")
        if tag == "script":
            assert attributes["src"]
            assert not text
        for name in ("src", "href"):
            value = attributes.get(name) or "#"
            assert value.startswith("#") or (PAGE.parent / value).is_file(), value
    others = [*MODULES.values(), (PAGE / "page.css").read_text("utf-8")]
    for source in others:
        addresses = set(re.findall(r"https?://[^\s\"')]+", source))
        assert addresses <= {
            "http://www.w3.org/2000/svg",
            "https://html.spec.whatwg.org/#event-stream-interpretation,",
        }
        assert not re.search(r"@import|url\(|\beval\(|new Function|innerHTML|insertAdjacentHTML", source)


def test_ids_are_unique_and_those_the_modules_name_are_there() -> None:
    ids = [attributes["id"] for _, attributes, _ in TAGS if "id" in attributes]
    assert len(ids) == len(set(ids))
    for name, source in MODULES.items():
        wanted = set(re.findall(r'named\("([\w-]+)"\)', source))
        assert wanted <= set(ids), name
    references = {
        word
        for _, attributes, _ in TAGS
        for name in ("aria-labelledby", "aria-describedby", "for")
        for word in (attributes.get(name) or "").split()
    }
    assert references <= set(ids)
