"""A text longer than the model's limit is translated in parts, and nothing of it is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.predict.splitting import gap_between, split_to_fit
from dragoman.predict.translator import Translator

TEXTS = st.text(st.one_of(st.sampled_from(" .,;!?。，\"'\n\u3000\u0301\u200d"), st.characters()), max_size=80)


def n_characters(text: str) -> int:
    """Stands for a tokenizer of characters, which sees no white space at the ends."""
    return len(text.strip())


@given(TEXTS, st.integers(1, 20))
def test_parts_fit_and_joined_are_the_text(text: str, limit: int) -> None:
    parts = split_to_fit(text, n_characters, limit)
    assert "".join(parts) == text
    assert all(n_characters(part) <= limit for part in parts)
    assert len(parts) == 1 or all(part.strip() for part in parts)
    assert not any(part[0].isspace() for part in parts[1:])


@pytest.mark.parametrize(
    ("text", "limit", "parts"),
    [
        ("one two. three, four five six", 25, ["one two. ", "three, four five six"]),
        ("one, two three four five six", 25, ["one, ", "two three four five six"]),
        ("one two three four", 15, ["one two ", "three four"]),
        ("他说，他今天去了北京", 9, ["他说，", "他今天去了北京"]),
        ("abcdefgh", 5, ["abcd", "efgh"]),
        ("She said \"no.\" He left at once, too", 30, ["She said \"no.\" ", "He left at once, too"]),
        ("version 3.14159265", 13, ["version ", "3.14159265"]),
        ("abe\u0301cd", 4, ["ab", "e\u0301cd"]),
    ],
)  # fmt: skip
def test_the_best_kind_of_place_is_taken_nearest_the_middle(text: str, limit: int, parts: list[str]) -> None:
    assert split_to_fit(text, n_characters, limit) == parts


def test_an_emoji_stays_whole() -> None:
    family = "👩\u200d👧"
    assert split_to_fit(f"a{family}b", n_characters, 4) in (["a", f"{family}b"], [f"a{family}", "b"])


@pytest.mark.parametrize(
    ("languages", "space", "gap"),
    [
        (("en", "de"), "  ", "  "),
        (("en", "ja_JP"), " ", ""),
        (("zh-Hans", "en"), "", " "),
        (("ja", "en"), "\u3000", " "),
        (("ja", "zho_Hans"), "\u3000", "\u3000"),
        (("en", "ko"), " ", " "),
    ],
)
def test_a_gap_is_what_the_target_language_writes(languages: tuple[str, str], space: str, gap: str) -> None:
    assert gap_between(space, languages) == gap


@pytest.mark.slow
def test_a_long_text_is_its_parts_translated_and_joined(translator: Translator) -> None:
    limit = translator.config.model.max_positions
    text = "red cat, big dog. " * limit
    long, short = translator.translate([text, "red cat"], n_best=2)
    assert len(long.parts) > 1
    assert not short.parts
    assert "".join(part.source for part in long.parts) == text
    encode = translator.tokenizers.src.encode
    longest = translator.config.data.max_length
    assert longest < limit
    assert all(len(encode(part.source)) < longest for part in long.parts)  # and the end token
    assert tuple(translator.translate([part.source for part in long.parts], n_best=2)) == long.parts
    assert long.text == " ".join(part.text for part in long.parts if part.text)
    assert long.score == pytest.approx(sum(part.score for part in long.parts) / len(long.parts))
    assert long.alternatives[0] == (long.text, long.score)
    assert long.ids[0] == tuple(i for part in long.parts for i in part.ids[0])
    assert len(long.alternatives) == 2
    assert long.alternatives[1].score <= long.score


def test_progress_counts_texts_and_not_parts(translator: Translator) -> None:
    counts: list[int] = []
    texts = ["red cat " * translator.config.model.max_positions, "red cat", ""]
    translator.translate(texts, progress=counts.append)
    assert counts[-1] == len(texts)
    assert counts == sorted(counts)
