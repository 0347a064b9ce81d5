"""Translates the lines of stdin: python translate.py FOLDER < input > output

Needs torch and transformers.
"""

import sys

from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1])

lines = sys.stdin.buffer.read().decode().removesuffix("\n").split("\n")
filled = [i for i, line in enumerate(lines) if line.strip()]
found = [""] * len(lines)
for start in range(0, len(filled), 32):
    batch = filled[start : start + 32]
    encoded = tokenizer([lines[i] for i in batch], return_tensors="pt", padding=True)
    texts = tokenizer.batch_decode(model.generate(**encoded), skip_special_tokens=True)
    for i, text in zip(batch, texts, strict=True):
        found[i] = text
print("\n".join(found))
