"""Labelled reviews out of tables: nouns and adjectives (review_*.tsv), sentences and frames (*.toml).

Nothing here knows a word or a sentence. What decides the label of a review is written in reviews.toml.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import cycle
from random import Random
from typing import Any, NamedTuple, TypeVar

from phrasebook.grammar import hash_of, read_table, read_toml
from phrasebook.inflection import article
from phrasebook.review_text import Adjective, Group, Noun, Text, Words, parse, say, slots_of

LABELS = ("positive", "negative")
CRIES = {"positive": "cheers", "negative": "boos"}  # verdicts that are no sentences
HELD_OUT_IN = 8  # one in this many combinations of a construction and an adjective is in the test only
TRIES = 1000  # draws of a construction and its words, after which the tables must be wrong
T = TypeVar("T")


class Review(NamedTuple):
    """A review and the combinations in it, such as "opinions.far-from against=dull"."""

    label: str
    text: str
    combinations: tuple[str, ...]

    @property
    def unseen(self) -> bool:
        return any(map(held_out, self.combinations))


class Construction(NamedTuple):
    """An opinion or a contrast: texts that differ in a word, and what may stand in their slots."""

    id: str
    texts: Sequence[Text]
    slots: Sequence[str]  # of its adjectives, in the order of SLOTS
    has_other: bool  # speaks of a second noun
    only: str  # the one label it speaks for, or ""
    without: frozenset[str]  # classes of adjectives and nouns that it does not take
    alone: bool  # does not continue a sentence


class Draft(NamedTuple):
    """Properties that the sentences of one review share."""

    rng: Random
    label: str
    domain: str
    subject: Noun
    unseen: bool
    used: set[str | Text]  # nouns, adjectives, constructions, told texts: each once in a review
    combinations: list[str]

    def choose(self, options: Sequence[T]) -> T:
        return choose(self.rng, options)


def choose(rng: Random, options: Sequence[T]) -> T:
    """One of the options. Of the methods of Random only random() is promised never to change."""
    return options[int(rng.random() * len(options))]


@cache
def held_out(combination: str) -> bool:
    """Whether a combination is in the test only; the same for every seed."""
    return hash_of(combination)[0] % HELD_OUT_IN == 0


class ReviewGrammar:
    """The tables, read and checked, and the reviews that can be written with them."""

    def __init__(self) -> None:
        self.nouns = [Noun.of(row) for row in read_table("review_nouns")]
        self.adjectives = [Adjective.of(row) for row in read_table("review_adjectives")]
        self.domains = read_toml("review_domains.toml")
        everywhere = self.domains.pop("any")
        tables = read_toml("reviews.toml")
        self.openings: dict[str, list[str]] = tables["openings"]
        self.people: dict[str, list[str]] = tables["people"]
        self.constructions = {
            kind: [
                construction
                for name, table in tables[kind].items()
                for construction in table.get("weight", 1) * [_construction(f"{kind}.{name}", table)]
            ]
            for kind in ("opinions", "contrasts")
        }
        frames = tables["frames"].values()
        self._frames = [frame["sentences"].split() for frame in frames for _ in range(frame["weight"])]
        self._told = {
            (domain, kind): [
                text for line in [*everywhere.get(kind, []), *table[kind]] for text in parse(line)
            ]
            for domain, table in self.domains.items()
            for kind in ("occasions", "facts", *CRIES, *CRIES.values())
        }
        self._subjects = {domain: self._nouns_of(domain, subject=True) for domain in self.domains}
        self._parts = {domain: self._nouns_of(domain, subject=False) for domain in self.domains}
        self._said_of = {
            (noun.en, label): [each for each in self.adjectives if each.fits(noun) and label in each.classes]
            for noun in self.nouns
            for label in LABELS
        }
        self._adjectives: dict[tuple[str, str, str, str, bool], list[Adjective]] = {}

    def _nouns_of(self, domain: str, *, subject: bool) -> list[Noun]:
        nouns = [noun for noun in self.nouns if domain in noun.domains]
        return [noun for noun in nouns if ("subject" in noun.classes) == subject]

    def reviews(self, *, seed: int, unseen: bool) -> Iterator[Review]:
        """Reviews without end, positive and negative in turn; a text may recur.

        With `unseen` every opinion holds a combination that is held out, without it none does.
        """
        rng, domains = Random(seed), list(self.domains)
        for label in cycle(LABELS):
            domain = choose(rng, domains)
            draft = Draft(rng, label, domain, choose(rng, self._subjects[domain]), unseen, set(), [])
            frame = [kind for kind in draft.choose(self._frames) if kind[-1] != "?" or rng.random() < 0.5]
            text = " ".join([self._sentence(kind.rstrip("?"), draft) for kind in frame])
            yield Review(label, text, tuple(draft.combinations))

    def _sentence(self, wanted: str, draft: Draft) -> str:
        """Return a finished sentence of a kind that a frame names, such as "fact" or "turned:verdict"."""
        opening, _, kind = wanted.rpartition(":")
        if kind == "verdict":
            cry = [] if opening else [CRIES[draft.label]]
            text = self._tell([draft.label, *cry], draft)
        elif kind in ("occasion", "fact"):
            text = self._tell([f"{kind}s"], draft)
        else:
            text = self._opinion(kind, draft, opened=opening != "")
        if opening:
            continued = text if text.startswith("I ") else text[0].lower() + text[1:]
            text = draft.choose(self.openings[opening]) + continued
        return text[0].upper() + text[1:]

    def _tell(self, kinds: Sequence[str], draft: Draft) -> str:
        """Return a sentence of the domain's own, without an adjective to choose."""
        told = [text for kind in kinds for text in self._told[draft.domain, kind]]
        text = draft.choose([text for text in told if text not in draft.used])
        draft.used.add(text)
        return self._fill(text, Words({}, {}), draft)

    def _opinion(self, kind: str, draft: Draft, *, opened: bool) -> str:
        """Return an opinion or a contrast; what speaks against one label speaks for the other."""
        if kind == "against":
            draft = draft._replace(label=_opposite(draft.label))
        constructions = self.constructions["contrasts" if kind == "contrast" else "opinions"]
        for _ in range(TRIES):
            construction = draft.choose(constructions)
            if construction.id in draft.used or construction.only == _opposite(draft.label):
                continue
            words = None if opened and construction.alone else self._words(construction, kind, draft)
            if words is not None:
                draft.used.update((construction.id,), words.said())
                draft.combinations.extend(
                    _combination(construction, slot, each) for slot, each in words.adjectives.items()
                )
                return self._fill(draft.choose(construction.texts), words, draft)
        raise AssertionError(f"reviews.toml: nothing is left to say of {draft.subject.en!r}: {kind}")

    def _words(self, construction: Construction, kind: str, draft: Draft) -> Words | None:
        """Return a word for every slot, or None where what was drawn is used up or does not fit."""
        parts = self._parts[draft.domain]
        options = {"whole": [draft.subject], "against": parts}.get(kind, [draft.subject, *parts])
        words = Words({"noun": draft.choose(options)}, {})
        if construction.has_other:
            words.nouns["other"] = draft.choose(parts)
            if words.nouns["other"] == words.nouns["noun"]:
                return None
        if not draft.used.isdisjoint(words.said()):
            return None
        for slot in construction.slots:
            fitting = self._fitting(construction, slot, words.noun_at(slot), draft)
            free = [each for each in fitting if each.en not in draft.used and not words.has_like(each)]
            if not free:
                return None
            words.adjectives[slot] = draft.choose(free)
        return words

    def _fitting(self, construction: Construction, slot: str, noun: Noun, draft: Draft) -> list[Adjective]:
        """Return the adjectives that a slot takes of a noun.

        Kept, since the same are wanted thousands of times.
        """
        label = draft.label if slot.startswith("for") else _opposite(draft.label)
        wanted = draft.unseen and slot == construction.slots[0]
        key = (construction.id, slot, noun.en, label, wanted)
        if key not in self._adjectives:
            self._adjectives[key] = [
                each
                for each in self._said_of[noun.en, label]
                if construction.without.isdisjoint(each.classes | noun.classes)
                and held_out(_combination(construction, slot, each)) == wanted
            ]
        return self._adjectives[key]

    def _fill(self, text: Text, words: Words, draft: Draft) -> str:
        return "".join([part if isinstance(part, str) else self._say(part, words, draft) for part in text])

    def _say(self, group: Group, words: Words, draft: Draft) -> str:
        if group.kind in self.people:
            return draft.choose(self.people[group.kind])
        if group.kind == "subject":
            return f"{article(draft.subject.en)} {draft.subject.en}" if group.determiner else draft.subject.en
        return say(group, words, self.domains[draft.domain]["tense"])


def _construction(name: str, table: Mapping[str, Any]) -> Construction:
    texts = list(parse(table["text"]))
    has_other = any(isinstance(part, Group) and part.noun == "other" for part in texts[0])
    without = frozenset(table.get("without", "").split())
    return Construction(
        name, texts, slots_of(texts[0]), has_other, table.get("only", ""), without, table.get("alone", False)
    )


def _combination(construction: Construction, slot: str, adjective: Adjective) -> str:
    return f"{construction.id} {slot}={adjective.en}"


def _opposite(label: str) -> str:
    return LABELS[label == "positive"]
