"""Subtitles keep their numbers, times and tags, and a sentence over several cues is one sentence."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_files import complaint_of
from dragoman.documents.budget import Budget
from dragoman.documents.files import DocumentFile
from dragoman.documents.subtitles import LONGEST_CUE, MOST_CUES, Cue, parse

EN_DE = ("en", "de")
FILM = """\
1
00:00:01,000 --> 00:00:02,500
{\\an8}<i>A red cat
sleeps</i> here.

2
00:00:03,000 --> 00:00:04,000 X1:20 X2:40
- Hello <b>you</b>.
- Bye!

3
00:00:05,000 --> 00:00:06,000
The man who went

4
00:00:06,100 --> 00:00:07,000
<i>home</i> was
never seen again.

7
00:00:10,000 --> 00:00:11,000
<font color="#fff">♪ la 3 < 4 la</i>

8
00:00:12,000 --> 00:00:13,000
...

"""
N_LINES = FILM.count("\n")


def film(*contents: str, pause_s: int = 0) -> str:
    """A file whose cues, of a second each, say `contents`."""
    cues = [
        f"{k}\n{stamp(k * (1 + pause_s))} --> {stamp(k * (1 + pause_s) + 1)}\n{content}\n\n"
        for k, content in enumerate(contents, start=1)
    ]
    return "".join(cues)


def stamp(seconds: int) -> str:
    return f"00:{seconds // 60:02}:{seconds % 60:02},000"


def sentences(text: str, languages: tuple[str, str] = EN_DE) -> tuple[str, ...]:
    return DocumentFile.read("film.srt", text.encode(), languages).sentences


def cues_in(text: str) -> list[Cue]:
    return parse("film.srt", text, Budget("film.srt"))


def translated(text: str, *translations: str, languages: tuple[str, str] = EN_DE) -> list[Cue]:
    document = DocumentFile.read("film.srt", text.encode(), languages)
    return cues_in(document.written(translations).decode())


@pytest.mark.parametrize(
    ("block", "start", "end", "content"),
    [
        ("1\n00:00:01,000 --> 01:02:03,250\nHello\n\n", 1, 3723.25, "Hello"),
        ("00:00:01.5-->0:0:2\nno number\n", 1.005, 2, "no number"),
        (" 7.5 \n00：00：01，250 - > 00:00:02\nother marks", 1.25, 2, "other marks"),
        ("-3\n00:00:05 --  > 00:00:04 X1:20 X2:40\nend before start\n\n", 5, 4, "end before start"),
        ("1\n00:00:01,000 --> 00:00:02,000\n\ntwo\n\nparts\n\n", 1, 2, "\ntwo\n\nparts"),
        ("1\n00:00:01,000 --> 00:00:02,000", 1, 2, ""),
        ("1\n00:00:01,000 --> 00:00:02,000\n12:30:45 it is\n\n", 1, 2, "12:30:45 it is"),
        (f"1\n{10**19}:00:00 --> 00:00:02\n{'9' * 30}\n", 36 * 10**22 // 10, 2, "9" * 30),
    ],
)
def test_cues_are_read_as_the_package_srt_3_5_read_them(
    block: str, start: float, end: float, content: str
) -> None:
    (cue,) = cues_in(block)
    assert (cue.start, cue.end, cue.content) == (round(1000 * start), 1000 * end, content)
    assert cue.head + cue.content + cue.tail == block


def test_numbers_and_times_are_written_as_they_were_and_so_are_empty_lines() -> None:
    text = "0:0:1.5-->0:0:2\nA cat.\n\n\n\n07\n00:00:03,000 --> 00:00:04  X1:3\nA dog.\n0:0:5 --> 0:0:6\nYes."
    document = DocumentFile.read("film.srt", text.encode(), EN_DE)
    written = document.written(["Ein Hund."] * 3).decode()
    assert written == re.sub(r"A cat\.|A dog\.|Yes\.", "Ein Hund.", text)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_its_own_sentences_give_the_same_bytes(encoding: str) -> None:
    for text in (FILM, FILM.rstrip("\n"), FILM.rstrip("\n") + "\n", FILM.replace("\n", "\r\n")):
        content = text.encode(encoding)
        document = DocumentFile.read("film.srt", content, EN_DE)
        assert document.written(document.sentences) == content
    written = cues_in(document.written(["ja"] * len(document.sentences)).decode(encoding).replace("\r", ""))
    assert [cue.head for cue in written] == [cue.head for cue in cues_in(FILM)], "numbers, times, positions"
    assert written[0].content.startswith("{\\an8}")
    assert written[-1].content == "...", "what holds no letter is not translated"


PIECES = ["a", "Bc", "d.", "-", "<u>", "</i>", "{\\an8}", "e,", "  ", "♪", "<b>f</b>"]
LINES = st.lists(st.sampled_from(PIECES), max_size=6).map(" ".join)
SAID = st.sampled_from(["我", "猫。", "x", "y z", "<i>猫</i>"])
CHINESE = st.lists(SAID, min_size=1, max_size=4).map("".join)


def cues_of(lines: st.SearchStrategy[str]) -> st.SearchStrategy[list[list[str]]]:
    return st.lists(st.lists(lines, min_size=1, max_size=3), min_size=1, max_size=5)


@pytest.mark.slow
@given(st.one_of(st.tuples(st.just("en"), cues_of(LINES)), st.tuples(st.just("zh"), cues_of(CHINESE))))
def test_its_own_sentences_give_the_same_bytes_whatever_is_said(said: tuple[str, list[list[str]]]) -> None:
    language, cues = said
    text = film(*("\n".join(line if line.strip() else "x" for line in lines) for lines in cues))
    document = DocumentFile.read("film.srt", text.encode(), (language, language))
    assert document.written(document.sentences).decode() == text


@pytest.mark.parametrize(
    ("cues", "said"),
    [
        (["A red cat\nsleeps on the mat."], ["A red cat sleeps on the mat."]),
        (["- Who is it?\n- Me."], ["Who is it?", "Me."]),
        (["Stop.\nWho goes there?"], ["Stop.", "Who goes there?"]),
        (["- Who\nis it\n– me"], ["Who is it", "me"]),
        (["The man who went", "home was never seen."], ["The man who went home was never seen."]),
        (["A cat.", "sleeps here"], ["A cat.", "sleeps here"]),
        (["A cat", "Sleeps here"], ["A cat", "Sleeps here"]),
        (["A cat", "- sleeps here"], ["A cat", "sleeps here"]),
        (["and on"] * 2 * MOST_CUES, [" ".join(["and on"] * MOST_CUES)] * 2),
        (["<i>The man who went</i>", "<i>home was seen.</i>"], ["The man who went home was seen."]),
    ],
)
def test_a_sentence_goes_on_in_the_next_line_or_small_in_the_next_cue(
    cues: list[str], said: list[str]
) -> None:
    assert list(sentences(film(*cues))) == said
    assert len(sentences(film(*cues, pause_s=3))) >= len(cues)


def test_a_cue_has_as_many_lines_as_before_with_the_dashes_of_its_speakers() -> None:
    (cue,) = translated(film("A red cat\nsleeps on the mat."), "Eine rote Katze schläft auf der Matte.")
    assert cue.content.count("\n") == 1
    assert cue.content.replace("\n", " ") == "Eine rote Katze schläft auf der Matte."
    (cue,) = translated(film("- Who is it?\n<i>– Me.</i>"), "Wer ist da?", "Ich.")
    assert cue.content == "- Wer ist da?\n<i>– Ich.</i>"
    few = film("One two\nthree four", "five six\nseven eight.")
    assert [cue.content for cue in translated(few, "Eins zwei")] == ["Eins", "zwei"]
    assert [cue.content for cue in translated(few, "Eins")] == ["Eins", ""]


def test_a_sentence_over_two_cues_is_cut_in_proportion() -> None:
    text = film("The man who went", "home was never seen again.")
    whole = "Der Mann der ging wurde zuhause niemals gesehen."
    first, second = translated(text, whole)
    assert f"{first.content} {second.content}" == whole
    target = len("The man who went") / len("The man who went home was never seen again.") * len(whole)
    cuts = [found.start() for found in re.finditer(" ", whole)]
    assert len(first.content) == min(cuts, key=lambda place: abs(place - target))


def test_tags_over_a_cut_are_closed_and_opened_again() -> None:
    text = film("The <i>man who went", "home</i> was never seen.")
    (sentence,) = sentences(text)
    assert sentence.count("<g id=") == 1
    first, second = translated(text, 'Der <g id="0">Mann der nach Haus</g> ging.')
    assert first.content.count("<i>") == first.content.count("</i>") == 1
    assert second.content.count("<i>") == second.content.count("</i>") == 1
    text = film("<i>The man who went</i>", "<i>home was seen.</i>")
    for cue in translated(text, "Der Mann der heimging wurde gesehen."):
        assert re.fullmatch("<i>[^<>]+</i>", cue.content)


def test_chinese_lines_are_joined_and_cut_without_spaces() -> None:
    text = film("我喜欢\n红色的猫。")
    assert sentences(text, ("zh", "en")) == ("我喜欢红色的猫。",)
    (cue,) = translated(film("I like\nred cats."), "我喜欢红色的猫。", languages=("en", "zh"))
    assert cue.content.replace("\n", "") == "我喜欢红色的猫。"
    assert cue.content.count("\n") == 1
    assert not cue.content.split("\n")[1].startswith("。")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "film.srt: holds no subtitles; a subtitle is a number, a line such as"),
        (b"Hello\n" + FILM.encode(), "film.srt, line 1: 'Hello' is no part of a subtitle"),
        (b"1\n00:00:01,000 -->\nx", "film.srt, line 1: '1' is no part of a subtitle"),
        (b"one\n00:00:01,000 --> 00:00:02,000\nx", "film.srt, line 1: 'one' is no part of a subtitle"),
        (FILM.encode() + b"9\n00:00:14,000 -> \nOops\n",
         f"film.srt, line {N_LINES + 2}: '00:00:14,000 -> ' is no part"),
        (FILM.encode().replace(b"00:00:05,000 -->", b"00:00:05,000 "),
         "film.srt, line 12: '00:00:05,000  "),
        (FILM.encode().replace(b"Hello", b"H\xe9llo"), "film.srt, line 8: is not UTF-8; convert the text to"),
        (b"\xff\xfeabc", "film.srt, line 1: is not UTF-16; convert"),
        (FILM.encode().replace(b"Hello", b"H\0llo"), "film.srt, line 8: holds a NUL byte"),
        (b"1" * 100_000, "film.srt, line 1: more than a subtitle of"),
        (film("x " * LONGEST_CUE).encode(), "film.srt, line 1: more than a subtitle of 4000 characters"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused_in_one_line(content: bytes, message: str) -> None:
    assert complaint_of(lambda: DocumentFile.read("film.srt", content, EN_DE).sentences).startswith(message)
