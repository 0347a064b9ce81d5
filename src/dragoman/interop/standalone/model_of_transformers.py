"""model.py translates by transformers. It needs torch and transformers."""

import sys

from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("/to-".join(sys.argv[1:3]))
model = AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1])


def ids_of(words):
    """Return the ids of the tokens of each word."""
    return tokenizer(words, add_special_tokens=False).input_ids


def tokens_of(text):
    """Return the ids of a text, with what stands before and behind it."""
    return tokenizer(text).input_ids


def translate(rows, longest):
    """Return the translation of each row of ids."""
    encoded = tokenizer.pad({"input_ids": rows}, return_tensors="pt")
    return tokenizer.batch_decode(model.generate(**encoded), skip_special_tokens=True)
