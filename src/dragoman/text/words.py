"""Tokens that are not learnt: words, by a regular expression or by spaCy's rules, and characters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Literal

from dragoman.errors import ConfigError, optional
from dragoman.text.languages import language_code
from dragoman.text.normalisation import META_SPACE

WORD_OF_0_1 = (
    r"[\p{L}\p{M}\p{N}]+(?:(?:['’\-]|(?<=\p{N})[.,:](?=\p{N}))[\p{L}\p{M}\p{N}]+)*"
    r"|[^\p{L}\p{M}\p{N} ]"
)
"""What version 0.1 split by: a Chinese sentence was a word."""

IDEOGRAPH = r"\p{Han}\p{Hiragana}\p{Katakana}"
WORD = rf"[{IDEOGRAPH}]|" + WORD_OF_0_1.replace(
    r"[\p{L}\p{M}\p{N}]+", rf"[\p{{L}}\p{{M}}\p{{N}}&&[^{IDEOGRAPH}]]+"
)
"""A word with its inner apostrophes and hyphens ("don't", "well-known"), a number with its inner points
("3.5", "10:30"), or one other character, those of Chinese and Japanese among them. Joined by spaces, such
tokens score as the text itself does."""

PATTERNS = frozenset({WORD, WORD_OF_0_1})
"""What a tokenizer's file may split words by: an expression of a stranger's can take for ever, or abort."""

LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
"""A code such as "de" or "pt-BR"; spaCy makes the name of a module of it."""

_WITHOUT_SPACES = frozenset({"zh", "zho", "chi", "cmn", "yue", "ja", "jpn"})
"""Languages that put no space between words and sentences."""

ANY_LANGUAGE = "xx"
"""spaCy's code for rules that suit many languages."""

CLOSING = frozenset(".,!?;:…)]}")
OPENING = frozenset("([{¿¡")
CONTRACTION = re.compile(r"['’](?:s|m|d|re|ve|ll)|n['’]t", re.IGNORECASE)
"""What spaCy splits off English words: "it", "'s"; "do", "n't"."""
LEADING = re.compile(r"[\"'“”„«»‘’‚‹›(\[{¿¡—–\- ]*")


def has_spaces(language: str) -> bool:
    """Return whether a language is written with spaces between words and sentences."""
    return language_code(language) not in _WITHOUT_SPACES


class Words:
    """Text to words and back. Which words had a space between them is lost; `format_output` guesses."""

    def __init__(
        self,
        *,
        splitter: Literal["regex", "spacy"] = "regex",
        pattern: str = WORD,
        language: str = ANY_LANGUAGE,
        format_output: bool = False,
    ) -> None:
        """Split by the regular expression `pattern`, or by spaCy's rules for `language`, such as "de".

        spaCy is loaded when the first text is split. It raises MissingExtraError if it is not installed, and
        ConfigError if it has no rules for the language. ValueError: the pattern is not one of PATTERNS.
        """
        if pattern not in PATTERNS:
            raise ValueError("it splits words by an expression that Dragoman has never written")
        self._splitter, self._pattern, self._language = splitter, pattern, language
        self._format_output = format_output

    @cached_property
    def _split(self) -> Callable[[str], list[str]]:
        """A function from normalised text to its words; spaCy's rules need no trained pipeline."""
        if self._splitter == "regex":
            from tokenizers import Regex, pre_tokenizers

            # The standard library's expressions know no \p{M}: they would split Hindi at every vowel sign.
            splitter = pre_tokenizers.Split(Regex(self._pattern), behavior="removed", invert=True)
            return lambda text: [word for word, _ in splitter.pre_tokenize_str(text)]
        if not LANGUAGE.fullmatch(self._language):
            raise ConfigError(
                f'tokenizer.splitter = "spacy": {self._language[:40]!r} is no language code; write one such '
                'as "de"'
            )
        spacy = optional("spacy", extra="spacy", purpose='tokenizer.splitter = "spacy"')
        try:
            tokenizer = spacy.blank(self._language).tokenizer
        except ImportError as error:  # an unknown language, or a package that its rules need
            reason = str(error).split("\n", 1)[0]
            raise ConfigError(
                f'tokenizer.splitter = "spacy": no rules for the language "{self._language}" ({reason}); '
                'use splitter = "regex", or kind = "characters" where words are not separated'
            ) from error
        return lambda text: [token.text for token in tokenizer(text)]

    def split(self, text: str) -> list[str]:
        """Return the words of normalised `text`."""
        return self._split(text)

    def join(self, pieces: Iterable[str]) -> str:
        """Return the words as text: with a space between each, or formatted."""
        if not self._format_output:
            return " ".join(pieces)
        words: list[str] = []
        for word in pieces:  # spaCy's "do", "n't" becomes "don't"
            if words and self._splitter == "spacy" and CONTRACTION.fullmatch(word):
                words[-1] += word
            else:
                words.append(word)
        return format_words(words)


def format_words(words: Sequence[str]) -> str:
    """`words` as a sentence: the first letter large, no space before `. , ! ?`, and a little more.

    Also none before `; : …` and closing brackets, none after opening brackets and `¿ ¡`, and straight double
    quotes open and close in turn. A capital is written only where lower-casing it gives back the letter.

    >>> format_words(["hello", ",", "how", "are", "you", "?"])
    'Hello, how are you?'
    """
    gaps: list[str] = []
    n_quotes, glued = 0, True
    for word in words:
        closes_quote = word == '"' and n_quotes % 2 == 1
        gaps.append("" if glued or closes_quote or word in CLOSING else " ")
        n_quotes += word == '"'
        glued = word in OPENING or (word == '"' and not closes_quote)
    text = "".join(chain.from_iterable(zip(gaps, words, strict=True)))
    # Quotes, brackets and dashes may precede the first letter.
    start = LEADING.match(text).end()  # type: ignore[union-attr]  # it matches the empty string
    first = text[start : start + 1]
    capital = first.title()
    return text[:start] + capital + text[start + 1 :] if capital.lower() == first else text


class Characters:
    """Text to characters and back. A space is a token too, so that nothing is lost."""

    def split(self, text: str) -> list[str]:
        """Return the code points of normalised `text`, META_SPACE for a space."""
        return list(text.replace(" ", META_SPACE))

    def join(self, pieces: Iterable[str]) -> str:
        """Return the text of `pieces`: the inverse of `split`."""
        return "".join(pieces).replace(META_SPACE, " ")
