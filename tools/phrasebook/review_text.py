"""Sentences of a review as text with groups, and the English of a group: agreement, comparison, articles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from phrasebook.inflection import Word, article

SLOTS = ("for", "against", "for too", "against too", "against other")
"""Where an adjective may stand, those first that decide."""

VERBS = {
    "be": {"present": ("is", "are"), "past": ("was", "were")},
    "inf": {"present": ("be", "be"), "past": ("have been", "have been")},
    "unreal": {"present": ("were", "were"), "past": ("had been", "had been")},
}
_GROUP = re.compile(r"\{([^{}]*)\}")
_CHOICE = re.compile(r"\[([^\[\]]*)\]")


class Noun(NamedTuple):
    """A reviewed thing, or a part of it."""

    en: str
    domains: frozenset[str]
    classes: frozenset[str]  # what kinds of adjectives are said of it; `subject`: not a part
    number: str  # one, many, or mass: takes no article
    pronoun: str

    @classmethod
    def of(cls, row: Word) -> Noun:
        domains = frozenset(row.forms["domain"].split())
        return cls(row.forms["en"], domains, row.classes, row.forms["number"], row.forms["pronoun"])


class Adjective(NamedTuple):
    """A word that praises or blames."""

    en: str
    classes: frozenset[str]  # positive or negative; strong, general
    said_of: frozenset[str]  # classes of nouns
    more: str  # its comparative, or "" where that is made with "more"
    most: str

    @classmethod
    def of(cls, row: Word) -> Adjective:
        said_of = frozenset(row.forms["of"].split())
        return cls(row.forms["en"], row.classes, said_of, row.forms["more"], row.forms["most"])

    def fits(self, noun: Noun) -> bool:
        return not self.said_of.isdisjoint(noun.classes)

    def compared(self, degree: str) -> str:
        """Itself (""), its comparative ("more") or superlative ("most")."""
        return {"more": self.more, "most": self.most}.get(degree) or f"{degree} {self.en}".strip()


class Words(NamedTuple):
    """Values of the slots of one sentence."""

    nouns: dict[str, Noun]  # "noun", "other"
    adjectives: dict[str, Adjective]

    def noun_at(self, slot: str) -> Noun:
        return self.nouns["other" if slot.endswith("other") else "noun"]

    def said(self) -> set[str]:
        return {noun.en for noun in self.nouns.values()} | {each.en for each in self.adjectives.values()}

    def has_like(self, adjective: Adjective) -> bool:
        """Whether a word stands here that should not share a sentence with it: practical, impractical."""
        return any(adjective.en in each.en or each.en in adjective.en for each in self.adjectives.values())


class Group(NamedTuple):
    """One {...} of a text: what it says, of which noun, with which adjective."""

    kind: str  # "subject", "who", "when", "it", a key of VERBS, or "phrase"
    noun: str  # "noun" or "other"
    slot: str  # of its adjective, one of SLOTS or ""
    degree: str  # "more", "most" or ""
    determiner: str  # "the", "a" or ""
    singular: bool  # whatever the noun is

    @classmethod
    def parse(cls, group: str) -> Group:
        words = group.split()

        def one_of(*names: str) -> str:
            return next((name for name in names if name in words), "")

        polarity = one_of("for", "against")
        slot = f"{polarity} {one_of('too', 'other')}".strip() if polarity else ""
        noun = one_of("other") or "noun"
        kind = one_of("subject", "who", "when", "it", *VERBS) or "phrase"
        parsed = cls(kind, noun, slot, one_of("more", "most"), one_of("the", "a"), "there" in words)
        assert slot in ("", *SLOTS), f"{{{group}}}: there is no such slot"
        assert kind != "phrase" or slot or parsed.determiner, f"{{{group}}} says nothing"
        return parsed


Text = tuple["str | Group", ...]


def parse(text: str) -> Iterator[Text]:
    """Yield a text cut at its groups; one with a choice, [a|b], is two."""
    choices = [part.split("|") if i % 2 else [part] for i, part in enumerate(_CHOICE.split(text))]
    for chosen in product(*choices):
        parts = _GROUP.split("".join(chosen))
        yield tuple(Group.parse(part) if i % 2 else part for i, part in enumerate(parts))


def slots_of(text: Text) -> list[str]:
    """Return the slots of its adjectives, in the order of SLOTS."""
    slots = {part.slot for part in text if isinstance(part, Group)}
    return [slot for slot in SLOTS if slot in slots]


def say(group: Group, words: Words, tense: str) -> str:
    """Return the English of a group about a noun, such as "a duller plot" for {a for more noun}."""
    noun = words.nouns[group.noun]
    if group.kind in VERBS:
        return VERBS[group.kind][tense][noun.number == "many" and not group.singular]
    if group.kind == "it":
        return noun.pronoun
    said = [words.adjectives[group.slot].compared(group.degree)] if group.slot else []
    if group.determiner:
        said.append(noun.en)
    if group.determiner == "the":
        said.insert(0, "the")
    elif group.determiner == "a" and noun.number == "one":
        said.insert(0, article(said[0]))
    return " ".join(said)
