"""Translates the lines of stdin: python translate.py FOLDER < input > output

Needs ctranslate2 and tokenizers.
"""

import sys

import ctranslate2
from tokenizers import Tokenizer

folder = sys.argv[1]
source, target = (Tokenizer.from_file(f"{folder}/{side}.json") for side in ("source", "target"))
translator = ctranslate2.Translator(folder)

lines = sys.stdin.buffer.read().decode().removesuffix("\n").split("\n")
filled = [i for i, line in enumerate(lines) if line.strip()]
found = [""] * len(lines)
results = translator.translate_batch([source.encode(lines[i]).tokens for i in filled], beam_size=4)
for i, result in zip(filled, results, strict=True):
    found[i] = target.decode([target.token_to_id(piece) for piece in result.hypotheses[0]])
print("\n".join(found))
