"""Lines as they arrive through a pipe."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.bulk.input import line_chunks
from dragoman.errors import DataError


def lines_of(blocks: list[bytes]) -> list[str]:
    return [line for chunk in line_chunks(blocks, name="stdin") for line in chunk]


@given(st.text().map(str.encode), st.lists(st.integers(min_value=0, max_value=50)))
def test_where_the_stream_is_cut_does_not_matter(content: bytes, cuts: list[int]) -> None:
    ends = sorted({cut for cut in cuts if cut <= len(content)} | {0, len(content)})
    blocks = [content[start:end] for start, end in pairwise(ends)]
    assert lines_of(blocks) == lines_of([content])


@given(st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", exclude_categories=["Cs"]))))
def test_lines_come_back_with_either_line_end(lines: list[str]) -> None:
    for end in ("\n", "\r\n"):
        assert lines_of(["".join(line + end for line in lines).encode()]) == lines


def test_a_line_is_given_as_soon_as_it_is_complete() -> None:
    chunks = line_chunks(iter([b"a", b"b\nc\nd", b"", b"\n", b"e"]), name="stdin")
    assert list(chunks) == [["ab", "c"], ["d"], ["e"]]
    assert lines_of([b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"]) == ["a", "\ufeffb"], "a byte order mark is no text"


def test_a_line_that_is_not_utf8_is_named_after_those_before_it_are_given() -> None:
    chunks = line_chunks([b"a\nb\n", b"c\n\xff"], name="in.txt")
    assert next(chunks) == ["a", "b"]
    assert next(chunks) == ["c"]
    with pytest.raises(DataError, match=r"^in\.txt, line 4: is not UTF-8 \(byte 1\); convert"):
        next(chunks)
