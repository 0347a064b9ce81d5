"""Translates the lines of stdin greedily: python translate.py FOLDER [LANGUAGE] < input > output

Needs numpy, onnxruntime and tokenizers.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

PAD, START, END = 0, 1, 2

folder, side = sys.argv[1], ".".join(["source", *sys.argv[2:]])
if not Path(folder, f"{side}.json").exists():
    languages = sorted(path.name.split(".")[1] for path in Path(folder).glob("source.*.json"))
    sys.exit(f"say the language behind the folder: {', '.join(languages) or 'none, there is one alone'}")
source, target = (Tokenizer.from_file(f"{folder}/{name}.json") for name in (side, "target"))
encoder, decoder = (onnxruntime.InferenceSession(f"{folder}/{name}.onnx") for name in ("encoder", "decoder"))
longest = json.loads(Path(folder, "export.json").read_text(encoding="utf-8"))["max_tokens"]


def ids_of(i):
    """Return the tokens of a line, up to the number that the model reads."""
    ids = source.encode(lines[i]).ids
    if len(ids) <= longest:
        return ids
    print(f"line {i + 1}: {len(ids)} tokens; only the first {longest} are translated", file=sys.stderr)
    end = [token for token in ids[-1:] if token == END]
    return ids[: longest - len(end)] + end


def translate(chosen):
    """Translate some lines, none of them empty."""
    rows = [ids_of(i) for i in chosen]
    ids = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int64)
    for row, tokens in zip(ids, rows, strict=True):
        row[: len(tokens)] = tokens
    names = [output.name for output in encoder.get_outputs()]  # src_bias, cross.0.key, cross.0.value, ...
    of_source = dict(zip(names, encoder.run(names, {"ids": ids}), strict=True))
    n, heads, _, width = of_source["cross.0.key"].shape
    past = {name.replace("cross", "past"): np.zeros((n, heads, 0, width), np.float32) for name in names[1:]}
    last, written, ended = np.full(n, START), [[] for _ in chosen], np.zeros(n, dtype=bool)
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
    return [target.decode(tokens) for tokens in written]


lines = sys.stdin.buffer.read().decode().removesuffix("\n").split("\n")
filled = [i for i, line in enumerate(lines) if line.strip()]
translations = [""] * len(lines)
for start in range(0, len(filled), 32):
    batch = filled[start : start + 32]
    for i, text in zip(batch, translate(batch), strict=True):
        translations[i] = text
print("\n".join(translations))
