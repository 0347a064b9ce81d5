"""Translates the lines of stdin: python translate.py FOLDER [LANGUAGE] < input > output

Needs torch and transformers.
"""

import sys

from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("/to-".join(sys.argv[1:3]))
model = AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1])

lines = sys.stdin.buffer.read().decode().removesuffix("\n").split("\n")
longest = model.config.max_position_embeddings
filled = [i for i, line in enumerate(lines) if line.strip()]
translations = [""] * len(lines)
for start in range(0, len(filled), 32):
    batch = filled[start : start + 32]
    for i in batch:
        if (n_tokens := len(tokenizer(lines[i]).input_ids)) > longest:
            print(
                f"line {i + 1}: {n_tokens} tokens; only the first {longest} are translated", file=sys.stderr
            )
    encoded = tokenizer(
        [lines[i] for i in batch], return_tensors="pt", padding=True, truncation=True, max_length=longest
    )
    texts = tokenizer.batch_decode(model.generate(**encoded), skip_special_tokens=True)
    for i, text in zip(batch, texts, strict=True):
        translations[i] = text
print("\n".join(translations))
