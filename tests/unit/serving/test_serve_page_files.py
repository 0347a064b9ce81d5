"""The files of the page: nothing from elsewhere, nothing inline, the same messages in every language."""

import json
import re
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
PLURALS = {
    "de": {"one", "other"},
    "en": {"one", "other"},
    "pl": {"one", "few", "many", "other"},
    "zh": {"other"},
}
"""The plural forms of whole numbers and fractions in each language: Unicode's CLDR."""


def forms(message: str | dict[str, str]) -> list[str]:
    return [message] if isinstance(message, str) else list(message.values())


def names(message: str | dict[str, str]) -> set[str]:
    return {name for form in forms(message) for name in re.findall(r"\{(\w+)\}", form)}


def used_keys() -> set[str]:
    """What index.html and the modules ask for."""
    keys = set(re.findall(r'data-(?:message|label|placeholder)="([\w.]+)"', INDEX))
    for source in MODULES.values():
        keys |= set(re.findall(r'say\(\s*(?:[\w.]+ \? )?"([\w.]+)"', source))
        keys |= set(re.findall(r'"(shortcut\.\w+)"', source))
        keys |= {f"view.{view}" for view in ("text", "documents", "classify") if "`view.${view}`" in source}
    keys |= {"copied", "copy"}
    return keys


@pytest.mark.parametrize("language", PLURALS)
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
    assert MESSAGES.keys() == PLURALS.keys()
    for key, text in re.findall(r'data-message="([\w.]+)"[^>]*>\s*([^<]*?)\s*<', INDEX):
        assert text == MESSAGES["en"][key], "the page speaks English before any message is loaded"


def test_nothing_is_inline_and_nothing_comes_from_elsewhere() -> None:
    assert not re.search(
        r"<(style|base|iframe|object|embed)\b|\s(on\w+|style)=|<script(?![^>]*\ssrc=)", INDEX
    )
    for value in re.findall(r'\s(?:src|href)="([^"]*)"', INDEX):
        assert value.startswith("#") or (PAGE.parent / value).is_file(), value
    known = {"http://www.w3.org/2000/svg", "https://html.spec.whatwg.org/#event-stream-interpretation,"}
    for source in (*MODULES.values(), (PAGE / "page.css").read_text("utf-8")):
        assert set(re.findall(r"https?://[^\s\"')]+", source)) <= known
        assert not re.search(r"@import|url\(|\beval\(|new Function|innerHTML|insertAdjacentHTML", source)
