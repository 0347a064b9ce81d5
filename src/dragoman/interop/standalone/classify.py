"""Writes the label of each line of stdin, and its probability: `python classify.py FOLDER < input > output`

Several labels of a line, and their probabilities, have the separator of classifier.json between them.
It needs numpy, onnxruntime and tokenizers.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

folder = sys.argv[1]
tokenizer = Tokenizer.from_file(f"{folder}/text.json")
classifier = onnxruntime.InferenceSession(f"{folder}/classifier.onnx")
settings = json.loads(Path(folder, "classifier.json").read_text(encoding="utf-8"))


def windows_of(tokens):
    """Return the fewest windows of max_length tokens, of about equal length, padded with 0."""
    n = -(-len(tokens) // settings["max_length"])
    parts = [tokens[i * len(tokens) // n : (i + 1) * len(tokens) // n] for i in range(n)]
    ids = np.zeros((n, max(map(len, parts))), dtype=np.int64)
    for row, part in zip(ids, parts, strict=True):
        row[: len(part)] = part
    return ids


def buckets_of(tokens):
    """Return the distinct hash buckets of n-grams of up to settings["ngrams"] tokens."""
    tokens, buckets = np.array(tokens, dtype=np.uint64), []
    mixed = np.zeros(len(tokens), dtype=np.uint64)
    for n in range(1, settings["ngrams"] + 1):
        back = np.zeros(len(tokens), dtype=np.uint64)
        back[n - 1 :] = tokens[: max(0, len(tokens) - n + 1)]
        mixed = (mixed + back + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        spread = mixed * np.uint64(0xC2B2AE3D27D4EB4F) + np.uint64(n * 0x165667B19E3779F9 % 2**64)
        buckets.append(spread >> np.uint64(64 - settings["ngram_bits"]))
    return np.unique(np.concatenate(buckets)).astype(np.int64)


def probabilities(text):
    """Of each label."""
    tokens = tokenizer.encode(text, add_special_tokens=False).ids
    if settings["max_windows"]:
        tokens = tokens[: settings["max_windows"] * settings["max_length"]]
    ids = windows_of(tokens)
    inputs = {"ids": ids, "document": np.zeros(len(ids), dtype=np.int64)}
    if settings["ngrams"]:
        inputs["buckets"] = buckets_of(tokens)
        inputs["bucket_document"] = np.zeros(len(inputs["buckets"]), dtype=np.int64)
    (logits,) = classifier.run(["logits"], inputs)
    scaled = logits[0].astype(np.float64) / settings["temperature"]
    if settings["separator"]:  # each label by itself
        return 1 / (1 + np.exp(-scaled))
    odds = np.exp(scaled - scaled.max())
    return odds / odds.sum()


def labels_of(scores):
    """Return the numbers of the labels to write: the most likely one, or those above the threshold."""
    ranked = np.argsort(-scores, kind="stable")
    return [i for i in ranked if scores[i] > settings["threshold"]] if settings["separator"] else ranked[:1]


for line in sys.stdin.buffer.read().decode().removesuffix("\n").split("\n"):
    if line.strip():
        scores = probabilities(line)
        chosen = labels_of(scores)
        labels = settings["separator"].join(settings["labels"][i] for i in chosen)
        print(labels, settings["separator"].join(f"{scores[i]:.4f}" for i in chosen), sep="\t")
    else:
        print("\t")
