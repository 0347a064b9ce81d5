"""model.py translates by CTranslate2. It needs ctranslate2 and tokenizers."""

import sys

import ctranslate2
from tokenizers import Tokenizer

folder, side = sys.argv[1], ".".join(["source", *sys.argv[2:3]])
source, target = (Tokenizer.from_file(f"{folder}/{name}.json") for name in (side, "target"))
translator = ctranslate2.Translator(folder)


def ids_of(words):
    """Return the ids of the tokens of each word."""
    return [word.ids for word in source.encode_batch(words, add_special_tokens=False)]


def tokens_of(text):
    """Return the tokens of a text, with what stands before and behind it."""
    return source.encode(text).tokens


def translate(rows, longest):
    """Return the translation of each row of tokens."""
    results = translator.translate_batch(
        rows, beam_size=4, max_input_length=0, max_decoding_length=min(256, longest - 1)
    )
    return target.decode_batch([list(map(target.token_to_id, one.hypotheses[0])) for one in results])
