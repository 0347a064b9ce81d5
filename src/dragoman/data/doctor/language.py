"""Sides in the wrong script or language, and pairs whose sides have changed places.

What a language looks like is learnt from the corpus itself: most lines are right. Three things speak against
a line: letters of another script; three-letter sequences that are common on the other side and rare on its
own; and the short words of another language (languages.tsv) together with sequences that its own side does
not have. One or two words are judged only where all of them say the same. And of Chinese in simplified and in
traditional characters, those lines are found that are in the rarer of the two.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

import numpy as np

from dragoman.data.doctor.words import Bags, NumberedSide, WordNumbers
from dragoman.text.languages import language_code

MIN_LINES = 200
"""With fewer, the corpus does not teach its own languages well enough to judge by."""

_SIDES = ("source", "target")
_MAX_EVIDENCE = 4.0  # nats that one three-letter sequence may say
_OTHER_SIDE = -6.0  # nats below which a line is in the other side's language
_SWAPPED = -8.0  # nats of both sides together
_FOREIGN = 5.0  # nats of short words above which a line is in that language
_FOREIGN_IF_STRANGE = 2.0  # the same where its letters are strange as well
_STRANGE = -7.0  # nats per sequence, times the root of their number
_UNUSUAL = -3.0
_COVERED = 0.08  # share of a side's words that must be short words of its language
_RARE_LETTER = 2e-5  # share of letters below which one does not belong to a language

DENSE = frozenset({"han", "kana", "hangul"})
"""Scripts whose characters say about as much as two or three letters."""

_OF_LANGUAGE = {
    "greek": "el", "cyrillic": "be bg kk ky mk mn ru sr tg uk", "armenian": "hy", "hebrew": "he yi",
    "arabic": "ar ckb fa ps sd ug ur", "devanagari": "hi mr ne sa", "bengali": "as bn", "gurmukhi": "pa",
    "gujarati": "gu", "oriya": "or", "tamil": "ta", "telugu": "te", "kannada": "kn", "malayalam": "ml",
    "sinhala": "si", "thai": "th", "lao": "lo", "tibetan": "bo dz", "burmese": "my", "georgian": "ka",
    "ethiopic": "am ti", "khmer": "km", "han": "ja lzh yue zh", "kana": "ja", "hangul": "ko",
    "latin": "af az bs ca cs cy da de en eo es et eu fi fr ga gl hr hu id is it la lb lt lv ms mt nb nl "
    "nn no pl pt ro sk sl sq sv sw tl tr uz vi",
}  # fmt: skip


SCRIPTS = (*_OF_LANGUAGE, "canadian", "cherokee", "mongolian", "nko", "syriac", "thaana", "other")
_NAMED = {
    "CJK": "han", "IDEOGRAPHIC": "han", "BOPOMOFO": "han", "HIRAGANA": "kana", "KATAKANA": "kana",
    "KATAKANA-HIRAGANA": "kana", "MYANMAR": "burmese",
} | {script.upper(): script for script in SCRIPTS}  # fmt: skip
"""Scripts by the words that the names of their characters begin with."""


class Profile(NamedTuple):
    """The script of a language and its most frequent short words."""

    script: str
    words: frozenset[str]


@lru_cache(maxsize=1)
def profiles() -> dict[str, Profile]:
    """Return the languages that can be named."""
    text = (resources.files(__package__) / "languages.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    return {lang: Profile(script, frozenset(words.split())) for lang, script, words in rows}


@dataclass
class LanguageFaults:
    """The lines (from 0) that are wrong, each with what is wrong about it, by kind; the sides as a whole."""

    lines: dict[str, dict[int, str]] = field(
        default_factory=lambda: {"swapped": {}, "script": {}, "language": {}, "characters": {}}
    )
    whole: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check_languages(
    src: NumberedSide, tgt: NumberedSide, *, langs: tuple[str | None, str | None]
) -> LanguageFaults:
    """Every line whose side is in another script or language, judged by the rest of the corpus.

    `langs` are the declared languages, None where none is.
    """
    faults = LanguageFaults(whole=wrong_declarations(src, tgt, langs=langs))
    sides = (src.bags, tgt.bags)
    letters, main, wrong = zip(*map(_scripts, sides), strict=True)
    swapped = wrong[0] | wrong[1]
    for i in (0, 1):  # each side is in the script of the other
        foreign = [SCRIPTS.index(script) for script in main[1 - i] - main[i]]
        swapped = swapped & (letters[i][:, foreign].sum(axis=1) > 0.5 * letters[i].sum(axis=1))
    faults.lines["swapped"].update(dict.fromkeys(np.flatnonzero(swapped).tolist(), "by their scripts"))
    for i in (0, 1):
        for line in np.flatnonzero(wrong[i] & ~swapped).tolist():
            script = SCRIPTS[int(letters[i][line].argmax())]
            _add(faults.lines["script"], line, f"{_SIDES[i]} in {script} script")
        if main[i] == {"han"}:
            rarer, rows = _rarer_characters(sides[i])
            for line in rows.tolist():
                _add(faults.lines["characters"], line, f"{_SIDES[i]} in {rarer} characters")
    if len(src) < MIN_LINES:
        faults.notes.append(f"languages were judged by script only: fewer than {MIN_LINES} pairs")
        return faults
    named = [lang or _guess(bags) for lang, bags in zip(langs, sides, strict=True)]
    if main[0] & main[1]:
        _find_exchanged(faults, sides, wrong, named)
    for i in (0, 1):
        _find_foreign(faults, sides[i], side=i, main=main[i], named=named, skip=wrong[i])
    return faults


def _add(lines: dict[int, str], line: int, detail: str) -> None:
    lines[line] = f"{lines[line]}; {detail}" if line in lines else detail


def _scripts(bags: Bags) -> tuple[np.ndarray, frozenset[str], np.ndarray]:
    """Return the scripts of a side and of its lines.

    (lines, scripts): the letters of each script in the distinct words of a line; the scripts with at least a
    tenth of the side's letters; (lines,): whether two thirds of a line's letters, and at least four, are of
    other scripts.
    """
    weights = np.array([2.5 if script in DENSE else 1.0 for script in SCRIPTS], dtype=np.float32)
    scripts = np.array(
        [SCRIPTS.index(script_of(word[0])) if word[0].isalpha() else -1 for word in bags.words],
        dtype=np.int64,
    )
    sizes = np.array([len(word) for word in bags.words], dtype=np.int64)
    real = scripts[bags.ids] >= 0
    ids, n_lines = bags.ids[real], len(bags.offsets) - 1
    where = bags.rows[real] * len(SCRIPTS) + scripts[ids]
    counts = np.bincount(where, sizes[ids], minlength=n_lines * len(SCRIPTS)).astype(np.float32)
    letters = counts.reshape(n_lines, len(SCRIPTS)) * weights
    total = letters.sum(axis=0, dtype=np.float64)
    is_main = total >= max(0.1 * total.sum(), 1e-9)
    expected = letters[:, is_main].sum(axis=1)
    other = letters.sum(axis=1) - expected
    main = frozenset(SCRIPTS[i] for i in np.flatnonzero(is_main))
    return letters, main, (other > 2 * expected) & (other >= 4)


def _rarer_characters(bags: Bags) -> tuple[str, np.ndarray]:
    """Return which of simplified and traditional characters fewer lines have, and these lines."""
    kinds = [is_simplified(word[0]) for word in bags.words]  # a Han character is a word
    rows = {
        name: np.unique(bags.rows[np.array([kind is simplified for kind in kinds])[bags.ids]])
        for name, simplified in (("traditional", False), ("simplified", True))
    }
    return min(rows.items(), key=lambda named: len(named[1]))


def _ids_of(words: Iterable[str], bags: Bags) -> np.ndarray:
    return np.array(sorted(bags.numbers[word] for word in words if word in bags.numbers), dtype=np.int64)


def _coverage(bags: Bags) -> tuple[dict[str, float], str]:
    """For each language that can be named, the share of the side's words that are short words of it.

    And the language with the largest share.
    """
    counts = bags.n_lines_with
    total = max(1, int(counts.sum()))
    shares = {lang: float(counts[_ids_of(p.words, bags)].sum() / total) for lang, p in profiles().items()}
    return shares, max(shares, key=shares.__getitem__)


def _guess(bags: Bags) -> str | None:
    coverage, best = _coverage(bags)
    return best if coverage[best] >= _COVERED else None


def wrong_declarations(
    src: NumberedSide, tgt: NumberedSide, *, langs: tuple[str | None, str | None]
) -> list[str]:
    """Describe wrong declared languages `langs` of the sides as a whole."""
    complaints = []
    for side, lang, name in zip((src, tgt), langs, _SIDES, strict=True):
        if lang is None:
            continue
        _, scripts, _ = _scripts(side.bags)
        expected = scripts_of_language(lang)
        if scripts and expected and not expected & scripts:
            complaints.append(
                f"the {name} is declared as {lang}, but written in {' and '.join(sorted(scripts))} script"
            )
            continue
        code = language_code(lang)
        coverage, best = _coverage(side.bags)
        if code in coverage and coverage[best] >= max(_COVERED, 1.5 * coverage[code]):
            complaints.append(f"the {name} is declared as {lang}, but its short words are those of {best}")
    return complaints


def _sequences(words: Sequence[str], numbers: WordNumbers) -> tuple[np.ndarray, np.ndarray]:
    """Return the trigrams of each word, borders counted as letters: ids, and offsets by word."""
    ids: list[int] = []
    offsets = [0]
    for word in words:
        if word[0].isalpha():
            padded = f" {word} "
            ids.extend(numbers[padded[i : i + 3]] for i in range(len(word)))
        offsets.append(len(ids))
    return np.array(ids, dtype=np.int64), np.array(offsets)


def _sum_by_word(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return sums[offsets[1:]] - sums[offsets[:-1]]


def _sum_by_line(bags: Bags, of_word: np.ndarray) -> np.ndarray:
    return np.bincount(bags.rows, of_word[bags.ids], minlength=len(bags.offsets) - 1)


def _sequence_logs(bags: Bags, ids: np.ndarray, offsets: np.ndarray, n: int) -> np.ndarray:
    """(n,): how often each of `n` sequences is in the lines of a side, as log-frequencies."""
    weights = np.repeat(bags.n_lines_with, np.diff(offsets))
    counts = np.bincount(ids, weights, minlength=n) + 0.5
    return np.log(counts / counts.sum())


def _find_exchanged(
    faults: LanguageFaults, sides: tuple[Bags, Bags], wrong: Sequence[np.ndarray], named: Sequence[str | None]
) -> None:
    """Add the pairs that are swapped, and the lines that are in the other side's language.

    By how much more likely the words of each line are by its own side than by the other one, in nats: naive
    Bayes over three-letter sequences and whole words; as these overlap, they are counted half.
    """
    numbers = WordNumbers()
    sequences = [_sequences(bags.words, numbers) for bags in sides]
    logs = [_sequence_logs(bags, *some, len(numbers)) for bags, some in zip(sides, sequences, strict=True)]
    ratio = np.clip(logs[0] - logs[1], -_MAX_EVIDENCE, _MAX_EVIDENCE)
    totals, againsts = [], []  # of the lines of both sides: sums, and the part of these that is below 0
    for i, (ids, offsets) in enumerate(sequences):
        own_ratio = ratio[ids] if i == 0 else -ratio[ids]
        # For each word the log-ratio of its frequencies on its own side, but for one line, and on the other.
        side, other = sides[i], sides[1 - i]
        elsewhere = np.array([other.numbers.get(word, -1) for word in side.words], dtype=np.int64)
        n_other = np.where(elsewhere >= 0, other.n_lines_with[elsewhere], 0)
        of_whole = np.log((side.n_lines_with - 0.5) / (n_other + 0.5)).clip(-_MAX_EVIDENCE, _MAX_EVIDENCE)
        is_word = np.array([word[0].isalpha() for word in side.words], dtype=bool)
        of_word = (_sum_by_word(own_ratio, offsets) + np.where(is_word, of_whole, 0.0)) / 2
        totals.append(_sum_by_line(sides[i], of_word))
        againsts.append(_sum_by_line(sides[i], np.minimum(of_word, 0)))
    # A name from abroad says little against a line whose other words are at home on its side.
    clear = [totals[i] < 0.85 * againsts[i] for i in (0, 1)]
    swapped = (totals[0] + totals[1] < _SWAPPED) & clear[0] & clear[1]
    swapped &= ~wrong[0] & ~wrong[1]
    faults.lines["swapped"].update(dict.fromkeys(np.flatnonzero(swapped).tolist(), "by their letters"))
    for i in (0, 1):
        looks_like = named[1 - i] or f"the {_SIDES[1 - i]}'s language"
        lines = (totals[i] < _OTHER_SIDE) & clear[i] & ~swapped & ~wrong[i]
        for line in np.flatnonzero(lines).tolist():
            _add(faults.lines["language"], line, f"{_SIDES[i]} looks like {looks_like}")


def _find_foreign(
    faults: LanguageFaults,
    bags: Bags,
    *,
    side: int,
    main: frozenset[str],
    named: Sequence[str | None],
    skip: np.ndarray,
) -> None:
    """Add the lines that are in a third language."""
    strange = _strangeness(bags)
    letters = _sum_by_line(bags, _rare_letters(bags))
    unnamed = (strange < _STRANGE) & (letters >= 2)
    best = np.zeros(len(strange))
    language = np.full(len(strange), "", dtype="<U3")
    ours = {language_code(lang or "") for lang in named}
    side_language = named[side] or ""
    for lang, profile in profiles().items():
        if lang in ours or profile.script not in main:
            continue
        evidence, n_words = _evidence_for(lang, bags, side_language=side_language)
        sure = (n_words >= 2) & (evidence > _FOREIGN) & (strange < _UNUSUAL)
        enough = sure | ((strange < _STRANGE) & (evidence > _FOREIGN_IF_STRANGE))
        better = enough & (evidence > best)
        best[better], language[better] = evidence[better], lang
    foreign = ((best > 0) | unnamed) & ~skip & (bags.sizes >= 2)
    for line in np.flatnonzero(foreign).tolist():
        if line in faults.lines["language"] or line in faults.lines["swapped"]:
            continue
        looks = f"looks like {language[line]}" if language[line] else "has letters of another language"
        _add(faults.lines["language"], line, f"{_SIDES[side]} {looks}")


def _strangeness(bags: Bags) -> np.ndarray:
    """How unlikely the letters of each line are by the rest of their side: below -7 for one in a thousand.

    The mean log-probability of a three-letter sequence less its median, times the root of their number.
    """
    numbers = WordNumbers()
    ids, offsets = _sequences(bags.words, numbers)
    logs = _sequence_logs(bags, ids, offsets, len(numbers))
    n = _sum_by_line(bags, np.diff(offsets).astype(float))
    mean = _sum_by_line(bags, _sum_by_word(logs[ids], offsets)) / np.maximum(n, 1)
    typical = float(np.median(mean[n > 0])) if (n > 0).any() else 0.0
    return np.where(n > 0, (mean - typical) * np.sqrt(n), 0.0)


def _rare_letters(bags: Bags) -> np.ndarray:
    """For each word, how many different letters beyond ASCII it has that its side hardly uses."""
    counts: dict[str, int] = {}
    for word, n in zip(bags.words, bags.n_lines_with.tolist(), strict=True):
        for char in set(word):
            counts[char] = counts.get(char, 0) + n
    limit = _RARE_LETTER * sum(counts.values())
    rare = {
        char
        for char, n in counts.items()
        if n < limit and not char.isascii() and char.isalpha() and script_of(char) not in DENSE
    }
    return np.array([len(rare.intersection(word)) for word in bags.words], dtype=float)


def _evidence_for(lang: str, bags: Bags, *, side_language: str) -> tuple[np.ndarray, np.ndarray]:
    """Nats for `lang` rather than `side_language` in each line, by short words; how many words say so."""
    profile = profiles()[lang]
    n_lines = bags.n_lines_with
    evidence = np.where(n_lines >= max(5, 0.0005 * (len(bags.offsets) - 1)), -1.0, 0.0)  # frequent at home
    ids = _ids_of(profile.words, bags)
    share = (n_lines[ids] + 0.5) / max(1, n_lines.sum())
    evidence[ids] = np.clip(np.log(0.4 / len(profile.words) / share), -3.0, 5.0)
    if side_language in profiles():
        evidence[_ids_of(profiles()[side_language].words, bags)] = -3.0
    return _sum_by_line(bags, evidence), _sum_by_line(bags, (evidence > 0).astype(float))


@lru_cache(maxsize=1 << 16)
def script_of(char: str) -> str:
    """Return the script of a letter; a letter of another width or style is what it stands for."""
    plain = unicodedata.normalize("NFKC", char)[0]
    return _NAMED.get(unicodedata.name(plain, "").partition(" ")[0], "other")


def is_simplified(char: str) -> bool | None:
    """Whether a Han character is only in the set of simplified ones, or only in that of traditional ones.

    None: it is in both or in neither, or is no Han character. The sets are the national standards GB 2312
    and Big5.
    """
    if script_of(char) != "han":
        return None
    simplified, traditional = (bool(char.encode(codec, "ignore")) for codec in ("gb2312", "big5"))
    return simplified if simplified != traditional else None


def scripts_of_language(lang: str) -> frozenset[str]:
    """Return the scripts that `lang` ("de", "zh-TW") is written in; none where that is not known."""
    code = language_code(lang)
    return frozenset(script for script, codes in _OF_LANGUAGE.items() if code in codes.split())
