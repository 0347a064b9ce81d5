"""model.py translates greedily by onnxruntime. It needs numpy, onnxruntime and tokenizers."""

import sys

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

PAD, START, END = 0, 1, 2

folder, side = sys.argv[1], ".".join(["source", *sys.argv[2:3]])
source, target = (Tokenizer.from_file(f"{folder}/{name}.json") for name in (side, "target"))
encoder, decoder = (onnxruntime.InferenceSession(f"{folder}/{name}.onnx") for name in ("encoder", "decoder"))


def ids_of(words):
    """Return the ids of the tokens of each word."""
    return [word.ids for word in source.encode_batch(words, add_special_tokens=False)]


def tokens_of(text):
    """Return the ids of a text, with what stands before and behind it."""
    return source.encode(text).ids


def translate(rows, longest):
    """Return the translation of each row of ids."""
    ids = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int64)
    for row, tokens in zip(ids, rows, strict=True):
        row[: len(tokens)] = tokens
    names = [output.name for output in encoder.get_outputs()]  # src_bias, cross.0.key, cross.0.value, ...
    of_source = dict(zip(names, encoder.run(names, {"ids": ids}), strict=True))
    n, heads, _, width = of_source["cross.0.key"].shape
    past = {name.replace("cross", "past"): np.zeros((n, heads, 0, width), np.float32) for name in names[1:]}
    last, written, ended = np.full(n, START), [[] for _ in rows], np.zeros(n, dtype=bool)
    for position in range(min(256, longest)):
        log_probs, *present = decoder.run(None, {"last": last, **past, **of_source})
        if position == 0:  # no translation is empty
            log_probs[:, END] = -np.inf
        past = dict(zip(past, present, strict=True))
        last = log_probs.argmax(axis=1)
        ended |= last == END
        if ended.all():
            break
        for i in np.flatnonzero(~ended):
            written[i].append(last[i])
    return target.decode_batch(written)
