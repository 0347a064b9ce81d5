"""benchmarks/chinese_characters.py tells the two kinds of characters apart, and converts them."""

from __future__ import annotations

import pytest

from chinese_characters import kind_of, variants

TRADITIONAL, SIMPLIFIED, EITHER = "這是我的書。", "这是我的书。", "我是王大明。"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (TRADITIONAL, "traditional"),
        (SIMPLIFIED, "simplified"),
        (EITHER, "either"),
        (TRADITIONAL + SIMPLIFIED, "both"),
    ],
)
def test_kinds(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def test_every_variant_is_converted_as_its_name_says() -> None:
    references = [TRADITIONAL, SIMPLIFIED, EITHER]
    assert variants([SIMPLIFIED, TRADITIONAL, EITHER], references) == {
        "as they are": ([SIMPLIFIED, TRADITIONAL, EITHER], references),
        "all simplified": ([SIMPLIFIED, SIMPLIFIED, EITHER], references),
        "all traditional": ([TRADITIONAL, TRADITIONAL, EITHER], references),
        "each as its reference": (references, references),
        "each as its reference is not": ([SIMPLIFIED, TRADITIONAL, EITHER], references),
        "all simplified, references too": (
            [SIMPLIFIED, SIMPLIFIED, EITHER],
            [SIMPLIFIED, SIMPLIFIED, EITHER],
        ),
    }
