"""Translates the lines of stdin: python translate.py FOLDER [LANGUAGE] < input > output

Needs torch and transformers.
"""

import sys
from pathlib import Path

from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

folder = "/to-".join(sys.argv[1:3])
languages = sorted(path.name[3:] for path in Path(sys.argv[1]).glob("to-*"))
if not Path(folder).exists() or (languages and len(sys.argv) == 2):
    sys.exit(f"say the language behind the folder: {', '.join(languages) or 'none, there is one alone'}")
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1])
marks = tuple(getattr(tokenizer, "supported_language_codes", ()))  # of a Marian model of several languages

lines = sys.stdin.buffer.read().decode().removesuffix("\n").split("\n")
longest = model.config.max_position_embeddings
filled = [i for i, line in enumerate(lines) if line.strip()]
if unmarked := [i + 1 for i in filled if marks and not lines[i].startswith(marks)]:
    sys.exit(f"line {unmarked[0]}: begin it with its language, one of {' '.join(marks)}")
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
