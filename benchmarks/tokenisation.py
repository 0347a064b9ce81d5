"""What each kind of token does to a text: how many tokens, how many unknown, what is lost on the way back.

    python benchmarks/tokenisation.py            # corpora from $DRAGOMAN_DATA

Learns a vocabulary of each kind from the training text, one language at a time, and prints for the
validation text: tokens a sentence, the share that is unknown, and BLEU of the decoded ids against the text
itself, which no translation into such tokens can be expected to pass. Words and characters are those
that occur twice or more in training; spaCy's and lower-cased words are written with `format_output`.
"""

from __future__ import annotations

import importlib.util

from dragoman.config import TokenizerConfig
from dragoman.data.corpora import open_corpus
from dragoman.text.tokenizer import train_tokenizer
from measuring import Result, parser_of
from texts import bleu_of, files_of

SMALL = ["small-en-zh/train.tsv.gz"], ["small-en-zh/dev.tsv.gz"]
MULTI30K = files_of("multi30k", "train"), files_of("multi30k", "val")
TATOEBA = tuple(files_of("tatoeba-en-pl", split, ("en", "pl")) for split in ("train", "val"))
TEXTS = {
    "multi30k en": MULTI30K, "multi30k de": MULTI30K, "tatoeba-en-pl pl": TATOEBA,
    "small-en-zh en": SMALL, "small-en-zh zh": SMALL,
}  # fmt: skip
"""Files of training and of validation, by corpus and language."""
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
    options = parser_of(__doc__).parse_args()
    with Result("tokenisation", options) as result:
        columns = {"text": "", "tokens": "", "vocabulary": "d", "tokens a sentence": ".1f", "unknown": ".1%"}
        table = result.table(columns | {"BLEU of decoded ids": ".1f"})
        for name, splits in TEXTS.items():
            lang = name[-2:]
            train, valid = (side_of(files, lang) for files in splits)
            for kind, config in SETTINGS.items():
                if config.splitter == "spacy" and importlib.util.find_spec("spacy") is None:
                    continue
                tokenizer = train_tokenizer(train, config, lang=lang)
                batch = tokenizer.encode_batch(valid)
                per_sentence = sum(map(len, batch)) / len(batch)
                score = bleu_of(tokenizer.decode_batch(batch), valid, lang)
                unknown = tokenizer.unknown_rate(valid)
                table.add(name, kind, tokenizer.vocab_size, per_sentence, unknown, score)


def side_of(files: list[str], lang: str) -> list[str]:
    """Return the lines of a language of a corpus, which English is the first side of."""
    other = files[-1].split(".")[-2] if len(files) == 2 else "zh"
    pairs = open_corpus(files, src_lang="en", tgt_lang=other).pairs()
    return [pair.src if lang == "en" else pair.tgt for pair in pairs]


if __name__ == "__main__":
    main()
