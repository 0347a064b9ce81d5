"""The page of `data check --report` in a browser, without a network: it says what the command does."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from commands import succeed
from faulty import phrases
from pages import Watched, browsing, new_context, violations

pytestmark = pytest.mark.browser

HOSTILE = "</script><img src=x onerror=alert(1)> @DATA@ \u202e"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


@pytest.fixture
def opened(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The page of a corpus with faults, with the folder of the corpus as working directory."""
    pairs = phrases(1600)
    pairs[9], pairs[19], pairs[29] = pairs[2], ("", "Es regnet."), (HOSTILE, "Nichts.")
    pairs[39] = (pairs[39][0], " ".join(pairs[i][1] for i in range(39, 45)))
    for i in range(100, 1600, 50):
        pairs[i] = (pairs[i][0], pairs[(i + 997) % 1600][1])
    for lang, side in (("en", 0), ("de", 1)):
        (tmp_path / f"a.{lang}").write_text("".join(f"{p[side]}\n" for p in pairs), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    succeed("data", "check", "a.en", "a.de", "--report", "clean.html", "--threshold", "length=6")
    context = new_context(browser, offline=True)
    page = context.new_page()
    watched = Watched()
    watched.watch(page)
    page.goto((tmp_path / "clean.html").as_uri())
    yield page
    context.close()
    assert watched.complaints == []
    assert watched.addresses == [(tmp_path / "clean.html").as_uri()]


def test_the_command_on_the_page_drops_what_the_page_says(opened: Any) -> None:
    assert opened.inner_text("#command").endswith("a.en a.de --threshold length=6 --write-clean clean")
    opened.check("#drop-unrelated")
    opened.uncheck("#drop-duplicate")
    opened.focus("#threshold-unrelated")
    before = opened.inner_text("#total")
    for _ in range(22):
        opened.keyboard.press("ArrowLeft")
    assert opened.get_attribute("#threshold-unrelated", "aria-valuetext") == "below 0.06"
    assert opened.inner_text("#total") != before
    command = opened.inner_text("#command")
    chosen = "--threshold unrelated=0.06 --drop unrelated --write-clean clean"
    assert command.endswith(f"a.en a.de --keep duplicate --threshold length=6 {chosen}")
    n = json.loads(succeed(*shlex.split(command)[1:], "--json").stdout)["clean"]["n_dropped"]
    assert n > 8
    assert opened.inner_text("#total").startswith(f"{n:,} of 1,600 lines dropped (")


def test_samples_are_those_beside_the_threshold(opened: Any) -> None:
    opened.fill("#threshold-unrelated", "25")
    groups = opened.eval_on_selector_all(
        "#unrelated dl", "(all) => all.map((dl) => [...dl.querySelectorAll('dt')].map((e) => e.textContent))"
    )
    values = [[float(text.split(": ")[1]) for text in group] for group in groups]
    assert values[0]
    assert all(value < 0.5 for value in values[0])
    assert all(value >= 0.5 for value in values[1])
    assert opened.locator("#unrelated rect.dropped").count() == 25


def test_the_page_can_be_used_without_sight_and_shows_hostile_text_as_text(opened: Any) -> None:
    opened.eval_on_selector_all("details", "(all) => all.forEach((e) => { e.open = true; })")
    assert violations(opened) == []
    assert "<img src=x onerror=alert(1)> @DATA@ \\u202e" in opened.inner_text("#markup")
    opened.click("#copy")
    opened.wait_for_selector("#copied:not(:empty)")
