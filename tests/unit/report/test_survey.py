"""The page of `data check --report`: what was found and what other thresholds would find, with samples."""

import re

import pytest

from dragoman.data.doctor import Report, check_corpus, kinds_to_drop, thresholds_of
from dragoman.report.page import Page, Section, Table, page_html
from dragoman.report.survey import LONGEST, MAX_EXAMPLES, survey_page
from faulty import InMemory, phrases

HOSTILE = "</td><img src=x onerror=alert(1)> \u202e" + "x" * 2 * LONGEST


@pytest.fixture(scope="module")
def report() -> Report:
    pairs = phrases(1500)
    pairs[39] = (pairs[39][0], " ".join(pairs[i][1] for i in range(39, 45)))
    pairs[29] = (HOSTILE, "Nichts.")
    for i in range(100, 150):
        pairs[i] = ("", pairs[i][1])
    thresholds = thresholds_of(["length=6"])
    return check_corpus(InMemory(pairs), thresholds=thresholds, n_examples=100, with_survey=True)


@pytest.fixture(scope="module")
def page(report: Report) -> Page:
    return survey_page(report, dropped=kinds_to_drop(), thresholds=thresholds_of(["length=6"]))


def section(page: Page, kind: str) -> Section:
    return next(one for one in page.sections if one.title == kind)


def table(section: Section) -> Table:
    return next(part for part in section.parts if isinstance(part, Table))


def test_every_kind_that_was_found_is_counted_and_has_its_section(page: Page, report: Report) -> None:
    counted = {row[0]: row[-1] for row in table(page.sections[0]).rows}
    for finding in report.findings:
        assert counted[finding.kind.name] == f"{finding.count:,}"
        assert section(page, finding.kind.name)
    n_dropped = len(report.lines(kinds_to_drop()))
    assert f"{n_dropped:,} of 1,500 pairs would be dropped" in page_html(page).decode()


def test_examples_are_at_most_so_many_and_their_texts_so_long(page: Page) -> None:
    rows = table(section(page, "empty")).rows
    assert len(rows) == MAX_EXAMPLES
    assert all(len(cell) <= LONGEST for row in rows for cell in row)


def test_each_threshold_has_its_count_and_a_pair_and_the_one_that_is_set_is_marked(
    page: Page, report: Report
) -> None:
    rows = table(section(page, "length")).rows
    assert [row[1] for row in rows] == [f"{step.n_found:,}" for step in report.survey["length"]]
    assert all(re.fullmatch(r"from [\d.]+", row[0]) for row in rows if isinstance(row[0], str))
    marked = survey_page(
        report, dropped=(), thresholds={**thresholds_of(()), "length": report.survey["length"][0].threshold}
    )
    first, *others = (row[0] for row in table(section(marked, "length")).rows)
    assert not isinstance(first, str)
    assert [(span.kind, span.text) for span in first] == [("strong", f"{rows[0][0]} (set)")]
    assert all(isinstance(one, str) for one in others)


def test_what_a_corpus_holds_is_shown_as_text(page: Page) -> None:
    html = page_html(page).decode()
    assert "onerror=alert(1)&gt; \\u202exxx" in html
    assert "<img" not in html
    assert "<script" not in html
