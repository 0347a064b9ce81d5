"""Sentences out of the tables of this folder: words (*.tsv), constructions and paradigms (*.toml).

Nothing here knows a word. `Grammar` reads and checks the tables, `Grammar.sentences` fills in the slots.
"""

from __future__ import annotations

import hashlib
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from phrasebook.inflection import Word, inflect

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LANGUAGES = ("en", "de", "pl", "zh")
TABLES = "nouns places cities persons adjectives verbs numbers times hours weather"
TABLES += " jobs containers transports sides relations"
CONTRACTIONS = {"zu dem": "zum", "zu der": "zur", "von dem": "vom", "bei dem": "beim", "in dem": "im"}
_CONTRACTED = re.compile(r"\b([Zz]u de[mr]|[Vv]on dem|[Bb]ei dem|[Ii]n dem)\b")
_BEFORE_MARK = re.compile(r" (?=[.,?!])")
_GROUP = re.compile(r"\{([^{}]*)\}")


class Sentence(NamedTuple):
    """One filled-in construction: its text in every language, and the words by slot."""

    construction: str
    texts: tuple[str, ...]  # in the order of LANGUAGES
    words: Mapping[str, Word]
    held_out: str  # the combination, such as "thing=umbrella", that only the test may hold; or ""


class Construction(NamedTuple):
    """A sentence with slots: `slots["thing"]` are the words that may stand there."""

    id: str
    topic: str
    slots: Mapping[str, Sequence[Word]]
    fits: Sequence[tuple[str, str]]  # (slot, other slot): its word is said of the class of the other's
    apart: Sequence[tuple[str, str]]  # slots that must not hold the same word
    templates: Sequence[str]  # in the order of LANGUAGES


def read_table(name: str) -> list[Word]:
    """Return the rows of <name>.tsv; a cell `-` is empty. The `id` of a row is its English text."""
    lines = _read(f"{name}.tsv").splitlines()
    header = lines[0].split("\t")
    words = []
    for line in lines[1:]:
        cells = ["" if cell == "-" else cell for cell in line.split("\t")]
        assert len(cells) == len(header), f"{name}.tsv: {line!r} has {len(cells)} cells, not {len(header)}"
        row = dict(zip(header, cells, strict=True))
        words.append(Word(name, {"id": f"{row['en']} {row.get('en_rest', '')}".strip(), **row}))
    return words


def read_toml(name: str) -> dict[str, Any]:
    """Return the table in the file `name` of this folder."""
    return tomllib.loads(_read(name))


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _fits(word: Word, other: Word) -> bool:
    return not other.classes.isdisjoint(word.forms["of"].split())


class Grammar:
    """The tables, read and checked, and what can be said with them."""

    def __init__(self) -> None:
        self.tables = {name: read_table(name) for name in TABLES.split()}
        self.paradigms = read_toml("paradigms.toml")
        self.held_out: dict[str, list[str]] = read_toml("held_out.toml")
        tables = read_toml("constructions.toml")
        self.constructions = [self._construction(name, table) for name, table in tables.items()]

    def _construction(self, name: str, table: Mapping[str, Any]) -> Construction:
        slots, fits = {}, []
        for slot, description in table.get("slots", {}).items():
            described, _, other = description.partition(" for ")
            if other:
                fits.append((slot, other))
            slots[slot] = self.words(*described.split())
            assert slots[slot], f"constructions.toml: {name}: no word is {description!r}"
        apart = [tuple(both.split()) for both in table.get("apart", [])]
        return Construction(name, table["topic"], slots, fits, apart, [table[lang] for lang in LANGUAGES])

    def words(self, table: str, *wanted: str) -> list[Word]:
        """Return the words of a table in one of the classes, or the one word `=id` (`_` is a space)."""
        names = {name[1:].replace("_", " ") for name in wanted if name.startswith("=")}
        return [
            word
            for word in self.tables[table]
            if not wanted or word.forms["id"] in names or not word.classes.isdisjoint(wanted)
        ]

    def sentences(self, *, seed: int, at_most: int) -> Iterator[Sentence]:
        """All sentences of each construction, or `at_most` of them in the order of a hash of `seed`."""
        for construction in self.constructions:
            fill = self._filler(construction)
            held_out = [pair.split("=") for pair in self.held_out.get(construction.id, [])]
            for words in _combinations(construction, seed=seed, at_most=at_most):
                held = (f"{slot}={word}" for slot, word in held_out if words[slot].forms["id"] == word)
                yield Sentence(construction.id, fill(words), words, next(held, ""))

    def _filler(self, construction: Construction) -> Callable[[Mapping[str, Word]], tuple[str, ...]]:
        """Return a function from words by slot to the texts.

        What a group says is worked out once per its words.
        """
        parsed = [
            (lang, [self._group(lang, part, construction, odd=i % 2 == 1) for i, part in enumerate(parts)])
            for lang, parts in zip(LANGUAGES, map(_GROUP.split, construction.templates), strict=True)
        ]

        def fill(words: Mapping[str, Word]) -> tuple[str, ...]:
            return tuple(_finish(lang, "".join(group(words) for group in groups)) for lang, groups in parsed)

        return fill

    def _group(
        self, lang: str, text: str, construction: Construction, *, odd: bool
    ) -> Callable[[Mapping[str, Word]], str]:
        """Return the text of one part of a template: a group (odd), or the text between groups."""
        if not odd:
            return lambda words: text
        tokens = text.split()
        slots = [token for token in tokens if token in construction.slots]
        features = [token for token in tokens if token not in construction.slots]
        assert slots, f"constructions.toml: {construction.id}: no slot in {{{text}}}"
        said: dict[tuple[str, ...], str] = {}

        def say(words: Mapping[str, Word]) -> str:
            key = tuple(words[slot].forms["id"] for slot in slots)
            if key not in said:
                try:
                    said[key] = inflect(lang, [words[slot] for slot in slots], features, self.paradigms)
                except (KeyError, IndexError, ValueError) as error:
                    raise AssertionError(f"{construction.id}: {{{text}}} of {key} in {lang}") from error
            return said[key]

        return say


def _finish(lang: str, text: str) -> str:
    """Return the printed form: one space between words, a capital first, German prepositions contracted."""
    text = _BEFORE_MARK.sub("", " ".join(text.split()))
    if lang == "zh":
        return text
    if lang == "de":
        text = _CONTRACTED.sub(lambda found: CONTRACTIONS[found[0].lower()], text)
    return text[0].upper() + text[1:]


def _combinations(construction: Construction, *, seed: int, at_most: int) -> Iterator[dict[str, Word]]:
    """Words by slot: every combination that makes sense, or `at_most` of them drawn by a hash."""
    slots, sizes = list(construction.slots), [len(words) for words in construction.slots.values()]
    total, found = math.prod(sizes), 0
    for index in _draw(f"{seed} {construction.id}", total, enough=4 * at_most):
        words, rest = {}, index
        for slot, size in zip(slots, sizes, strict=True):
            words[slot] = construction.slots[slot][rest % size]
            rest //= size
        if all(_fits(words[slot], words[other]) for slot, other in construction.fits) and all(
            words[a].forms["id"] != words[b].forms["id"] for a, b in construction.apart
        ):
            found += 1
            yield words
            if found == at_most:
                return


def _draw(key: str, total: int, *, enough: int) -> Iterator[int]:
    """Distinct numbers below `total`, in the order of a hash: all where there are few."""
    if total <= enough:
        yield from sorted(range(total), key=lambda i: hash_of(f"{key} {i}"))
        return
    seen = set()
    for i in range(4 * enough):
        number = int.from_bytes(hash_of(f"{key} {i}")[:8], "big") % total
        if number not in seen:
            seen.add(number)
            yield number


def hash_of(text: str) -> bytes:
    """Return a hash that is the same on every machine and Python."""
    return hashlib.sha256(text.encode()).digest()
