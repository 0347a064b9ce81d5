"""What each kind of token does to a text: how many tokens, how many unknown, what is lost on the way back.

    python benchmarks/tokenisation.py            # corpora from $DRAGOMAN_DATA

Learns a vocabulary of each kind from the training text, one language at a time, and prints for the
validation text: tokens a sentence, the share that is unknown, and BLEU of the decoded ids against the text
itself, which no translation into such tokens can be expected to pass. Words and characters are those
that occur twice or more in training; spaCy's and lower-cased words are written with `format_output`.
"""

from __future__ import annotations

import importlib.util
from typing import NamedTuple

from dragoman.config import TokenizerConfig
from dragoman.data.corpora import open_corpus
from dragoman.metrics.translation import bleu
from dragoman.text.tokenizer import train_tokenizer


class Text(NamedTuple):
    """A side of a corpus: its language, and the files of training and validation."""

    name: str
    lang: str
    side: int
    train: tuple[str, ...]
    valid: tuple[str, ...]


def multi30k(split: str) -> tuple[str, ...]:
    return tuple(f"multi30k/{split}.{lang}.gz" for lang in ("en", "de"))


def tatoeba(split: str) -> tuple[str, ...]:
    return tuple(f"tatoeba-en-pl/{split}.{lang}.gz" for lang in ("en", "pl"))


SMALL = ("small-en-zh/train.tsv.gz",), ("small-en-zh/dev.tsv.gz",)
TEXTS = (
    Text("multi30k", "en", 0, multi30k("train"), multi30k("val")),
    Text("multi30k", "de", 1, multi30k("train"), multi30k("val")),
    Text("tatoeba-en-pl", "pl", 1, tatoeba("train"), tatoeba("val")),
    Text("small-en-zh", "en", 0, *SMALL),
    Text("small-en-zh", "zh", 1, *SMALL),
)
WORDS = TokenizerConfig(kind="words", vocab_size=10_000, min_frequency=2, shared=False)
SETTINGS = {
    "bpe": TokenizerConfig(kind="bpe", vocab_size=8000),
    "unigram": TokenizerConfig(kind="unigram", vocab_size=8000),
    "words": WORDS,
    "words, lower case": WORDS.model_copy(update={"lowercase": True, "format_output": True}),
    "words, spacy": WORDS.model_copy(update={"splitter": "spacy", "format_output": True}),
    "characters": TokenizerConfig(kind="characters", min_frequency=2),
}


def main() -> None:
    print("| text | tokens | vocabulary | tokens a sentence | unknown | BLEU of decoded ids |")
    print("|---|---|--:|--:|--:|--:|")
    for text in TEXTS:
        train, valid = read(text, text.train), read(text, text.valid)
        for name, config in SETTINGS.items():
            if config.splitter == "regex" or importlib.util.find_spec("spacy"):
                print(measure(text, name, config, train, valid), flush=True)


def read(text: Text, files: tuple[str, ...]) -> list[str]:
    """Return the lines of a side of a corpus."""
    corpus = open_corpus(files, src_lang="en", tgt_lang=text.lang)
    return [pair[text.side] for pair in corpus.pairs()]


def measure(text: Text, name: str, config: TokenizerConfig, train: list[str], valid: list[str]) -> str:
    """Return a row of the table."""
    tokenizer = train_tokenizer(train, config, lang=text.lang)
    batch = tokenizer.encode_batch(valid)
    per_sentence = sum(map(len, batch)) / len(batch)
    score = bleu(tokenizer.decode_batch(batch), valid, tgt_lang=text.lang)
    return (
        f"| {text.name} {text.lang} | {name} | {tokenizer.vocab_size} | {per_sentence:.1f} "
        f"| {100 * tokenizer.unknown_rate(valid):.1f} % | {score.value:.1f} |"
    )


if __name__ == "__main__":
    main()
