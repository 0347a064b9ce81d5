"""Translates the lines of stdin: python translate.py FOLDER [LANGUAGE] < input > output

Needs ctranslate2 and tokenizers.
"""

import json
import sys
from pathlib import Path

import ctranslate2
from tokenizers import Tokenizer

folder, side = sys.argv[1], ".".join(["source", *sys.argv[2:]])
if not Path(folder, f"{side}.json").exists():
    languages = sorted(path.name.split(".")[1] for path in Path(folder).glob("source.*.json"))
    sys.exit(f"say the language behind the folder: {', '.join(languages) or 'none, there is one alone'}")
source, target = (Tokenizer.from_file(f"{folder}/{name}.json") for name in (side, "target"))
translator = ctranslate2.Translator(folder)
longest = json.loads(Path(folder, "export.json").read_text(encoding="utf-8"))["max_tokens"]


def tokens_of(i):
    """Return the tokens of a line, up to the number that the model reads."""
    tokens = source.encode(lines[i]).tokens
    if len(tokens) <= longest:
        return tokens
    print(f"line {i + 1}: {len(tokens)} tokens; only the first {longest} are translated", file=sys.stderr)
    end = [piece for piece in tokens[-1:] if piece == "</s>"]
    return tokens[: longest - len(end)] + end


lines = sys.stdin.buffer.read().decode().removesuffix("\n").split("\n")
filled = [i for i, line in enumerate(lines) if line.strip()]
translations = [""] * len(lines)
results = translator.translate_batch(
    [tokens_of(i) for i in filled], beam_size=4, max_input_length=0, max_decoding_length=min(256, longest - 1)
)
for i, result in zip(filled, results, strict=True):
    translations[i] = target.decode([target.token_to_id(piece) for piece in result.hypotheses[0]])
print("\n".join(translations))
