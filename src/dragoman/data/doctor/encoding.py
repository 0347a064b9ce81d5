"""Text damaged by a wrong encoding: what is broken, and what it was where that can be told.

UTF-8 read as another encoding ("schÃ¶n") is taken for damage only if it can be undone: the characters,
written in that encoding, are UTF-8, and what they stand for are letters or marks that such a place can hold.
So honest text that merely has the same characters ("«LE CAFÉ»", "SÃO PAULO") is not accused.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff]")
_QUESTION_MARK = re.compile(r"[^\W\d_A-Z]\?[^\W\d_A-Z]")
_LOST_TWICE = "锟斤拷"  # U+FFFD as UTF-8, read as GBK
_HAN_RUN = re.compile(r"[\u3400-\u9fff\ue000-\uf8ff\u3000-\u30ff\u20ac]+")
_TOGETHER = re.compile("[^\x00-\x7f]{2}")
_MARKS = "–—―‘’‚“”„†‡•…‰‹›€™°´§¿¡«»·×²³½¼¾©®£¥±µ\u00a0\u00ad"
_INVISIBLE = "\u00a0\u00ad\u200b\u200c\u200d\u200e\u200f\u202f\u2009\u2060\ufe0f"
_MISREADINGS = ("cp1252", "cp1250", "cp1251")
_MAX_ROUNDS = 3  # text can be misread more than once


def damage(text: str) -> str:
    """Describe the damage of a wrong encoding in `text`; "" = none."""
    if text.isascii() and text.isprintable():
        return _question_mark(text)
    if "\ufffd" in text:
        return "U+FFFD stands for characters that were lost"
    if _LOST_TWICE in text:
        return f"{_LOST_TWICE} stands for characters that were lost"
    if (mended := mend(text)) != text:
        return f"UTF-8 read as another encoding → {mended}"
    if match := _CONTROL.search(text):
        char = match[0]
        meant = char.encode("latin1").decode("cp1252", "ignore") if "\x7f" < char < "\xa0" else ""
        return f"control character U+{ord(char):04X}" + (f", in Windows-1252 {meant}" if meant else "")
    return _question_mark(text)


def mend(text: str) -> str:
    """`text` with UTF-8 that was read as another encoding put right; `text` itself where there is none."""
    if not _TOGETHER.search(text) and not _HAN_RUN.search(text):
        return text
    for _ in range(_MAX_ROUNDS):
        mended = text
        for encoding in _MISREADINGS:
            mended = _undo(mended, encoding)
        mended = _HAN_RUN.sub(_undo_chinese, mended)
        if mended == text:
            break
        text = mended
    return text


def _question_mark(text: str) -> str:
    match = _QUESTION_MARK.search(text) if "?" in text else None
    if not match or "://" in text or "www." in text:
        return ""
    word = text[text.rfind(" ", 0, match.start() + 1) + 1 :].partition(" ")[0]
    return f"a question mark inside a word ({word})"


@cache
def _bytes_of(encoding: str) -> dict[str, int]:
    """Return the byte of each character; undefined bytes are those of C1 control characters."""
    table = {chr(byte): byte for byte in range(0x80, 0xA0)}
    for byte in range(0x80, 0x100):
        char = bytes([byte]).decode(encoding, errors="replace")
        table[chr(byte) if char == "\ufffd" else char] = byte
    return table


@cache
def _misread(encoding: str) -> re.Pattern[str]:
    """Match runs of characters that are UTF-8 sequences of two or more bytes, read in `encoding`."""

    def among(low: int, high: int) -> str:
        chars = (char for char, byte in _bytes_of(encoding).items() if low <= byte <= high)
        return "[" + "".join(re.escape(char) for char in chars) + "]"

    follow = among(0x80, 0xBF)
    return re.compile(
        f"(?:{among(0xC2, 0xDF)}{follow}|{among(0xE0, 0xEF)}{follow}{{2}}|{among(0xF0, 0xF4)}{follow}{{3}})+"
    )


def _undo(text: str, encoding: str) -> str:
    """`text` with what was read in `encoding` read as UTF-8, where that is plausible."""

    def replace(match: re.Match[str]) -> str:
        table = _bytes_of(encoding)
        try:
            meant = bytes(table[char] for char in match[0]).decode("utf-8")
        except UnicodeDecodeError:
            return match[0]
        before, after = text[max(0, match.start() - 2) : match.start()], text[match.end() :][:1]
        is_plausible = _is_plausible_cyrillic if encoding == "cp1251" else _is_plausible
        return meant if is_plausible(meant, match[0], before, after) else match[0]

    return _misread(encoding).sub(replace, text)


def _is_plausible(meant: str, seen: str, before: str, after: str) -> bool:
    """`meant` is what somebody may have written where `seen` now stands, between these characters."""
    if any(unicodedata.category(char)[0] in "CZ" and char not in _INVISIBLE for char in meant):
        return False
    if len(meant) > 1:  # that much is no chance
        return True
    if len(seen) > 2:
        return "\u2000" <= meant <= "\u2bff" or meant == "\ufeff"  # punctuation and symbols
    if meant not in _MARKS and not _is_latin(meant):
        return False
    if seen[1] in "«»‹›„“”‚‘’…–—" and not after.isalpha():  # honest at the end of a word in capitals
        return before[-1:].isalpha() and not (before.isupper() and (len(before) > 1 or meant.isupper()))
    return meant in _MARKS or before[-1:].isalpha() or after.isalpha() or not meant.isupper()


def _is_plausible_cyrillic(meant: str, seen: str, before: str, after: str) -> bool:
    """As `_is_plausible`, of what was read as cp1251, whose honest words hold such characters more often."""
    if len(seen) > 2 and len(meant) == 1:
        return "\u2010" <= meant <= "\u203a" or meant in "€™"
    return len(meant) > 1 and all("\u0400" <= char <= "\u04ff" for char in meant) and not meant.isupper()


def _is_latin(char: str) -> bool:
    """Whether it is a letter of Latin-1 or Latin Extended-A: those of the European languages."""
    return "\u00c0" <= char <= "\u017f" and char not in "×÷"


def _undo_chinese(match: re.Match[str]) -> str:
    """Return Chinese characters encoded as GBK and decoded as UTF-8, if that is text that fits here."""
    try:
        meant = match[0].encode("gb18030").decode("utf-8")
    except UnicodeError:
        return match[0]
    around = match.string[max(0, match.start() - 1) : match.start()] + match.string[match.end() :][:1]
    if all(map(_is_latin, meant)):  # "sch枚n"
        return meant if re.search("[a-z]", around) else match[0]
    is_chinese = all("\u3000" <= char <= "\u9fff" or "\uff00" <= char <= "\uffef" for char in meant)
    return meant if len(meant) >= 2 and is_chinese else match[0]
