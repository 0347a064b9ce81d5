"""Which target phrases a glossary requires."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.predict.glossary import Glossary


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("The bank is closed.", ["Bank"]),
        ("The river bank is wet.", ["Flussufer"]),
        ("banks and embankments", []),
        ("Bank! (bank)", ["Bank"]),
        ("An apple from Apple", ["Apfel", "Apple"]),
        ("APPLE", ["Apple"]),
        ("New York, York", ["New York", "Yorkshire"]),
        ("a state-of-the-art bank", ["modern", "Bank"]),
        ("state of the art", []),
        ("", []),
    ],
)
def test_phrases_are_whole_words_the_longest_first_in_their_own_case_first(
    text: str, targets: list[str]
) -> None:
    glossary = Glossary(
        [
            ("bank", "Bank"),
            ("river bank", "Flussufer"),
            ("Apple", "Apple"),
            ("apple", "Apfel"),
            ("New York", "New York"),
            ("York", "Yorkshire"),
            ("state-of-the-art", "modern"),
        ]
    )
    assert glossary.required(text) == targets


def test_a_script_without_spaces_is_searched_letter_by_letter() -> None:
    assert Glossary([("银行", "bank"), ("行", "row")]).required("我们去银行。") == ["bank"]


def test_a_file_is_source_tab_target(tmp_path: Path) -> None:
    path = tmp_path / "glossary.tsv"
    path.write_text("\ufeffbank\tBank\r\n\n  river  bank \tdas Flussufer\nbank\tBank\n", encoding="utf-8")
    glossary = Glossary.load(path)
    assert glossary.required("bank by the river bank") == ["Bank", "das Flussufer"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "bank\tBank\nriver Fluss\n",
            r"glossary.tsv line 2: is not source, tab, target; write one entry a line",
        ),
        ("bank\t\n", r"line 1: is not source, tab, target"),
        ("a\tb\tc\n", r"line 1: is not source, tab, target"),
        ("bank\tBank\n\nbank\tUfer\n", r"line 3: 'bank' is to be 'Ufer' here and 'Bank' in line 1; keep one"),
        ("\n", r"glossary.tsv: has no entry; write one a line, source and target"),
    ],
)
def test_a_file_that_is_no_glossary_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "glossary.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        Glossary.load(path)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(DataError, match=r"nowhere.tsv"):
        Glossary.load("nowhere.tsv")
