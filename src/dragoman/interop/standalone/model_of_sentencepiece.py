"""Translates the lines of stdin: python translate.py FOLDER < input > output

Needs ctranslate2 and sentencepiece.
"""

import json
import re
import sys
from pathlib import Path

import ctranslate2
import sentencepiece

folder = sys.argv[1]
source, target = (
    sentencepiece.SentencePieceProcessor(model_file=f"{folder}/{side}.spm") for side in ("source", "target")
)
translator = ctranslate2.Translator(folder)
settings = json.loads(Path(folder, "export.json").read_text(encoding="utf-8"))
longest, marks = settings["max_tokens"], [f">>{language}<<" for language in settings["languages"]]


def tokens_of(i):
    """Return the tokens of a line, up to the number that the model reads; a leading ">>deu<<" is a token."""
    language, text = re.match("(>>.*?<<)?(.*)", lines[i], re.DOTALL).groups()
    if marks and language not in marks:
        sys.exit(f"line {i + 1}: begin it with its language, one of {' '.join(marks)}")
    tokens = [language] * bool(language) + source.encode(text, out_type=str)
    if len(tokens) >= longest:
        warning = f"{len(tokens) + 1} tokens; only the first {longest} are translated"
        print(f"line {i + 1}: {warning}", file=sys.stderr)
    return [*tokens[: longest - 1], "</s>"]


lines = sys.stdin.buffer.read().decode().removesuffix("\n").split("\n")
filled = [i for i, line in enumerate(lines) if line.strip()]
translations = [""] * len(lines)
results = translator.translate_batch(
    [tokens_of(i) for i in filled], beam_size=4, max_input_length=0, max_decoding_length=min(256, longest - 1)
)
for i, result in zip(filled, results, strict=True):
    text = target.decode(result.hypotheses[0])
    translations[i] = "".join(c for c in text if c >= " " and c != "\x7f").strip()
print("\n".join(translations))
